"""Groups in source order: chunks in any order, growth, Parquet, and what opens in xarray."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from storage import open_run
from storage.convert import write_parquet
from storage.errors import InputError, StorageError
from storage.location import Location
from storage.pool import ChunkWriter, Pool
from storage.run import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(Location.of(tmp_path / "run"))
    run.begin({"parameters": {}})
    return run


def write_scores(run: Run, order: list[int], n: int = 10, rows: int = 4) -> None:
    for number in order:
        start, stop = number * rows, min(n, number * rows + rows)
        row = np.arange(start, stop)
        ChunkWriter(run, "scores", rows, n).chunk(
            number,
            row=row,
            eta_corr=(row / 10).astype(np.float32),
            posterior=(row / 20).astype(np.float32),
            predicted_label=(row % 2).astype(np.int8),
        )
    ChunkWriter(run, "scores", rows, n).finish(n, {"k": 3})


def content(run: Run) -> dict[str, bytes | None]:
    return {key: run.location.read(key) for key in run.location.files("results.zarr")}


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 1, 2, 0, 2]])
def test_order_and_repetition_of_chunks_do_not_show(
    run: Run, tmp_path: Path, order: list[int]
) -> None:
    write_scores(run, order)
    plain = Run(Location.of(tmp_path / "plain"))
    plain.begin({"parameters": {}})
    write_scores(plain, [0, 1, 2])
    assert content(run) == content(plain)


def test_arrays_of_unknown_length_grow(run: Run) -> None:
    x = np.random.default_rng(0).normal(size=(23, 2)).astype(np.float32)
    writer = ChunkWriter(run, "queries", 4, feature=2)
    for number in range(6):
        part = slice(4 * number, 4 * number + 4)
        written = writer.chunk(number, x=x[part], row=np.arange(23)[part])
        assert all(run.location.exists(key) for key in written)
    writer.finish(23, {})
    opened = xr.open_zarr(run.location.path("results.zarr"), group="queries", consolidated=False)
    assert np.array_equal(opened["x"].values, x)
    assert opened["row"].values.tolist() == list(range(23))


def test_repair_of_a_finished_group_is_bit_identical(run: Run) -> None:
    write_scores(run, [0, 1, 2])
    before = content(run)
    run.location.remove("results.zarr/scores/posterior/c/2")
    write_scores(run, [2])
    assert content(run) == before


def test_parts_cover_the_pool_in_whole_chunks(run: Run) -> None:
    for n, d in ((1, 3), (100_000, 32), (3_000_000, 32), (60_000, 784), (10**8, 1)):
        pool = Pool(run, "pool", n, d)
        parts = pool.parts()
        assert parts[0].start == 0
        assert parts[-1].stop == n
        assert all(a.stop == b.start for a, b in pairwise(parts))
        assert max(part.stop - part.start for part in parts) * d * 4 <= 140e6
        assert pool.part_of(np.array([n - 1])).tolist() == [len(parts) - 1]


def test_parquet_is_the_group(run: Run, tmp_path: Path) -> None:
    write_scores(run, [0, 1, 2])
    write_parquet(run, "scores", str(tmp_path / "out" / "s.parquet"), ("row", "posterior"))
    table = pd.read_parquet(tmp_path / "out" / "s.parquet")
    assert table["row"].tolist() == list(range(10))
    assert np.allclose(table["posterior"], np.arange(10) / 20)


def test_failed_parquet_leaves_no_file(run: Run, tmp_path: Path) -> None:
    write_scores(run, [0, 1, 2])
    run.location.remove("results.zarr/scores/posterior/c/1")
    with pytest.raises(StorageError, match="is missing"):
        write_parquet(run, "scores", str(tmp_path / "out" / "s.parquet"), ("row", "posterior"))
    assert list((tmp_path / "out").iterdir()) == []


def test_run_folders_are_told_from_others(run: Run, tmp_path: Path) -> None:
    assert not run.is_new()
    assert Run(Location.of(tmp_path / "absent")).is_new()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with pytest.raises(InputError, match="not empty and not a knnoise run"):
        Run(Location.of(tmp_path / "other")).is_new()
    with pytest.raises(InputError, match="not a knnoise run"):
        open_run(str(tmp_path / "other"))


def test_other_format_versions_are_refused(run: Run) -> None:
    run.location.replace("run.json", b'{"format_version": 99}')
    with pytest.raises(InputError, match="format version 99"):
        run.config()
