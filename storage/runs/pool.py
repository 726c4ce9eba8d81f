"""Rows in source order on disk: the training pool, and the queries of a scoring."""

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from storage.arrays.exchange import RUN_BYTES
from storage.arrays.groups import (
    array,
    chunk_rows,
    create_group,
    read_array,
    retype_labels,
)
from storage.files.durable import look_before_writing
from storage.runs.run import Run

_MOST_ROWS = 1 << 19
PARTS = 8
"""Parts, about, that a pool with as many chunks is read in at least; cores share them evenly."""


class ChunkWriter:
    """Writes a group in source order, chunk by chunk, each by one writer and in any order."""

    def __init__(
        self,
        run: Run,
        path: str,
        rows: int,
        n_rows: int | None = None,
        *,
        optional: Iterable[str] = (),
        kind: str | None = None,
        label: npt.DTypeLike = np.int8,
        **sizes: int,
    ) -> None:
        """`kind` of `schema.GROUPS`, by default `path`; `rows` to a chunk; `optional` columns that
        are wanted; `label` the type of label codes; `sizes` of other dimensions.

        `n_rows` None: not known yet; there may then be one writer only, of any threads, and the
        arrays grow.
        A group that is there already is opened, chunks and all.
        """
        self.run, self.path, self.rows, self.grows = run, path, rows, n_rows is None
        self.kind = kind or path
        self._growing = Lock()
        begin = {"row": rows if n_rows is None else n_rows, **sizes}
        self.group, self.arrays = create_group(
            *(run.store, path, self.kind, begin),
            rows_per_chunk=rows,
            optional=optional,
            label=label,
        )

    def chunk(self, number: int, **columns: npt.NDArray[Any]) -> list[str]:
        """Write one chunk of each column given; keys of the files written.

        Chunks are written whole, the last one filled up, so that an older one is never read.
        """
        look_before_writing()
        written = []
        start = number * self.rows
        for name, value in columns.items():
            target = self._array(name, start + self.rows)
            stop = min(start + self.rows, target.shape[0])
            whole = np.full((stop - start, *value.shape[1:]), target.fill_value, target.dtype)
            whole[: len(value)] = value
            target[start:stop] = whole
            tail = "/0" * (value.ndim - 1)
            written.append(f"{self.run.key(self.path)}/{name}/c/{number}{tail}")
        return written

    def _array(self, name: str, n_rows: int) -> zarr.Array[Any]:
        """An array, with room for so many rows if it grows: chunks may be written at once."""
        with self._growing:
            target = self.arrays[name]
            if self.grows and target.shape[0] < n_rows:
                target.resize((max(n_rows, 2 * target.shape[0]), *target.shape[1:]))
        return target

    def finish(
        self, n_rows: int, attributes: dict[str, Any], **columns: npt.NDArray[Any]
    ) -> list[str]:
        """Cut the arrays to their length and write whole columns; keys of the files written.

        Whole columns of labels may be of another type than the arrays were created with.
        """
        look_before_writing()
        for name, value in columns.items():
            if self.arrays[name].dtype != value.dtype:
                self.arrays[name] = retype_labels(self.group, self.kind, name, value.dtype)
        for target in self.arrays.values():
            if target.shape[0] != n_rows:
                target.resize((n_rows, *target.shape[1:]))
        for name, value in columns.items():
            self.arrays[name][...] = value
        self.group.update_attributes(attributes)
        base = self.run.key(self.path)
        metadata = [f"{base}/zarr.json", *(f"{base}/{name}/zarr.json" for name in self.arrays)]
        return [*metadata, *(f"{base}/{name}/c" for name in columns)]


@dataclass(frozen=True)
class Pool:
    """A finished pool."""

    run: Run
    path: str
    n_rows: int
    n_features: int

    @property
    def part_rows(self) -> int:
        """Rows that one part reads: whole chunks of about `RUN_BYTES` of features, fewer where the
        pool would not give `PARTS` of them."""
        chunk = pool_chunk_rows(self.n_features)
        n_chunks = -(-self.n_rows // chunk)
        room = min(RUN_BYTES // (4 * self.n_features), 2 * _MOST_ROWS) // chunk
        return chunk * max(1, min(room, round(n_chunks / PARTS)))

    def parts(self) -> list[slice]:
        step = self.part_rows
        return [slice(a, min(a + step, self.n_rows)) for a in range(0, self.n_rows, step)]

    def part_of(self, row: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(row,) number of the part that holds each row."""
        return row // self.part_rows

    def label_dtype(self) -> np.dtype[Any]:
        return np.dtype(array(self.run.group(self.path), "y").dtype)

    def read(self, name: str, rows: slice) -> npt.NDArray[Any]:
        return read_array(self.run.group(self.path), name, rows)


def pool_chunk_rows(n_features: int) -> int:
    return min(_MOST_ROWS, chunk_rows(4 * n_features))
