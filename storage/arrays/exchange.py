"""The one way rows move between parts: a sorted-run shuffle.

A producer writes its rows as one run, sorted by destination, and returns a table of counts; a
consumer reads its own slice of every run that has rows for it. A run is one file of packed records,
so that a slice costs one read however many columns the rows have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from storage.arrays.groups import Arrays, undamaged
from storage.errors import StorageError
from storage.files.durable import look_before_writing, seal, unseal
from storage.files.location import Location

RUN_BYTES = 128 << 20
"""Target size of one run: producers are made about this large."""

_CHUNK_BYTES = (64 << 10, 4 << 20)
"""Least and most that has a checksum of its own."""
_LENGTH = 4
"""Bytes that say how long the head is."""
_HEAD_BYTES = 32 << 10
"""Read at first, which is the head of a run, and all of a small one."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows `start` to `stop` of the run that `producer` wrote."""

    producer: str
    start: int
    stop: int


@dataclass(frozen=True)
class _Head:
    """What a run begins with."""

    record: np.dtype[np.void]
    rows: int
    chunk: int
    """Rows that have a checksum of their own."""
    checksums: list[int]

    @classmethod
    def of(cls, about: Mapping[str, Any] | None) -> "_Head":
        """As it was written; ValueError for anything else."""
        try:
            fields = dict(about or {})
            record = [(name, kind, *map(tuple, shape)) for name, kind, *shape in fields["record"]]
            rows, chunk = int(fields["rows"]), max(1, int(fields["chunk"]))
            return cls(np.dtype(record), rows, chunk, list(fields["checksums"]))
        except (TypeError, LookupError) as error:
            raise ValueError("its head is not as it was written") from error


@dataclass(frozen=True)
class Exchange:
    """Runs `scratch.zarr/<name>/<producer>.run`."""

    location: Location
    name: str

    def key(self, producer: str) -> str:
        return f"scratch.zarr/{self.name}/{producer}.run"

    def send(
        self,
        producer: str,
        destination: npt.NDArray[np.integer[Any]],
        n_destinations: int,
        columns: Mapping[str, npt.NDArray[Any]],
    ) -> list[tuple[int, int]]:
        """Write one run; rows of one destination keep the order they are given in.

        Parameters
        ----------
        destination : (row,) integers in [0, n_destinations)
        columns : arrays of first dimension `row`, any further dimensions

        Returns
        -------
        sent : [destination, rows] of each destination that any rows are for, ascending: the run has
            them in this order. A table of all destinations would be as long for each producer, and
            thousands of producers have thousands of destinations.
        """
        if len(destination) and not 0 <= destination.min() <= destination.max() < n_destinations:
            raise ValueError(f"destinations outside 0..{n_destinations - 1}")
        order = np.argsort(destination, kind="stable")
        counts = np.bincount(destination.astype(np.intp, copy=False), minlength=n_destinations)
        record = [(name, value.dtype.str, value.shape[1:]) for name, value in columns.items()]
        packed = np.empty(len(destination), np.dtype(record))
        for name, value in columns.items():
            packed[name] = value[order]
        self._write(producer, packed, n_destinations)
        return [(int(d), int(counts[d])) for d in np.flatnonzero(counts)]

    def _write(self, producer: str, packed: npt.NDArray[np.void], n_destinations: int) -> None:
        """Write the length of the head, the head, and the rows."""
        look_before_writing()
        size = packed.dtype.itemsize
        quarter = packed.nbytes // max(1, 4 * n_destinations)  # of a slice: little is read beyond
        rows = max(1, int(np.clip(quarter, *_CHUNK_BYTES)) // max(1, size))
        content = packed.view(np.uint8).reshape(len(packed), size)
        chunks = [content[a : a + rows].reshape(-1) for a in range(0, len(packed), rows)]
        checksums = [google_crc32c.value(chunk) for chunk in chunks]
        head = _Head(packed.dtype, len(packed), rows, checksums)
        about = seal({**vars(head), "record": packed.dtype.descr})
        pieces = [len(about).to_bytes(_LENGTH, "little"), about, *(chunk.data for chunk in chunks)]
        self.location.write(self.key(producer), pieces, synced=False)

    def receive(self, slices: Iterable[Slice]) -> Arrays:
        """The rows of some slices, one slice after the other, as contiguous columns.

        Raises `StorageError` where a chunk is missing or damaged, a slice ends beyond its run, or
        there is none at all.
        """
        pieces = [self._read(part) for part in slices]
        if not pieces:
            raise StorageError(f"exchange {self.name}: nothing to receive")
        names = pieces[0].dtype.names or ()
        return {name: np.concatenate([rows[name] for rows in pieces]) for name in names}

    def _read(self, part: Slice) -> npt.NDArray[np.void]:
        key = self.key(part.producer)
        with undamaged(self.location.path(key)):
            begin = self._bytes(key, 0, _HEAD_BYTES)
            end = _LENGTH + int.from_bytes(begin[:_LENGTH], "little")
            about = (begin if end <= len(begin) else self._bytes(key, 0, end))[_LENGTH:end]
            head = _Head.of(unseal(about))
            if not 0 <= part.start <= part.stop <= head.rows:
                raise ValueError(f"it has no rows {part.start} to {part.stop}")
            first, last = part.start // head.chunk, -(-part.stop // head.chunk)
            rows = first * head.chunk, min(last * head.chunk, head.rows)
            where = [end + head.record.itemsize * row for row in rows]
            whole = where[1] <= max(where[0], len(begin))  # and nothing is left to read
            content = begin[slice(*where)] if whole else self._bytes(key, *where)
            packed = np.frombuffer(content, head.record)
            for number in range(first, last):
                chunk = packed[(number - first) * head.chunk :][: head.chunk]
                checksum = google_crc32c.value(chunk.view(np.uint8))
                if head.checksums[number : number + 1] != [checksum]:
                    raise ValueError(f"chunk {number} is not as it was written")
        return packed[part.start - rows[0] : part.stop - rows[0]]

    def _bytes(self, key: str, start: int, stop: int) -> bytes:
        content = self.location.read(key, start, stop)
        if content is None:
            where = self.location.path(key)
            raise StorageError(f"{where} is missing; run train again to repair")
        return content
