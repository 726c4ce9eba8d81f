"""A source that several workers read, each some chunks: as one reader reads it, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from distributed import LocalCluster
from runs import results

from flows.engine.progress import Reporter
from flows.options.params import Compute
from flows.orchestration.session import open_job
from flows.steps.ingest import pool as reading
from flows.steps.ingest.pool import Ingested, ingest
from storage import InputError
from storage.runs.pool import pool_chunk_rows
from storage.runs.run import Run
from storage.sources.base import Source
from storage.sources.joins import with_corrections
from storage.sources.opening import open_source
from storage.sources.request import Columns

D = 400
N = 3 * pool_chunk_rows(D) + 17
HERE = Compute(workers=0, quiet=True)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    folder = tmp_path_factory.mktemp("sources")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, D)).astype(np.float32), rng.integers(0, 3, N)
    y[:5] = [2, 0, 1, 1, 0]  # values by first appearance are none of the order of numbers
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    group = zarr.open_group(folder / "pool.zarr", mode="w")
    group.create_array("X", data=x, chunks=(1100, D))
    group.create_array("y", data=y, chunks=(1100,))
    (folder / "tables").mkdir()
    columns = {f"f{j}": x[:, j] for j in range(D)}
    columns |= {"label": np.array(["no", "yes", "?"])[y], "who": rng.integers(0, N, N)}
    table = pa.table({**columns, "id": np.arange(N)})
    for file, rows in enumerate(np.array_split(np.arange(N), 2)):
        part = table.slice(rows[0], len(rows))
        pq.write_table(part, folder / "tables" / f"{file}.parquet", row_group_size=900)
    cells = table.drop_columns(["id"])
    cells = cells.append_column("id", pa.array([f"é{n}" for n in range(N)]))
    (folder / "texts").mkdir()
    for file, (rows, line_end) in enumerate(
        zip(np.array_split(np.arange(N), 2), ("\n", "\r\n"), strict=True)
    ):
        lines = cells.slice(rows[0], len(rows)).to_pandas().to_csv(index=False).splitlines()
        lines.insert(1000, "")
        text = line_end.join(["", *lines]) + line_end * (1 - file)
        (folder / f"texts/{file}.csv").write_bytes(text.encode())
    checked = pd.DataFrame({"row": [1, N - 3], "label": [2, 2]})
    checked.to_csv(folder / "checked.csv", index=False)
    beside: dict[str, Any] = {"label_column": "label", "columns": Columns(id="id", together="who")}
    npy = open_source(str(folder / "x.npy"), labels=str(folder / "y.npy"))
    return {
        "npy": with_corrections(npy, str(folder / "checked.csv")),
        "zarr": open_source(str(folder / "pool.zarr")),
        "parquet": open_source(str(folder / "tables"), **beside),
        "csv": open_source(str(folder / "texts"), **beside),
    }


def ingested(source: Source, folder: Path, compute: Compute = HERE) -> Ingested:
    run = Run.of(folder)
    if run.is_new():
        run.begin({"source": source.fingerprint(with_digest=True)})
    with open_job(run, compute, Reporter(quiet=True)) as job:
        return ingest(job, source, path="pool", scale="auto", seed=3)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Small pools are read by workers, too; whether each was."""
    found: list[bool] = []
    read_apart = reading._read_apart

    def noted(*args: Any) -> Any:
        seen = read_apart(*args)
        found.append(seen is not None)
        return seen

    monkeypatch.setattr(reading, "_read_apart", noted)
    monkeypatch.setattr(reading, "READ_BYTES", 1)
    monkeypatch.setattr(reading, "TEXT_BYTES", 1)
    monkeypatch.setattr(reading, "FEWEST_READS", 2)
    return found


@pytest.fixture(scope="module")
def two() -> Iterator[Compute]:
    """A cluster of two workers, in processes of their own."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield Compute(scheduler=cluster.scheduler_address, quiet=True)


@pytest.mark.parametrize("kind", ["npy", "zarr", "parquet", "csv"])
def test_readers_make_the_pool_of_one(
    sources: dict[str, Source], apart: list[bool], two: Compute, tmp_path: Path, kind: str
) -> None:
    alone = ingested(sources[kind], tmp_path / "alone")
    assert ingested(sources[kind], tmp_path / "apart", two) == alone
    assert apart == [False, True]
    made = results(tmp_path / "alone")
    assert made == results(tmp_path / "apart")
    assert len([key for key in made if "/pool/x/c/" in key]) == 4


def test_what_cannot_be_learned_from_is_said_as_one_reader_says_it(
    apart: list[bool], two: Compute, tmp_path: Path
) -> None:
    x = np.zeros((N, D), np.float32)
    x[N - 2, 7] = np.nan
    x[N - 1, 8] = np.inf
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.arange(N) % 2)
    source = open_source(str(tmp_path / "x.npy"), labels=str(tmp_path / "y.npy"))
    with pytest.raises(InputError, match=rf"2 NaN or infinite .* first at row {N - 2} .* 'x7'"):
        ingested(source, tmp_path / "run", two)
    assert apart == [False]


def test_a_source_that_workers_see_otherwise_is_read_here(
    sources: dict[str, Source],
    apart: list[bool],
    two: Compute,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ingested(sources["zarr"], tmp_path / "alone")
    monkeypatch.setattr(reading, "_ends", lambda source: [])
    ingested(sources["zarr"], tmp_path / "apart", two)
    assert apart == [False, False]
    assert results(tmp_path / "alone") == results(tmp_path / "apart")
