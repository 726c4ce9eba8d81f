"""Arrow record batches as float32 features and label values."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from storage.errors import InputError
from storage.sources.blocks import Block, Floats
from storage.sources.ids import text_ids
from storage.sources.labels import Label, Labels, label_array, label_value
from storage.sources.paths import shown
from storage.sources.texts import Spelling, plain_texts


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

    features: tuple[Feature, ...]
    label: str | None
    file: int = 0
    """Number of the file among those of the source."""
    constants: tuple[tuple[str, str | float | None], ...] = ()
    """Columns that the path of the file gives, with their value."""
    id: str | None = None
    raw: tuple[str, ...] = ()
    """Further columns to be read as they are stored."""
    group: str | None = None
    """Column that says whose label each is."""

    @property
    def coded(self) -> set[str]:
        """The columns of text that are encoded or parsed."""
        return {f.column for f in self.features if f.category is not None or f.spelling is not None}

    @property
    def texts(self) -> set[str]:
        """Columns that a format without types reads as text."""
        return {name for name in (*self.aside, *self.coded) if name is not None}

    @property
    def aside(self) -> tuple[str | None, ...]:
        """What is read besides features."""
        return self.label, self.id, self.group, *self.raw

    @property
    def columns(self) -> list[str]:
        """The stored columns that are read, each once."""
        given = {name for name, _ in self.constants}
        names = [feature.column for feature in self.features]
        names += [name for name in self.aside if name is not None]
        return [name for name in dict.fromkeys(names) if name not in given]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch with the columns that the path of its file gives, as far as they are read."""
        used = {*(feature.column for feature in self.features), *self.aside}
        for name, value in self.constants:
            if name in used:
                scalar = pa.scalar(value, pa.string() if isinstance(value, str) else pa.float64())
                batch = batch.append_column(name, pa.repeat(scalar, batch.num_rows))
        return batch

    def block(self, batch: pa.RecordBatch, where: str, start: int = 0) -> Block:
        """One batch as a block; for messages, `where` is the file and `start` the first row."""
        batch = self.complete(batch)
        source_id = np.full(batch.num_rows, self.file, np.int32)
        raw = None if self.label is None else to_labels(batch.column(self.label))
        ids = None if self.id is None else text_ids(batch.column(self.id), where)
        group = None if self.group is None else to_labels(batch.column(self.group))
        x = to_floats(batch, self.features, where, start)
        return Block(x, raw, source_id, ids, group=group)


def to_floats(
    batch: pa.RecordBatch, features: tuple[Feature, ...], where: str, start: int = 0
) -> Floats:
    """Features as `(row, feature)` float32, C order; nulls are NaN, overflow infinite."""
    x = np.empty((batch.num_rows, len(features)), np.float32)
    lists: dict[str, Floats] = {}
    texts: dict[str, pa.Array] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for position, (name, place, length, category, spelling) in enumerate(features):
            if spelling is not None:
                x[:, position] = _parsed(batch.column(name), spelling, name, where, start)
                continue
            if category is not None:
                if name not in texts:
                    texts[name] = plain_texts(batch.column(name))
                equal = pc.equal(texts[name], category).fill_null(False)
                x[:, position] = equal.to_numpy(zero_copy_only=False)
                continue
            if place is None:
                x[:, position] = _numbers(batch.column(name))
                continue
            if name not in lists:
                lists[name] = list_values(batch.column(name), length, f"{where}: column {name!r}")
            x[:, position] = lists[name][:, place]
    return x


def _parsed(
    column: pa.Array, spelling: Spelling, name: str, where: str, start: int
) -> npt.NDArray[np.float64]:
    """Numbers of a column of text; `InputError` for the first text that is none."""
    text = plain_texts(column)
    numbers, bad = spelling.read(text)
    if bad is not None:
        raise InputError(
            f"{where}: row {start + bad} (from 0), column {name!r}: {shown(text[bad].as_py())} is "
            f"not to be read as --parse {name}={spelling.kind} says; correct it, or give --exclude "
            f"{name}"
        )
    return numbers


def _numbers(column: pa.Array) -> np.ndarray:
    if not types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values


def list_values(column: pa.Array, length: int, where: str) -> Floats:
    """`(row, length)` values of a column of lists; a row without a list is NaN.

    Raises `InputError` for lists of another length.
    """
    lengths = pc.list_value_length(column).fill_null(length).to_numpy(zero_copy_only=False)
    if (lengths != length).any():
        other = int(lengths[lengths != length][0])
        raise InputError(
            f"{where} has a list of {other:,} values, its first row one of {length:,}; "
            "give lists of one length"
        )
    there = column.is_valid().to_numpy(zero_copy_only=False)
    found = np.full((len(column), length), np.nan, np.float32)
    found[there] = _numbers(column.flatten()).reshape(-1, length)
    return found


def to_labels(column: pa.Array) -> Labels:
    """`(row,)` label values: numbers if all are, else object with None where missing; of lists
    tuples of them.

    Text is parsed value by distinct value, so that "1", "1.0" and 1 are the same label.
    """
    if is_list(column.type):
        return _sets(column)
    coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    values: list[Label | None] = [label_value(raw) for raw in coded.dictionary.to_pylist()]
    if coded.indices.null_count:
        values.append(None)
    places = coded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
    labels: Labels = label_array(values)[places]
    return labels


def _sets(column: pa.Array) -> Labels:
    """`(row,)` tuples of the label values in the lists of a column."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths).tolist()
    values = to_labels(column.flatten()).tolist()
    sets = (tuple(values[a:b]) for a, b in zip([0, *ends], ends, strict=False))
    return np.fromiter(sets, object, len(ends))


def is_list(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type hold lists."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type can be features."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    exact = types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    return bool(exact or types.is_floating(kind) or types.is_null(kind))


def is_embedding(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type hold lists of numbers."""
    if not is_list(kind):
        return False
    return is_number(kind.value_type) and not types.is_dictionary(kind.value_type)


def check_group_type(where: str, name: str, kind: pa.DataType) -> None:
    """Raise `InputError` unless columns of this Arrow type can say whose label each is."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(
            f"{where}: --by {name!r} is {kind}; groups are text, whole numbers, booleans or dates"
        )


def check_label_type(where: str, name: str, kind: pa.DataType) -> None:
    """Raise `InputError` unless columns of this Arrow type can be labels, or lists of them."""
    value = kind.value_type if is_list(kind) else kind
    if types.is_dictionary(value):
        value = value.value_type
    text = types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)
    if not (text or is_number(value)):
        raise InputError(
            f"{where}: label column {name!r} is {kind}; labels must be numbers, booleans or text, "
            "or lists of them"
        )
