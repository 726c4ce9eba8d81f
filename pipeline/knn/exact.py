"""Exact search: the k nearest rows, ties by lot, with exact distances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float32, Float64, Int64, Integers
from pipeline.knn.closest import collect, halves, lists_of, no_keys, reach
from pipeline.knn.distance import rank_lists
from pipeline.knn.lists import ABSENT
from pipeline.knn.lots import lots
from pipeline.knn.moments import extent, moved
from pipeline.knn.threads import ALONE, Threads, one_thread

_QUERY_ROWS, _X_ROWS = 512, 512
"""Tile of the distance matrix; 1 MB in float32. Queries are more where rows are few."""
_FEW_ROWS = 32
"""Rows up to which an exact distance of every pair costs less than leaving pairs out."""
_FAR = 1e9
"""Distance, in spreads of the rows, beyond which float32 tells rows apart no more."""
_ROOM = 64
"""Candidates of a query, beyond twice its list, that are held before the nearest are kept."""
_LOST = 8.0
"""How often a bound's rounding error is added where distances are guessed from bounds."""


def nearest(
    query: Float32,
    x: Float32,
    k: int,
    *,
    exclude: Integers | None = None,
    bound: Float32 | None = None,
    row: Int64 | None = None,
    threads: Threads = ALONE,
) -> tuple[Int64, Float32]:
    """Exact k nearest rows of `x` for each query, ties by lot.

    A float32 matrix product gives a lower bound of every distance, with its rounding error
    accounted for; only pairs below a limit get an exact one. The limit is guessed from a sample of
    rows; a query for which it proves too low is searched again without it.

    Parameters
    ----------
    query : (query, feature) float32, finite
    x : (row, feature) float32, finite
    k : length of the lists
    exclude : (query,) one row of `x` that is no neighbor of the query, ABSENT for none
    bound : (query,) only rows at most this far are wanted
    row : (row,) the number that each is known by, whose lots decide; None: its place
    threads : that share the queries; no part of what is found

    Returns
    -------
    index : (query, k) int64 rows of `x`, nearest first; ABSENT where there are no more
    distance : (query, k) float32, inf where there are no more
    """
    if len(x) <= _FEW_ROWS and exclude is None and bound is None and row is None:
        every = np.arange(len(x))
        return rank_lists(query, x, np.broadcast_to(every, (len(query), len(x))), every, k)
    index = np.full((len(query), k), ABSENT, np.int64)
    distance = np.full((len(query), k), np.inf, np.float32)
    if len(x) == 0:
        return index, distance
    wanted = k + (exclude is not None)
    tiles = _Tiles(x)
    order = np.argsort(lots(np.arange(len(x)) if row is None else row))
    turn = np.argsort(order)
    sample = tiles.sample(wanted)
    step = max(_QUERY_ROWS, _QUERY_ROWS * _X_ROWS // len(x))

    def search(start: int, stop: int) -> None:
        part = slice(start, stop)
        queries = query[part]
        most = np.full(len(queries), np.inf) if bound is None else _squared(bound[part])
        left_out = np.full(len(queries), ABSENT) if exclude is None else exclude[part]
        limit = most if np.isfinite(most).all() else np.minimum(most, sample.guess(queries))
        again = np.arange(len(queries))
        while len(again):
            near, far = tiles.closest(queries[again], limit[again], left_out[again], k, turn)
            index[start + again] = np.where(near == ABSENT, ABSENT, order[near])
            distance[start + again] = far
            low = _squared(far[:, -1]) > limit[again]  # some as far may be beyond it
            again = again[low & (limit[again] < most[again])]
            limit[again] = most[again]

    with one_thread():  # products are small: their threads would wait for each other
        threads.over(len(query), search, step)
    return index, distance


def kth_distance_bound(
    query: Float32, sample: Float32, k: int, n_rows: int, threads: Threads = ALONE
) -> Float32:
    """A distance within which each query has k rows of a pool, but for a chance below 1e-8.

    Parameters
    ----------
    query : (query, feature) float32
    sample : (row, feature) float32, drawn uniformly from the pool
    k, n_rows : rows wanted, and rows of the pool
    threads : that share the queries

    Returns
    -------
    (query,) float32; inf where the sample is too small to tell
    """
    expected = k * len(sample) / n_rows
    rank = k if len(sample) >= n_rows else int(expected + 6 * np.sqrt(expected) + 8)
    if rank > len(sample):
        return np.full(len(query), np.inf, np.float32)
    return nearest(query, sample, rank, threads=threads)[1][:, -1]


class _Tiles:
    """Rows to be searched, centered and of unit spread so that float32 products lose least."""

    def __init__(self, x: Float32) -> None:
        self.x = x
        low, high, self.center = extent(x)
        spread = float(np.maximum(high - self.center, self.center - low).max())
        self.unit = 1.0 / spread if spread > 0 else 1.0
        self.shrink = 1.0 - (x.shape[1] + 16) * 2.0**-22
        moved = self._moved(x)
        self.factor = np.concatenate([moved.T * np.float32(-2.0), self._norm(moved)[None]])

    def _moved(self, rows: Float32) -> Float32:
        return moved(rows, self.center, np.full(len(self.center), self.unit))

    def _norm(self, moved: Float32) -> Float32:
        exact = np.einsum("ij,ij->i", moved, moved, dtype=np.float64)
        return np.asarray(exact * self.shrink, np.float32)

    def sample(self, wanted: int) -> _Sample:
        """About 1 in 16 rows, evenly spread; all of them where there are few."""
        size = max(_X_ROWS, len(self.x) // 16)
        if size >= len(self.x):
            return _Sample(self, wanted, 1.0)
        rows = np.linspace(0, len(self.x) - 1, size).astype(np.int64)
        return _Sample(_Tiles(self.x[rows]), wanted, size / len(self.x))

    def lower(self, query: Float32) -> tuple[Float64, Iterator[tuple[int, Float32]]]:
        """Lower bounds of squared distances, in units of the spread: a summand of each query, and
        tile by tile the first row and the other summand (query, row)."""
        moved = self._moved(query)
        far = ~(np.abs(moved).max(axis=1, initial=0.0) < _FAR)
        moved[far] = 0.0
        own = np.where(far, -np.inf, self._norm(moved)).astype(np.float64)
        with_one = np.concatenate([moved, np.ones((len(moved), 1), np.float32)], axis=1)
        starts = range(0, len(self.x), _X_ROWS)
        return own, ((a, with_one @ self.factor[:, a : a + _X_ROWS]) for a in starts)

    def closest(
        self, query: Float32, limit: Float64, left_out: Integers, k: int, turn: Int64
    ) -> tuple[Int64, Float32]:
        """The k nearest of each query among all rows up to a squared limit, and some more, by the
        turn of each (row,)."""
        own, tiles = self.lower(query)
        most, filled = reach(limit, self.unit, own), np.zeros(len(query), np.int64)
        keys = no_keys(len(query), min(len(self.x), 2 * k + _ROOM))
        query, x = np.ascontiguousarray(query), np.ascontiguousarray(self.x)
        for first, bounds in tiles:
            collect(
                *(query, x, bounds, first, left_out, own, self.unit, k, most, filled),
                *(turn, keys, *halves(keys)),
            )
        return lists_of(keys, k)


@dataclass(frozen=True)
class _Sample:
    """Some of the rows to be searched, from which the k-th distance is guessed."""

    tiles: _Tiles
    wanted: int
    share: float

    def guess(self, query: Float32) -> Float64:
        """(query,) squared distance below which there are probably enough rows; sure for all."""
        expected = self.wanted * self.share
        rank = self.wanted
        if self.share < 1:
            rank = int(expected + 4 * np.sqrt(expected) + 4)
        if rank >= len(self.tiles.x):
            return np.full(len(query), np.inf)
        own, tiles = self.tiles.lower(query)
        bounds = np.concatenate([b for _, b in tiles], axis=1)
        near = np.isfinite(own)
        own = np.where(near, own, 0.0)
        lower = np.partition(bounds, rank - 1, axis=1)[:, rank - 1] + own
        lost = _LOST * (1.0 - self.tiles.shrink) * np.abs(own)
        guess = np.maximum(lower + lost, 0.0) / self.tiles.unit**2
        return np.asarray(np.where(near, guess, np.inf))


def _squared(distance: Float32) -> Float64:
    """Upper bound of the square of any value that rounds to this float32."""
    return np.square(distance.astype(np.float64)) * (1.0 + 2.0**-21) + 1e-80
