"""Rows in bytes: most distances that are too large are seen in them, and the rows need not be read.

Scalar quantization along the leading principal axes, in steps that are small beside the distances
of neighbors. Bytes overflow: what is far may look near, what is near never looks far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from pipeline.arrays import Float32, Int8
from pipeline.knn.threads import Threads

AXES = 64
"""Bytes of a row: what one read from memory brings."""
_FEWEST = 24
"""Features from which bytes are worth it."""
_MOST = 4096
"""Features whose axes are decomposed as a whole, in a time of their number to the third power."""
_SPANNING = 1024
"""Rows whose span has the axes of more features."""
_FINER = 40
"""Steps to the distance of a neighbor."""
_SURE = 3.0
"""Standard deviations of what rounding does to a squared distance, within which a row is kept."""
_VARIANCE = 1 / 6, 1 / 15 - 1 / 36
"""Of the difference of two roundings, in steps, and of its square."""


@dataclass(frozen=True)
class Quantized:
    """Rows in bytes, and how far bytes are believed."""

    code: Int8
    """(row, AXES) places along the axes, in steps, modulo 256; (row, 0) where there are none"""
    believed: Float32
    """(3,) a, b, c: of two rows whose squared distance is at most s, the squared distance of the
    bytes is, but for one in a thousand, at most a·s + b·√s + c"""

    @classmethod
    def none(cls, n_rows: int) -> Quantized:
        """No bytes: all rows are read."""
        return cls(np.empty((n_rows, 0), np.int8), np.zeros(3, np.float32))

    @classmethod
    def of(cls, x: Float32, distance: float, threads: Threads) -> Quantized:
        """Rows in bytes that tell whether they are within about a distance; none where features
        are so few that it saves little.

        x : (row, feature) float32, at most some 2**16 distances apart
        """
        n, d = x.shape
        if d < _FEWEST or distance <= 0:
            return cls.none(n)
        some = x[:: max(1, n // (20 * d if d <= _MOST else _SPANNING))].astype(np.float64)
        center, step, along = some.mean(axis=0), distance / _FINER, None
        if d > AXES:
            away = some - center
            if d <= _MOST:
                vectors = np.linalg.eigh(away.T @ away)[1]
            else:
                vectors, _ = np.linalg.qr(away.T @ np.linalg.eigh(away @ away.T)[1][:, -AXES:])
            along = (vectors[:, : -AXES - 1 : -1] / step).astype(np.float32)
        axes = d if along is None else along.shape[1]
        origin, per_step = center.astype(np.float32), np.float32(1.0 / step)
        code = threads.full((n, AXES), 0, np.int8)

        def quantize(a: int, b: int) -> None:
            place = x[a:b] - origin
            place = place * per_step if along is None else place @ along
            code[a:b, :axes] = np.rint(place, out=place).astype(np.int32)

        threads.over(n, quantize)
        variance, of_square = _VARIANCE
        believed = (
            step**-2,
            2 * _SURE * math.sqrt(variance) / step,
            variance * axes + _SURE * math.sqrt(of_square * axes),
        )
        return cls(code, np.array(believed, np.float32))


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def most(believed: Float32, squared: float) -> float:
    """The largest squared distance of bytes at which a row may be as near as a squared distance."""
    allowed: float = believed[0] * squared + believed[1] * np.sqrt(squared) + believed[2]
    return allowed
