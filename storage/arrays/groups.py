"""Groups of arrays on disk, created, written and read as the schema says."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import Store
from zarr.codecs import BloscCodec, BloscShuffle, Crc32cCodec

from storage.arrays.schema import GROUPS, LABEL, label_dtype
from storage.errors import StorageError
from storage.files.durable import look_before_writing

CHUNK_BYTES = 4 << 20
"""Target size of an uncompressed chunk; one is read whole in a few milliseconds."""

Arrays = dict[str, npt.NDArray[Any]]


def chunk_rows(bytes_per_row: int) -> int:
    """Rows to a chunk of about `CHUNK_BYTES`, at least 1."""
    return max(1, CHUNK_BYTES // max(1, bytes_per_row))


def create_group(
    store: Store,
    path: str,
    kind: str,
    sizes: Mapping[str, int],
    *,
    rows_per_chunk: int,
    optional: Iterable[str] = (),
    label: npt.DTypeLike = np.int8,
) -> tuple[zarr.Group, dict[str, zarr.Array[Any]]]:
    """A group with its arrays by name; those of a `GROUPS` kind that are not there are created.
    `sizes` by dimension name, `label` the type of label codes.

    optional : the arrays wanted of those that a group may be without

    Chunks that lie there already are left as they are; metadata that a power cut has torn are
    written again.
    """
    about = _about(kind)
    try:
        group = zarr.open_group(store, path=path, mode="a", zarr_format=3)
    except ValueError:
        group = zarr.create_group(store, path=path, overwrite=True, zarr_format=3)
    if not about.items() <= group.attrs.asdict().items():  # what is committed is not written again
        group.attrs.update(about)
    wanted = {name for name, column in GROUPS[kind].items() if not column.optional} | {*optional}
    there = _arrays(group, GROUPS[kind])
    missing = [name for name in GROUPS[kind] if name in wanted and name not in there]
    made = _create_arrays(group, kind, missing, sizes, rows_per_chunk, np.dtype(label))
    return group, dict(sorted((there | made).items()))


def _arrays(group: zarr.Group, names: Iterable[str]) -> dict[str, zarr.Array[Any]]:
    """Those of the arrays that are there, with metadata that can be read; to list a group warns of
    those whose metadata are gone."""
    there = {}
    for name in names:
        with suppress(ValueError, KeyError):
            there[name] = _member(group, name)
    return there


def retype_labels(group: zarr.Group, kind: str, name: str, label: np.dtype[Any]) -> zarr.Array[Any]:
    """Make an array of labels anew, of another type, of the same shape and chunks."""
    old = array(group, name)
    sizes = dict(zip(GROUPS[kind][name].dims, old.shape, strict=True))
    return _create_arrays(group, kind, [name], sizes, old.chunks[0], label)[name]


def _about(kind: str) -> dict[str, Any]:
    return {"coordinates": "source_id"} if "source_id" in GROUPS[kind] else {}


def _create_arrays(
    group: zarr.Group,
    kind: str,
    names: Iterable[str],
    sizes: Mapping[str, int],
    rows: int,
    label: np.dtype[Any],
) -> dict[str, zarr.Array[Any]]:
    """Write the metadata of arrays, over older ones if there are any; `rows` to a chunk."""
    made = {}
    for name in names:
        column = GROUPS[kind][name]
        dtype, fill = column.stored(label)
        shape = tuple(sizes[dim] for dim in column.dims)
        made[name] = group.create_array(
            name,
            shape=shape,
            chunks=(max(1, min(rows, shape[0])), *(max(1, size) for size in shape[1:])),
            dtype=dtype,
            fill_value=fill,
            dimension_names=column.dims,
            compressors=[
                BloscCodec(
                    typesize=1 if column.dtype == "string" else dtype.itemsize,
                    cname="lz4",
                    clevel=1,
                    shuffle=BloscShuffle.shuffle,
                ),
                Crc32cCodec(),
            ],
            attributes={"description": column.description},
            overwrite=True,
        )
    return made


def write_group(
    store: Store,
    path: str,
    kind: str,
    arrays: Mapping[str, npt.ArrayLike],
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write a whole group of one kind at once; sizes are those of the arrays.

    A group that is there already is written over, file by file.
    """
    look_before_writing()
    data = {name: np.asarray(value) for name, value in arrays.items()}
    sizes: dict[str, int] = {}
    widest, label = 1, np.dtype(np.int8)
    for name, column in GROUPS[kind].items():
        sizes |= dict(zip(column.dims, data[name].shape, strict=True))
        if column.dtype == LABEL:
            label = label_dtype(data[name].dtype)
        row_bytes = column.stored(label)[0].itemsize * int(np.prod(data[name].shape[1:], dtype=int))
        widest = max(widest, row_bytes)
    about = {**_about(kind), **(attributes or {})}
    group = zarr.create_group(store, path=path, attributes=about, overwrite=True, zarr_format=3)
    made = _create_arrays(group, kind, GROUPS[kind], sizes, chunk_rows(widest), label)
    for name, written in made.items():
        if data[name].size:
            written[...] = data[name]


@contextmanager
def undamaged(what: object) -> Iterator[None]:
    """Makes a failed checksum, or metadata that cannot be read, an error for people."""
    try:
        yield
    except (ValueError, RuntimeError, FileNotFoundError) as error:
        raise StorageError(f"{what}: damaged ({error}); run train again to repair") from error


def array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    """An array of a group, typed as such.

    Raises `StorageError` where its metadata are damaged.
    """
    with undamaged(f"{group.store_path}/{name}"):
        return _member(group, name)


def _member(group: zarr.Group, name: str) -> zarr.Array[Any]:
    member = group[name]
    assert isinstance(member, zarr.Array)
    return member


def read_array(group: zarr.Group, name: str, rows: slice = slice(None)) -> npt.NDArray[Any]:
    """Rows of one array of a group, as NumPy.

    Raises `StorageError` where a chunk is missing or damaged.
    """
    return read_rows(array(group, name), rows)


def read_rows(stored: zarr.Array[Any], rows: slice) -> npt.NDArray[Any]:
    """Rows of an array as NumPy; raises as `read_array` does."""
    with undamaged(stored.store_path):
        return np.asarray(stored[rows])


def read_group(store: Store, path: str, names: tuple[str, ...] | None = None) -> Arrays:
    """Arrays of a group as NumPy (all of them by default)."""
    with undamaged(f"{store}/{path}"):
        group = zarr.open_group(store, path=path, mode="r", zarr_format=3)
    wanted = names if names is not None else tuple(sorted(group.array_keys()))
    return {name: read_array(group, name) for name in wanted}
