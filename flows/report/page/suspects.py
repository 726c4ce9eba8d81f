"""The most suspect training rows, with their neighbors and columns; outliers, and near duplicates
of another label."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.engine.results import LabelValue
from flows.report.model import PoolReport
from flows.report.page.exhibits import ShownCell, ShownColumn, cells, columns
from flows.report.page.gather import ingested
from flows.steps.graph.lookup import ids_of, pick, source_rows
from flows.steps.sets.stages import as_read
from pipeline.arrays import AnyArray, Int64
from pipeline.blocks.sampling import Greatest
from storage.arrays.groups import read_array
from storage.runs.run import Run

STRIP = 40
"""Neighbors whose labels a strip shows."""
NEAREST = 3
"""Neighbors named one by one."""


@dataclass(frozen=True)
class Nearest:
    """One of the rows nearest to a suspect."""

    row: int
    label: LabelValue | None
    """None where rows have sets of candidates."""
    distance: float


@dataclass(frozen=True)
class Suspect:
    """One training row whose label is likely wrong."""

    row: int
    file: str
    """Name of the file it came from."""
    id: str | None
    quality: float
    nearest: tuple[Nearest, ...]
    cells: tuple[ShownCell, ...]
    verdict: dict[str, Any]
    """What its kind of labels says of it, by the names of the template."""


def listed(
    run: Run,
    report: PoolReport,
    rows: Int64,
    lists: dict[str, AnyArray],
    verdicts: Iterable[dict[str, Any]],
) -> list[Suspect]:
    """Some rows of the pool with their lists and verdicts, in that order."""
    row, quality = (pick(run, "labels", name, rows).tolist() for name in ("row", "label_quality"))
    names = [str(file).rsplit("/", 1)[-1] for file in ingested(run).files]
    files = [names[source] for source in pick(run, "pool", "source_id", rows)]
    nearest = _nearest(run, report, {name: of[:, :NEAREST] for name, of in lists.items()})
    shown = cells(columns(report), pick(as_read(run), "pool", "x", rows))
    every = zip(row, files, ids_of(run, rows), quality, nearest, shown, verdicts, strict=True)
    return [Suspect(*one) for one in every]


def _nearest(run: Run, report: PoolReport, lists: dict[str, AnyArray]) -> list[tuple[Nearest, ...]]:
    """Those of each row, the nearest first."""
    row, distance = source_rows(run, lists["neighbor"]), lists["distance"]
    code = lists.get("neighbor_label")
    names = np.array([*report.classes, None], object)  # the last where no label is told
    label = np.full(row.shape, None) if code is None else names[code]
    return [
        tuple(Nearest(*one) for one in zip(*of, strict=True) if one[0] >= 0)
        for of in zip(row.tolist(), label.tolist(), distance.tolist(), strict=True)
    ]


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
