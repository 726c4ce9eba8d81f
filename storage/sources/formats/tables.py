"""Tables of any format: what one says of itself, what is read of it, and its record batches as
float32 features and label values; one file, or several with the same columns."""

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from storage.errors import InputError, listed, shown
from storage.sources.base import Source
from storage.sources.blocks import Chunk, Floats, piece_rows
from storage.sources.files import FileOfSource, SourcePath, readable
from storage.sources.request import Beside, Request, Use, choose_columns, column_hint, matches
from storage.sources.values.labels import Label, Labels, hashes, label_array, label_value
from storage.sources.values.texts import (
    MISSING,
    Spelling,
    check_id_type,
    decoded,
    plain_texts,
    plain_type,
    plain_values,
    text_ids,
)

Constants = Mapping[str, str | float | None]
"""Columns that the path of a file gives."""


class Feature(NamedTuple):
    """Where a feature lies: a column, or one place of a column of lists."""

    column: str
    place: int | None = None
    length: int = 0
    """Values in each list of the column."""
    category: str | None = None
    """The text that is 1; all other is 0."""
    spelling: Spelling | None = None
    """How numbers are written that the column holds as text."""


@dataclass(frozen=True)
class Selection:
    """What is read of one table."""

    features: tuple[Feature, ...] = ()
    label: str | None = None
    file: int = 0
    """Number of the file among those of the source."""
    constants: Constants = field(default_factory=dict)
    """Columns that the path of the file gives, with their value."""
    beside: Beside = field(default=Beside())
    raw: bool = False
    """Whether all is read as it is stored, to be looked at."""
    use: Use = "train"
    verbatim: bool = False
    """Whether no text stands for a gap."""

    @property
    def texts(self) -> set[str]:
        """Columns that a format without types reads as text: all to be looked at, else what is no
        feature, and what is encoded or parsed."""
        coded = (
            f.column for f in self.features if f.category is not None or f.spelling is not None
        )
        return set(self.columns) if self.raw else {*self.aside, *coded}

    def missing(self, name: str | None) -> Iterable[str]:
        """The texts of a column that are no values, where all is text."""
        return ("",) if self.verbatim or (name and name == self.beside.id) else MISSING

    @property
    def aside(self) -> list[str]:
        """What is read besides features."""
        return [name for name in (self.label, *self.beside) if name is not None]

    @property
    def used(self) -> dict[str, None]:
        """The columns that are read, each once, those that the path gives among them."""
        return dict.fromkeys([*(feature.column for feature in self.features), *self.aside])

    @property
    def columns(self) -> list[str]:
        """The stored columns that are read."""
        return [name for name in self.used if name not in self.constants]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch with the columns that the path of its file gives, as far as they are read."""
        for name, value in self.constants.items():
            if name in self.used:
                scalar = pa.scalar(value, pa.string() if isinstance(value, str) else pa.float64())
                batch = batch.append_column(name, pa.repeat(scalar, batch.num_rows))
        return batch

    def block(self, batch: pa.RecordBatch, where: str, start: int) -> Chunk:
        """One batch as a block; for messages, `where` is the file and `start` the first row."""
        source_id = np.full(batch.num_rows, self.file, np.int32)
        raw = None if self.label is None else to_labels(batch.column(self.label))
        own, of, by = self.beside
        ids = None if own is None else text_ids(batch.column(own), where)
        group = None if of is None else to_labels(batch.column(of))
        together = None if by is None else hashes(to_labels(batch.column(by)))
        x = to_floats(batch, self.features, where, start, self.use)
        return Chunk(x, raw, source_id, ids, group=group, together=together)


def to_floats(
    batch: pa.RecordBatch, features: tuple[Feature, ...], where: str, start: int, use: Use
) -> Floats:
    """Features as `(row, feature)` float32, C order; nulls are NaN, overflow infinite."""
    x = np.empty((batch.num_rows, len(features)), np.float32)
    lists: dict[str, Floats] = {}
    texts: dict[str, pa.Array] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for position, (name, place, length, category, spelling) in enumerate(features):
            if spelling is not None:
                column, more = batch.column(name), f", or give --exclude {shlex.quote(name)}"
                mend = "correct it" + ("" if use == "score" else more)
                x[:, position] = _parsed(column, spelling, name, where, start, mend)
            elif category is not None:
                if name not in texts:
                    texts[name] = plain_texts(batch.column(name))
                x[:, position] = _are(category, texts[name])
            elif place is None:
                x[:, position] = _numbers(batch.column(name))
            else:
                if name not in lists:
                    column, called = batch.column(name), f"{where}: column {name!r}"
                    lists[name] = list_values(column, length, called)
                x[:, position] = lists[name][:, place]
    return x


def _are(category: str, text: pa.Array) -> pa.Array:
    """Which are of a category; truth values in any case, as pandas writes `True` for `true`."""
    if category.lower() in ("true", "false"):
        category, text = category.lower(), pc.utf8_lower(text)
    return pc.equal(text, category).fill_null(False)


def _parsed(
    column: pa.Array, spelling: Spelling, name: str, where: str, start: int, mend: str
) -> npt.NDArray[np.float64]:
    """Numbers of a column of text; `InputError` for the first text that is none."""
    text = plain_texts(column)
    numbers, bad = spelling.read(text)
    if bad is not None:
        raise InputError(
            f"{where}: row {start + bad} (from 0), column {name!r}: {shown(text[bad].as_py())} is "
            f"not to be read as --parse {name}={spelling.kind} says; {mend}"
        )
    return numbers


def _numbers(column: pa.Array) -> np.ndarray:
    if not types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column)


def list_values(column: pa.Array, length: int, where: str) -> Floats:
    """`(row, length)` values of a column of lists; a row without a list is NaN.

    Raises `InputError` for lists of another length.
    """
    lengths = np.asarray(pc.list_value_length(column).fill_null(length))
    if (lengths != length).any():
        other = int(lengths[lengths != length][0])
        raise InputError(
            f"{where} has a list of {other:,} values, its first one of {length:,}; "
            "give lists of one length"
        )
    values = np.full((len(column), length), np.nan, np.float32)
    values[np.asarray(column.is_valid())] = _numbers(column.flatten()).reshape(-1, length)
    return values


def to_labels(column: pa.Array) -> Labels:
    """`(row,)` label values: numbers if all are, else object with None where missing; of lists
    tuples of them.

    Text is parsed value by distinct value, so that "1", "1.0" and 1 are the same label.
    """
    if is_list(column.type):
        return _sets(column)
    coded = column if types.is_dictionary(column.type) else decoded(column).dictionary_encode()
    values: list[Label | None] = [label_value(raw) for raw in plain_values(coded.dictionary)]
    if coded.indices.null_count:
        values.append(None)
    return label_array(values).take(np.asarray(coded.indices.fill_null(len(values) - 1)))


def _sets(column: pa.Array) -> Labels:
    """`(row,)` tuples of the label values in the lists of a column."""
    ends = np.cumsum(pc.list_value_length(column).fill_null(0)).tolist()
    values = to_labels(column.flatten()).tolist()
    sets = (tuple(values[a:b]) for a, b in zip([0, *ends], ends, strict=False))
    return np.fromiter(sets, object, len(ends))


def is_list(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type hold lists."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type can be features."""
    kind = plain_type(kind)
    exact = types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    return bool(exact or types.is_floating(kind) or types.is_null(kind))


