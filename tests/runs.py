"""What tests of whole runs share: a call, and the results of a run as comparable bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import committed

from flows.train import train
from storage.errors import ClusterError
from storage.runs.ledger import Ledger, Record

PoolWriter = Callable[..., Path]
AS_IN_FIT = ("--metric", "as-scaled")
"""What a command needs beside `fit`'s defaults to be the same."""


def fit(source: Path | str, run: Path | str, **more: Any) -> dict[str, Any]:
    """Train in this process, without Prefect's engine; near is what it is in the file, unless a
    test is about just that."""
    options: dict[str, Any] = {"k": 10, "workers": 0, "quiet": True, "metric": "as-scaled", **more}
    return train.fn(str(source), str(run), **options)


def fit_until(step: str, source: Path | str, run: Path, *, below: str = "", **more: Any) -> None:
    """The same, interrupted at once when the first part of a step is committed (of the run in the
    folder `below`)."""
    commit = Ledger.commit

    def stop(self: Ledger, made_in: str, *args: Any) -> Record:
        record = commit(self, made_in, *args)
        if made_in == step:
            raise KeyboardInterrupt
        return record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "commit", stop)
        with pytest.raises(ClusterError, match="interrupted"):
            fit(source, run, **more)
    assert committed(run / below, step) == 1
    assert not (run / "report.json").exists()


def results(run: Path) -> dict[str, bytes]:
    """Every file of a run's results, by key: all that must not depend on how it was computed.
    Leftovers of writes that were killed are none of them."""
    files = [*(run / "results.zarr").rglob("*"), run / "label_issues.parquet"]
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in files
        if file.is_file()
        and file != run / "results.zarr" / "zarr.json"
        and file.suffix != ".partial"
    }
