"""Uniform samples of rows that stream by, without replacement, by a hash of the row number; and the
rows of greatest value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.arrays import AnyArray, Bools, Float32, Float64, Int64, UInt64
from pipeline.knn.lots import GOLDEN, mixed
from pipeline.streams import Stream

MOST_ANCHORS = 20_000
"""Rows whose exact lists are searched at most, to read rates off; of smaller pools all are."""
_SPARE = 16
"""The part, one in so many, of rows beyond those kept that may wait: sorting them in moves all
rows."""


def row_hash(row: Int64, seed: int, stream: int) -> UInt64:
    """(row,) uniform 64-bit values, a function of (row, seed, stream) alone (SplitMix64)."""
    with np.errstate(over="ignore"):
        start = np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)[0]
        return mixed(row.astype(np.uint64) * GOLDEN + start)


def shuffled(n_rows: int, seed: int, stream: int) -> Int64:
    """(n_rows,) all rows in a random order: the first of them are a uniform sample."""
    return np.argsort(row_hash(np.arange(n_rows), seed, stream), kind="stable")


def in_sample(row: Int64, n_rows: int, size: int, seed: int, stream: int) -> Bools:
    """(row,) whether a row is in a uniform sample of about `size` of `n_rows` rows, or of all if
    these are no more; that does not depend on the other rows asked about."""
    if n_rows <= size:
        return np.ones(len(row), np.bool_)
    return row_hash(row, seed, stream) < np.uint64(int(size / n_rows * 2.0**64))


def _taken(pieces: Sequence[Float32], order: Int64) -> Float32:
    """Rows of several pieces, numbered one piece after the other; each is moved once."""
    start = np.cumsum([0, *map(len, pieces)])
    piece = np.searchsorted(start, order, side="right") - 1
    taken = np.empty((len(order), pieces[0].shape[1]), np.float32)
    for number, x in enumerate(pieces):
        mine = np.flatnonzero(piece == number)
        taken[mine] = x[order[mine] - start[number]]
    return taken


class RowSample:
    """The `size` rows of lowest hash among all seen: a uniform sample, whatever the chunks.

    In order of hash, so that the first rows of a sample are a uniform sample themselves.
    """

    def __init__(self, size: int, seed: int, stream: int, n_rows: int | None = None) -> None:
        """`n_rows` is the number of all rows, if known: then rows that are surely not among the
        lowest are not kept, so that samples of parts are small. Six standard deviations are allowed
        for, and 30 rows, as the counts of small samples are far from normal."""
        self.size, self.seed, self.stream = size, seed, stream
        share = 1.0 if n_rows is None else (size + 6.0 * size**0.5 + 30.0) / max(1, n_rows)
        self._below = np.uint64(min(2.0**64 - 2048, share * 2.0**64)) if share < 1 else None
        self._hash = np.empty(0, np.uint64)
        self._row = np.empty(0, np.int64)
        self._x: Float32 = np.empty((0, 0), np.float32)
        self._waiting: list[tuple[AnyArray, ...]] = []
        self._n_waiting = 0

    def see(self, first_row: int, x: Float32) -> None:
        """Take the rows `first_row` and following; x : (row, feature) float32."""
        row = np.arange(first_row, first_row + len(x))
        self._take(row_hash(row, self.seed, self.stream), row, x)

    def merge(self, other: RowSample) -> None:
        """Take the rows of another sample of the same hash, of other rows."""
        other._settle()
        if len(other._hash):
            self._take(other._hash, other._row, other._x)

    def _take(self, hashed: UInt64, row: Int64, x: Float32) -> None:
        below = self._hash[-1] if self.size and len(self._hash) == self.size else self._below
        low = slice(None) if below is None else np.flatnonzero(hashed < below)
        features = x.copy() if below is None else x[low]  # x may be changed later
        self._waiting.append((hashed[low], row[low], features))
        self._n_waiting += len(features)
        if self._n_waiting > self.size + self.size // _SPARE:
            self._settle()

    def _settle(self) -> None:
        """Sort in what waits."""
        if not self._waiting:
            return
        kept = [(self._hash, self._row, self._x)] if len(self._hash) else []
        hashes, rows, features = zip(*kept, *self._waiting, strict=True)
        hashed, row = np.concatenate(hashes), np.concatenate(rows)
        order = np.argsort(hashed, kind="stable")[: self.size]
        self._hash, self._row, self._x = hashed[order], row[order], _taken(features, order)
        self._waiting, self._n_waiting = [], 0

    @property
    def row(self) -> Int64:
        """(sampled,) row numbers, in order of hash."""
        self._settle()
        return self._row

    @property
    def x(self) -> Float32:
        """(sampled, feature)"""
        self._settle()
        return self._x


class Greatest:
    """The `size` rows of greatest value among all seen; among equals a fixed random draw."""

    def __init__(self, size: int, seed: int = 0) -> None:
        """`size` at least 1."""
        self.size, self.seed = size, seed
        self.row = np.empty(0, np.int64)
        """Greatest first."""
        self.value = np.empty(0)

    def see(self, row: Int64, value: Float64) -> None:
        """Take rows, each once; both (row,), no NaN."""
        if len(self.row) == self.size:
            near = np.flatnonzero(value >= self.value[-1])
            row, value = row[near], value[near]
        row = np.concatenate([self.row, row])
        value = np.concatenate([self.value, value])
        order = np.lexsort((row_hash(row, self.seed, Stream.TOP_ROWS), -value))[: self.size]
        self.row, self.value = row[order], value[order]
