"""Labels that somebody checked, from a file: they replace those of a source and are certain."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from storage.answers import SUFFIX, Answers, Origin, Said, source_identity
from storage.errors import InputError

from .base import Source
from .fingerprint import SourceFile, read_once
from .labels import Label, label_value
from .packing import packed, unpacked
from .paths import SourcePath, listed, readable, shown

TEXT = packed(".csv")
_LONGEST_HEADER = 1 << 16
COLUMNS = ("row", "label")
"""What a table of corrections needs; `reviewer` and `source` are used where they are there."""


@dataclass(frozen=True, eq=False)
class Corrections:
    """Rows whose labels are certain."""

    file: SourceFile
    row: npt.NDArray[np.int64]
    """(row,) ascending."""
    label: tuple[Label, ...]
    """(row,)"""
    n_conflicts: int
    """Rows left out, as reviewers disagree."""

    def within(
        self, start: int, stop: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.object_]]:
        """Rows from `start` to `stop` of the source, and their labels."""
        first, last = np.searchsorted(self.row, (start, stop))
        label = np.empty(last - first, object)
        label[:] = self.label[first:last]
        return self.row[first:last], label

    def codes(
        self, values: Sequence[Label], n_rows: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows, and the places (row,) of their labels among the label values of the source.

        Raises `InputError` for a row that the source does not have, or a label it has nowhere.
        """
        name = self.file.location.name
        if len(self.row) and self.row[-1] >= n_rows:
            raise InputError(
                f"{name}: has a label for row {self.row[-1]:,}, the source has rows 0 to "
                f"{n_rows - 1:,}; give the corrections of this source"
            )
        place = {value: code for code, value in enumerate(values)}
        unknown = [label for label in self.label if label not in place]
        if unknown:
            row = self.row[self.label.index(unknown[0])]
            raise InputError(
                f"{name}: label {shown(unknown[0])} of row {row:,} occurs nowhere in the source, "
                f"whose labels are {listed(list(values))}; mend or drop it"
            )
        return self.row, np.array([place[label] for label in self.label], np.int64)


def with_corrections(source: Source, path: str) -> Source:
    """The source with the corrections of a file, which belongs to it from then on.

    Raises
    ------
    InputError
        the file cannot be read, holds bad rows, or is of another source.
    """
    location = SourcePath.of(path)
    part = SourceFile("corrections", location.basename, location)
    (part,), (origin, said) = read_once((part,), lambda: read_answers(location))
    if origin is not None:
        _check_origin(location, origin, source)
    row = np.array([one.row for one in said if one.label is not None], np.int64)
    label = tuple(one.label for one in said if one.label is not None)
    found = Corrections(part, row, label, sum(one.conflict for one in said))
    return replace(source, parts=(*source.parts, part), corrections=found)


def _check_origin(location: SourcePath, origin: str, source: Source) -> None:
    if origin != source_identity(source.fingerprint(with_digest=True), source.label_name):
        raise InputError(
            f"{location.name}: holds labels of another source, or of this one before it changed; "
            "give the corrections of this source"
        )


def read_answers(location: SourcePath) -> tuple[str | None, list[Said]]:
    """What a file of answers or a table of labels says, rows ascending, and the identity of the
    source they are of, where it tells.

    Raises `InputError` where it cannot be read, or for a row that cannot be one.
    """
    if location.basename.lower().endswith(SUFFIX):
        answers = _read_log(location)
        return answers.origin.source if answers.origin else None, list(answers.rows())
    table = _read_table(location)
    rows, labels = table["row"], table["label"]
    reviewers = table.get("reviewer", [""] * len(rows))
    said: dict[int, dict[str, Label | None]] = {}
    for line, (raw, label, reviewer) in enumerate(zip(rows, labels, reviewers, strict=True)):
        row = label_value(raw)
        if type(row) is not int or row < 0:
            raise InputError(
                f"{location.name}: {shown(raw)} at line {line:,} (from 0) is no row number; "
                "rows count from 0 in the order of the source"
            )
        others = said.setdefault(row, {})
        others[str(reviewer) if reviewer else _nobody(location, others, label)] = label_value(label)
    origins = set(table.get("source", []))
    if len(origins) > 1:
        raise InputError(f"{location.name}: holds labels of several sources; split it by `source`")
    return next(iter(origins), None), [Said(row, said[row]) for row in sorted(said)]


def _nobody(location: SourcePath, others: dict[str, Label | None], label: Any) -> str:
    """Who gave a label that nobody is named for: the file, or one more person if it contradicts."""
    name = location.basename
    while others.get(name, label_value(label)) != label_value(label):
        name += "'"
    return name


def _read_log(location: SourcePath) -> Answers:
    answers = Answers()
    with readable(location.name), location.open() as file:
        for line in file.read().split(b"\n"):
            if line.strip():
                answers.see(line)
    if answers.origin is None:
        raise InputError(f"{location.name}: no answers of knnoise; give such a file")
    return answers


def _read_table(location: SourcePath) -> dict[str, list[Any]]:
    """The columns of a table of labels, as Python values."""
    lower = location.basename.lower()
    with readable(location.name), location.open() as file:
        if lower.endswith(TEXT):
            with unpacked(location.name, location.basename, file) as content:
                table = _read_csv(location.name, content)
        elif lower.endswith((".parquet", ".pq")):
            table = pq.read_table(file)
        else:
            raise InputError(
                f"{location.name}: corrections must be a .csv, .parquet or {SUFFIX} file"
            )
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InputError(
            f"{location.name}: no column {missing[0]!r}, only {listed(table.column_names)}; "
            "corrections have the columns row and label"
        )
    wanted = [name for name in (*COLUMNS, "reviewer", "source") if name in table.column_names]
    return {name: table[name].to_pylist() for name in wanted}


def _read_csv(where: str, file: IO[bytes]) -> pa.Table:
    """Every column as text, so that labels are read as those of a source are."""
    header = file.readline(_LONGEST_HEADER).decode("utf-8-sig").strip()
    names = next(csv.reader([header]), [])
    if len(set(names)) < len(names):
        raise InputError(f"{where}: column names occur twice; name the columns row and label")
    return pyarrow.csv.read_csv(
        file,
        pyarrow.csv.ReadOptions(column_names=names, use_threads=False),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True
        ),
    )


def labels_to_import(path: str, origin: Origin) -> list[tuple[int, str, Label]]:
    """(row, reviewer, label) of every label in a file, checked against the rows under review.

    Raises
    ------
    InputError
        the file cannot be read, is of another source, or has unknown rows or labels.
    """
    location = SourcePath.of(path)
    source, said = read_answers(location)
    if source is not None and source != origin.source:
        raise InputError(f"{location.name}: holds labels of another source; nothing was imported")
    found = [
        (one.row, reviewer, label)
        for one in said
        for reviewer, label in one.labels.items()
        if label is not None
    ]
    for row, _, label in found:
        if row >= origin.n_rows:
            raise InputError(
                f"{location.name}: row {row:,} is none of the {origin.n_rows:,}; "
                "nothing was imported"
            )
        if origin.label_values and label not in origin.label_values:
            raise InputError(
                f"{location.name}: label {shown(label)} of row {row:,} is none of "
                f"{listed(list(origin.label_values))}; nothing was imported"
            )
    return found
