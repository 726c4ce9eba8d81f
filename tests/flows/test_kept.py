"""What an invocation did not create it never removes, whatever is wrong with its source."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import PoolWriter, fit

from flows.score import score
from storage import InputError, StorageError, errors
from storage.sources.formats.arrays import ArrayReader

EIO = OSError(errno.EIO, "Input/output error")
BAD = InputError("no such column")


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Every source has a first block, and then the error."""
    blocks = ArrayReader.blocks

    def faulty(self: ArrayReader, start: int, rows: int) -> Iterator[Any]:
        yield next(iter(blocks(self, start, rows))).at(slice(0, 100))
        raise error

    monkeypatch.setattr(ArrayReader, "blocks", faulty)
    monkeypatch.setattr(errors, "FIRST_WAIT", 0.0)


def content(folder: Path) -> dict[Path, bytes]:
    return {
        file: file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not {"logs", "lease"} & set(file.parts)
    }


@pytest.mark.parametrize(("error", "raised"), [(EIO, StorageError), (BAD, InputError)])
def test_finished_run_under_repair(
    pool: PoolWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    raised: type[Exception],
) -> None:
    source, run = pool(), tmp_path / "run"
    fit(source, run)
    score.fn(str(source), str(run), str(tmp_path / "scores.parquet"), workers=0, quiet=True)
    next((run / "results.zarr" / "anchors").rglob("c/0/0")).unlink()
    next((run / "results.zarr" / "pool" / "x").rglob("c/0/0")).unlink()
    before = content(run)
    with monkeypatch.context() as faulty:
        fail(faulty, error)
        with pytest.raises(raised):
            fit(source, run)
    after = content(run)
    assert (run / "report.json").exists()
    assert {f for f in before if "ledger" not in f.parts} <= {*after, run / "timings.json"}
    assert list((run / "scores").rglob("report.json"))
    fit(source, run)
    assert set(before) <= set(content(run))


@pytest.mark.parametrize(("error", "raised"), [(EIO, StorageError), (BAD, InputError)])
def test_interrupted_scoring(
    pool: PoolWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    raised: type[Exception],
) -> None:
    source, run, out = pool(), tmp_path / "run", tmp_path / "scores.parquet"
    fit(source, run)
    score.fn(str(source), str(run), str(out), workers=0, quiet=True)
    (folder,) = (run / "scores").iterdir()
    (folder / "report.json").unlink()
    next((folder / "results.zarr" / "queries" / "x").rglob("c/0/0")).unlink()
    with monkeypatch.context() as faulty:
        fail(faulty, error)
        with pytest.raises(raised):
            score.fn(str(source), str(run), str(out), workers=0, quiet=True)
    assert (folder / "results.zarr" / "scores" / "row" / "c" / "0").exists()


@pytest.mark.parametrize("existed", [False, True])
def test_new_run_of_a_source_that_is_out_of_reach_is_kept(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existed: bool
) -> None:
    source, run = pool(), tmp_path / "run"
    if existed:
        run.mkdir()
    with monkeypatch.context() as faulty:
        fail(faulty, EIO)
        with pytest.raises(StorageError, match="cannot be reached"):
            fit(source, run, preflight="off")
    assert (run / "run.json").exists()
    assert fit(source, run, preflight="off")["n_rows"] == 600


@pytest.mark.parametrize("existed", [False, True])
def test_folder_that_was_there_stays_there(pool: PoolWriter, tmp_path: Path, existed: bool) -> None:
    run = tmp_path / "run"
    if existed:
        run.mkdir()
    with pytest.raises(InputError):
        fit(pool(y=[0] * 600), run)
    assert run.exists() == existed
    assert not existed or not list(run.iterdir())