def is_embedding(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type hold lists of numbers."""
    if not is_list(kind):
        return False
    return is_number(kind.value_type) and not types.is_dictionary(kind.value_type)


def check_group_type(where: str, name: str, kind: pa.DataType, option: str = "--by") -> None:
    """Raise `InputError` unless columns of this Arrow type can say whose label each is, or which
    rows belong together."""
    kind = plain_type(kind)
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(
            f"{where}: {option} {name!r} is {kind}; groups are text, whole numbers, booleans or "
            "dates"
        )


def check_label_type(where: str, name: str, kind: pa.DataType) -> None:
    """Raise `InputError` unless columns of this Arrow type can be labels, or lists of them."""
    value = plain_type(kind.value_type if is_list(kind) else kind)
    text = types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)
    if not (text or is_number(value)):
        raise InputError(
            f"{where}: label column {name!r} is {kind}; labels must be numbers, booleans or text, "
            "or lists of them"
        )


@dataclass(frozen=True)
class TableRows(ABC):
    """The rows of one file, as a format of tables reads them."""

    location: SourcePath
    n_rows: int | None
    """Rows of the file; None where only reading tells."""
    selection: Selection = field(default=Selection(), kw_only=True)
    """What is read of it."""

    def begin(self, start: int) -> int:
        """The last row up to `start` that reading can begin at."""
        return 0

    @abstractmethod
    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows from `start` on, which `begin` gave, in batches of any length; `rows` is the
        length wanted."""

    def read(self, start: int, rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows from `start` on, up to `rows` at a time, with the number of the first of each
        batch."""
        first, wanted = self.begin(start), self.selection
        width = len(wanted.columns)
        width = width if wanted.raw else max(width, len(wanted.features))
        size = piece_rows(8 * width, rows)
        for stored in self.batches(first, size):
            batch = self.selection.complete(stored)
            for at in range(max(0, start - first), batch.num_rows, size):
                yield first + at, batch.slice(at, size)
            first += batch.num_rows


@dataclass(frozen=True)
class Look:
    """The columns of one file, before any of them are selected."""

    table: TableRows
    names: tuple[str, ...]
    """Columns in file order."""
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Type by column, where the file says, and names occur once; others are text, which is read as
    what is wanted."""
    hint: str = ""
    """What may be wrong where the columns are not as wanted."""
    constants: Constants = field(default_factory=dict)

    @classmethod
    def of(cls, table: TableRows, schema: pa.Schema) -> "Look":
        """The columns of a file that has a schema of Arrow's, without the row index that pandas
        adds by itself."""
        problem = "its pandas metadata are not as pandas writes them"
        with readable(table.location.name, problem, "write it again"):
            pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
            index = {name for name in pandas.get("index_columns", []) if isinstance(name, str)}
        unnamed = {name for name in index if name.startswith("__index_level_")}
        names = tuple(name for name in schema.names if name not in unnamed)
        twice = len(set(names)) < len(names)
        return cls(table, names, {} if twice else {n: schema.field(n).type for n in names})

    def given(self, constants: Constants) -> "Look":
        """The same with the columns that its path gives."""
        kinds = {
            n: pa.string() if isinstance(v, str) else pa.float64() for n, v in constants.items()
        }
        names = (*self.names, *kinds)
        return replace(self, kinds={**self.kinds, **kinds}, names=names, constants=constants)

    def first(self, name: str) -> tuple[int, Any]:
        """The first value that is there of a column, and its row; None where there is none."""
        if name in self.constants:
            return 0, self.constants[name]
        alone = replace(self.table, selection=Selection((Feature(name),), raw=True))
        for start, batch in alone.read(0, _FEW):
            for row in np.flatnonzero(batch.column(name).is_valid())[:1].tolist():
                return start + row, plain_values(batch.column(name)[row : row + 1])[0]
        return 0, None

    def expanded(self, request: Request) -> dict[str, Feature]:
        """Where each name that a feature can have lies: a list of numbers has one for each place,
        a column that is encoded one for each category. Lists of candidates are no features.

        Names that occur twice are left for the choice of columns to refuse.
        """
        features: dict[str, Feature] = {}
        categories = request.coding.categories
        for name in self.names:
            if name in categories:
                values = categories[name]
                features |= {f"{name}={value}": Feature(name, category=value) for value in values}
                continue
            kind = None if name in (request.label, request.ignore) else self.kinds.get(name)
            length = 0
            if kind is not None and is_embedding(kind):  # as the first list has, if not the type
                fixed = types.is_fixed_size_list(kind)
                length = int(kind.list_size) if fixed else len(self.first(name)[1] or ())
            if length:
                features |= {f"{name}[{i}]": Feature(name, i, length) for i in range(length)}
            else:
                spelling = request.coding.spelling(name, request.dialect.decimal)
                features[name] = Feature(name, spelling=spelling)
        return features

    def check(self, wanted: Selection) -> None:
        """Raise `InputError` unless the columns can be features, label, ids and groups."""
        for feature in wanted.features:
            kind = self.kinds.get(feature.column)
            plain = feature == Feature(feature.column)
            if kind is not None and plain and not is_number(kind):
                row, value = self.first(feature.column)
                hint = column_hint(value, feature.column, wanted.use)
                raise InputError(
                    f"{self.table.location.name}: feature column {feature.column!r} is {kind}, not "
                    f"numeric: {shown(value)} at row {row}; {hint}"
                )
        for column, check in (
            (wanted.label, check_label_type),
            (wanted.beside.id, check_id_type),
            (wanted.beside.group, check_group_type),
            (wanted.beside.together, partial(check_group_type, option="--together")),
        ):
            if column is not None and (kind := self.kinds.get(column)) is not None:
                check(self.table.location.name, column, kind)


_PIECE = 1 << 16
_FEW = 1024
"""Rows at a time in which the first value of a column is sought."""


@dataclass(frozen=True)
class TablesReader:
    """The rows of several tables, one table after the other."""

    tables: tuple[TableRows, ...]

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.tables[0].selection.features

    def of_ids(self) -> "TablesReader":
        """The same rows with nothing but their ids."""
        ids = Beside(self.tables[0].selection.beside.id)
        return self._selecting(features=(), label=None, beside=ids)

    def verbatim(self) -> "TablesReader":
        """The same rows, in whose text nothing stands for a gap."""
        return self._selecting(verbatim=True)

    def _selecting(self, **changed: Any) -> "TablesReader":
        tables = (replace(t, selection=replace(t.selection, **changed)) for t in self.tables)
        return TablesReader(tuple(tables))

    def blocks(self, start: int, rows: int) -> Iterator[Chunk]:
        for table, first, batch in self._batches(start, rows):
            where = table.location.name
            with readable(where):
                block = table.selection.block(batch, where, first)
            yield block

    def cells(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The same rows as they are stored."""
        return (batch for _, _, batch in self._batches(start, rows))

    def _batches(self, start: int, rows: int) -> Iterator[tuple[TableRows, int, pa.RecordBatch]]:
        """Batches with their table and the number of their first row in it; tables before `start`
        are not read where their rows are known."""
        for number, table in enumerate(self.tables):
            if table.n_rows is not None and start >= table.n_rows:
                start -= table.n_rows
                continue
            with readable(table.location.name):
                known, stop = table.n_rows is not None or number == len(self.tables) - 1, 0
                for first, batch in table.read(start if known else 0, rows):
                    stop, at = first + batch.num_rows, max(start, first)
                    if at < stop:
                        yield table, at, batch.slice(at - first)
                start = 0 if known else max(0, start - stop)


def batches(table: Source) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The cells of a table as they are stored, and the number of the first line of each batch."""
    assert isinstance(table.reader, TablesReader)
    first = 0
    with readable(table.files[0]):
        for batch in table.reader.cells(0, _PIECE):
            yield first, batch
            first += batch.num_rows


def open_tables(
    kind: str,
    look: Callable[[SourcePath, Request], Look],
    files: Mapping[SourcePath, Constants],
    request: Request,
    root: SourcePath,
) -> Source:
    """Tables with the same columns, in the order given.

    files : and the columns that their path gives
    root : what the user named

    Raises `InputError` where they have other columns than the first that has rows, or not those
    wanted.
    """
    looks = (look(location, request).given(constants) for location, constants in files.items())
    first = next((there for there in looks if there.table.n_rows != 0), None)
    if first is None:
        raise InputError(f"{root.name}: no rows; give at least one")
    places = first.expanded(request)
    names, label, beside = _chosen(first, places, request)
    _check_parse(first.table.location.name, first.names, request)
    features = tuple(places[name] for name in names)
    tables: list[TableRows] = []
    for number, (location, constants) in enumerate(files.items()):
        there = first
        if location != first.table.location:
            there = look(location, request).given(constants)
        if set(there.names) != set(first.names):
            raise InputError(
                f"{there.table.location.name}: columns {listed(there.names)} are not those of "
                f"{first.table.location.name}: {listed(first.names)}; give files of one table"
            )
        selection = Selection(features, label, number, constants, beside, request.raw, request.use)
        if not request.raw:
            there.check(selection)
        tables.append(replace(there.table, selection=selection))
    known = [table.n_rows for table in tables]
    n_rows = None if None in known else sum(filter(None, known))
    label_kind = None if label is None else first.kinds.get(label)
    return Source(
        kind=kind,
        files=tuple(location.name for location in files),
        feature_names=names,
        label_name=label,
        n_rows=n_rows,
        parts=tuple(FileOfSource("features", file.inside(root), file) for file in files),
        reader=TablesReader(tuple(tables)),
        beside=beside,
        candidates="" if label_kind is not None and is_list(label_kind) else None,
    )


def _chosen(
    look: Look, places: Mapping[str, Feature], request: Request
) -> tuple[tuple[str, ...], str | None, Beside]:
    """Feature names in the order wanted, the column of labels, and those beside."""
    twice = len(set(look.names)) < len(look.names)
    try:
        names = list(look.names if twice else places)
        return choose_columns(look.table.location.name, names, request)
    except InputError as error:
        if not look.hint:
            raise
        raise InputError(f"{error}{look.hint}") from error


def _check_parse(where: str, names: tuple[str, ...], request: Request) -> None:
    """`InputError` where nothing is to be parsed that was asked for."""
    for pattern, kind in request.coding.parse.items():
        if request.features is None and not any(matches(name, pattern) for name in names):
            raise InputError(
                f"{where}: --parse {pattern}={kind} matches no column; columns are {listed(names)}"
            )
