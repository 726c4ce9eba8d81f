"""Read what belongs to the rows of a source: annotations (row, annotator, label) of a long table,
and labels that somebody checked, which replace those of the source and are certain."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from storage.answers import ANSWER_COLUMNS, LONGEST_LINE, SUFFIX, Answers, source_identity
from storage.errors import InputError, listed, shown
from storage.sources.base import Source
from storage.sources.blocks import ROW, Annotations, Codes, Corrections, Repeats, keys, majority
from storage.sources.files import FileOfSource, SourcePath, read_once, readable, stamped
from storage.sources.formats.tables import TablesReader, batches, check_label_type, to_labels
from storage.sources.ids import IdsOfLines, Numbers, RowIds, id_column
from storage.sources.opening import open_cells
from storage.sources.request import Dialect, separator_hint
from storage.sources.values.labels import (
    MOST_CLASSES,
    Label,
    LabelCodes,
    label_value,
    objects,
    sort_key,
)
from storage.sources.values.texts import WHOLE, check_id_type, text_ids

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

    Raises `InputError` where the table cannot be read, lacks a column, holds an annotation twice,
    or more annotators, classes or annotations than are held.
    """
    source = replace(source, parts=stamped(source.parts))
    votes = read_annotations(path, source, label, annotator, dialect)
    if votes.repeats is not None:
        return replace(source, label_name=votes.label_name, annotations=votes, n_rows=None)
    if votes.label_name in source.feature_names:
        raise InputError(
            f"{source.files[0]}: has a column {shown(votes.label_name)} like the labels of "
            f"{votes.name}; give --exclude {shlex.quote(votes.label_name)}, or rename one"
        )
    parts = (*source.parts, *votes.parts)
    return replace(source, parts=parts, label_name=votes.label_name, annotations=votes)


def read_annotations(
    path: str, source: Source, label: str | None, annotator: str | None, dialect: Dialect
) -> Annotations:
    """The annotations of a table, by rows of the source; raises as `with_annotations`."""
    by = source.beside.id
    names = by or ROW, annotator or ANNOTATOR, label or LABEL
    remedies = [
        f"name its column by {option}"
        for option in ("--id-column", "--annotator-column", "--label-column")
    ]
    if by is not None:
        remedies[0] = f"call its column {shown(by)}, as in {source.files[0]}"

    def choose(name: str, columns: tuple[str, ...]) -> Sequence[str]:
        for column, remedy in zip(names, remedies, strict=True):
            if column not in columns:
                raise InputError(
                    f"{name}: no column {shown(column)}, only {listed(columns)}; annotations have "
                    "a line per row and annotator (melt a table with a column per annotator); "
                    f"{remedy}{separator_hint(columns)}"
                )
        if len(set(names)) < 3:
            raise InputError(f"{name}: {listed(names)} must be three columns")
        return names

    votes = open_cells(path, choose, dialect, ids=names[0])
    files = tuple(replace(part, role="annotations") for part in votes.parts)
    same = [part.location.url for part in source.parts] == [one.location.url for one in files]
    table = _AnnotationTable(votes, names, votes.files[0])
    ids = RowIds.of_source(source)
    parts, read = read_once(files, lambda: table.read(ids, whole=same and ids is not None))
    return replace(read, parts=parts)


