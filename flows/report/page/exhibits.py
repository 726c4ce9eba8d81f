"""What a page holds of a row: its columns as the source has them, its text or its picture."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from flows.report.metric import telling
from flows.report.model import PoolReport
from flows.report.rows import IMAGES, Shown
from pipeline.arrays import Float32
from storage.errors import InputError
from storage.sources.request import Coding

COLUMNS = 12
"""Columns shown of a row; a page is no place for hundreds."""
LONGEST = 400
"""Characters of a text."""
LARGEST = 256_000
"""Bytes of a picture; of a larger one the page has the name."""


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
        value = self.values[int(own.argmax())] if own.any() else "none that training knows"
        return ShownCell(value, value)


def columns(report: PoolReport) -> list[ShownColumn]:
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
