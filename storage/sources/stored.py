"""A source as it is stored, before anything is read as features: all its rows with the types of
their columns."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.blocks import Reader
from storage.sources.formats.arrays import ArrayReader, LabeledReader, widened
from storage.sources.formats.tables import TablesReader, batches
from storage.sources.values.texts import decoded, plain_type, pointed, present

_PATTERNS = (
    "^(0|-?[1-9][0-9]{0,14})$",  # what int64 and float64 hold
    "^(0|-?[1-9][0-9]{0,17}|-?[1-8][0-9]{18})$",  # what int64 holds
    r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]+)?$",  # what float64 holds
    "^(true|false)$",
    "",
)
_TEXT = {*range(len(_PATTERNS))}
_TYPES = ({0, 1}, pa.int64()), ({0, 2}, pa.float64()), ({3}, pa.bool_()), (_TEXT, pa.string())
"""The type of a column all of whose text is of such patterns, none of it rounded."""
_DIGITS = 17
"""Significant digits by which float64 is written; those of a text of more are lost."""
_ROWS = 1 << 14
_BYTES = 1 << 25
"""Of the batches that are taken together, about."""


def stored_schema(source: Source) -> pa.Schema:
    """The columns of a source opened as `raw`, and their types; reads all of a text file.

    Categories become what they stand for. Text is truth values, whole numbers or numbers where all
    of a column is, without leading zeros, and stays text where that would round it.
    """
    if not isinstance(source.reader, TablesReader):
        kind = pa.from_numpy_dtype(next(source.reader.blocks(0, 1)).x.dtype)
        return pa.schema([(name, kind) for name in source.feature_names])
    if source.format.content != "texts":
        _, first = next(batches(source))
        return pa.schema([(field.name, plain_type(field.type)) for field in first.schema])
    kinds: dict[str, set[int]] = {}
    for _, batch in _together(source):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            column = _values(column, source)
            if column.null_count < len(column):
                kinds.setdefault(name, set()).add(_kind(column))
    patterns = [(name, kinds.get(name, _TEXT)) for name in batch.schema.names]
    return pa.schema([(n, next(kind for of, kind in _TYPES if own <= of)) for n, own in patterns])


def stored_cells(source: Source, schema: pa.Schema) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a source opened as `raw`, with the columns of its `stored_schema`, and the number
    of the first row of each table.

    Raises `InputError` where the files of a source have other types than the first.
    """
    if not isinstance(source.reader, TablesReader):
        first = 0
        for block in source.reader.blocks(0, _ROWS):
            columns = [pa.array(column) for column in block.x.T]
            yield first, pa.Table.from_arrays(columns, schema.names).cast(schema)
            first += len(block.x)
        return
    for first, batch in _together(source):
        columns = []
        for field in schema:
            column = decoded(batch.column(field.name))
            if source.format.content == "texts" and field.type != pa.string():
                column = _values(column, source)
            try:
                columns.append(_as_first(column, field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InputError(
                    f"{source.files[0]}: column {field.name!r} is {field.type} there, and "
                    f"{column.type} from row {first:,} on; give files of one type"
                ) from error
        yield first, pa.Table.from_arrays(columns, schema=schema)


def _as_first(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column with the type that it has in the first file; raises `ArrowInvalid` where numbers
    would become others, of which Arrow alone lets fractions become booleans or be rounded."""
    made = column.cast(kind)
    if column.type in (pa.float32(), pa.float64()) and kind != column.type:
        is_other = pc.not_equal(made.cast(column.type), column)
        if pc.any(pc.and_(is_other, pc.is_finite(column))).as_py():
            raise pa.ArrowInvalid("numbers are rounded")
    return made


def _together(source: Source) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a table, of few rows each where these are wide, several as one: what is done
    with a column takes about as long for a thousand rows as for ten."""
    first, n_bytes, pieces = 0, 0, list[pa.RecordBatch]()
    for at, batch in batches(source):
        if pieces and (n_bytes > _BYTES or batch.schema != pieces[0].schema):
            yield first, pa.concat_batches(pieces)
            first, n_bytes, pieces = at, 0, []
        pieces.append(batch)
        n_bytes += batch.nbytes
    if pieces:
        yield first, pa.concat_batches(pieces)


def as_stored(source: Source) -> Source:
    """A source whose arrays are read with the type that they are stored in, and text as it is."""
    return replace(source, reader=_unrounded(source.reader))


def _unrounded(reader: Reader) -> Reader:
    if isinstance(reader, LabeledReader):
        return replace(reader, features=_unrounded(reader.features))
    if isinstance(reader, TablesReader):
        return reader.verbatim()
    if isinstance(reader, ArrayReader):
        kind = widened(np.empty(0, reader.array.dtype)).dtype
        kind = np.dtype(np.float64) if kind == np.longdouble else kind  # Arrow has none wider
        return replace(reader, dtype=kind.newbyteorder("="))
    return reader


def _values(column: pa.Array, source: Source) -> pa.Array:
    """A column of text, gaps null, with a decimal point; numbers that a path gives as they are."""
    if types.is_floating(column.type):
        return column
    return pointed(present(column), source.dialect.decimal, alone=source.kind == "csv")


def _kind(column: pa.Array) -> int:
    """Place of the first of `_PATTERNS` that all text of a column is of, or its numbers."""
    text = column if types.is_string(column.type) else column.cast(pa.string())
    are = (pc.all(pc.match_substring_regex(text, pattern)).as_py() for pattern in _PATTERNS)
    at = next(at for at, fits in enumerate(are) if fits)
    return len(_PATTERNS) - 1 if at == 2 and _digits(text) > _DIGITS else at


def _digits(text: pa.Array) -> int:
    """Significant digits of numbers at most."""
    bare = pc.replace_substring_regex(text, r"[eE].*$|[-.]", "")
    return int(pc.max(pc.utf8_length(pc.utf8_trim(bare, "0"))).as_py())
