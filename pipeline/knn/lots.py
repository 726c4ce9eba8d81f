"""Lots, by which rows at the same distance are ordered: hashes of row numbers, since the order of a
file may be that of its labels."""

from __future__ import annotations

import numpy as np
from numba import njit

from pipeline.arrays import Int64, UInt64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio, by which the state of SplitMix64 grows."""


def mixed(z: UInt64) -> UInt64:
    """The output function of SplitMix64 (Steele, Lea & Flood 2014): no two values have the same."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


mixed_one = njit(cache=True, nogil=True, inline="always")(mixed)
"""The same of one value, for compiled code."""


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def lot(row: int) -> np.uint64:
    """The lot of one row, for compiled code."""
    return np.uint64(mixed_one(np.uint64(row) * GOLDEN))


def lots(row: Int64) -> UInt64:
    """The lots of rows, of any shape."""
    return mixed(row.astype(np.uint64) * GOLDEN)
