"""Arrays of rows (npy files, members of npz, Zarr arrays): checks, features and labels."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.errors import InputError, amount, listed
from storage.sources.base import Source
from storage.sources.blocks import Chunk, Reader, join_values, piece_rows
from storage.sources.files import Parts, SourcePath
from storage.sources.request import MOST_FEATURES, Request, array_names
from storage.sources.values.labels import (
    LABEL_BYTES,
    MOST_CLASSES,
    Labels,
    hashes,
    sets_of_mask,
)
from storage.sources.values.texts import text_ids

BFLOAT16 = np.dtype("V2")
"""What NumPy stores bfloat16 as, which it does not know by name."""


@dataclass(frozen=True)
class ArrayRows(ABC):
    """An array that can be read a few rows at a time."""

    name: str
    """File and array, for messages."""
    shape: tuple[int, ...]
    """Rows first."""
    dtype: np.dtype[Any]
    """Type as stored."""

    @abstractmethod
    def read(self, start: int, rows: int) -> Iterator[np.ndarray]:
        """The rows from `start` on, in pieces of about `rows`."""


def check_features(array: ArrayRows) -> int:
    """The number of features of `(row, feature)` numbers; `InputError` for anything else."""
    if array.dtype != BFLOAT16:
        check_real(array.name, array.dtype, "features", "biuf")
    if len(array.shape) != 2:
        raise InputError(
            f"{array.name}: features have shape {array.shape}; reshape them to (row, feature)"
        )
    if array.shape[1] > MOST_FEATURES:
        raise InputError(
            f"{array.name}: {array.shape[1]:,} features, at most {MOST_FEATURES:,} are read; "
            "reduce their dimension"
        )
    if 0 in array.shape:
        what = "rows" if array.shape[0] == 0 else "feature columns"
        raise InputError(f"{array.name}: no {what}; shape is {array.shape}; give at least one")
    return array.shape[1]


def is_mask(array: ArrayRows) -> bool:
    """Whether an array of labels says of each class whether it is a candidate."""
    return bool(array.dtype == np.bool_) and len(array.shape) == 2 and array.shape[1] > 1


def check_labels(array: ArrayRows, n_rows: int, what: str = "labels") -> None:
    """`InputError` unless the array holds one label (or id) for each of `n_rows` rows, or a mask of
    candidates."""
    check_real(array.name, array.dtype, what, "biufSUT")
    if array.dtype.itemsize > LABEL_BYTES:
        raise InputError(
            f"{array.name}: {what} of up to {array.dtype.itemsize:,} bytes; give short ones"
        )
    if what == "labels" and is_mask(array):
        if array.shape[1] > MOST_CLASSES:
            raise InputError(
                f"{array.name}: a mask of {array.shape[1]:,} candidates, at most {MOST_CLASSES:,} "
                "classes are read; merge rare ones"
            )
    elif len(array.shape) != 1 and array.shape[1:] != (1,):
        mask = ", or give a mask of candidates as bool" if what == "labels" else ""
        raise InputError(
            f"{array.name}: {what} have shape {array.shape}; reshape them to (row,){mask}"
        )
    if array.shape[0] != n_rows:
        raise InputError(
            f"{array.name}: {array.shape[0]:,} {what} for {amount(n_rows, 'row')} of features; "
            f"give one {what.removesuffix('s')} per row"
        )


def check_real(name: str, dtype: np.dtype[Any], what: str, kinds: str) -> None:
    """`InputError` unless the dtype is of one of NumPy's `kinds`; objects are never read."""
    if dtype.hasobject and dtype.kind != "T":
        raise InputError(
            f"{name}: {what} are Python objects (pickled), which are never loaded; "
            "save them as a numeric array"
        )
    if dtype.kind not in kinds:
        numbers = "real numbers (integer, float or bool)" if "f" in kinds else "whole numbers"
        text = " or text" if "U" in kinds else ""
        raise InputError(f"{name}: {what} have dtype {dtype}; give {numbers}{text}")


