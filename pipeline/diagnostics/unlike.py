"""Values of a feature whose rows have other labels than the rows around them: such a feature may
say who gave the labels, or where they come from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from scipy.sparse import csr_array

from pipeline.arrays import Bools, Float32, Float64, Int64, Integers

MOST_VALUES = 64
"""Values up to which a feature may say whose labels these are."""
FEWEST = 25
"""Rows of a value at least, and of all others."""
NEAREST = 20
"""Neighbors among which a row's label is compared with those of other values."""
FEWEST_NEAR = 5
"""Neighbors of other values that a row needs."""
AS_COMMON = 0.8
"""Share of a label among the rows of a value, over its share elsewhere, from which on it is taken
for as common."""
LEAST = 0.1
"""Least excess of a value over all others, in the share of its labels that are contradicted, and in
how much more they differ from their neighbors' than expected."""
MOST_COLUMNS = 64
"""Columns at most for whose values the places of classes are compared."""
SURELY = 4.0
"""Standard errors by which a label has to be commoner among the rows of a value."""
MOST_VALUES_SUMMED = 200_000_000
"""Rows times features times such columns at most."""
MOST_MEANS = 1 << 22
"""Values times classes times features of such a column at most."""
LOOKED_AT = 3
"""Columns without which neighbors are sought, each in turn, at most."""


@dataclass(frozen=True)
class Unlike:
    """Rows of one value of a feature whose labels differ from those of rows near them in all other
    features more than these labels differ among themselves."""

    feature: int
    value: float
    size: float
    """Share of the rows."""
    differ: float
    """Share of near rows that have another label, where near rows agree most."""
    expected: float
    """The same share if a row's label were that of any near row."""


def doubtful_values(x: Float32, contradicted: Bools) -> list[tuple[int, float]]:
    """Features with the value, one per feature, whose rows' labels are contradicted surely more
    often than all others, by `LEAST` or more; the surest first.

    Parameters
    ----------
    x : (row, feature) finite, as a person knows them
    contradicted : (row,) whether another label than the given one is predicted
    """
    surest = []
    for feature in range(x.shape[1]):
        values, code = _few_values(x[:, feature])
        if len(values):
            z = _surely_more(code, contradicted.astype(np.float64), len(values))
            top = int(np.argmax(z))
            if z[top] > _by_chance(x):
                surest.append((float(z[top]), feature, float(values[top])))
    return [(feature, value) for _, feature, value in sorted(surest, reverse=True)]


def _few_values(column: Float32) -> tuple[Float32, Int64]:
    """The values of a column, and for each row the place of its value among them; none where there
    is one, or are more than `MOST_VALUES`."""
    if len(np.unique(column[: 2 * MOST_VALUES])) <= MOST_VALUES:
        values, code = np.unique(column, return_inverse=True)
        if 2 <= len(values) <= MOST_VALUES:
            return values, code
    return column[:0], np.empty(0, np.int64)


