"""Outliers, and near duplicates of another label, as rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.report.model import PoolReport
from flows.report.page.exhibits import ShownCell, ShownColumn, cells
from flows.report.page.gather import ingested
from flows.steps.graph.lookup import ids_of, pick
from flows.steps.sets.stages import as_read
from pipeline.diagnostics.top_rows import Greatest
from storage.arrays.groups import read_array
from storage.runs.run import Run

ROWS = 10
"""Rows of each kind."""


@dataclass(frozen=True)
class Issue:
    """One training row."""

    row: int
    id: str | None
    score: float
    """Of an outlier, low is far from everything; of a duplicate the distance to the other row."""
    nearest: int
    cells: tuple[ShownCell, ...]


def data_issues(run: Run, report: PoolReport, shown: list[ShownColumn]) -> dict[str, list[Issue]]:
    """The rows furthest from all others, and the duplicates nearest to a row of another label."""
    group = run.group("checks")
    far, alike = Greatest(ROWS, report.seed), Greatest(ROWS, report.seed)
    for rows in ingested(run).pool(run, "pool").parts():
        span = slice(rows.start, rows.stop)
        outlier = np.flatnonzero(read_array(group, "is_outlier", span))
        other = np.flatnonzero(read_array(group, "contradicting_duplicates", span))
        score = read_array(group, "outlier_score", span)[outlier].astype(np.float64)
        apart = read_array(group, "nearest_distance", span)[other].astype(np.float64)
        far.see(rows.start + outlier, -score)
        alike.see(rows.start + other, -apart)
    return {
        "outliers": _issues(run, far, shown),
        "duplicates": _issues(run, alike, shown),
    }


def _issues(run: Run, greatest: Greatest, shown: list[ShownColumn]) -> list[Issue]:
    if not len(greatest.row):
        return []
    row, nearest = (pick(run, "checks", name, greatest.row) for name in ("row", "nearest_row"))
    x = pick(as_read(run), "pool", "x", greatest.row)
    ids, score = ids_of(run, greatest.row), (-greatest.value).tolist()
    lines = zip(row.tolist(), ids, score, nearest.tolist(), cells(shown, x), strict=True)
    return [Issue(*line) for line in lines]
