"""The one way rows move between parts: a sorted-run shuffle on Zarr.

A producer writes its rows as one run, sorted by destination, and returns a table of counts; a
consumer reads its own slice of every run that has rows for it. A run is one array of packed
records, so that a slice costs one read however many columns the rows have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import Crc32cCodec

from storage.arrays.groups import Arrays, undamaged
from storage.errors import StorageError
from storage.files.durable import look_before_writing
from storage.files.location import Location

RUN_BYTES = 128 << 20
"""Target size of one run: producers are made about this large."""

_CHUNK_BYTES = (256 << 10, 4 << 20)


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows `start` to `stop` of the run that `producer` wrote."""

    producer: str
    start: int
    stop: int


@dataclass(frozen=True)
class Exchange:
    """Runs below `scratch.zarr/<name>/<producer>`."""

    location: Location
    name: str

    def key(self, producer: str) -> str:
        return f"scratch.zarr/{self.name}/{producer}"

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
        counts = np.bincount(destination, minlength=n_destinations)
        record = [(name, value.dtype.str, value.shape[1:]) for name, value in columns.items()]
        packed = np.empty(len(destination), np.dtype(record))
        for name, value in columns.items():
            packed[name] = value[order]
        self._write(producer, packed, n_destinations)
        return [(int(d), int(counts[d])) for d in np.flatnonzero(counts)]

    def _write(self, producer: str, packed: npt.NDArray[np.void], n_destinations: int) -> None:
        look_before_writing()
        size = packed.dtype.itemsize
        slice_bytes = packed.nbytes // max(1, n_destinations)
        rows = max(1, int(np.clip(slice_bytes, *_CHUNK_BYTES)) // max(1, size))
        run = zarr.create_array(
            self.location.zarr_store(self.key(producer)),
            shape=(len(packed), size),
            chunks=(max(1, min(rows, len(packed))), size),
            dtype="uint8",
            fill_value=0,
            dimension_names=("row", "byte"),
            compressors=[Crc32cCodec()],
            attributes={"record": packed.dtype.descr, "checksum": _checksum(packed.dtype)},
            overwrite=True,
        )
        if len(packed):
            run[...] = packed.view(np.uint8).reshape(len(packed), size)

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
            run = zarr.open_array(self.location.zarr_store(key, read_only=True), mode="r")
            if "record" not in run.attrs or not 0 <= part.start <= part.stop <= run.shape[0]:
                raise ValueError(f"it has no rows {part.start} to {part.stop}")
            record: Any = run.attrs["record"]
            dtype = np.dtype([(name, kind, *map(tuple, shape)) for name, kind, *shape in record])
            if run.attrs.get("checksum", 0) not in (0, _checksum(dtype)):  # 0: of a version before
                raise ValueError("its columns are not those that were written")
            content = np.ascontiguousarray(np.asarray(run[part.start : part.stop]))
        return content.reshape(-1).view(dtype)


def _checksum(record: np.dtype[np.void]) -> int:
    """Of names and types, which Zarr does not guard as it guards chunks."""
    return int(google_crc32c.value(str(record.descr).encode()))
