"""Rows of persons, and what a run says of rows that vouch for each other's labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.noise.copies import Mates
from storage.runs.run import Run

PERSONS, ROWS = 200, 20


def persons(path: Path, c: int, shared: bool) -> npt.NDArray[np.bool_]:
    """Rows of persons, each near the others of his; a label in seven is wrong, of the person or of
    the row. Which rows are wrong."""
    rng = np.random.default_rng(c)
    clean = rng.integers(0, c, PERSONS)
    center = 1.3 * rng.normal(size=(c, 12))[clean] + rng.normal(size=(PERSONS, 12))
    x = np.repeat(center, ROWS, axis=0) + 0.5 * rng.normal(size=(PERSONS * ROWS, 12))
    n = PERSONS if shared else PERSONS * ROWS
    wrong, other = rng.random(n) < 0.15, rng.integers(1, c, n)
    if shared:
        wrong, other = np.repeat(wrong, ROWS), np.repeat(other, ROWS)
    y = np.repeat(clean, ROWS)
    np.savez(path, X=x.astype(np.float32), y=np.where(wrong, (y + other) % c, y))
    return np.asarray(wrong)


def mates_of(run: Path) -> Mates:
    record = Run.of(str(run)).ledger.get("mates", "all")
    assert record is not None
    return Mates(**record.result)
