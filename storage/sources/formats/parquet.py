"""Parquet files."""

import io
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from storage.errors import InputError
from storage.sources.blocks import PIECE_BYTES
from storage.sources.files import SourcePath, readable
from storage.sources.formats.tables import Look, TableRows

FOOTER_BYTES = 32 << 20
"""Longest footer that is read; it takes some ten times as much memory."""
BUFFER_BYTES = 64 << 20
"""Bytes fetched ahead, over all columns; small requests are slow on object stores."""


@dataclass(frozen=True)
class ParquetTable(TableRows):
    """Rows of one file."""

    groups: tuple[int, ...]
    """Number of rows of each row group."""
    texts: tuple[str, ...]
    """Columns of text."""

    def _group(self, row: int) -> int:
        return int(np.searchsorted(np.cumsum(self.groups), row, side="right"))

    def begin(self, start: int) -> int:
        return sum(self.groups[: self._group(start)])

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        groups, columns = range(self._group(start), len(self.groups)), self.selection.columns
        texts = [name for name in columns if name in self.texts]
        with _opened(self.location, len(columns), texts) as parquet:
            for batch in parquet.iter_batches(rows, row_groups=[*groups], columns=columns):
                yield from _written_out(batch)


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _written_out(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch with coded texts written out, in pieces: a code may stand for a megabyte."""
    size, coded = np.zeros(batch.num_rows, np.int64), []
    for at, column in enumerate(batch.columns):
        if types.is_dictionary(column.type) and _is_text(column.type.value_type):
            coded.append(at)
            length = pc.binary_length(column.dictionary).fill_null(0).to_numpy(False)
            size += np.append(length, 0)[column.indices.fill_null(len(length)).to_numpy(False)]
    first = np.flatnonzero(np.diff(np.cumsum(size) // PIECE_BYTES, prepend=-1)).tolist()
    for start, stop in zip(first, [*first[1:], batch.num_rows], strict=True):
        piece = batch.slice(start, stop - start)
        for at in coded:
            text = piece.column(at).dictionary_decode()
            piece = piece.set_column(at, batch.schema.names[at], text)
        yield piece


@contextmanager
def _opened(
    location: SourcePath, columns: int = 1, coded: Sequence[str] = ()
) -> Iterator[pq.ParquetFile]:
    """Read column chunks through buffers of `BUFFER_BYTES` in all, never whole, and some columns of
    text as codes."""
    buffer = min(max(BUFFER_BYTES // max(1, columns), 64 << 10), 4 << 20)
    with (
        readable(location.name),
        location.open(cache_type="none") as file,
        pq.ParquetFile(
            file, buffer_size=buffer, pre_buffer=False, read_dictionary=list(coded)
        ) as parquet,
    ):
        yield parquet


def look(location: SourcePath, *_: Any) -> Look:
    """What a file says it holds."""
    with readable(location.name), location.open(cache_type="none") as file:
        _check_footer(location.name, file)
    with _opened(location) as parquet:
        meta = parquet.metadata
        groups = tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
        schema = parquet.schema_arrow
    texts = tuple(field.name for field in schema if _is_text(field.type))
    return Look.of(ParquetTable(location, sum(groups), groups, texts), schema)


def _check_footer(where: str, file: IO[bytes]) -> None:
    """`InputError` if the footer says to be longer than `FOOTER_BYTES`."""
    file.seek(-8, io.SEEK_END)
    length, mark = struct.unpack("<I4s", file.read(8))
    if mark == b"PAR1" and length > FOOTER_BYTES:
        raise InputError(
            f"{where}: its footer has {length:,} bytes, at most {FOOTER_BYTES:,} are read; write "
            "larger row groups or fewer columns"
        )
