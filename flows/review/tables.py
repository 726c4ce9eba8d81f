"""The answers of a review as a table, and the labels of a table as answers."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import pyarrow as pa

from storage.answers import ANSWER_COLUMNS, AnswersFile, Origin
from storage.errors import InputError, listed, shown
from storage.export import write_columns
from storage.sources.ids import RowIds, StoredIds, id_column
from storage.sources.joins import read_answers
from storage.sources.values.labels import Label, places_of
from storage.sources.values.texts import MISSING


def export_answers(file: AnswersFile, target: str, ids: StoredIds | None = None) -> int:
    """Write all answers that stand as a table, a row per row and reviewer; how many.

    Columns: the id, where rows have ids (empty of rows that were left out), row, label and
    given_label (empty where they are not known), reviewer, time, conflict, source. The end of
    `target` tells the format.

    Raises `InputError` where its name is of none; `StorageError` where it cannot be written.
    """
    answers = file.answers
    origin = answers.origin
    assert origin is not None
    last = {
        (one.row, answer.reviewer): (answer, one)
        for answer in answers.answers.values()
        for one in answer.rows
    }
    rows = [
        (
            *(row, answer.label, one.given, reviewer, answer.time),
            *(answers.of_row(row).conflict, origin.source),
        )
        for (row, reviewer), (answer, one) in sorted(last.items(), key=itemgetter(0))
    ]
    columns = {name: [row[at] for row in rows] for at, name in enumerate(ANSWER_COLUMNS)}
    made = {name: _answer_column(name, column) for name, column in columns.items()}
    write_columns(target, with_ids(made, ids))
    return len(last)


def with_ids(columns: Mapping[str, pa.Array], ids: StoredIds | None) -> dict[str, pa.Array]:
    """Columns of a table of labels, of which one is `row`, after the ids of these rows, where they
    have any."""
    if ids is None:
        return dict(columns)
    named = ids.of_rows(columns["row"].to_pylist())
    return {id_column(ids.name, ANSWER_COLUMNS): named, **columns}


def _answer_column(name: str, column: list[Any]) -> pa.Array:
    """A column of a table; labels of several types become text."""
    if name not in ("label", "given_label"):
        kinds = {"row": pa.int64(), "conflict": pa.bool_()}
        return pa.array(column, kinds.get(name, pa.string()))
    kinds_of = {type(value) for value in column if value is not None}
    if len(kinds_of) > 1 and not kinds_of <= {int, float}:
        column = [None if value is None else str(value) for value in column]
    return pa.array(column, None if kinds_of else pa.string())


def labels_to_import(
    path: str, origin: Origin, ids: RowIds | None = None
) -> tuple[list[tuple[int, str, Label]], list[int]]:
    """(row, reviewer, label) of every label in a file, checked against the rows under review, which
    have these ids; and the rows that it gives another label by the same reviewer before.

    Raises `InputError` where the file cannot be read, is of another source, or has unknown rows or
    labels; `StorageError` where answers in it are damaged.
    """
    called_so = any(label in MISSING for label in origin.label_values)
    checked = read_answers(path, ids, verbatim=called_so)
    name = checked.location.name
    if checked.source is not None and checked.source != origin.source:
        raise InputError(f"{name}: holds labels of another source; nothing was imported")
    labels, place = [], places_of(origin.label_values)
    for row, who, label in checked.each():
        if row >= origin.n_rows:
            raise InputError(
                f"{name}: row {row:,} is none of the {origin.n_rows:,}; nothing was imported"
            )
        if place and label not in place:
            raise InputError(
                f"{name}: label {shown(label)} of row {row:,} is none of "
                f"{listed(list(origin.label_values))}; nothing was imported"
            )
        labels.append((row, who, origin.label_values[place[label]] if place else label))
    return labels, checked.revoked.tolist()
