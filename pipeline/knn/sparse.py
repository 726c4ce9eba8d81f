"""Exact search of rows that are mostly zeros, kept as they are: lists and distances are those of
the same rows as a dense array, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from pipeline.arrays import Float32, Float64, Int64, Integers
from pipeline.knn.distance import LANES
from pipeline.knn.lists import ABSENT, select

Csr = Any
"""scipy.sparse.csr_array or csr_matrix, float32, in canonical format: columns of a row ascend, each
once."""

_CELLS = 1 << 20
"""(query, row) pairs that are bounded at once: 8 MB for each of half a dozen arrays."""
_LOST = 2.0**-50
"""Of a sum of squares, what float64 loses for each feature that is not zero; more than it does."""


def nearest_sparse(
    query: Csr, x: Csr, k: int, *, exclude: Integers | None = None
) -> tuple[Int64, Float32]:
    """Exact k nearest rows of `x` for each query, ties by lot; see `pipeline.knn.exact`.

    A sparse product in float64 bounds every distance from both sides; pairs whose lower bound is
    within the k-th upper bound get an exact distance. Memory: `x` three times, and some 50 MB.

    Parameters
    ----------
    query, x : (query, feature) and (row, feature)
    k : length of the lists
    exclude : (query,) one row of `x` that is no neighbor of the query, ABSENT for none

    Returns
    -------
    index : (query, k) int64 rows of `x`, nearest first; ABSENT where there are no more
    distance : (query, k) float32, inf where there are no more
    """
    n_queries, n = query.shape[0], x.shape[0]
    index = np.full((n_queries, k), ABSENT, np.int64)
    distance = np.full((n_queries, k), np.inf, np.float32)
    columns = x.astype(np.float64).T.tocsr()
    own, others = _squares(query), _squares(x)
    lost = _LOST * (_longest(query) + _longest(x) + 4)
    step = max(1, _CELLS // max(1, n))
    for start in range(0, n_queries, step):
        part = slice(start, min(start + step, n_queries))
        twice = 2.0 * (query[part].astype(np.float64) @ columns).toarray()
        both = own[part, None] + others
        most, least = both * (1.0 + lost) - twice, both * (1.0 - lost) - twice
        if exclude is not None:
            left_out = np.flatnonzero(exclude[part] != ABSENT)
            most[left_out, exclude[part][left_out]] = np.inf
            least[left_out, exclude[part][left_out]] = np.nan
        limit = np.full(len(most), np.inf) if k >= n else np.partition(most, k - 1)[:, k - 1]
        # Farther rows may round to the same float32.
        limit = np.maximum(limit, 0.0) * (1.0 + 2.0**-20) + 1e-79
        group, row = np.nonzero(least <= limit[:, None])
        far = sparse_pair_distance(query, x, start + group, row)
        chosen, rank = select(group, row, far, k)
        index[start + group[chosen], rank] = row[chosen]
        distance[start + group[chosen], rank] = far[chosen]
    return index, distance


def sparse_pair_distance(a: Csr, b: Csr, i: Integers, j: Integers) -> Float32:
    """(pair,) float32: `pipeline.knn.distance.pair_distance` of rows i of `a` and j of `b`."""
    out = np.empty(len(i), np.float32)
    lists = (a.indptr, a.indices, a.data, b.indptr, b.indices, b.data)
    _fill(*lists, i, j, a.shape[1], out)
    return out


def _squares(x: Csr) -> Float64:
    """(row,) sums of squares."""
    row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    return np.asarray(np.bincount(row, np.square(x.data.astype(np.float64)), x.shape[0]), float)


def _longest(x: Csr) -> int:
    return int(np.diff(x.indptr).max(initial=0))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _fill(
    a_start: Integers,
    a_column: Integers,
    a_value: Float32,
    b_start: Integers,
    b_column: Integers,
    b_value: Float32,
    i: Integers,
    j: Integers,
    n_features: int,
    out: Float32,
) -> None:
    """The order of sums of dense rows, whose zeros add nothing to them."""
    lanes, rest = np.zeros(LANES), np.zeros(LANES)
    whole = n_features - n_features % LANES
    for pair in range(len(i)):
        lanes[:] = 0.0
        rest[:] = 0.0
        s, s_end = a_start[i[pair]], a_start[i[pair] + 1]
        t, t_end = b_start[j[pair]], b_start[j[pair] + 1]
        while s < s_end or t < t_end:
            p = a_column[s] if s < s_end else n_features
            q = b_column[t] if t < t_end else n_features
            apart = 0.0
            if p <= q:
                apart += np.float64(a_value[s])
                s += 1
            if q <= p:
                apart -= np.float64(b_value[t])
                t += 1
            feature = min(p, q)
            if feature < whole:
                lanes[feature % LANES] += apart * apart
            else:
                rest[feature - whole] = apart * apart
        width = LANES // 2
        while width > 0:
            for lane in range(width):
                lanes[lane] += lanes[lane + width]
            width //= 2
        total = lanes[0]
        for left in range(n_features - whole):
            total += rest[left]
        out[pair] = np.float32(np.sqrt(total))
