"""Dask collections as files: written part by part by whoever computes them, gathered nowhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storage.errors import InputError


@dataclass(frozen=True)
class _Npy:
    """An array in a file, to be written from any process that sees it."""

    path: str

    def __setitem__(self, where: Any, block: np.ndarray) -> None:
        with _reached(self.path):
            stored = np.load(self.path, mmap_mode="r+")
        if stored.dtype.kind == "V":  # bfloat16, which NumPy does not know
            block = np.ascontiguousarray(block).view(stored.dtype)
        stored[where] = block


def write_array(array: Any, target: Path) -> None:
    """A Dask array as an `.npy` file, chunk by chunk.

    Raises
    ------
    InputError
        its length is not known, it holds objects, or those who compute it do not see the file.
    """
    import dask.array as da

    if any(math.isnan(size) for size in array.shape):
        raise InputError("a Dask array of unknown length: call its compute_chunk_sizes() before")
    if array.dtype.hasobject:
        raise InputError(
            "a Dask array of objects: give numbers, and labels that are text as a column of a "
            "data frame"
        )
    np.lib.format.open_memmap(target, mode="w+", dtype=array.dtype, shape=array.shape)
    da.store(array, _Npy(str(target)), lock=False)


def write_frame(frame: Any, folder: Path, id_column: str | None) -> str | None:
    """A Dask data frame as a folder of Arrow files, one for each partition that has rows; the name
    of its index, if it has one and `id_column` is no column.

    Raises
    ------
    InputError
        it has no rows, a partition is no table, or those who compute it do not see the folder.
    """
    import dask

    name = None if id_column in [*frame.columns] else frame.index.name
    folder.mkdir()
    write = dask.delayed(_write_partition)
    parts = enumerate(frame.to_delayed())
    written = (write(part, folder / f"part-{i:06d}.arrow", name is None) for i, part in parts)
    if not any(dask.compute(*written)):
        raise InputError("the Dask data frame has no rows; give at least one")
    return None if name is None else str(name)


def _write_partition(frame: Any, target: Path, counts: bool) -> int:
    """One partition, whose index only `counts` or names its rows; their number."""
    from knnoise.inputs import of_pandas, write_arrow

    if len(frame):
        table, _ = of_pandas(frame.reset_index(drop=True) if counts else frame, None)
        with _reached(str(target)):
            write_arrow(table, target)
    return len(frame)


@contextmanager
def _reached(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"a worker that computes the collection cannot write {target} ({error}); set TMPDIR to "
            "a folder that all workers and this process see, or write the collection to Parquet "
            "and give its path"
        ) from error
