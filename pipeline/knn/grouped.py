"""Exact search for many queries among few rows: groups of rows are left out by bounds.

On the line from the pivot of the query's own group to that of another, the rows of the other begin
somewhere, and so far as the query lies before that, it is from all of them. This leaves out more
than the balls around pivots do: of 40,000 centers of unequal clusters 3 % are left to compare, by
balls alone 36 %.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pipeline.arrays import Float32, Float64, Int64
from pipeline.knn.distance import insert, one_distance
from pipeline.knn.exact import FEW_ROWS, nearest
from pipeline.knn.lists import ABSENT

_QUERIES = 128
"""Queries to a group from which grouping the rows pays."""
_EXACT, _PRODUCT = 2, 5
"""What comparing a row here takes, over what it takes `nearest`: by exact distances where rows are
few, else by a matrix product."""
_TRIED = 256
"""Queries by which it is decided whether groups leave out enough."""
_LLOYD = 3
_LARGE, _SMALL = 1e18, 1e-30
"""Features above which, and distances between pivots below which, nothing is left out."""
_E = 2.0**-22
"""More than the relative error of a square of a distance in float32."""
_TINY = 1e-40
"""More than the absolute error of a distance that underflows."""


class _Groups(NamedTuple):
    """Rows in the order of their groups, and what bounds them."""

    x: Float32
    """(row, feature)"""
    row: Int64
    """(row,) row numbers, ascending within a group"""
    start: Int64
    """(group + 1,) place in `row` where each group begins, and the end"""
    pivot: Float32
    """(group, feature)"""
    far: Float64
    """(row,) distance from its group's pivot"""
    radius: Float64
    """(group,) the greatest of them"""
    beyond: Float64
    """(group G, group H) least d(row, G)² - d(row, H)² of the rows of H, rounded down"""
    twice: Float64
    """(group, group) twice the distance of the pivots, rounded up; inf where too near to tell"""
    turn: Int64
    """(group, group) for each group all groups, nearest pivot first"""


def nearest_by_groups(query: Float32, x: Float32, k: int) -> tuple[Int64, Float32]:
    """What `nearest` finds, bit for bit; much faster where queries are many, and each of them is
    far from most rows.

    Parameters
    ----------
    query : (query, feature) float32, finite
    x : (row, feature) float32, finite
    k : length of the lists, at least 1

    Returns
    -------
    index : (query, k) int64 rows of `x`, nearest first; ABSENT where there are no more
    distance : (query, k) float32, inf where there are no more
    """
    n_groups = math.isqrt(len(x))
    if len(query) < _QUERIES * n_groups or k > n_groups or not _moderate(query, x):
        return nearest(query, x, k)
    query = np.ascontiguousarray(query)
    index = np.full((len(query), k), ABSENT, np.int64)
    distance = np.full((len(query), k), np.inf, np.float32)
    groups = _group(x, n_groups)
    compared = _search(query[:_TRIED], *groups, index[:_TRIED], distance[:_TRIED])
    dear = _EXACT if len(x) <= FEW_ROWS else _PRODUCT
    if compared * dear > len(query[:_TRIED]) * len(x):
        index[_TRIED:], distance[_TRIED:] = nearest(query[_TRIED:], x, k)
    else:
        _search(query[_TRIED:], *groups, index[_TRIED:], distance[_TRIED:])
    return index, distance


def _moderate(*arrays: Float32) -> bool:
    return all(max(-a.min(initial=0.0), a.max(initial=0.0)) < _LARGE for a in arrays)


def _group(x: Float32, n_groups: int) -> _Groups:
    """Groups by k-means from rows evenly spread over the numbers."""
    pivot = np.ascontiguousarray(x[np.linspace(0, len(x) - 1, n_groups).astype(np.int64)])
    for _ in range(_LLOYD):
        own = nearest(x, pivot, 1)[0][:, 0]
        total = np.zeros(pivot.shape, np.float64)
        np.add.at(total, own, x)
        size = np.bincount(own, minlength=n_groups)
        pivot[size > 0] = total[size > 0] / size[size > 0, None]
    near, far = nearest(x, pivot, 1)
    own = near[:, 0]
    row = np.argsort(own, kind="stable")
    start = np.searchsorted(own[row], np.arange(n_groups + 1))
    x, distance = np.ascontiguousarray(x[row]), far[row, 0].astype(np.float64)
    radius = np.zeros(n_groups)
    np.maximum.at(radius, own[row], distance)
    return _Groups(x, row, start, pivot, distance, radius, *_beyond(x, start, pivot))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _beyond(x: Float32, start: Int64, pivot: Float32) -> tuple[Float64, Float64, Int64]:
    n = len(pivot)
    beyond, twice = np.full((n, n), np.inf), np.full((n, n), np.inf)
    turn = np.empty((n, n), np.int64)
    for h in range(n):
        for p in range(start[h], start[h + 1]):
            to_own = np.float64(one_distance(x[p], pivot[h]))
            for g in range(n):
                to_other = np.float64(one_distance(x[p], pivot[g]))
                more = to_other * to_other * (1.0 - _E) - to_own * to_own * (1.0 + _E)
                beyond[g, h] = min(beyond[g, h], more)
        apart = np.empty(n, np.float64)
        for g in range(n):
            apart[g] = one_distance(pivot[g], pivot[h])
            if apart[g] > _SMALL:
                twice[g, h] = 2.0 * apart[g] * (1.0 + _E)
        turn[h] = np.argsort(apart)
    return beyond, twice, turn


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _search(
    query: Float32,
    x: Float32,
    row: Int64,
    start: Int64,
    pivot: Float32,
    far: Float64,
    radius: Float64,
    beyond: Float64,
    twice: Float64,
    turn: Int64,
    index: Int64,
    distance: Float32,
) -> int:
    """Fill the lists; how many rows were compared with queries, pivots included."""
    k, to_pivot, compared = index.shape[1], np.empty(len(pivot), np.float64), 0
    for i in range(len(query)):
        own, filled = 0, 0
        for h in range(len(pivot)):
            to_pivot[h] = one_distance(query[i], pivot[h])
            if to_pivot[h] < to_pivot[own]:
                own = h
        compared += len(pivot)
        to_own = to_pivot[own] * to_pivot[own] * (1.0 + _E)
        for h in turn[own]:
            limit = distance[i, k - 1] * (1.0 + _E) + _TINY
            to_other = to_pivot[h]
            least = beyond[own, h] + to_other * to_other * (1.0 - _E) - to_own
            if least > limit * twice[own, h] or (
                to_other * (1.0 - _E) - radius[h] * (1.0 + _E) > limit
            ):
                continue
            for p in range(start[h], start[h + 1]):
                apart = abs(to_other - far[p]) - _E * (to_other + far[p])
                if apart > distance[i, k - 1] * (1.0 + _E) + _TINY:
                    continue
                compared += 1
                d = one_distance(query[i], x[p])
                filled = insert(d, row[p], filled, index[i], distance[i])
    return compared
