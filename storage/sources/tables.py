"""Arrow record batches as float32 features and label values."""

import numpy as np
import pyarrow as pa
from pyarrow import types

from storage.errors import InputError

from .base import Block, Floats, Labels
from .labels import Label, label_array, label_value


def to_block(
    batch: pa.RecordBatch, features: tuple[str, ...], label: str | None, file: int
) -> Block:
    """One batch as a block of the source's file number `file`."""
    source_id = np.full(batch.num_rows, file, np.int32)
    raw = None if label is None else to_labels(batch.column(label))
    return Block(to_floats(batch, features), raw, source_id)


def to_floats(batch: pa.RecordBatch, names: tuple[str, ...]) -> Floats:
    """Columns `names` as `(row, feature)` float32, C order; nulls are NaN, overflow infinite."""
    x = np.empty((batch.num_rows, len(names)), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for position, name in enumerate(names):
            column = batch.column(name)
            if not types.is_floating(column.type):
                column = column.cast(pa.float64(), safe=False)
            x[:, position] = column.to_numpy(zero_copy_only=False)
    return x


def to_labels(column: pa.Array) -> Labels:
    """`(row,)` label values: numbers if all are, else object with None where missing.

    Text is parsed value by distinct value, so that "1", "1.0" and 1 are the same label.
    """
    coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    values: list[Label | None] = [label_value(raw) for raw in coded.dictionary.to_pylist()]
    if coded.indices.null_count:
        values.append(None)
    places = coded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
    labels: Labels = label_array(values)[places]
    return labels


def is_number(kind: pa.DataType) -> bool:
    """Whether columns of this Arrow type can be features."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    exact = types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    return bool(exact or types.is_floating(kind) or types.is_null(kind))


def check_label_type(where: str, name: str, kind: pa.DataType) -> None:
    """Raise `InputError` unless columns of this Arrow type can be labels."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not (text or is_number(kind)):
        raise InputError(
            f"{where}: label column {name!r} is {kind}; labels must be numbers, booleans or text"
        )
