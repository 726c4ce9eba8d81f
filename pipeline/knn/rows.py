"""Rows in memory, dense or sparse, and the exact search among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, get_index_dtype, hstack, issparse

from pipeline.arrays import Float32, Int64, Integers
from pipeline.knn.distance import pair_distance
from pipeline.knn.exact import nearest
from pipeline.knn.sparse import nearest_sparse, sparse_pair_distance
from pipeline.knn.threads import ALONE, Threads

METRICS = ("euclidean", "cosine")
Rows = Any
"""(row, feature) float32, finite: a C-contiguous array, or CSR as of `pipeline.knn.sparse`."""

_TILE_BYTES = 64 << 20
"""Of sparse queries that are made dense at once."""


def as_rows(x: Rows, metric: str) -> Rows:
    """Rows whose Euclidean distances order as the metric does.

    Parameters
    ----------
    x : (row, feature) float32, finite: a C-contiguous array, or CSR
    metric : one of `METRICS`

    Returns
    -------
    `x` for `euclidean`; for `cosine` (row, feature + 1), rows of length 1
    """
    if issparse(x):
        x = csr_array((x.data, x.indices, x.indptr), shape=x.shape, copy=not x.has_canonical_format)
        x.sum_duplicates()
        least = get_index_dtype(
            (x.indptr, x.indices), check_contents=True
        )  # trees take int32 alone
        x.indptr, x.indices = (part.astype(least, copy=False) for part in (x.indptr, x.indices))
    return x if metric == "euclidean" else _unit(x)


def dense(x: Rows) -> Float32:
    """The same rows as an array."""
    return np.asarray(x.toarray() if issparse(x) else x)


def nearest_rows(
    query: Rows, x: Rows, k: int, *, exclude: Integers | None = None, threads: Threads = ALONE
) -> tuple[Int64, Float32]:
    """`pipeline.knn.exact.nearest` for any two kinds of rows: of sparse queries to dense rows a few
    are dense at a time. Threads share dense queries."""
    if issparse(x):
        queries = query if issparse(query) else csr_array(query)
        return nearest_sparse(queries, x, k, exclude=exclude)
    if not issparse(query):
        return nearest(query, x, k, exclude=exclude, threads=threads)
    step = max(1, _TILE_BYTES // (4 * x.shape[1]))
    lists = []
    for start in range(0, query.shape[0], step):
        part = slice(start, start + step)
        left_out = None if exclude is None else exclude[part]
        lists.append(nearest(query[part].toarray(), x, k, exclude=left_out))
    index, distance = zip(*lists, strict=True)
    return np.concatenate(index), np.concatenate(distance)


def _unit(x: Rows) -> Rows:
    """Rows of length 1. Rows of zeros, which have no direction, are 1 in one more feature, which is
    0 in all others: at a right angle to them."""
    largest = (
        abs(x).max(axis=1).toarray().ravel() if issparse(x) else np.maximum(x.max(1), -x.min(1))
    )
    nothing = (largest == 0).astype(np.float32)[:, None]
    every, origin = np.arange(len(largest)), np.zeros(len(largest), np.int64)
    exponent = -np.frexp(largest)[1]  # of a power of two, so that no square leaves its range
    unit: Rows
    if issparse(x):
        unit = hstack([x, csr_array(nothing)], format="csr")
        row = np.repeat(every, np.diff(unit.indptr))
        unit.data = np.ldexp(unit.data, exponent[row])
        zero = csr_array((1, unit.shape[1]), dtype=np.float32)
        unit.data /= sparse_pair_distance(unit, zero, every, origin)[row]
    else:
        unit = np.hstack([x, nothing])
        np.ldexp(unit, exponent[:, None], out=unit)
        zero = np.zeros((1, unit.shape[1]), np.float32)
        unit /= pair_distance(unit, zero, every, origin)[:, None]
    return unit