def _values(table: Source) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The `batches` of a table whose cells are values; `InputError` for a column of others."""
    for first, batch in batches(table):
        for column in batch.schema:
            if types.is_nested(column.type):
                raise InputError(
                    f"{table.files[0]}: column {shown(column.name)} is {column.type}; its values "
                    "must be text, numbers, booleans or dates"
                )
        yield first, batch


class _AnnotationTable:
    """One pass over a table of annotations."""

    def __init__(self, votes: Source, names: tuple[str, str, str], name: str) -> None:
        self.votes, self.names, self.name = votes, names, name
        self.codes = LabelCodes(f"{name}: labels {names[2]!r}")
        self.annotators: dict[Label, int] = {}
        self.ids = IdsOfLines(name)

    def read(self, ids: RowIds | None, *, whole: bool) -> Annotations:
        """ids : of the source; whole : whether it is the same table"""
        pieces, n = [], 0
        for first, batch in _values(self.votes):
            ids_here, annotator, label = self._piece(first, batch)
            at = np.flatnonzero(label >= 0)
            pieces.append((first + at, annotator[at], label[at]))
            self._order(ids_here.indices.to_numpy()[at], *pieces[-1][:2], ids_here, first)
            n += len(at)
            if n > MOST_ANNOTATIONS:
                raise InputError(
                    f"{self.name}: more than {MOST_ANNOTATIONS:,} annotations, which are not held "
                    "in memory; train on a part of the rows"
                )
        if not n:
            raise InputError(f"{self.name}: holds no label; give a line per row and annotator")
        line, annotator, label = map(np.concatenate, zip(*pieces, strict=True))
        values = tuple(sorted(self.codes.values, key=sort_key))
        code = {value: code for code, value in enumerate(values)}
        label = np.array([code[value] for value in self.codes.values], np.int16)[label]
        coded, repeats = self.ids.coded(), None
        if whole:
            place = coded.indices.to_numpy()
            repeats = Repeats(place, np.unique(place, return_index=True)[1])
            row = repeats.first[place[line]]
        else:
            row = self._rows(ids, coded.take(pa.array(line)), line)
        order = self._order(row, line, annotator, coded)
        row, line, annotator, label = row[order], line[order], annotator[order], label[order]
        unique, start = np.unique(row, return_index=True)
        key = keys(coded.take(pa.array(line[start])))
        start = np.append(start, len(row)).astype(np.int64)
        return Annotations(
            name=self.name,
            parts=(),
            label_name=self.names[2],
            annotators=tuple(self.annotators),
            values=values,
            row=unique,
            start=start,
            annotator=annotator,
            label=label,
            majority=majority(key, start, label),
            n_empty=len(coded) - n,
            repeats=repeats,
        )

    def _rows(self, ids: RowIds | None, coded: pa.DictionaryArray, line: Numbers) -> Numbers:
        """(annotation,) rows, of the ids that their lines have.

        Raises `InputError` for an annotation of no row, or where several rows have its id.
        """
        if ids is None:
            texts = coded.dictionary
            number = pc.if_else(pc.match_substring_regex(texts, WHOLE), texts, "-1")
            row: Numbers = number.cast(pa.int64()).to_numpy()[coded.indices.to_numpy()]
            wrong = "is no row number, which count from 0 in the order of the source"
        else:
            row, again, n_rows = ids.match(coded, np.full(len(line), -1))
            if (again >= 0).any():
                at = int(np.where(again < 0, n_rows, again).argmin())
                raise InputError(
                    f"id {shown(coded[at].as_py())} occurs again at row {again[at]:,} (from 0): "
                    "annotations need a row per id; give each row once, or one table of rows and "
                    "annotations as both"
                )
            wrong = f"is none of the source's {n_rows:,} rows"
        bad = np.flatnonzero(row < 0)
        if len(bad):
            at, several = int(bad[0]), len(coded.take(pa.array(bad)).unique())
            raise InputError(
                f"{self.name}: {self.names[0]} {shown(coded[at].as_py())} at row {line[at]:,} "
                f"(from 0) {wrong} ({several:,} such); mend or drop it"
            )
        return row

    def _piece(self, first: int, batch: pa.RecordBatch) -> tuple[pa.DictionaryArray, Codes, Codes]:
        row, annotator, label = (batch.column(name) for name in self.names)
        check_id_type(self.name, self.names[0], row.type)
        ids = text_ids(row, self.name)
        who = to_labels(annotator).tolist()
        for column, values in ((self.names[0], ids.tolist()), (self.names[1], who)):
            self._check_there(column, values, first)
        coded = pa.array(ids).dictionary_encode()
        self.ids.see(coded)
        return coded, self._annotators(who, first), self._labels(label, first)

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
        codes = [self.annotators.setdefault(value, len(self.annotators)) for value in who]
        if len(self.annotators) > MOST_ANNOTATORS:
            at = codes.index(MOST_ANNOTATORS)
            raise InputError(
                f"{self.name}: column {shown(self.names[1])} has more than {MOST_ANNOTATORS:,} "
                f"values by row {first + at:,} (from 0), such as {shown(who[at])}: are these the "
                "annotators? Name their column by --annotator-column"
            )
        return np.array(codes, np.int16)

    def _labels(self, column: pa.Array, first: int) -> Codes:
        raw = to_labels(column)
        texts = [value for value in raw.tolist() if isinstance(value, str)]
        self._check_there(self.names[2], texts, first)
        return self.codes.encode(raw, first).astype(np.int16)

    def _order(
        self, row: Numbers, line: Numbers, annotator: Codes, ids: pa.DictionaryArray, first: int = 0
    ) -> Numbers:
        """Places of annotations in the order of row and annotator; `InputError` where one is there
        twice.

        ids : of the lines from `first` on
        """
        order = np.lexsort((annotator, row))
        row, line, annotator = row[order], line[order], annotator[order]
        same = np.flatnonzero((row[1:] == row[:-1]) & (annotator[1:] == annotator[:-1]))
        if len(same):
            at = same[np.argmin(line[same + 1])]
            who, again = list(self.annotators)[annotator[at]], int(line[at + 1])
            raise InputError(
                f"{self.name}: annotator {shown(who)} labels {self.names[0]} "
                f"{shown(ids[again - first].as_py())} twice, at rows {line[at]:,} and {again:,} "
                f"(from 0); keep one ({len(same):,} such)"
            )
        return order


MOST_LINES = 1 << 23
"""Lines of a table of labels that are held in memory, 12 bytes each and as much again to sort."""
COLUMNS = ("row", "label")
"""What a table of corrections needs, a column of ids in place of `row` if rows have any; `reviewer`
and `source` are used where they are there."""
MOST_REVIEWERS = 10_000
NOBODY = -1
_WRITTEN = Dialect(fixed=True)
"""How such tables are."""


@dataclass(frozen=True, eq=False)
class LatestLabels:
    """Labels of a file, the last one of each row and reviewer, ascending by row."""

    location: SourcePath
    source: str | None
    """Identity of the source they are of, where the file tells, and not by ids."""
    row: Numbers
    label: npt.NDArray[np.int16]
    """Code among `values`, -1 where the reviewer does not know."""
    reviewer: npt.NDArray[np.int16]
    """Code among `reviewers`; `NOBODY` where the file names none, each other label by another."""
    values: tuple[Label, ...]
    reviewers: tuple[str, ...]
    revoked: Numbers
    """Rows to which the table has another label by the same reviewer before the last."""

    def agreed(self) -> tuple[Numbers, npt.NDArray[np.int16], int]:
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

    Lines that have ids are matched by them, whatever has become of the order of rows.

    Raises `InputError` where the file cannot be read, holds bad rows or ids, or is of another
    source; `StorageError` where answers in it are damaged.
    """
    location = SourcePath.of(path)
    part = FileOfSource("corrections", location.basename, location)
    source = replace(source, parts=stamped(source.parts))
    ids = RowIds.of_source(source)
    typed = source.format.content != "texts"  # whose labels may be called NA
    (part,), latest = read_once((part,), lambda: read_answers(path, ids, verbatim=typed))
    if latest.source is not None and latest.source != source_identity(
        source.fingerprint(with_digest=True), source.label_name
    ):
        by_id = ", or a table of them with ids, which review --export-to writes"
        raise InputError(
            f"{location.name}: holds labels of another source, or of this one before it changed; "
            f"give the corrections of this source{'' if source.beside.id is None else by_id}"
        )
    row, label, n_conflicts = latest.agreed()
    values = tuple(source.coding.join(objects(latest.values)))
    corrections = Corrections(part, row, label, values, n_conflicts, latest.revoked)
    return replace(source, parts=(*source.parts, part), corrections=corrections)


