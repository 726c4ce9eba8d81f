"""Euclidean distances with one exact value for each pair, and exact search with that value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.merge import ABSENT, select

_PAIR_VALUES = 1 << 22
"""float64 values that `pair_distance` holds at a time (32 MB)."""

_QUERY_ROWS, _X_ROWS = 256, 8192
"""Tile of the distance matrix; 8 MB in float32."""

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


def pair_distance(a: Float32, b: Float32) -> Float32:
    """The float32 nearest to the Euclidean distance of each pair of rows.

    Accumulated in float64, so the value does not depend on the order of features, on tiles or on
    the machine: every builder's finalists get their distance here, and ties are really ties.

    Parameters
    ----------
    a, b : (pair, feature) float32

    Returns
    -------
    (pair,) float32
    """
    out = np.empty(len(a), np.float32)
    step = max(1, _PAIR_VALUES // max(1, a.shape[1]))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        difference = a[part].astype(np.float64)
        difference -= b[part]
        out[part] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return out


def list_distance(query: Float32, x: Float32, index: npt.NDArray[np.integer[Any]]) -> Float32:
    """(query, k) distances of each query to the rows of `x` its list names; inf where ABSENT.

    Parameters
    ----------
    query : (query, feature) float32
    x : (row, feature) float32
    index : (query, k) rows of `x`, or ABSENT
    """
    n, k = index.shape
    out = np.full((n, k), np.inf, np.float32)
    step = max(1, _PAIR_VALUES // max(1, k * x.shape[1]))
    for start in range(0, n, step):
        part = slice(start, start + step)
        difference = x[index[part]].astype(np.float64)
        difference -= query[part, None, :]
        out[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    out[index == ABSENT] = np.inf
    return out


def nearest(
    query: Float32,
    x: Float32,
    k: int,
    *,
    exclude: npt.NDArray[np.integer[Any]] | None = None,
    bound: Float32 | None = None,
) -> tuple[Int64, Float32]:
    """Exact k nearest rows of `x` for each query, ties by row number.

    A float32 matrix product gives a lower bound of every distance, with its rounding error
    accounted for; only pairs below the k-th distance so far get an exact one.

    Parameters
    ----------
    query : (query, feature) float32, finite
    x : (row, feature) float32, finite
    k : length of the lists
    exclude : (query,) one row of `x` that is no neighbour of the query, ABSENT for none
    bound : (query,) only rows at most this far are wanted

    Returns
    -------
    index : (query, k) int64 rows of `x`, nearest first; ABSENT where there are no more
    distance : (query, k) float32, inf where there are no more
    """
    index = np.full((len(query), k), ABSENT, np.int64)
    distance = np.full((len(query), k), np.inf, np.float32)
    if len(x) == 0:
        return index, distance
    centre = x.mean(axis=0, dtype=np.float64)
    centred = (x - centre).astype(np.float32)
    shrink = 1.0 - (x.shape[1] + 16) * 2.0**-22
    norm = (np.einsum("ij,ij->i", centred, centred, dtype=np.float64) * shrink).astype(np.float32)
    for start in range(0, len(query), _QUERY_ROWS):
        part = slice(start, start + _QUERY_ROWS)
        found = _Found(
            query[part],
            k,
            None if exclude is None else exclude[part],
            None if bound is None else bound[part],
        )
        moved = (query[part] - centre).astype(np.float32)
        own = np.einsum("ij,ij->i", moved, moved, dtype=np.float64) * shrink
        for first in range(0, len(x), _X_ROWS):
            tile = slice(first, first + _X_ROWS)
            lower = moved @ (-2.0 * centred[tile].T)
            lower += norm[tile]
            lower += own[:, None].astype(np.float32)
            found.see(lower, x[tile], first)
        index[part], distance[part] = found.lists()
    return index, distance


class _Found:
    """The best candidates so far of some queries."""

    def __init__(
        self,
        query: Float32,
        k: int,
        exclude: npt.NDArray[np.integer[Any]] | None,
        bound: Float32 | None,
    ) -> None:
        self.query, self.k, self.exclude = query, k, exclude
        self.limit = np.full(len(query), np.inf) if bound is None else _squared(bound)
        self.group = np.empty(0, np.int64)
        self.row = np.empty(0, np.int64)
        self.distance = np.empty(0, np.float32)
        self.loose = 0

    def see(self, lower: Float32, x: Float32, first: int) -> None:
        """Take the pairs of a tile whose lower bound does not rule them out.

        lower : (query, row) lower bounds of squared distances to the rows of `x`, which are
        `first` and following. Any k rows bound the k-th distance, so the first tile sets a limit.
        """
        spare = self.k + (self.exclude is not None)
        if lower.shape[1] > spare and not np.isfinite(self.limit).all():
            kth = np.argpartition(lower, spare - 1, axis=1)[:, :spare]
            near = list_distance(self.query, x, kth).max(axis=1)
            self.limit = np.minimum(self.limit, _squared(near))
        group, row = np.nonzero(lower <= self.limit[:, None])
        if self.exclude is not None:
            other = self.exclude[group] != row + first
            group, row = group[other], row[other]
        self.group = np.concatenate([self.group, group])
        self.row = np.concatenate([self.row, row + first])
        self.distance = np.concatenate(
            [self.distance, pair_distance(self.query[group], x[row])]
        )
        self.loose += len(group)
        if self.loose >= len(self.query) * self.k:
            self._tighten()

    def _tighten(self) -> npt.NDArray[np.int64]:
        chosen, rank = select(self.group, self.row, self.distance, self.k)
        self.group, self.row = self.group[chosen], self.row[chosen]
        self.distance = self.distance[chosen]
        self.loose = 0
        full = rank == self.k - 1
        kth = np.full(len(self.query), np.inf, np.float32)
        kth[self.group[full]] = self.distance[full]
        self.limit = np.minimum(self.limit, _squared(kth))
        return rank

    def lists(self) -> tuple[Int64, Float32]:
        rank = self._tighten()
        index = np.full((len(self.query), self.k), ABSENT, np.int64)
        distance = np.full((len(self.query), self.k), np.inf, np.float32)
        index[self.group, rank], distance[self.group, rank] = self.row, self.distance
        return index, distance


def _squared(distance: Float32) -> npt.NDArray[np.float64]:
    """Upper bound of the square of any value that rounds to this float32."""
    return np.square(distance.astype(np.float64)) * (1.0 + 2.0**-21) + 1e-80
