"""What tests of whole runs share: a call, and the results of a run as comparable bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.train import train

PoolWriter = Callable[..., Path]


def fit(source: Path | str, run: Path | str, **more: Any) -> dict[str, Any]:
    """Train in this process, without Prefect's engine."""
    options: dict[str, Any] = {"k": 10, "workers": 0, "quiet": True, **more}
    return train.fn(str(source), str(run), **options)


def results(run: Path) -> dict[str, bytes]:
    """Every file of a run's results, by key: all that must not depend on how it was computed."""
    files = [*(run / "results.zarr").rglob("*"), run / "label_issues.parquet"]
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in files
        if file.is_file() and file != run / "results.zarr" / "zarr.json"
    }
