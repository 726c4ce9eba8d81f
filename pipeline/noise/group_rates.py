"""Noise rates of groups, from counts of their nearly certain rows.

A group's rate is read where the whole's is: on rows that are nearly certain by their neighbors, as
the share whose own label is another. No row's own label says that it is certain, so the share is
unbiased; the few rows of other classes among them are taken off. Rates of small groups are drawn to
the whole's by as much as the groups differ (empirical Bayes of beta-binomial counts).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaincc

from pipeline.arrays import Float64
from pipeline.noise.group_cells import Certain

MIXED = 0.25
"""Standard error of what is taken off for rows of other classes, as a part of it."""
STEADY = 5.0
"""Rows, mixed as in the whole, that are added to a group's mixture of classes."""
ROUNDS = 4
"""How often a group's mixture of classes is estimated anew, from the purity by the one before."""
WEIGHTS = np.logspace(0.0, 5.0, 51)
"""Rows for which the whole may count in a group's shrunken rate."""
LEAST = 1e-4
"""Least mean that rates are drawn to."""


class Rates(NamedTuple):
    """Rates of all groups; (group, class) each, NaN where there is no row."""

    rows: Float64
    wrong: Float64
    purity: Float64
    mixed: Float64
    """Standard error of what is taken off for rows of other classes."""
    lean: Float64
    """How much more than the whole's rate a group's moves if the whole's is off by its error."""
    estimate: Float64
    low: Float64
    high: Float64
    shrunk: Float64


def estimates(
    rows: Float64, wrong: Float64, certain: Certain, error: Float64
) -> tuple[Rates, Float64, Float64]:
    """Rates of the groups; what they are drawn to, (class,), and by how many rows.

    Parameters
    ----------
    rows, wrong : (group + 1, class) nearly certain rows, and those of them given another class; the
        last group is nobody
    error : (class,) standard errors of the whole's rates
    """
    purity, times = (column[:-1] for column in _purity(rows, certain))
    n, bad = rows[:-1], wrong[:-1]
    taken = (1.0 - purity) * (1.0 - certain.other)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = bad / n
        middle = np.clip((share - taken) / purity, 0.0, 1.0)
        low, high = ((end - taken) / purity for end in _wilson(share, n))
        mixed = MIXED * (1.0 - purity) * (certain.right - certain.other)
        common = 1.96 * np.hypot(error * times, mixed)
        low = np.clip(middle - np.hypot(np.maximum(middle - low, 0.0), common), 0.0, 1.0)
        high = np.clip(middle + np.hypot(np.maximum(high - middle, 0.0), common), 0.0, 1.0)
    shrunk, drawn, weight = np.full(n.shape, np.nan), *np.full((2, n.shape[1]), np.nan)
    for a in range(n.shape[1]):
        there = n[:, a] > 0
        if there.any():
            size = n[there, a] * purity[there, a] ** 2
            drawn[a], weight[a] = _prior(middle[there, a] * size, size)
            shrunk[:, a] = drawn[a]
            toward = (middle[there, a] * size + weight[a] * drawn[a]) / (size + weight[a])
            shrunk[there, a] = np.clip(toward, low[there, a], high[there, a])
    lean = error * (times - 1.0)
    return Rates(n, bad, purity, mixed, lean, middle, low, high, shrunk), drawn, weight


def _purity(rows: Float64, certain: Certain) -> tuple[Float64, Float64]:
    """(group + 1, class) share of the nearly certain rows that are truly of the class; and the odds
    that one is not, over those in the whole: if a group has few rows of a class, more of those that
    look like it are of another."""
    pure = np.nan_to_num(certain.purity, nan=1.0)
    pure_rows = rows * pure
    whole = pure_rows.sum(axis=0) / max(float(pure_rows.sum()), 1.0)
    odds, apart = (1.0 - pure) / pure, _odds(whole)
    for _ in range(ROUNDS):
        mixture = pure_rows + STEADY * whole
        times = apart / _odds(mixture / np.maximum(mixture.sum(axis=1, keepdims=True), 1e-6))
        purity = 1.0 / (1.0 + odds * times)
        pure_rows = rows * purity
    return purity, times


def _odds(share: Float64) -> Float64:
    share = np.clip(share, 1e-6, 1.0 - 1e-6)
    return np.asarray(share / (1.0 - share))


def _wilson(share: Float64, n: Float64) -> tuple[Float64, Float64]:
    """Ends of the 95 % Wilson intervals, element by element."""
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def _prior(wrong: Float64, rows: Float64) -> tuple[float, float]:
    """Mean and weight, in rows, of the beta distribution by which the counts are likeliest, among
    `WEIGHTS`, each with its mean of least variance. Counts are (group,) each, and no whole numbers,
    as something was taken off."""
    weight = WEIGHTS[:, None]
    size = rows / (1.0 + np.maximum(rows - 1.0, 0.0) / (weight + 1.0))
    mean = (size * (wrong / rows)).sum(axis=1, keepdims=True) / size.sum(axis=1, keepdims=True)
    mean = np.clip(mean, LEAST, 1.0 - LEAST)
    a, b = mean * weight, (1.0 - mean) * weight
    likelihood = (betaln(wrong + a, rows - wrong + b) - betaln(a, b)).sum(axis=1)
    best = int(np.argmax(likelihood))
    return float(mean[best, 0]), float(WEIGHTS[best])


def differ(rates: Rates, certain: Certain, a: int) -> tuple[float, float, float] | None:
    """Pearson's statistic of one class, of one rate for all groups, with its mean and variance
    under that hypothesis (exact for binomial counts); None for fewer than two groups. What an error
    of the whole's rate explains is taken off."""
    there = rates.rows[:, a] > 0
    if there.sum() < 2:
        return None
    n, bad, purity = (column[there, a] for column in (rates.rows, rates.wrong, rates.purity))
    taken = (1.0 - purity) * (1.0 - certain.other[a])
    size = n * purity
    rate = float(np.clip((bad - n * taken).sum() / size.sum(), 0.0, 1.0))
    expected = np.clip(taken + purity * rate, 0.0, 1.0)
    alone = n * expected * (1.0 - expected)
    if not (alone > 0).all():
        return None
    variance = alone + (n * rates.mixed[there, a]) ** 2
    part = alone / variance
    less = 1.0 - size / size.sum()  # as the one rate is fitted
    away, lean = bad - n * expected, n * rates.lean[there, a]
    leaning = (away * lean / variance).sum() ** 2 / (1.0 + (lean**2 / variance).sum())
    statistic = float((away**2 / variance).sum() - leaning)
    fourth = 2.0 + 1.0 / alone - 6.0 / n
    return statistic, float((less * part).sum()), float((less * part**2 * fourth).sum())


def p_value(statistic: float, mean: float, variance: float) -> float:
    """Upper tail of the gamma distribution with this mean and variance; 1 where nothing varies."""
    if variance <= 0.0:
        return 1.0
    return float(gammaincc(mean**2 / variance, statistic * mean / variance))
