"""Labels that somebody checked, from a file: they replace those of a source and are certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from storage.answers import SUFFIX, Answers, Origin, source_identity
from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.fingerprint import SourceFile, read_once
from storage.sources.ids import text_ids
from storage.sources.joins import Corrections
from storage.sources.labels import MOST_CLASSES, Label, LabelCodes, label_value, objects
from storage.sources.many import batches
from storage.sources.opening import open_cells
from storage.sources.paths import SourcePath, listed, readable, shown
from storage.sources.tables import check_label_type, to_labels

MOST_LINES = 1 << 23
"""Lines of a table of labels that are held in memory, 12 bytes each and as much again to sort."""
COLUMNS = ("row", "label")
"""What a table of corrections needs; `reviewer` and `source` are used where they are there."""
MOST_REVIEWERS = 10_000
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Checked:
    """Labels of a file, the last one of each row and reviewer, ascending by row."""

    location: SourcePath
    source: str | None
    """Identity of the source they are of, where the file tells."""
    row: npt.NDArray[np.int64]
    label: npt.NDArray[np.int16]
    """Code among `values`, -1 where the reviewer does not know."""
    reviewer: npt.NDArray[np.int16]
    """Code among `reviewers`; `NOBODY` where the file names none, each other label by another."""
    values: tuple[Label, ...]
    reviewers: tuple[str, ...]

    def agreed(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], int]:
        """The rows whose labels all agree, those labels, and the number of rows where not."""
        row, label, known = self.row, self.label, self.label >= 0
        if not known.all():
            row, label = row[known], label[known]
        if (row[1:] > row[:-1]).all():
            return row, label, 0
        first = np.flatnonzero(np.append(True, row[1:] > row[:-1]))
        low, high = np.minimum.reduceat(label, first), np.maximum.reduceat(label, first)
        same = low == high
        return row[first[same]], low[same], int(np.count_nonzero(~same))

    def each(self) -> Iterator[tuple[int, str, Label]]:
        """(row, reviewer, label) of all labels."""
        last, n = -1, 0
        columns = (column.tolist() for column in (self.row, self.label, self.reviewer))
        for row, label, reviewer in zip(*columns, strict=True):
            n = n + 1 if row == last and reviewer == NOBODY else 0
            last = row
            who = (
                self.location.basename + "'" * n if reviewer == NOBODY else self.reviewers[reviewer]
            )
            if label >= 0:
                yield row, who, self.values[label]


def with_corrections(source: Source, path: str) -> Source:
    """The source with the corrections of a file, which belongs to it from then on.

    Raises
    ------
    InputError
        the file cannot be read, holds bad rows, or is of another source.
    StorageError
        answers in it are damaged.
    """
    location = SourcePath.of(path)
    part = SourceFile("corrections", location.basename, location)
    (part,), found = read_once((part,), lambda: read_answers(path))
    if found.source is not None:
        _check_origin(location, found.source, source)
    row, label, n_conflicts = found.agreed()
    corrections = Corrections(part, row, label, found.values, n_conflicts)
    return replace(source, parts=(*source.parts, part), corrections=corrections)


def _check_origin(location: SourcePath, origin: str, source: Source) -> None:
    if origin != source_identity(source.fingerprint(with_digest=True), source.label_name):
        raise InputError(
            f"{location.name}: holds labels of another source, or of this one before it changed; "
            "give the corrections of this source"
        )


def read_answers(path: str) -> Checked:
    """What a file of answers or a table of labels says.

    Raises
    ------
    InputError
        it cannot be read, has a row that cannot be one, or more lines than are held.
    StorageError
        answers in it are damaged.
    """
    location = SourcePath.of(path)
    reading = _Reading(location)
    if location.basename.lower().endswith(SUFFIX):
        return reading.log()
    return reading.table(path)


class _Reading:
    """One pass over a file of labels."""

    def __init__(self, location: SourcePath) -> None:
        self.location, self.name = location, location.name
        self.codes = LabelCodes(MOST_CLASSES, f"{location.name}: labels")
        self.reviewers: dict[str, int] = {}

    def log(self) -> Checked:
        """The answers of a review."""
        with readable(self.name), self.location.open() as file:
            answers = Answers.of(self.name, file)
        assert answers.origin is not None
        said = [(one.row, *pair) for one in answers.rows() for pair in one.labels.items()]
        row = np.array([row for row, _, _ in said], np.int64)
        label = self.codes.encode(objects([label for _, _, label in said]))
        reviewer = self._reviewers(pa.array([who for _, who, _ in said], pa.string()))
        return self._checked(answers.origin.source, row, label, reviewer)

    def table(self, path: str) -> Checked:
        """A table of labels, a batch at a time."""
        table = open_cells(path, self._columns)
        origins: set[str] = set()
        rows, labels, reviewers = ([np.empty(0, kind)] for kind in (np.uint8, np.int16, np.int16))
        for first, batch in batches(table):
            if first + batch.num_rows > MOST_LINES:
                raise InputError(
                    f"{self.name}: more than {MOST_LINES:,} lines, which are not held in memory; "
                    "write labels of so many rows into the source"
                )
            cells = dict(zip(batch.schema.names, batch.columns, strict=True))
            check_label_type(self.name, "label", cells["label"].type)
            found = self._rows(cells["row"], first)
            rows.append(found.astype(np.min_scalar_type(found.max(initial=0))))
            labels.append(self.codes.encode(to_labels(cells["label"]), first).astype(np.int16))
            reviewers.append(self._reviewers(cells.get("reviewer", pa.nulls(len(rows[-1])))))
            if "source" in cells:
                origins |= set(text_ids(cells["source"].unique(), self.name).tolist())
        if len(origins) > 1:
            raise InputError(f"{self.name}: holds labels of several sources; split it by `source`")
        row, label, reviewer = (_joined(pieces) for pieces in (rows, labels, reviewers))
        row = row.astype(np.int64)
        if (row[1:] <= row[:-1]).any():
            person = np.where(reviewer == NOBODY, label - MOST_CLASSES - 1, reviewer)
            order = np.lexsort((person, row))  # which keeps the order of lines
            row, label, person, reviewer = (c[order] for c in (row, label, person, reviewer))
            last = np.append((row[1:] != row[:-1]) | (person[1:] != person[:-1]), True)
            row, label, reviewer = (column[last] for column in (row, label, reviewer))
        return self._checked(next(iter(origins), None), row, label, reviewer)

    def _checked(
        self,
        source: str | None,
        row: npt.NDArray[np.int64],
        label: npt.NDArray[Any],
        reviewer: npt.NDArray[np.int16],
    ) -> Checked:
        values, reviewers = self.codes.values, tuple(self.reviewers)
        label = label.astype(np.int16)
        return Checked(self.location, source, row, label, reviewer, values, reviewers)

    def _columns(self, name: str, names: tuple[str, ...]) -> list[str]:
        missing = [one for one in COLUMNS if one not in names]
        if missing:
            raise InputError(
                f"{name}: no column {missing[0]!r}, only {listed(names)}; corrections have the "
                "columns row and label"
            )
        return [one for one in (*COLUMNS, "reviewer", "source") if one in names]

    def _rows(self, column: pa.Array, first: int) -> npt.NDArray[np.int64]:
        """(line,) row numbers."""
        try:
            if types.is_boolean(column.type) or column.null_count:
                raise pa.ArrowInvalid
            found: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # some are written otherwise
            raw = column.to_pylist()
            values = [label_value(one) for one in raw]
            found = np.array([one if type(one) is int else -1 for one in values], np.int64)
        if (found < 0).any():
            at = int((found < 0).argmax())
            raise InputError(
                f"{self.name}: {shown(column[at].as_py())} at line {first + at:,} (from 0) is no "
                "row number; rows count from 0 in the order of the source"
            )
        return found

    def _reviewers(self, column: pa.Array) -> npt.NDArray[np.int16]:
        """(line,) codes."""
        coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
        names = text_ids(coded.dictionary, self.name).tolist()
        codes = [self.reviewers.setdefault(one, len(self.reviewers)) for one in names if one]
        if len(self.reviewers) > MOST_REVIEWERS:
            raise InputError(
                f"{self.name}: more than {MOST_REVIEWERS:,} reviewers; is the column `reviewer` "
                "that of who gave the labels?"
            )
        place = np.full(len(names) + 1, NOBODY, np.int16)
        place[np.flatnonzero(names)] = codes
        at: npt.NDArray[np.integer] = coded.indices.fill_null(len(names)).to_numpy(False)
        found: npt.NDArray[np.int16] = place[at]
        return found


def _joined(pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """One array of several, which are let go."""
    found = np.concatenate(pieces)
    pieces.clear()
    return found


def labels_to_import(path: str, origin: Origin) -> list[tuple[int, str, Label]]:
    """(row, reviewer, label) of every label in a file, checked against the rows under review.

    Raises
    ------
    InputError
        the file cannot be read, is of another source, or has unknown rows or labels.
    StorageError
        answers in it are damaged.
    """
    checked = read_answers(path)
    name = checked.location.name
    if checked.source is not None and checked.source != origin.source:
        raise InputError(f"{name}: holds labels of another source; nothing was imported")
    found = list(checked.each())
    for row, _, label in found:
        if row >= origin.n_rows:
            raise InputError(
                f"{name}: row {row:,} is none of the {origin.n_rows:,}; nothing was imported"
            )
        if origin.label_values and label not in origin.label_values:
            raise InputError(
                f"{name}: label {shown(label)} of row {row:,} is none of "
                f"{listed(list(origin.label_values))}; nothing was imported"
            )
    return found
