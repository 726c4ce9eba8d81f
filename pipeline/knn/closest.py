"""The nearest rows of a tile, kept for each query; exact distances only where a bound allows.

A pair is one key: the bits of its distance above those of its row's turn, its place among all by
lot. Keys order as pairs do.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pipeline.arrays import Float32, Float64, Int32, Int64, Integers, UInt32, UInt64
from pipeline.knn.distance import one_distance
from pipeline.knn.lists import ABSENT

NOTHING = np.uint64(0xFFFFFFFFFFFFFFFF)
"""The key of an empty place, above all others."""
_GLANCE = 16
"""Bounds looked at together before any is looked at alone."""
_UNDERFLOW = 1e-36
"""What a bound of rows within one spread can lose below the smallest float32."""

Keys = UInt64


def no_keys(n_queries: int, width: int) -> Keys:
    """(query, width) empty places."""
    return np.full((n_queries, width), NOTHING)


def lists_of(keys: Keys, k: int) -> tuple[Int64, Float32]:
    """(query, k) turns and distances of (query, width) keys; ABSENT and inf where there are no
    more. Sorts the keys."""
    keys.sort(axis=1)
    near = np.ascontiguousarray(keys[:, :k])
    there = near != NOTHING
    words = near.view(np.uint32).reshape(*near.shape, 2)
    index = np.full((len(keys), k), ABSENT, np.int64)
    far = np.full((len(keys), k), np.inf, np.float32)
    width = near.shape[1]
    np.copyto(index[:, :width], words[..., 0], where=there)
    np.copyto(far[:, :width], words.view(np.float32)[..., 1], where=there)
    return index, far


def reach(limit: Float64, unit: float, own: Float64) -> Float32:
    """(query,) what the tile's summand of the bound is at most for pairs up to a squared limit."""
    with np.errstate(over="ignore"):
        most = (limit * unit**2 + _UNDERFLOW - own).astype(np.float32)
        return np.asarray(np.nextafter(most, np.float32(np.inf)))


def halves(keys: Keys) -> tuple[UInt32, Float32]:
    """(query, 2 * width) views of the halves of keys: turns at even places, distances at odd."""
    return keys.view(np.uint32), keys.view(np.float32)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def collect(
    query: Float32,
    x: Float32,
    bounds: Float32,
    first: int,
    left_out: Integers,
    own: Float64,
    unit: float,
    k: int,
    most: Float32,
    filled: Int64,
    turn: Int64,
    keys: Keys,
    low: UInt32,
    far: Float32,
) -> None:
    """Take the rows of one tile into the keys of every query.

    When the places of a query are full, its k nearest are kept, and lower what it takes from then
    on: more than `k` places are wanted, or as many as there are rows.

    Parameters
    ----------
    query : (query, feature) float32, contiguous
    x : (row, feature) float32, contiguous; all rows
    bounds : (query, tile) summands of lower bounds of squared distances, in units of the spread
    first : row of the tile's first column
    left_out : (query,) a row that is not taken, or ABSENT
    own : (query,) the other summand
    unit : 1 / spread
    most, filled : (query,) greatest summand that is looked at, places taken; changed in place
    turn : (row,) of each
    keys, low, far : (query, any) changed in place, and their `halves`
    """
    width, below = keys.shape[1], np.empty(bounds.shape[1], np.int32)
    for i in range(len(query)):
        for p in range(_below(bounds[i], most[i], below)):
            j = below[p]
            r = first + j
            if bounds[i, j] > most[i] or r == left_out[i]:
                continue
            at = filled[i]
            low[i, 2 * at], far[i, 2 * at + 1] = turn[r], one_distance(query[i], x[r])
            filled[i] = at + 1
            if filled[i] == width and width > k:
                _nearest_first(keys[i], k - 1)
                keys[i, k:] = NOTHING
                filled[i] = k
                d = np.float64(far[i, 2 * k - 1])
                limit = d * d * (1.0 + 2.0**-21) + 1e-80
                lower = np.float32(limit * unit * unit + _UNDERFLOW - own[i])
                most[i] = min(most[i], np.nextafter(lower, np.float32(np.inf)))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _nearest_first(keys: UInt64, last: int) -> None:
    """Put the `last` least keys first, and the next one after them: NumPy's partition, which takes
    Numba several times as long to compile as all else here."""
    a, b = 0, len(keys) - 1
    while a < b:
        middle, i, j = keys[(a + b) // 2], a, b
        while i <= j:
            while keys[i] < middle:
                i += 1
            while keys[j] > middle:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i, j = i + 1, j - 1
        if last <= j:
            b = j
        elif last >= i:
            a = i
        else:
            return


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _below(bound: Float32, most: np.float32, below: Int32) -> int:
    """How many bounds are low enough; their places go to `below`."""
    n = 0
    for a in range(0, len(bound), _GLANCE):
        b = min(len(bound), a + _GLANCE)
        if b == a + _GLANCE:
            low = 0
            for u in range(_GLANCE):
                low += int(bound[a + u] <= most)
            if low == 0:
                continue
        for j in range(a, b):  # without a branch
            below[n] = j
            n += int(bound[j] <= most)
    return n
