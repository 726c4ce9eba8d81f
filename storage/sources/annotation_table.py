"""A long table of annotations (row, annotator, label), read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.dialect import Dialect
from storage.sources.fingerprint import read_once
from storage.sources.ids import check_id_type, text_ids
from storage.sources.joins import ROW, Annotations, Codes, Keys, keys, majority
from storage.sources.labels import MOST_CLASSES, Label, LabelCodes, sort_key
from storage.sources.many import batches
from storage.sources.opening import open_cells
from storage.sources.paths import listed, shown
from storage.sources.tables import to_labels

MOST_ANNOTATORS = 10_000
MOST_ANNOTATIONS = 1 << 27
"""Annotations that are held in memory, 12 bytes each and as much again per row."""
ANNOTATOR, LABEL = "annotator", "label"
"""Columns, where no others are named."""


def with_annotations(
    source: Source, path: str, label: str | None, annotator: str | None, dialect: Dialect
) -> Source:
    """The source with labels by majority of the annotations of a table, which belong to it from
    then on.

    Raises
    ------
    InputError
        the table cannot be read, lacks a column, holds an annotation twice, or more annotators,
        classes or annotations than are held.
    """
    found = read_annotations(path, source.id_name, label, annotator, dialect)
    same = {part.location.url for part in source.parts} & {p.location.url for p in found.parts}
    if same and source.id_name is not None:
        found = replace(found, whole=True)
        return replace(source, label_name=found.label_name, annotations=found, n_rows=None)
    if found.label_name in source.feature_names:
        raise InputError(
            f"{source.files[0]}: has a column {shown(found.label_name)} like the labels of "
            f"{found.name}; give --exclude {found.label_name}, or rename one"
        )
    parts = (*source.parts, *found.parts)
    return replace(source, parts=parts, label_name=found.label_name, annotations=found)


def read_annotations(
    path: str, by: str | None, label: str | None, annotator: str | None, dialect: Dialect
) -> Annotations:
    """The annotations of a table; raises as `with_annotations`."""
    names = by or ROW, annotator or ANNOTATOR, label or LABEL
    options = ("--id-column", "--annotator-column", "--label-column")

    def choose(name: str, columns: tuple[str, ...]) -> Sequence[str]:
        for column, option in zip(names, options, strict=True):
            if column not in columns:
                raise InputError(
                    f"{name}: no column {shown(column)}, only {listed(columns)}; "
                    f"annotations have a line per row and annotator; name its column by {option}"
                )
        if len(set(names)) < 3:
            raise InputError(f"{name}: {listed(names)} must be three columns")
        return names

    votes = open_cells(path, choose, dialect)
    files = tuple(replace(part, role="annotations") for part in votes.parts)
    parts, found = read_once(files, lambda: _Reading(votes, names, votes.files[0]).read(by))
    return replace(found, parts=parts)


class _Reading:
    """One pass over a table of annotations."""

    def __init__(self, votes: Source, names: tuple[str, str, str], name: str) -> None:
        self.votes, self.names, self.name = votes, names, name
        self.codes = LabelCodes(MOST_CLASSES, f"{name}: labels {names[2]!r}")
        self.annotators: dict[Label, int] = {}

    def read(self, by: str | None) -> Annotations:
        pieces, blank, n_empty, n = [], [np.empty(0, np.uint64)], 0, 0
        for first, batch in batches(self.votes):
            key, annotator, label = self._piece(first, batch)
            there = label >= 0
            n_empty += int((~there).sum())
            blank.append(np.unique(key[~there]))
            line = first + np.flatnonzero(there)
            pieces.append(self._ordered(key[there], annotator[there], label[there], line))
            n += len(line)
            if n > MOST_ANNOTATIONS:
                raise InputError(
                    f"{self.name}: more than {MOST_ANNOTATIONS:,} annotations, which are not held "
                    "in memory; train on a part of the rows"
                )
        if not n:
            raise InputError(f"{self.name}: holds no label; give a line per row and annotator")
        key, annotator, label, _ = self._ordered(
            *(np.concatenate(column) for column in zip(*pieces, strict=True))
        )
        values = tuple(sorted(self.codes.values, key=sort_key))
        place = {value: code for code, value in enumerate(values)}
        label = np.array([place[value] for value in self.codes.values], np.int16)[label]
        unique, start = np.unique(key, return_index=True)
        start = np.append(start, len(key)).astype(np.int64)
        return Annotations(
            name=self.name,
            parts=(),
            lines=partial(batches, self.votes),
            by=by,
            label_name=self.names[2],
            annotators=tuple(self.annotators),
            values=values,
            key=unique,
            start=start,
            annotator=annotator,
            label=label,
            majority=majority(unique, start, label),
            n_empty=n_empty,
            blank=np.setdiff1d(np.concatenate(blank), unique),
        )

    def _piece(self, first: int, batch: pa.RecordBatch) -> tuple[Keys, Codes, Codes]:
        row, annotator, label = (batch.column(name) for name in self.names)
        check_id_type(self.name, self.names[0], row.type)
        ids = text_ids(row, self.name)
        who = to_labels(annotator).tolist()
        for column, values in ((self.names[0], ids.tolist()), (self.names[1], who)):
            self._check_there(column, values, first)
        return keys(pa.array(ids)), self._annotators(who, first), self._labels(label, first)

    def _check_there(self, column: str, values: Sequence[Label | None], first: int) -> None:
        """Refuse what is empty, and text over several lines: a quote that is not closed."""
        for value in dict.fromkeys(values):
            if value is None or value == "" or value != value:
                wrong = "is empty"
            elif isinstance(value, str) and "\n" in value:
                wrong = "holds a line break"
            else:
                continue
            at = next(i for i, other in enumerate(values) if other is value or other == value)
            raise InputError(
                f"{self.name}: column {shown(column)} {wrong} at row {first + at:,} (from 0); mend "
                "or drop the line"
            )

    def _annotators(self, who: list[Label], first: int) -> Codes:
        for at, value in enumerate(who):
            if value not in self.annotators:
                if len(self.annotators) == MOST_ANNOTATORS:
                    raise InputError(
                        f"{self.name}: column {shown(self.names[1])} has more than "
                        f"{MOST_ANNOTATORS:,} values by row {first + at:,} (from 0), such as "
                        f"{shown(value)}: are these the annotators? Name their column by "
                        "--annotator-column"
                    )
                self.annotators[value] = len(self.annotators)
        return np.array([self.annotators[value] for value in who], np.int16)

    def _labels(self, column: pa.Array, first: int) -> Codes:
        raw = to_labels(column)
        texts = [value for value in raw.tolist() if isinstance(value, str)]
        self._check_there(self.names[2], texts, first)
        return self.codes.encode(raw, first).astype(np.int16)

    def _ordered(
        self, key: Keys, annotator: Codes, label: Codes, line: npt.NDArray[np.int64]
    ) -> tuple[Keys, Codes, Codes, npt.NDArray[np.int64]]:
        """Annotations by row and annotator; `InputError` where one is there twice."""
        order = np.lexsort((annotator, key))
        key, annotator, label, line = key[order], annotator[order], label[order], line[order]
        self._check_twice(key, annotator, line)
        return key, annotator, label, line

    def _check_twice(self, key: Keys, annotator: Codes, line: npt.NDArray[np.int64]) -> None:
        same = np.flatnonzero((key[1:] == key[:-1]) & (annotator[1:] == annotator[:-1]))
        if not len(same):
            return
        at = same[np.argmin(line[same + 1])]
        who, lines = list(self.annotators)[annotator[at]], line[at : at + 2]
        for first, batch in batches(self.votes):
            if first <= lines[1] < first + batch.num_rows:
                text = text_ids(batch.column(self.names[0]), self.name)[lines[1] - first]
                break
        raise InputError(
            f"{self.name}: annotator {shown(who)} labels {self.names[0]} {shown(text)} twice, at "
            f"rows {lines[0]:,} and {lines[1]:,} (from 0); keep one ({len(same):,} such)"
        )
