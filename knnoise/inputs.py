"""Sources that are in memory, as files for the time of a call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from storage.errors import InputError

BATCH_ROWS = 1 << 16
INDEX = "index"
"""Name of the ids that a data frame's index without a name gives."""


@dataclass(frozen=True)
class Source:
    """A source by path, and what its object says of itself."""

    path: str
    labels: str | None
    id_column: str | None
    """Column made of a data frame's index; None where that only counts the rows."""


@contextmanager
def as_files(source: Any, labels: Any = None) -> Iterator[Source]:
    """A source and its labels by path: a path as it is; a data frame (pandas, polars), an Arrow
    table or record batch reader, an array and anything with an Arrow stream as files that are
    removed afterwards.

    Raises
    ------
    InputError
        neither a path nor one of these.
    """
    with TemporaryDirectory(prefix="knnoise-") as folder:
        path, id_column = _source(source, Path(folder))
        yield Source(path, _labels(labels, Path(folder)), id_column)


def _source(source: Any, folder: Path) -> tuple[str, str | None]:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source), None
    if isinstance(source, np.ndarray):
        np.save(folder / "array.npy", source, allow_pickle=False)
        return str(folder / "array.npy"), None
    table, id_column = _table(source)
    import pyarrow as pa

    target = str(folder / "table.arrow")
    with pa.OSFile(target, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_reader(BATCH_ROWS) if isinstance(table, pa.Table) else table:
            writer.write_batch(batch)
    return target, id_column


def _table(source: Any) -> tuple[Any, str | None]:
    """An Arrow table or reader, and the column of ids."""
    import pyarrow as pa

    if isinstance(source, pa.Table | pa.RecordBatchReader):
        return source, None
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        return _of_pandas(source)
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source), None
    raise InputError(
        f"a source of type {type(source).__name__} cannot be read; give a path, a data frame, an "
        "Arrow table or a NumPy array"
    )


def _of_pandas(frame: Any) -> tuple[Any, str | None]:
    """The table of a data frame; its index names the rows, unless it only counts them."""
    import pandas as pd
    import pyarrow as pa

    counts = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
    id_column = None
    if not counts and not isinstance(frame.index, pd.MultiIndex):
        id_column = str(frame.index.name or INDEX)
        frame = frame.rename_axis(id_column).reset_index()
    with _told("the data frame"):
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        table = pa.Table.from_pandas(frame, preserve_index=False)
    return table.replace_schema_metadata(None), id_column


@contextmanager
def _told(what: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be read as a table: {error}") from error


def _labels(labels: Any, folder: Path) -> str | None:
    if labels is None or isinstance(labels, str | os.PathLike):
        return None if labels is None else os.fspath(labels)
    values = np.asarray(labels)
    if values.dtype.kind == "O":
        values = values.astype(np.str_)
    np.save(folder / "labels.npy", values, allow_pickle=False)
    return str(folder / "labels.npy")
