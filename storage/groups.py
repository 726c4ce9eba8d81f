"""Groups of arrays on disk, created, written and read as the schema says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import Store
from zarr.codecs import BloscCodec, BloscShuffle, Crc32cCodec

from storage.errors import StorageError
from storage.schema import GROUPS

CHUNK_BYTES = 4 << 20
"""Target size of an uncompressed chunk; one is read whole in a few milliseconds."""

Arrays = dict[str, npt.NDArray[Any]]


def chunk_rows(bytes_per_row: int, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Rows to a chunk of about `chunk_bytes`, at least 1."""
    return max(1, chunk_bytes // max(1, bytes_per_row))


def create_group(
    store: Store,
    path: str,
    kind: str,
    sizes: Mapping[str, int],
    *,
    rows_per_chunk: int,
    attributes: Mapping[str, Any] | None = None,
) -> zarr.Group:
    """Create the arrays of a `GROUPS` kind that are not there; `sizes` by dimension name.

    Chunks that lie there already are left as they are.
    """
    about = {"coordinates": "source_id"} if "source_id" in GROUPS[kind] else {}
    about |= attributes or {}
    group = zarr.open_group(store, path=path, mode="a")
    group.attrs.update(about)
    for name, column in GROUPS[kind].items():
        if name in group:
            continue
        shape = tuple(sizes[dim] for dim in column.dims)
        group.create_array(
            name,
            shape=shape,
            chunks=(max(1, min(rows_per_chunk, shape[0])), *(max(1, size) for size in shape[1:])),
            dtype=column.dtype,
            fill_value=column.fill,
            dimension_names=column.dims,
            compressors=[
                BloscCodec(
                    typesize=np.dtype(column.dtype).itemsize,
                    cname="lz4",
                    clevel=1,
                    shuffle=BloscShuffle.shuffle,
                ),
                Crc32cCodec(),
            ],
            attributes={"description": column.description},
        )
    return group


def write_group(
    store: Store,
    path: str,
    kind: str,
    arrays: Mapping[str, npt.ArrayLike],
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write a whole group of one kind at once; sizes are those of the arrays."""
    data = {name: np.asarray(value) for name, value in arrays.items()}
    sizes: dict[str, int] = {}
    widest = 1
    for name, column in GROUPS[kind].items():
        sizes |= dict(zip(column.dims, data[name].shape, strict=True))
        row_bytes = np.dtype(column.dtype).itemsize * int(np.prod(data[name].shape[1:], dtype=int))
        widest = max(widest, row_bytes)
    zarr.create_group(store, path=path, overwrite=True)
    group = create_group(
        store, path, kind, sizes, rows_per_chunk=chunk_rows(widest), attributes=attributes
    )
    for name in GROUPS[kind]:
        if data[name].size:
            array(group, name)[...] = data[name]


@contextmanager
def undamaged(what: object) -> Iterator[None]:
    """Makes a failed checksum, or metadata that cannot be read, an error for people."""
    try:
        yield
    except (ValueError, RuntimeError, FileNotFoundError) as error:
        raise StorageError(f"{what}: damaged ({error}); run train again to repair") from error


def array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    """An array of a group, typed as such."""
    found = group[name]
    assert isinstance(found, zarr.Array)
    return found


def read_array(group: zarr.Group, name: str, rows: slice = slice(None)) -> npt.NDArray[Any]:
    """Rows of one array of a group, as NumPy.

    Raises
    ------
    StorageError
        a chunk is missing or damaged.
    """
    with undamaged(f"{group.store_path}/{name}"):
        return np.asarray(array(group, name)[rows])


def read_group(store: Store, path: str, names: tuple[str, ...] | None = None) -> Arrays:
    """Arrays of a group as NumPy (all of them by default)."""
    with undamaged(f"{store}/{path}"):
        group = zarr.open_group(store, path=path, mode="r")
    wanted = names if names is not None else tuple(sorted(group.array_keys()))
    return {name: read_array(group, name) for name in wanted}
