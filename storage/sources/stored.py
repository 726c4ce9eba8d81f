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
from storage.sources.values.texts import WHOLE, decoded, plain_type

_PLAIN_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_KINDS = (WHOLE, pa.int64()), (_PLAIN_NUMBER, pa.float64()), ("", pa.string())
"""What all text of a column matches, and its type then; each holds those before."""
_ROWS = 1 << 14


def stored_schema(source: Source) -> pa.Schema:
    """The columns of a source opened as `raw`, and their types; reads all of a text file.

    Categories become what they stand for. Text is whole numbers or numbers where all of a column
    is, without leading zeros.
    """
    if not isinstance(source.reader, TablesReader):
        kind = pa.from_numpy_dtype(next(source.reader.blocks(0, 1)).x.dtype)
        return pa.schema([(name, kind) for name in source.feature_names])
    kinds: dict[str, int] = {}
    for _, batch in batches(source):
        if source.format.content != "texts":
            return pa.schema([(field.name, plain_type(field.type)) for field in batch.schema])
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count < len(column):
                kinds[name] = _kind(_point(column, source), kinds.get(name, 0))
    return pa.schema([(name, _KINDS[kinds.get(name, -1)][1]) for name in batch.schema.names])


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
    for first, batch in batches(source):
        columns = []
        for field in schema:
            column = decoded(batch.column(field.name))
            if types.is_floating(field.type) and types.is_string(column.type):
                column = _point(column, source)
            try:
                columns.append(column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InputError(
                    f"{source.files[0]}: column {field.name!r} is {field.type} there, and "
                    f"{column.type} from row {first:,} on; give files of one type"
                ) from error
        yield first, pa.Table.from_arrays(columns, schema=schema)


def as_stored(source: Source) -> Source:
    """A source whose arrays are read with the type that they are stored in."""
    return replace(source, reader=_unrounded(source.reader))


def _unrounded(reader: Reader) -> Reader:
    if isinstance(reader, LabeledReader):
        return replace(reader, features=_unrounded(reader.features))
    if isinstance(reader, ArrayReader):
        return replace(reader, dtype=widened(np.empty(0, reader.array.dtype)).dtype)
    return reader


def _point(column: pa.Array, source: Source) -> pa.Array:
    """Text with a decimal point."""
    mark = source.dialect.decimal
    return column if mark == "." else pc.replace_substring(column, mark, ".")


def _kind(text: pa.Array, least: int) -> int:
    """Place of the first of `_KINDS`, from `least` on, that text is of."""
    pairs = enumerate(_KINDS[least:-1], least)
    fits = (at for at, (p, _) in pairs if pc.all(pc.match_substring_regex(text, p)).as_py())
    return next(fits, len(_KINDS) - 1)
