"""The most suspect training rows, with their neighbors and columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.results import LabelValue
from flows.report.model import PoolReport
from flows.report.page.exhibits import ShownCell, cells, columns
from flows.report.page.gather import ingested
from flows.steps.graph.lookup import ids_of, pick, source_rows
from flows.steps.sets.stages import as_read
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
    rows: npt.NDArray[np.int64],
    lists: dict[str, npt.NDArray[Any]],
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


def _nearest(
    run: Run, report: PoolReport, lists: dict[str, npt.NDArray[Any]]
) -> list[tuple[Nearest, ...]]:
    """Those of each row, the nearest first."""
    row, distance = source_rows(run, lists["neighbor"]), lists["distance"]
    code = lists.get("neighbor_label")
    names = np.array([*report.classes, None], object)  # the last where no label is told
    label = np.full(row.shape, None) if code is None else names[code]
    return [
        tuple(Nearest(*one) for one in zip(*of, strict=True) if one[0] >= 0)
        for of in zip(row.tolist(), label.tolist(), distance.tolist(), strict=True)
    ]
