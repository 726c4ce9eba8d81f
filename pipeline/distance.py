"""Euclidean distances with one exact value for each pair, whoever asks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.merge import ABSENT

_PAIR_VALUES = 1 << 22
"""float64 values that `pair_distance` holds at a time (32 MB)."""

Float32 = npt.NDArray[np.float32]


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
