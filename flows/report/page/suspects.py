"""The most suspect training rows, with their neighbors and columns, and what else is shown of rows;
outliers, and near duplicates of another label."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from flows.engine.results import LabelValue
from flows.report.metric import telling
from flows.report.model import PoolReport
from flows.report.rows import IMAGES, Shown
from flows.steps.graph.lookup import ids_of, lists_of, pick, source_rows
from flows.steps.ingest.pool import ingested
from flows.steps.sets.stages import as_read
from pipeline.arrays import AnyArray, Float32, Int64
from pipeline.blocks.sampling import Greatest
from storage.arrays.groups import read_array
from storage.errors import InputError
from storage.runs.run import Run
from storage.sources.request import Coding

COLUMNS = 12
"""Columns shown of a row; a page is no place for hundreds."""
LONGEST = 400
"""Characters of a text."""
LARGEST = 256_000
"""Bytes of a picture; of a larger one the page has the name."""
STRIP = 40
"""Neighbors whose labels a strip shows."""
NEAREST = 3
"""Neighbors named one by one."""
ROWS = 10
"""Rows of each kind."""


class ShownCell(NamedTuple):
    """What a page shows of a row in a column."""

    text: str
    order: float | str
    """By which rows are sorted."""


@dataclass(frozen=True)
class ShownColumn:
    """A column of the source: one feature, or a text of which features were made."""

    name: str
    coding: Coding
    places: list[int]
    """Of its features."""
    values: list[str]
    """Of a text, the one that each feature stands for; else empty."""

    def cell(self, x: Float32) -> ShownCell:
        """Of a row's features as they were read, (feature,)."""
        own = x[self.places]
        if not self.values:
            return ShownCell(self.coding.written(self.name, float(own[0])), float(own[0]))
        value = self.values[int(own.argmax())] if own.any() else "one without a feature"
        return ShownCell(value, value)


def shown_columns(report: PoolReport) -> list[ShownColumn]:
    """The columns to show, those that tell most of the labels first, as far as that is known."""
    coding, names = Coding.of_json(report.config.coding), report.config.feature_names
    of_text = coding.groups(tuple(names))
    text = {at: name for name, places in of_text.items() for at in places}
    shown: dict[str, ShownColumn] = {}
    for at in telling(report).tolist():
        name = text.get(at, names[at])
        places = of_text.get(name, [at])
        values = [names[one].removeprefix(f"{name}=") for one in places] if at in text else []
        shown.setdefault(name, ShownColumn(name, coding, places, values))
        if len(shown) == COLUMNS:
            break
    return list(shown.values())


def cells(shown: list[ShownColumn], x: Float32) -> list[tuple[ShownCell, ...]]:
    """What is shown of rows with features (row, feature), as they were read."""
    return [tuple(column.cell(row) for column in shown) for row in x]


def exhibits(shown: Shown, rows: list[int]) -> dict[int, str]:
    """The text or picture of each row; raises `InputError` where there is more than a column, or as
    `Shown.read`."""
    if shown.columns:
        raise InputError("--show has several columns: give --show-column one of them")
    shown.read(np.array(rows, np.int64))
    return {row: _picture(shown, row) or _text(shown, row) for row in rows}


def _text(shown: Shown, row: int) -> str:
    text = " ".join(str(next(iter(shown.of(row).values()), "")).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _picture(shown: Shown, row: int) -> str | None:
    file = shown.file(row)
    try:
        if file is None or file.stat().st_size > LARGEST:
            return None
        content = b64encode(file.read_bytes()).decode()
    except OSError:
        return None
    return Markup('<img alt="{}" src="data:{};base64,{}">').format(
        file.name, IMAGES[file.suffix.lower()], content
    )


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
    describe: Callable[..., dict[str, Any]],
    columns: Sequence[str],
) -> list[Suspect]:
    """Some rows of the pool, each described by the report, the labels of its neighbors, the nearest
    first, and these columns of the run's verdicts."""
    lists = lists_of(run, report.n_blocks, report.k, rows)
    stored = (pick(run, "labels", name, rows).tolist() for name in columns)
    verdicts = map(partial(describe, report), lists["neighbor_label"].tolist(), *stored)
    row, quality = (pick(run, "labels", name, rows).tolist() for name in ("row", "label_quality"))
    names = [str(file).rsplit("/", 1)[-1] for file in ingested(run).files]
    files = [names[source] for source in pick(run, "pool", "source_id", rows)]
    nearest = _nearest(run, report, {name: of[:, :NEAREST] for name, of in lists.items()})
    shown = cells(shown_columns(report), pick(as_read(run), "pool", "x", rows))
    every = zip(row, files, ids_of(run, rows), quality, nearest, shown, verdicts, strict=True)
    return [Suspect(*one) for one in every]


def _nearest(run: Run, report: PoolReport, lists: dict[str, AnyArray]) -> list[tuple[Nearest, ...]]:
    """Those of each row, the nearest first."""
    names = np.array([*report.classes, None], object)  # the last where no label is told
    columns = source_rows(run, lists["neighbor"]), names[lists["neighbor_label"]], lists["distance"]
    return [
        tuple(Nearest(*one) for one in zip(*of, strict=True) if one[0] >= 0)
        for of in zip(*(column.tolist() for column in columns), strict=True)
    ]


def data_issues(
    run: Run, report: PoolReport, shown: list[ShownColumn]
) -> dict[str, list[dict[str, Any]]]:
    """The rows furthest from all others, and the duplicates nearest to a row of another label: row,
    id, the nearest row, cells, and a score, which is low far from everything; of a duplicate the
    distance to the other row."""
    group = run.group("checks")
    far, alike = Greatest(ROWS, report.seed), Greatest(ROWS, report.seed)
    for rows in ingested(run).pool(run, "pool").parts():
        outlier = np.flatnonzero(read_array(group, "is_outlier", rows))
        other = np.flatnonzero(read_array(group, "contradicting_duplicates", rows))
        score = read_array(group, "outlier_score", rows)[outlier].astype(np.float64)
        apart = read_array(group, "nearest_distance", rows)[other].astype(np.float64)
        far.see(rows.start + outlier, -score)
        alike.see(rows.start + other, -apart)
    return {"outliers": _issues(run, far, shown), "duplicates": _issues(run, alike, shown)}


def _issues(run: Run, greatest: Greatest, shown: list[ShownColumn]) -> list[dict[str, Any]]:
    if not len(greatest.row):
        return []
    row, nearest = (pick(run, "checks", name, greatest.row) for name in ("row", "nearest_row"))
    x = pick(as_read(run), "pool", "x", greatest.row)
    ids, score = ids_of(run, greatest.row), (-greatest.value).tolist()
    lines = zip(row.tolist(), ids, score, nearest.tolist(), cells(shown, x), strict=True)
    names = "row", "id", "score", "nearest", "cells"
    return [dict(zip(names, line, strict=True)) for line in lines]