@dataclass(frozen=True)
class ArrayReader:
    """Features of one array, all from file 0."""

    array: ArrayRows
    places: tuple[int, ...] | None = None
    """Columns to take; None takes all."""
    dtype: npt.DTypeLike = np.float32
    """What numbers are cast to; those beyond it become infinite."""

    def blocks(self, start: int, rows: int) -> Iterator[Chunk]:
        row_bytes = self.array.shape[1] * max(4, self.array.dtype.itemsize)
        for piece in self.array.read(start, piece_rows(row_bytes, rows)):
            with np.errstate(over="ignore", invalid="ignore"):
                piece = widened(piece)
                taken = piece if self.places is None else piece[:, self.places]
                x = taken.astype(self.dtype, order="C", copy=False)
            yield Chunk(x, None, np.zeros(len(x), np.int32))


@dataclass(frozen=True)
class LabeledReader:
    """The features of one reader with what an array says besides, row by row."""

    features: Reader
    labels: ArrayRows
    what: str = "label"
    """A column of `Chunk`."""

    def blocks(self, start: int, rows: int) -> Iterator[Chunk]:
        width = self.labels.dtype.itemsize * prod(self.labels.shape[1:])
        pieces = self.labels.read(start, piece_rows(width, max(rows, 4096)))
        spare: Labels = np.empty(0, self.labels.dtype)
        for block in self.features.blocks(start, rows):
            while len(spare) < len(block.x):
                more = next(pieces, None)
                if more is None:
                    raise InputError(f"{self.labels.name}: it ends too early; is it being written?")
                piece = plain_labels(more)
                spare = join_values([spare, piece]) if len(spare) else piece
            values = spare[: len(block.x)]
            if self.what == "id":
                values = text_ids(values, self.labels.name)
            elif self.what == "together":
                values = hashes(values)
            column: dict[str, Any] = {self.what: values}
            yield block._replace(**column)
            spare = spare[len(block.x) :]


def widened(piece: np.ndarray) -> np.ndarray:
    """bfloat16 as float32, of which it is the upper half; other numbers as they are."""
    if piece.dtype != BFLOAT16:
        return piece
    halves = np.ascontiguousarray(piece).view(np.uint16)
    return np.left_shift(halves, 16, dtype=np.uint32).view(np.float32)


def plain_labels(piece: np.ndarray) -> Labels:
    """`(row,)` label values of an array's piece; text as object, rows of a mask as tuples."""
    if piece.ndim == 2 and piece.shape[1] > 1:
        return sets_of_mask(piece)
    flat = piece.reshape(len(piece))
    return flat.astype(object) if flat.dtype.kind in "SUT" else flat


def open_arrays(
    kind: str,
    location: SourcePath,
    names: Sequence[str],
    read: Callable[[str], ArrayRows],
    files: Callable[[str, str], Parts],
    request: Request,
) -> Source:
    """Features `x` (or `X`) and labels `y` (or the array `request.label`) among named arrays.

    names : their names
    read : what can be read of an array
    files : by role and array, the stored files that are the array's alone
    """
    where = location.name
    x = pick(where, names, *("Xx" if kind == "npz" else "xX"))
    array = read(x)
    features, places = array_names(array.name, check_features(array), request)
    n_rows, parts, sets = array.shape[0], files("features", x), None
    reader: Reader = ArrayReader(array, places)
    beside = request.beside(where, names)
    label = None
    if request.with_labels:
        label = pick(where, names, *((request.label,) if request.label else ("y", "Y")))
    for what, name in {**beside._asdict(), "label": label}.items():
        if name is None:
            continue
        column = read(name)
        if what == "id":
            check_real(column.name, column.dtype, "ids", "iuSUT")
        role = "groups" if what == "together" else f"{what}s"
        check_labels(column, n_rows, role)
        reader, parts = LabeledReader(reader, column, what), parts + files(role, name)
        sets = "" if what == "label" and is_mask(column) else None
    return Source(
        kind,
        (where,),
        features,
        label,
        n_rows,
        parts,
        reader,
        beside=beside,
        candidates=sets,
    )


def pick(where: str, names: Sequence[str], *wanted: str) -> str:
    """The first of `wanted` among the arrays `names`."""
    for name in wanted:
        if name in names:
            return name
    if "indptr" in names:
        raise InputError(
            f"{where}: a sparse matrix of SciPy; rows are read dense, as np.save(FILE, "
            "matrix.toarray()) writes them"
        )
    raise InputError(f"{where}: no array {wanted[0]!r}; arrays are {listed(sorted(names))}")
