"""Answers as a table for other tools."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from storage.answers import AnswersFile
from storage.convert import write_columns


def export_answers(file: AnswersFile, target: str) -> int:
    """Write all answers that stand as a table, a row per row and reviewer; how many.

    Columns: row, label (empty where it is not known), given_label, reviewer, time, conflict,
    source. The end of `target` tells the format.

    Raises
    ------
    InputError
        its name is of none.
    StorageError
        it cannot be written.
    """
    answers = file.answers
    origin = answers.origin
    assert origin is not None
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("row", "label", "given_label", "reviewer", "time", "conflict", "source")
    }
    last = {
        (asked.row, answer.reviewer): (answer, asked)
        for answer in answers.answers.values()
        for asked in answer.rows
    }
    for (row, reviewer), (answer, asked) in sorted(last.items(), key=lambda item: item[0]):
        conflict = answers.of_row(row).conflict
        values = (row, answer.label, asked.given, reviewer, answer.time, conflict, origin.source)
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
    write_columns(target, {name: _arrow(name, column) for name, column in columns.items()})
    return len(last)


def _arrow(name: str, column: list[Any]) -> pa.Array:
    """A column of a table; labels of several types become text."""
    if name not in ("label", "given_label"):
        kinds = {"row": pa.int64(), "conflict": pa.bool_()}
        return pa.array(column, kinds.get(name, pa.string()))
    kinds_of = {type(value) for value in column if value is not None}
    if len(kinds_of) > 1 and not kinds_of <= {int, float}:
        column = [None if value is None else str(value) for value in column]
    return pa.array(column, None if kinds_of else pa.string())