def read_answers(path: str, ids: RowIds | None = None, *, verbatim: bool = False) -> LatestLabels:
    """What a file of answers or a table of labels says; of rows with ids by these, where it has
    them.

    verbatim : whether text such as NA is a label, where it would be a gap else

    Raises `InputError` where it cannot be read, has a row or an id that cannot be one, or more
    lines than are held; `StorageError` where answers in it are damaged.
    """
    location = SourcePath.of(path)
    reading = _LabelFile(location, ids)
    if location.basename.lower().endswith(SUFFIX):
        with readable(location.name), location.open() as file:
            start = file.readline(LONGEST_LINE)
        if b'"origin"' in start or f'"{ROW}"'.encode() not in start:  # not a line for each label
            return reading.log()
    return reading.table(path, verbatim)


class _LabelFile:
    """One pass over a file of labels."""

    def __init__(self, location: SourcePath, ids: RowIds | None) -> None:
        self.location, self.name, self.ids = location, location.name, ids
        self.id_column = None if ids is None else id_column(ids.name, ANSWER_COLUMNS)
        self.codes = LabelCodes(f"{location.name}: labels")
        self.reviewers: dict[str, int] = {}

    def log(self) -> LatestLabels:
        """The answers of a review."""
        with readable(self.name), self.location.open() as file:
            answers = Answers.of(self.name, file)
        assert answers.origin is not None
        answered = [(one.row, *pair) for one in answers.rows() for pair in one.labels.items()]
        row = np.array([row for row, _, _ in answered], np.int64)
        label = self.codes.encode(objects([label for _, _, label in answered])).astype(np.int16)
        reviewer = self._reviewers(pa.array([who for _, who, _ in answered], pa.string()))
        known = self.codes.values, tuple(self.reviewers), np.empty(0, np.int64)
        return LatestLabels(self.location, answers.origin.source, row, label, reviewer, *known)

    def table(self, path: str, verbatim: bool) -> LatestLabels:
        """A table of labels, a batch at a time."""
        table = open_cells(path, self._columns, _WRITTEN, ids=self.id_column)
        if verbatim and isinstance(table.reader, TablesReader):
            table = replace(table, reader=table.reader.verbatim())
        origins: set[str] = set()
        ids = IdsOfLines(self.name)
        rows, labels, reviewers = ([np.empty(0, kind)] for kind in (np.uint8, np.int16, np.int16))
        for first, batch in _values(table):
            if first + batch.num_rows > MOST_LINES:
                raise InputError(
                    f"{self.name}: more than {MOST_LINES:,} lines, which are not held in memory; "
                    "write labels of so many rows into the source"
                )
            cells = dict(zip(batch.schema.names, batch.columns, strict=True))
            check_label_type(self.name, "label", cells["label"].type)
            texts = None
            if self.id_column in cells:
                texts = self._ids(cells[self.id_column])
                ids.see(texts.dictionary_encode())
            numbers = self._rows(cells, first, texts)
            if texts is None:  # in no more bytes than they need
                numbers = numbers.astype(np.min_scalar_type(numbers.max(initial=0)))
            rows.append(numbers)
            labels.append(self.codes.encode(to_labels(cells["label"]), first).astype(np.int16))
            reviewers.append(self._reviewers(cells.get("reviewer", pa.nulls(len(rows[-1])))))
            if "source" in cells:
                origins |= set(text_ids(cells["source"].unique(), self.name).tolist())
        row, label, reviewer = (_joined(pieces) for pieces in (rows, labels, reviewers))
        row = row.astype(np.int64)
        coded = ids.coded()
        if len(coded) and self._match(row, coded):
            origins.clear()
        if len(origins) > 1:
            raise InputError(f"{self.name}: holds labels of several sources; split it by `source`")
        revoked = np.empty(0, np.int64)
        if (row[1:] <= row[:-1]).any():
            person = np.where(reviewer == NOBODY, label - MOST_CLASSES - 1, reviewer)
            order = np.lexsort((person, row))  # which keeps the order of lines
            row, label, person, reviewer = (c[order] for c in (row, label, person, reviewer))
            last = np.append((row[1:] != row[:-1]) | (person[1:] != person[:-1]), True)
            other = ~last[:-1] & (label[1:] != label[:-1]) & (label[1:] >= 0) & (label[:-1] >= 0)
            revoked = np.unique(row[:-1][other])
            row, label, reviewer = (column[last] for column in (row, label, reviewer))
        known = self.codes.values, tuple(self.reviewers), revoked
        return LatestLabels(self.location, next(iter(origins), None), row, label, reviewer, *known)

    def _columns(self, name: str, names: tuple[str, ...]) -> list[str]:
        named = self.id_column in names
        missing = [one for one in COLUMNS if one not in names and not (named and one == ROW)]
        if missing:
            which = ROW if self.id_column is None else f"{self.id_column} or {ROW}"
            raise InputError(
                f"{name}: no column {missing[0]!r}, only {listed(names)}; corrections have the "
                f"columns {which} and label"
            )
        used = (self.id_column, *COLUMNS, "reviewer", "source")
        return [one for one in used if one is not None and one in names]

    def _ids(self, column: pa.Array) -> pa.Array:
        """(line,) ids as text, empty where there is none."""
        if types.is_floating(column.type):  # as whole numbers become beside an empty cell
            exact = 2 ** np.finfo(column.type.to_pandas_dtype()).nmant  # beyond it, some are equal
            if pc.all(pc.less(pc.abs(column.cast(pa.float64())), exact)).as_py() is not False:
                with suppress(pa.ArrowInvalid):
                    column = column.cast(pa.int64())
        check_id_type(self.name, str(self.id_column), column.type)
        return pa.array(text_ids(column, self.name), pa.string())

    def _match(self, row: Numbers, ids: pa.DictionaryArray) -> bool:
        """Put the rows of lines with an id in place; whether all lines have one, of one row."""
        assert self.ids is not None
        line = np.flatnonzero(ids.indices.to_numpy() != pc.index(ids.dictionary, "").as_py())
        row[line], again, _ = self.ids.match(ids.take(pa.array(line)), row[line])
        bad = np.flatnonzero(row[line] < 0)
        if len(bad):
            one = int(line[bad[0]])
            where = (
                f"{self.name}: {self.id_column} {shown(ids[one].as_py())} at row {one:,} (from 0)"
            )
            if again[bad[0]] >= 0:
                raise InputError(
                    f"{where} is that of several rows: whose label is it? Give their numbers in a "
                    f"column {ROW}"
                )
            raise InputError(
                f"{where} is that of no row{self.ids.whose} ({len(bad):,} such); mend or drop the "
                "line"
            )
        return len(line) == len(ids) and bool((again < 0).all())

    def _rows(self, cells: Mapping[str, pa.Array], first: int, ids: pa.Array | None) -> Numbers:
        """(line,) row numbers of a batch; -1 where a line has an id and no number."""
        n = len(cells["label"])
        by_id = np.zeros(n, np.bool_) if ids is None else np.asarray(pc.not_equal(ids, ""))
        if ROW not in cells and not by_id.all():
            raise InputError(
                f"{self.name}: column {shown(self.id_column)} is empty at row "
                f"{first + int(by_id.argmin()):,} (from 0); give the id, or drop the line"
            )
        column = cells.get(ROW, pa.nulls(n, pa.int64()))
        try:
            if types.is_boolean(column.type) or column.null_count:
                raise pa.ArrowInvalid
            numbers: Numbers = column.cast(pa.int64()).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # some are written otherwise
            raw = column.to_pylist()
            values = [label_value(one) for one in raw]
            numbers = np.array([one if type(one) is int else -1 for one in values], np.int64)
        bad = (numbers < 0) & ~by_id
        if bad.any():
            at = int(bad.argmax())
            raise InputError(
                f"{self.name}: {shown(column[at].as_py())} at row {first + at:,} (from 0) is no "
                "row number; rows count from 0 in the order of the source"
            )
        return numbers

    def _reviewers(self, column: pa.Array) -> npt.NDArray[np.int16]:
        """(line,) codes."""
        coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
        names = text_ids(coded.dictionary, self.name).tolist()
        codes = [
            self.reviewers.setdefault(one, len(self.reviewers)) if one else NOBODY for one in names
        ]
        if len(self.reviewers) > MOST_REVIEWERS:
            raise InputError(
                f"{self.name}: more than {MOST_REVIEWERS:,} reviewers; is the column `reviewer` "
                "that of who gave the labels?"
            )
        place = np.asarray(coded.indices.fill_null(len(codes)))
        return np.array([*codes, NOBODY], np.int16).take(place)


def _joined(pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """One array of several, which are let go."""
    joined = np.concatenate(pieces)
    pieces.clear()
    return joined
