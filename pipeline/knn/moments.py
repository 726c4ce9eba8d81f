"""Features shifted and scaled, and their extent and squares, in float64 and by compiled loops:
temporary arrays would take most of the time."""

from __future__ import annotations

import numpy as np
from numba import njit

from pipeline.arrays import Float32, Float64


def moved(x: Float32, offset: Float64, factor: Float64) -> Float32:
    """(row, feature) ``(x - offset) * factor``, rounded once."""
    after = np.empty(x.shape, np.float32)
    _move(np.ascontiguousarray(x), offset, factor, after)
    return after


def extent(x: Float32) -> tuple[Float64, Float64, Float64]:
    """(feature,) least, greatest and mean value of at least one row."""
    low, high, mean = (np.full(x.shape[1], start) for start in (np.inf, -np.inf, 0.0))
    _extend(np.ascontiguousarray(x), low, high, mean)
    return low, high, mean


def squares(x: Float32, mean: Float64) -> Float64:
    """(feature,) sum of squared distances from the mean."""
    total = np.zeros(x.shape[1])
    _square(np.ascontiguousarray(x), mean, total)
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _move(x: Float32, offset: Float64, factor: Float64, after: Float32) -> None:
    for row in range(len(x)):
        for f in range(x.shape[1]):
            after[row, f] = (x[row, f] - offset[f]) * factor[f]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _extend(x: Float32, low: Float64, high: Float64, mean: Float64) -> None:
    for row in range(len(x)):
        for f in range(x.shape[1]):
            value = np.float64(x[row, f])
            low[f], high[f] = min(low[f], value), max(high[f], value)
            mean[f] += value
    mean /= len(x)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _square(x: Float32, mean: Float64, total: Float64) -> None:
    for row in range(len(x)):
        for f in range(x.shape[1]):
            away = x[row, f] - mean[f]
            total[f] += away * away
