"""Euclidean distances with one exact value for each pair, whoever asks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.merge import ABSENT

Float32 = npt.NDArray[np.float32]
Index = npt.NDArray[np.integer[Any]]


def pair_distance(a: Float32, b: Float32, i: Index, j: Index) -> Float32:
    """The float32 nearest to the Euclidean distance of rows i of `a` and j of `b`.

    Accumulated in float64 and rounded once, which hides the order of the sum: every builder's
    finalists get their distance here, and ties are really ties. Compiled, because the same in NumPy
    writes and reads every difference several times.

    Parameters
    ----------
    a, b : (row, feature) float32
    i, j : (pair,) row numbers

    Returns
    -------
    (pair,) float32
    """
    out = np.empty(len(i), np.float32)
    _fill(np.ascontiguousarray(a), np.ascontiguousarray(b), i, j, out)
    return out


def list_distance(query: Float32, x: Float32, index: Index) -> Float32:
    """(query, k) distances of each query to the rows of `x` its list names; inf where ABSENT.

    Parameters
    ----------
    query : (query, feature) float32
    x : (row, feature) float32
    index : (query, k) rows of `x`, or ABSENT
    """
    out = np.full(index.shape, np.inf, np.float32)
    i, place = np.nonzero(index != ABSENT)
    out[i, place] = pair_distance(query, x, i, index[i, place])
    return out


def rank_lists(
    query: Float32, x: Float32, place: Index, row: npt.NDArray[np.int64], k: int
) -> tuple[npt.NDArray[np.int64], Float32]:
    """The k nearest of the rows listed for each query, by exact distance, ties by row.

    Parameters
    ----------
    query : (query, feature) float32
    x : (place, feature) float32
    place : (query, any) places in `x`, each once in a list, or ABSENT
    row : (place,) the number that each place is known by

    Returns
    -------
    index : (query, k) row numbers, nearest first; ABSENT at the end where the list is short
    distance : (query, k) float32, inf where ABSENT
    """
    index = np.full((len(place), k), ABSENT, np.int64)
    distance = np.full((len(place), k), np.inf, np.float32)
    _rank(np.ascontiguousarray(query), np.ascontiguousarray(x), place, row, index, distance)
    return index, distance


@njit(cache=True, nogil=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator]
def _rank(
    query: Float32,
    x: Float32,
    place: Index,
    row: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    distance: Float32,
) -> None:
    k = index.shape[1]
    for i in range(len(place)):
        n_ranked = 0
        for p in place[i]:
            if p == ABSENT:
                continue
            total = 0.0
            for f in range(x.shape[1]):
                total += (np.float64(query[i, f]) - np.float64(x[p, f])) ** 2
            d, r = np.float32(math.sqrt(total)), row[p]
            at = n_ranked
            while at > 0 and (
                d < distance[i, at - 1] or (d == distance[i, at - 1] and r < index[i, at - 1])
            ):
                at -= 1
            if at == k:
                continue
            n_ranked = min(k, n_ranked + 1)
            for later in range(n_ranked - 1, at, -1):
                distance[i, later] = distance[i, later - 1]
                index[i, later] = index[i, later - 1]
            distance[i, at], index[i, at] = d, r


@njit(cache=True, nogil=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator]
def _fill(a: Float32, b: Float32, i: Index, j: Index, out: Float32) -> None:
    for pair in range(len(i)):
        p, q = a[i[pair]], b[j[pair]]
        total = 0.0
        for f in range(len(p)):
            total += (np.float64(p[f]) - np.float64(q[f])) ** 2
        out[pair] = math.sqrt(total)