def turned_values(
    x: Float32, y: Integers, columns: Iterable[Sequence[int]]
) -> list[tuple[int, float, Int64]]:
    """Features with a value whose rows may use labels otherwise, and the classes concerned. Models
    learn what the labels of such rows mean, and contradict none.

    First come values in whose rows, at most half of all, two or more classes lie where another
    class does elsewhere, while that one lies apart from there; then those in whose rows one class
    may have another's label, with values first that tell least of the class.

    x : (row, feature) finite, as a person knows them; y : (row,) codes of labels
    columns : features that are one column together
    """
    turned: list[tuple[int, float, Int64]] = []
    joined: list[tuple[float, tuple[int, float, Int64]]] = []
    together, n_classes = [list(one) for one in columns], int(y.max()) + 1
    z = x * np.float32(0.25)  # the differences of the largest are numbers, too
    mean, spread = z.mean(axis=0, dtype=np.float64), z.std(axis=0, dtype=np.float64)
    z = (z - mean.astype(np.float32)) / np.where(spread > 0, spread, 1.0).astype(np.float32)
    single = set(range(x.shape[1])) - {at for one in together for at in one}
    most = max(1, min(MOST_COLUMNS, MOST_VALUES_SUMMED // x.size))
    for own in [*together, *([at] for at in sorted(single))][:most]:
        if len(own) == 1:
            values, code = _few_values(x[:, own[0]])
            named = [(own[0], value) for value in values.tolist()]
        else:
            code = x[:, own].argmax(axis=1)
            named = [(feature, 1.0) for feature in own] if len(own) <= MOST_VALUES else []
        n_cells = len(named) * n_classes
        if not 0 < n_cells * x.shape[1] <= MOST_MEANS:
            continue
        cell, ones = code * n_classes + y, np.ones(len(y), np.float32)
        of = csr_array((ones, (cell, np.arange(len(y)))), shape=(n_cells, len(y)))
        sums = np.delete(of @ z, own, axis=1).reshape(len(named), n_classes, -1)
        count = np.bincount(cell, minlength=n_cells).reshape(len(named), -1)
        whole, total = sums.sum(axis=0), count.sum(axis=0)
        for one, value in enumerate(named) if sums.size else ():
            here, elsewhere = count[one], total - count[one]
            of_these = sums[one] / np.maximum(here, 1)[:, None]
            of_others = (whole - sums[one]) / np.maximum(elsewhere, 1)[:, None]
            if len(classes := _moved(here, elsewhere, of_these, of_others)) > 1:
                turned.append((*value, classes))
            elif len(classes := _joined(here, elsewhere, of_these, of_others)):
                apart = np.abs(here / here.sum() - elsewhere / elsewhere.sum()).sum()
                joined.append((float(apart), (*value, classes)))
    return turned + [one for _, one in sorted(joined, key=itemgetter(0))]


def _moved(here: Integers, elsewhere: Integers, mean: Float64, other: Float64) -> Int64:
    """Classes whose rows here are nearest to where another class lies elsewhere, unless that one is
    there here, too; by counts (class,) and means (class, feature) of the rows of a value, at most
    half of all, and of all other rows."""
    mine, theirs = (np.flatnonzero(n >= FEWEST) for n in (here, elsewhere))
    if here.sum() > elsewhere.sum() or not len(theirs):
        return mine[:0]
    away = (other[theirs] ** 2).sum(axis=1) - 2.0 * mean[mine] @ other[theirs].T
    like = theirs[away.argmin(axis=1)]
    moved = (like != mine) & ~np.isin(like, mine[like == mine])
    return np.asarray(mine[moved])


def _joined(here: Integers, elsewhere: Integers, mean: Float64, other: Float64) -> Int64:
    """Classes of which half or more is missing here, and those that took them in: these are surely
    commoner here, and lie as far towards a missing class as with half of its missing rows."""
    expected = elsewhere * (here.sum() / max(1, elsewhere.sum()))
    missing = (expected - here >= FEWEST) & (2 * here <= expected) & (elsewhere >= FEWEST)
    more = (here - expected > SURELY * np.sqrt(expected + 1.0)) & (elsewhere >= FEWEST)
    taken = np.zeros(len(here), bool)
    for label in np.flatnonzero(more) if missing.any() else ():
        way = other[missing] - other[label]
        share = way @ (mean[label] - other[label])
        took = 2.0 * share * here[label] >= (way**2).sum(axis=1) * (expected - here)[missing]
        taken[label] = took.any()
        taken[np.flatnonzero(missing)[took]] = True
    return np.flatnonzero(taken)


def is_unlike(
    feature: int,
    value: float,
    x: Float32,
    own: Integers,
    near: Integers,
    alike: Bools,
    of: Integers | None = None,
) -> Unlike | None:
    """How labels of a value's rows differ from those near them; None where they surely do not.

    Only neighbors of other values count. Where classes overlap, a row's label differs from its
    neighbors' as often as two of these differ from each other. So rows are compared where neighbors
    agree most, and with rows of other values that have the same label: then neither overlap nor
    what the feature tells of the class matters much. Labels that are rarer here are left aside, as
    more of them are mistakes; and rows with few such neighbors, as their features may differ too.

    Parameters
    ----------
    x : (row, feature)
    own, near : (row,) and (row, neighbor) labels, of the rows and of those near in all features but
        this one
    alike : (row, neighbor) whether a neighbor is of that value itself
    of : codes of the labels whose rows are compared; None: all
    """
    k, here, n_labels = near.shape[1], x[:, feature] == np.float32(value), int(own.max()) + 1
    size = float(here.mean())
    counts = [np.bincount(own[of_these], minlength=n_labels) for of_these in (here, ~here)]
    common = counts[0] * (1.0 - size) >= AS_COMMON * size * counts[1]
    most = size * k + 3.0 * math.sqrt(size * (1.0 - size) * k)
    rows = common[own] & (alike.sum(axis=1) <= min(most, k - FEWEST_NEAR))
    if of is not None:
        rows &= np.isin(own, of)
    if not rows.any():
        return None
    own, here = own[rows], here[rows]
    others = np.where(alike[rows], -1 - np.arange(k), near[rows])  # labels that no two have
    n = (others >= 0).sum(axis=1)
    order, pairs = np.sort(others, axis=1), np.zeros(len(own))
    for step in range(1, k):
        pairs += (order[:, step:] == order[:, :-step]).sum(axis=1)
    differ = 1.0 - (others == own[:, None]).sum(axis=1) / n
    expected = 1.0 - pairs / (n * (n - 1) / 2)
    pure = expected <= np.median(expected)
    elsewhere = np.bincount(own[pure & ~here], minlength=n_labels)
    pure &= elsewhere[own] >= FEWEST
    own, here, differ, expected = own[pure], here[pure], differ[pure], expected[pure]
    usual = np.bincount(own[~here], (differ - expected)[~here], n_labels) / np.maximum(elsewhere, 1)
    z = _surely_more(here.astype(np.int64), differ - expected - usual[own], 2)[1]
    if z <= _by_chance(x):
        return None
    return Unlike(feature, value, size, float(differ[here].mean()), float(expected[here].mean()))


def _by_chance(x: Float32) -> float:
    """Standard errors by which the best of so many values is above the mean by chance."""
    return math.sqrt(2.0 * math.log(x.size))


def _surely_more(code: Integers, of: Float64, n: int) -> Float64:
    """(code,) standard errors by which the mean of each code's rows is above that of all others; 0
    where the excess is below `LEAST`, or one side has fewer rows than `FEWEST`."""
    rows = np.bincount(code, minlength=n)
    counts = np.stack([rows, len(of) - rows])
    sums, squares = (np.bincount(code, column, n) for column in (of, of * of))
    both = np.stack([sums, sums.sum() - sums]), np.stack([squares, squares.sum() - squares])
    several = (counts >= FEWEST).all(axis=0)
    mean, square = (total / np.maximum(counts, 1) for total in both)
    variance = ((square - mean**2) / np.maximum(counts, 1)).sum(axis=0)
    more = np.where(several, mean[0] - mean[1], 0.0)
    surely = more / (np.sqrt(variance) + np.finfo(np.float64).tiny)  # and where none vary
    return np.where(several & (more >= LEAST), surely, 0.0)
