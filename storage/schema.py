"""What every Zarr group of a run holds: dimensions, types, fill values, meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import Store
from zarr.codecs import BloscCodec, BloscShuffle, Crc32cCodec

from storage.errors import StorageError

CHUNK_BYTES = 4 << 20
"""Target size of an uncompressed chunk; one is read whole in a few milliseconds."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Column:
    """One array of a group; the first dimension is the one that tasks divide."""

    dims: tuple[str, ...]
    dtype: str
    fill: float
    description: str


def _row(description: str) -> Column:
    return Column(("row",), "int64", -1, description)


_X = Column(("row", "feature"), "float32", float("nan"), "features")
_GIVEN = Column(("row",), "int8", -1, "given (possibly wrong) label, 0 or 1")

GROUPS: dict[str, dict[str, Column]] = {
    "pool": {
        "x": Column(("row", "feature"), "float32", float("nan"), "features as read, unscaled"),
        "y": _GIVEN,
        "row": _row("position in the source"),
        "source_id": Column(("row",), "int32", -1, "index in the attribute `files`"),
    },
    "queries": {
        "x": Column(("row", "feature"), "float32", float("nan"), "features as read, unscaled"),
        "row": _row("position in the source"),
    },
    "sample": {
        "x": _X,
        "row": _row("training row, in the order of its sampling hash"),
    },
    "bounds": {
        "bound": Column(("row",), "float32", float("nan"), "distance that holds all neighbours"),
    },
    "partition": {
        "centroid": Column(("block", "feature"), "float32", float("nan"), "block centres, scaled"),
    },
    "blocks": {
        "x": Column(("row", "feature"), "float32", float("nan"), "features, scaled"),
        "row": _row("training row, ascending"),
        "given_label": _GIVEN,
        "core": Column(("row",), "bool", False, "at home in this block; otherwise a halo copy"),
    },
    "graph": {
        "row": _row("training row, ascending"),
        "given_label": _GIVEN,
        "neighbor": Column(
            ("row", "rank"), "int64", -1, "training rows nearest first, ties by row, self excluded"
        ),
        "distance": Column(("row", "rank"), "float32", float("nan"), "Euclidean, ascending"),
        "neighbor_label": Column(("row", "rank"), "int8", -1, "given label of the neighbour"),
    },
    "regression": {
        "row": _row("training row, ascending"),
        "count": Column(
            ("row", "k"), "int32", -1, "neighbours given 1 among the first k, self excluded"
        ),
    },
    "anchors": {
        "row": _row("training row drawn as anchor, ascending"),
        "neighbor": Column(
            ("row", "rank"), "int64", -1, "exact nearest training rows, the anchor itself first"
        ),
        "distance": Column(("row", "rank"), "float32", float("nan"), "Euclidean, ascending"),
        "neighbor_label": Column(("row", "rank"), "int8", -1, "given label of the neighbour"),
    },
    "labels": {
        "row": _row("position in the source"),
        "given_label": _GIVEN,
        "predicted_label": Column(
            ("row",), "int8", -1, "label by the corrected rule, without the row itself"
        ),
        "label_quality": Column(
            ("row",), "float32", float("nan"), "posterior of the given label; low is bad"
        ),
        "is_label_issue": Column(
            ("row",), "bool", False, "the given label is more likely wrong than right"
        ),
        "eta_corr": Column(
            ("row",), "float32", float("nan"), "share of the k neighbours given 1, self excluded"
        ),
    },
    "scores": {
        "row": _row("position in the source"),
        "eta_corr": Column(("row",), "float32", float("nan"), "share of the k nearest given 1"),
        "posterior": Column(("row",), "float32", float("nan"), "P(true label 1), noise removed"),
        "predicted_label": Column(("row",), "int8", -1, "label by the corrected threshold"),
    },
}


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
