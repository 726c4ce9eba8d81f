"""Arrow IPC: files (Feather, version 2, and `.arrow`) and streams."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from storage.errors import InputError
from storage.sources.files import SourcePath, readable
from storage.sources.formats.tables import Look, TableRows, is_list

BATCH_BYTES = 512 << 20
"""Largest batch that is read, as far as its columns are numbers."""


@dataclass(frozen=True)
class ArrowTable(TableRows):
    """Rows of one file; a stored batch is read at a time."""

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        return _batches(self.location, self.selection.columns)


_STREAM, _END = b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\0\0\0\0"
"""How a stream begins and ends."""


@contextmanager
def _opened(
    location: SourcePath, columns: list[str] | None = None
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The schema and the batches, of some columns or all."""
    with readable(location.name), location.open() as file:
        is_stream = file.read(len(_STREAM)) == _STREAM
        if is_stream:
            file.seek(-len(_END), os.SEEK_END)
            if file.read() != _END:
                raise InputError(f"{location.name}: the stream has no end; was it written whole?")
        open_ = pa.ipc.open_stream if is_stream else pa.ipc.open_file
        file.seek(0)
        fields = None
        if columns is not None:
            with open_(pa.PythonFile(file, mode="r")) as whole:
                fields = sorted(whole.schema.get_field_index(name) for name in columns)
            file.seek(0)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        with open_(pa.PythonFile(file, mode="r"), options=options) as reader:
            numbers = () if is_stream else range(reader.num_record_batches)
            yield reader.schema, reader if is_stream else map(reader.get_batch, numbers)


def _batches(location: SourcePath, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with _opened(location, columns) as (_, batches):
        for batch in batches:
            batch.validate(full=True)  # offsets that lie would end the process
            plain = [_without_views(column) for column in batch.columns]
            yield pa.RecordBatch.from_arrays(plain, names=batch.schema.names)


def _without_views(column: pa.Array) -> pa.Array:
    """Text and bytes as polars writes them, which few functions of Arrow's take, as plain ones."""
    if pa.types.is_dictionary(column.type):
        texts = _without_views(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, texts)
    plain = _plain(column.type)
    return column if plain == column.type else column.cast(plain)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The same type with no views in it."""
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return pa.string() if pa.types.is_string_view(kind) else pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if is_list(kind) and (plain := _plain(kind.value_type)) != kind.value_type:
        fixed = pa.types.is_fixed_size_list(kind)
        return pa.list_(plain, kind.list_size) if fixed else pa.large_list(plain)
    return kind


def look(location: SourcePath, *_: Any) -> Look:
    """What a file says it holds; the batches are counted by their rows alone."""
    with _opened(location) as opened:
        schema = opened[0]
    names = schema.names
    narrow = names[:1] if len(set(names)) == len(names) else []
    rows = [batch.num_rows for batch in _batches(location, narrow)]
    width = 0  # bytes of a row, lists and text counted as one value
    for kind in schema.types:
        fixed = pa.types.is_fixed_size_list(kind)
        inner = kind.value_type if fixed else kind
        size = inner.bit_width // 8 if pa.types.is_primitive(inner) else 8
        width += size * (kind.list_size if fixed else 1)
    n_bytes = max(rows, default=0) * width
    if n_bytes > BATCH_BYTES:
        raise InputError(
            f"{location.name}: batches of {max(rows):,} rows, {n_bytes:,} bytes each; write it "
            "with a smaller chunksize"
        )
    return Look.of(ArrowTable(location, sum(rows)), schema)
