"""Logistic functions, the normal distribution, and the gamma distribution's tail.

In place of scipy.special, whose import takes longer than the rates of a small pool; its functions
are the twins in the tests.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]
_EPS = 1e-16
_TINY = 1e-300
_MOST_TERMS = 1_000_000


def expit(z: npt.ArrayLike) -> Floats:
    """1 / (1 + exp(-z)), without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(np.asarray(z) >= 0, 1.0, small) / (1.0 + small), np.float64)


def logit(p: float) -> float:
    """The number whose `expit` is p, 0 < p < 1."""
    return math.log(p / (1.0 - p))


def softmax(z: Floats) -> Floats:
    """(row, class) chances that add up to 1 in a row, of logarithms up to a constant."""
    raw = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def ndtr(z: Floats) -> Floats:
    """(row,) chance that a standard normal number is at most z."""
    found = np.empty(len(z))
    for i in range(len(z)):
        found[i] = 0.5 * math.erfc(-z[i] / math.sqrt(2.0))
    return found


def gammaincc(a: float, x: float) -> float:
    """Chance that a gamma variable of shape a > 0 is at least x >= 0: the regularized upper
    incomplete gamma function, by series below a + 1 and by continued fraction above (Press et al.
    2007, 6.2)."""
    if x <= 0.0:
        return 1.0
    weight = math.exp(a * math.log(x) - x - math.lgamma(a))
    return 1.0 - weight * _series(a, x) if x < a + 1.0 else weight * _fraction(a, x)


def _series(a: float, x: float) -> float:
    term = total = 1.0 / a
    n = a
    while term > total * _EPS:
        n += 1.0
        term *= x / n
        total += term
    return total


def _fraction(a: float, x: float) -> float:
    """Lentz's method."""
    b = x + 1.0 - a
    c, d = 1.0 / _TINY, 1.0 / b
    found, factor, n = d, 0.0, 0
    while abs(factor - 1.0) > 4e-16 and n < _MOST_TERMS:
        n += 1
        more = -n * (n - a)
        b += 2.0
        d = 1.0 / _off_zero(more * d + b)
        c = _off_zero(b + more / c)
        factor = c * d
        found *= factor
    return found


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
