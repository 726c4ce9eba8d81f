"""Groups in source order as Parquet files, streamed."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import StorageError
from storage.groups import array, read_array
from storage.run import Run

_COPY_BYTES = 16 << 20


def write_parquet(
    run: Run,
    path: str,
    target: str,
    columns: tuple[str, ...],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Columns of a group as one Parquet file, a row group a chunk; complete or not there at all.

    metadata : key-value pairs for the file's schema

    Raises
    ------
    StorageError
        the target cannot be written.
    """
    group = run.group(path)
    first = array(group, columns[0])
    schema = pa.schema([(name, pa.from_numpy_dtype(array(group, name).dtype)) for name in columns])
    schema = schema.with_metadata(dict(metadata) if metadata else None)
    try:
        with _whole_file(target) as sink, pq.ParquetWriter(sink, schema) as writer:
            for start in range(0, first.shape[0], first.chunks[0]):
                rows = slice(start, start + first.chunks[0])
                data = {name: read_array(group, name, rows) for name in columns}
                writer.write_table(pa.table(data, schema=schema))
    except (OSError, ValueError) as error:  # ValueError: a protocol that fsspec does not know
        raise StorageError(f"cannot write {target}: {error}") from error


def write_bytes(target: str, content: bytes) -> None:
    """A file anywhere, by path or URL; complete or not there at all.

    Raises
    ------
    StorageError
        the target cannot be written.
    """
    try:
        with _whole_file(target) as sink:
            sink.write(content)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error}") from error


def read_metadata(target: str) -> dict[str, str]:
    """Key-value pairs of a Parquet file's schema; empty where there is no whole Parquet file."""
    try:
        with fsspec.open(target, "rb") as file:
            found = pq.read_schema(file).metadata or {}
    except (OSError, pa.ArrowException):
        return {}
    return {key.decode(): value.decode() for key, value in found.items()}


@contextmanager
def _whole_file(target: str) -> Iterator[Any]:
    if "://" in target:
        with tempfile.TemporaryFile() as staged:  # closing a remote file would publish half of it
            yield staged
            staged.seek(0)
            with fsspec.open(target, "wb") as sink:
                shutil.copyfileobj(staged, sink, _COPY_BYTES)
        return
    final = Path(target)
    final.parent.mkdir(parents=True, exist_ok=True)
    beside = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
    try:
        with beside.open("wb") as sink:
            yield sink
        os.replace(beside, final)
    finally:
        beside.unlink(missing_ok=True)
