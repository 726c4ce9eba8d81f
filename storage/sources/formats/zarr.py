"""A Zarr group with features `x` (or `X`) and labels `y`, format 2 or 3."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import zarr
from zarr.storage import FsspecStore, LocalStore

from storage.errors import InputError, KnnoiseError
from storage.files.location import StrictStore
from storage.sources.base import Source
from storage.sources.files import FileOfSource, SourcePath, readable
from storage.sources.formats.arrays import ArrayRows, open_arrays
from storage.sources.request import Request

MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
"""Files that make a folder a Zarr node."""
METADATA_BYTES = 8 << 20
"""Longest file of metadata that is read."""
CHUNK_BYTES = 128 << 20
"""Largest chunk, unpacked, that is read."""
BAND_BYTES = 128 << 20
"""Most bytes of whole rows that are decoded at a time."""
_REMEDY = "write it as plain numbers, such as float32"


@dataclass(frozen=True)
class ZarrRows(ArrayRows):
    """One array of a group."""

    location: SourcePath
    """The group."""
    array: str
    chunk_rows: int
    """Rows that are decoded together: those stored together, fewer where these are too wide."""

    def read(self, start: int, rows: int) -> Iterator[np.ndarray]:
        """The rows from `start` on, in pieces that end where stored chunks end."""
        array = _array(self.location, self.array)
        step = self.chunk_rows * max(1, rows // self.chunk_rows)
        while start < self.shape[0]:
            stop = min(start - start % self.chunk_rows + step, self.shape[0])
            problem = f"rows {start} to {stop} cannot be decoded"
            with readable(self.name, problem, "they are damaged, write them again"):
                piece = np.asarray(array[start:stop])
            yield piece
            start = stop


class _WholeStore(StrictStore):
    """The store of a source; writers may leave out chunks that equal the fill value, and nobody can
    tell these from chunks that were lost."""

    def _lost(self, key: str) -> KnnoiseError:
        return InputError(
            f"{self._store}: chunk {key} is missing; if it was left out because it equals the fill "
            "value, write the array again after "
            "zarr.config.set({'array.write_empty_chunks': True}), else restore it"
        )


def _group(location: SourcePath) -> zarr.Group:
    _check_metadata(location)
    remedy = "give a group with arrays x and y"
    with readable(location.name, "not a readable Zarr group", remedy):
        if location.is_local:
            store: LocalStore | FsspecStore = LocalStore(location.path, read_only=True)
        else:
            url = location.fs.unstrip_protocol(location.path)
            store = FsspecStore.from_url(url, read_only=True)
        return zarr.open_group(_WholeStore(store), mode="r")


def _array(location: SourcePath, name: str) -> "zarr.Array[Any]":
    where = f"{location.name}[{name}]"
    _check_metadata(location.child(f"{location.path.rstrip('/')}/{name}"))
    with readable(where, "not a readable array", _REMEDY):
        array = _group(location)[name]
    if not isinstance(array, zarr.Array):
        raise InputError(f"{where}: a group, not an array; give a group with arrays x and y")
    return array


def _rows(location: SourcePath, name: str) -> ZarrRows:
    array, where = _array(location, name), f"{location.name}[{name}]"
    with readable(where, "not a readable array", _REMEDY):
        dtype = np.dtype(array.dtype)
        chunks, shards = array.chunks, array.shards or array.chunks
        if 0 in chunks or 0 in shards:
            raise ValueError(f"its chunks have shape {chunks}")
    if dtype.itemsize * prod(chunks) > CHUNK_BYTES:
        raise InputError(
            f"{where}: chunks of shape {chunks}, {dtype.itemsize * prod(chunks):,} "
            f"bytes each; write smaller ones, of {CHUNK_BYTES:,} bytes at most"
        )
    most = max(1, BAND_BYTES // max(1, dtype.itemsize * prod(array.shape[1:])))
    together = [unit[0] for unit in (shards, chunks) if unit and unit[0] <= most]
    chunk_rows = together[0] if together else most
    return ZarrRows(where, array.shape, dtype, location, name, chunk_rows)


def _check_metadata(node: SourcePath) -> None:
    """`InputError` if the metadata of a group or an array are longer than `METADATA_BYTES`."""
    with readable(node.name):
        for info in node.fs.ls(node.path, detail=True):
            file = node.child(info["name"])
            size = info["size"] or 0
            if file.basename in (*MARKS, ".zattrs") and size > METADATA_BYTES:
                raise InputError(
                    f"{file.name} has {size:,} bytes; metadata have {METADATA_BYTES:,} at most"
                )


def open_zarr(location: SourcePath, request: Request) -> Source:
    """Features `x` and labels `y` (or the array `request.label`) in a Zarr group."""
    _group(location)  # refuses an array in place of a group
    with readable(location.name):
        names = [child.basename for child, is_folder in location.entries() if is_folder]
    read, files = partial(_rows, location), partial(_parts, location)
    return open_arrays("zarr", location, names, read, files, request)


def _parts(location: SourcePath, role: str, array: str) -> tuple[FileOfSource, ...]:
    """Every stored file of one array."""
    folder = f"{location.path.rstrip('/')}/{array}"
    with readable(location.name):
        files = [location.child(path) for path in sorted(location.fs.find(folder))]
    return tuple(FileOfSource(role, file.inside(location), file) for file in files)
