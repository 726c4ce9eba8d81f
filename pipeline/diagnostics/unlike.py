"""A value of a feature whose rows' labels are unlike those of the rows around them: such a feature
may say whose labels these are, or where they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Float32, Float64, Integers

MOST_VALUES = 64
"""Values of a feature that may say whose labels these are, at most."""
FEWEST = 25
"""Rows of a value at least, and of all others."""
NEAREST = 20
"""Neighbors that a row's label is compared with."""
LEAST = 0.1
"""By how much the share of labels of one value that are contradicted is above that of all others,
and by how much more they differ from their neighbors', at least."""
LOOKED_AT = 3
"""Columns that neighbors are sought without, at most."""


@dataclass(frozen=True)
class Unlike:
    """Rows of one value of a feature, whose labels differ from those of the rows that are near them
    in all other features more than these do among themselves."""

    feature: int
    value: float
    size: float
    """Share of the rows."""
    differ: float
    """Share of near rows that have another label than they, where near rows agree most."""
    expected: float
    """The same if each had its label from any of the near rows."""


def doubtful_values(x: Float32, contradicted: Bools) -> list[tuple[int, float]]:
    """Features and their values whose rows' labels are contradicted surely oftener than those of
    all others, `LEAST` at least; one a feature, the surest first.

    Parameters
    ----------
    x : (row, feature) finite, as a person knows them
    contradicted : (row,) whether another label than the given one is predicted
    """
    surest, many = [], 2 * MOST_VALUES
    for feature in range(x.shape[1]):
        if len(np.unique(x[:many, feature])) > MOST_VALUES:
            continue
        values, code = np.unique(x[:, feature], return_inverse=True)
        if 2 <= len(values) <= MOST_VALUES:
            z = _surely_more(code, contradicted.astype(np.float64), len(values))
            top = int(np.argmax(z))
            if z[top] > _by_chance(x):
                surest.append((float(z[top]), feature, float(values[top])))
    return [(feature, value) for _, feature, value in sorted(surest, reverse=True)]


def is_unlike(
    feature: int, value: float, x: Float32, own: Integers, near: Integers
) -> Unlike | None:
    """What labels near the rows say of a value; None where its labels are not surely unlike them.

    Where classes overlap, a row's label differs from its neighbors' as often as two of these differ
    from each other. Rows are compared where these agree most: there neither the overlap nor what
    the feature tells of the class counts for much.

    Parameters
    ----------
    x : (row, feature)
    own, near : (row,) and (row, neighbor) labels, of the rows and of those near in all features but
        this one
    """
    n_rows, k = near.shape
    order, pairs = np.sort(near, axis=1), np.zeros(n_rows)
    for step in range(1, k):
        pairs += (order[:, step:] == order[:, :-step]).sum(axis=1)
    expected = 1.0 - pairs / (k * (k - 1) / 2)
    pure = expected <= np.median(expected)
    here = x[pure, feature] == np.float32(value)
    differ, expected = (near != own[:, None]).mean(axis=1)[pure], expected[pure]
    z = _surely_more(here.astype(np.int64), differ - expected, 2)[1]
    if z <= _by_chance(x):
        return None
    size = float((x[:, feature] == np.float32(value)).mean())
    return Unlike(feature, value, size, float(differ[here].mean()), float(expected[here].mean()))


def _by_chance(x: Float32) -> float:
    """Standard errors that the best of so many values lies above the mean by chance."""
    return math.sqrt(2.0 * math.log(x.size))


def _surely_more(code: Integers, of: Float64, n: int) -> Float64:
    """(code,) standard errors by which the mean of each code's rows is above that of all others; 0
    where it is by less than `LEAST`, or where either are fewer than `FEWEST`."""
    rows = np.bincount(code, minlength=n)
    counts = np.stack([rows, len(of) - rows])
    sums, squares = (np.bincount(code, column, n) for column in (of, of * of))
    both = np.stack([sums, sums.sum() - sums]), np.stack([squares, squares.sum() - squares])
    several = (counts >= FEWEST).all(axis=0)
    mean, square = (total / np.maximum(counts, 1) for total in both)
    variance = ((square - mean**2) / np.maximum(counts, 1)).sum(axis=0)
    more = np.where(several, mean[0] - mean[1], 0.0)
    z = np.divide(more, np.sqrt(variance), out=np.zeros(n), where=several & (variance > 0))
    return np.where(more >= LEAST, z, 0.0)
