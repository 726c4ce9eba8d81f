"""Groups in source order: chunks in any order, growth, and what opens in xarray."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.arrays.groups import read_array
from storage.errors import StorageError
from storage.runs.pool import ChunkWriter, Pool, pool_chunk_rows
from storage.runs.run import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run.of(tmp_path / "run")
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
    plain = Run.of(tmp_path / "plain")
    plain.begin({"parameters": {}})
    write_scores(plain, [0, 1, 2])
    assert content(run) == content(plain)


def test_metadata_torn_while_chunks_are_written_are_whole_in_the_end(
    run: Run, tmp_path: Path
) -> None:
    writer = ChunkWriter(run, "queries", 4, feature=2)
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    writer.chunk(0, x=x[:4])
    (file,) = tmp_path.rglob("queries/x/zarr.json")
    file.write_bytes(file.read_bytes()[:400])
    writer.chunk(1, x=x[4:])
    writer.finish(8, {})
    assert np.array_equal(read_array(run.group("queries"), "x"), x)


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


@given(n=st.integers(1, 30), rows=st.integers(3, 12), data=st.data())
@settings(max_examples=10, deadline=None)
def test_any_order_of_chunks_writes_the_same_bytes(n: int, rows: int, data: st.DataObject) -> None:
    numbers = list(range(-(-n // rows)))
    order = data.draw(st.permutations(numbers)) + data.draw(
        st.lists(st.sampled_from(numbers), max_size=4)
    )
    with tempfile.TemporaryDirectory() as folder:
        runs = [Run.of(f"{folder}/{name}") for name in ("plain", "other")]
        for run, asked in zip(runs, (numbers, order), strict=True):
            run.begin({})
            write_scores(run, asked, n, rows)
        assert content(runs[0]) == content(runs[1])


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 33])
@pytest.mark.parametrize("known", [True, False])
def test_pool_is_read_as_it_was_written(run: Run, n: int, known: bool) -> None:
    x = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    writer = ChunkWriter(run, "queries", 4, n if known else None, feature=2)
    for number in range(-(-n // 4)):
        part = slice(4 * number, 4 * number + 4)
        writer.chunk(number, x=x[part], row=np.arange(n)[part])
    writer.finish(n, {})
    pool = Pool(run, "queries", n, 2)
    assert np.array_equal(pool.read("x", slice(0, n)), x)
    assert np.array_equal(pool.read("x", slice(n // 2, n)), x[n // 2 :])


def test_every_file_written_is_named(run: Run) -> None:
    """But for the group above, every file of a group is a chunk's or the end's."""
    writer = ChunkWriter(run, "queries", 4, 10, feature=2)
    named = []
    for number in range(3):
        n = min(4, 10 - 4 * number)
        x, row = np.zeros((n, 2), np.float32), np.arange(n)
        named += writer.chunk(number, x=x, row=row)
    named += writer.finish(10, {})
    assert sorted(named) == run.location.files("results.zarr/queries")


def test_lost_chunk_of_a_growing_group_is_not_taken_for_fill_values(run: Run) -> None:
    writer = ChunkWriter(run, "queries", 4, feature=1)
    for number in range(3):
        writer.chunk(number, x=np.ones((4, 1), np.float32), row=np.arange(4))
    writer.finish(12, {})
    run.location.remove("results.zarr/queries/row/c/1")
    with pytest.raises(StorageError, match="is missing"):
        Pool(run, "queries", 12, 1).read("row", slice(0, 12))


def test_whole_columns_are_written_at_the_end(run: Run) -> None:
    writer = ChunkWriter(run, "pool", 4, 6, feature=1)
    named = writer.finish(6, {"files": ["a"]}, y=np.array([0, 1, 0, 1, 1, 0], np.int8))
    assert Pool(run, "pool", 6, 1).read("y", slice(0, 6)).tolist() == [0, 1, 0, 1, 1, 0]
    assert "results.zarr/pool/y/c" in named


@given(n=st.integers(1, 10**9), d=st.integers(1, 5000))
@settings(max_examples=100, deadline=None)
def test_parts_are_whole_chunks_that_cover_the_pool(n: int, d: int) -> None:
    pool = Pool(Run.of("nowhere"), "pool", n, d)
    parts = pool.parts() if n < 10**7 else [slice(0, min(n, pool.part_rows))]
    assert pool.part_rows % pool_chunk_rows(d) == 0
    assert parts[0].start == 0
    assert n >= 10**7 or parts[-1].stop == n
    assert all(a.stop == b.start for a, b in pairwise(parts))
