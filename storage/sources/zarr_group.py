"""A Zarr group with features `x` (or `X`) and labels `y`, format 2 or 3."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.storage import FsspecStore, LocalStore

from storage.errors import InputError

from .base import Source
from .fingerprint import SourceFile
from .npy import pick
from .paths import SourcePath, readable
from .request import Request, array_names
from .rows import ArrayReader, LabelledReader, check_features, check_labels

MARKS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
"""Files that make a folder a Zarr node."""


@dataclass(frozen=True)
class ZarrRows:
    """One array of a group."""

    location: SourcePath
    """The group."""
    array: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk_rows: int
    """Rows that are stored together."""

    @property
    def name(self) -> str:
        """File and array, for messages."""
        return f"{self.location.name}[{self.array}]"

    def read(self, start: int, rows: int) -> Iterator[np.ndarray]:
        """The rows from `start` on, in pieces that end where stored chunks end."""
        array = _array(self.location, self.array)
        step = self.chunk_rows * max(1, rows // self.chunk_rows)
        while start < self.shape[0]:
            stop = min(start - start % self.chunk_rows + step, self.shape[0])
            with readable(self.name):
                try:
                    piece = np.asarray(array[start:stop])
                except (RuntimeError, TypeError, ValueError) as error:  # codecs raise these
                    raise InputError(
                        f"{self.name}: rows {start} to {stop} cannot be decoded ({error}); "
                        "they are damaged, write them again"
                    ) from error
            yield piece
            start = stop


def _group(location: SourcePath) -> zarr.Group:
    with readable(location.name):
        try:
            if location.is_local:
                store: LocalStore | FsspecStore = LocalStore(location.path, read_only=True)
            else:
                url = location.fs.unstrip_protocol(location.path)
                store = FsspecStore.from_url(url, read_only=True)
            return zarr.open_group(store, mode="r")
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{location.name}: not a readable Zarr group ({error}); give a group with "
                "arrays x and y"
            ) from error


def _array(location: SourcePath, name: str) -> "zarr.Array[Any]":
    where = f"{location.name}[{name}]"
    with readable(where):
        try:
            array = _group(location)[name]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{where}: not a readable array ({error}); write it as plain numbers"
            ) from error
    if not isinstance(array, zarr.Array):
        raise InputError(f"{where}: a group, not an array; give a group with arrays x and y")
    return array


def _rows(location: SourcePath, name: str) -> ZarrRows:
    array = _array(location, name)
    dtype = np.dtype(array.dtype)
    chunks = array.shards or array.chunks
    return ZarrRows(location, name, array.shape, dtype, chunks[0] if chunks else 1)


def open_zarr(location: SourcePath, request: Request) -> Source:
    """Features `x` and labels `y` (or the array `request.label`) in a Zarr group."""
    _group(location)  # refuses an array in place of a group
    with readable(location.name):
        found = [child.basename for child in location.children() if child.fs.isdir(child.path)]
    x = pick(location.name, found, "x", "X")
    array = _rows(location, x)
    names = array_names(array.name, check_features(array), request.features)
    files, n_rows = (location.name,), array.shape[0]
    reader, parts = ArrayReader(array), _parts("features", location, x)
    if not request.with_labels:
        return Source("zarr", files, names, None, n_rows, parts, reader)
    label = pick(location.name, found, *((request.label,) if request.label else ("y", "Y")))
    labels = _rows(location, label)
    check_labels(labels, n_rows)
    parts += _parts("labels", location, label)
    return Source("zarr", files, names, label, n_rows, parts, LabelledReader(reader, labels))


def _parts(role: str, location: SourcePath, array: str) -> tuple[SourceFile, ...]:
    """Every stored file of one array."""
    folder = f"{location.path.rstrip('/')}/{array}"
    with readable(location.name):
        files = [location.child(path) for path in sorted(location.fs.find(folder))]
    prefix = len(location.path.rstrip("/")) + 1
    return tuple(SourceFile(role, file.path[prefix:], file) for file in files)
