"""Rows counted by group, class and certainty, and how many of each were given another class.

A row's class, and how sure it is, is what its neighbors tell, without the row's own label.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from pipeline.arrays import Bools, Float64, Int8, Int64, Integers

CERTAIN = 0.9
"""Chance of its class from which a row is nearly certain."""
NEAREST = 10
"""Neighbors of a row that tell whether groups live apart."""
LEVELS = 10
"""Levels of certainty, which divide chances from a half to one."""


class GroupCells(NamedTuple):
    """Rows by cell; each cell once, ascending. Cells of parts add up (`together`)."""

    cell: Int64
    """(cell,) number of the cell, see `Layout`"""
    rows: Int64
    """(cell,)"""
    wrong: Int64
    """(cell,) those given another class than the cell's"""
    suspect: Int64
    """(cell,) those whose label is suspect"""


@dataclass(frozen=True)
class Layout:
    """How cells are numbered: by group (the last is nobody), by class (one more is "unsure"), by
    level of certainty."""

    n_groups: int
    n_classes: int
    n_levels: int

    def count(
        self,
        group: Integers,
        likely: Integers,
        level: Integers,
        given: Integers,
        suspect: Bools,
    ) -> GroupCells:
        """Count the rows of one part.

        Parameters
        ----------
        group : (row,) from 0; -1 is nobody
        likely : (row,) likeliest class by the neighbors
        level : (row,) how sure that is; -1: unsure
        given : (row,) given class
        suspect : (row,)
        """
        kind = np.where(level >= 0, likely.astype(np.int64), self.n_classes)
        who = np.where(group < 0, self.n_groups, group).astype(np.int64)
        cell = (who * (self.n_classes + 1) + kind) * self.n_levels + np.maximum(level, 0)
        one = np.ones(len(cell), np.int64)
        wrong = given.astype(np.int64) != likely
        return _summed(GroupCells(cell, one, wrong.astype(np.int64), suspect.astype(np.int64)))

    def places(self, cells: GroupCells) -> tuple[Int64, Int64, Int64]:
        """(cell,) each: group, `n_groups` for nobody, class, `n_classes` for unsure, and level."""
        above, level = np.divmod(cells.cell, self.n_levels)
        return *np.divmod(above, self.n_classes + 1), level


def together(parts: Iterable[GroupCells]) -> GroupCells:
    """The cells of several parts, one part after the other."""
    none = np.empty(0, np.int64)
    total = GroupCells(none, none, none, none)
    for part in parts:
        both = (np.concatenate(pair) for pair in zip(total, part, strict=True))
        total = _summed(GroupCells(*both))
    return total


def table(at: tuple[Int64, ...], count: Int64, shape: tuple[int, ...]) -> Int64:
    """Sums of counts (cell,) by their places in an array."""
    counts = np.zeros(shape, np.int64)
    np.add.at(counts, at, count)
    return counts


def _summed(cells: GroupCells) -> GroupCells:
    """Each cell once."""
    cell, where = np.unique(cells.cell, return_inverse=True)
    return GroupCells(cell, *(table((where,), count, cell.shape) for count in cells[1:]))


def apart(group: Integers, near: Integers) -> float:
    """How far groups live apart: how much oftener a row's neighbor is of its own group than some
    other row is; 0 is not at all, 1 is always.

    Parameters
    ----------
    group : (row,) of a random sample of rows; -1 is nobody
    near : (row, neighbor) groups of their nearest
    """
    own = group >= 0
    counts = np.bincount(group[own])
    if own.sum() < 2 or len(counts[counts > 0]) < 2:
        return 0.0
    share = counts[group[own]] / own.sum()
    chance, same = float(share.mean()), float((near[own] == group[own, None]).mean())
    return max(0.0, (same - chance) / (1.0 - chance))


def level_of(chance: Float64) -> Int8:
    """(row,) level of the chance of each row's likeliest class; -1 below a half."""
    level = np.floor((chance - 0.5) * 2 * LEVELS)
    return np.clip(level, -1, LEVELS - 1).astype(np.int8)


@dataclass(frozen=True)
class Certain:
    """The nearly certain rows of each class."""

    level: Int64
    """(class,) level from which rows are nearly certain; `n_levels` where none are"""
    purity: Float64
    """(class,) share of them that are truly of the class; NaN where there are none"""
    right: Float64
    """(class,) P(given the class | truly of it), in the whole"""
    other: Float64
    """(class,) P(given the class | truly of another), in the whole"""


def certain_rows(rows: Int64, wrong: Int64, matrix: Float64, prior: Float64) -> Certain:
    """From which level on rows are nearly certain, by what all groups' labels say of them.

    The share of right labels at a level is ``purity * right + (1 - purity) * other``; it is
    smoothed to rise with the level.

    Parameters
    ----------
    rows, wrong : (class, level), over all groups
    matrix : (class, class) P(given | true), row = true class
    prior : (class,) shares of the clean classes
    """
    n_classes, n_levels = rows.shape
    right = np.diag(matrix).copy()
    rest = np.maximum(1.0 - prior, 1e-12)
    other = np.asarray((prior @ matrix - prior * right) / rest)
    level = np.full(n_classes, n_levels, np.int64)
    purity = np.full(n_classes, np.nan)
    for a in range(n_classes):
        filled = np.flatnonzero(rows[a])
        if not len(filled) or right[a] <= other[a]:
            continue
        share = 1.0 - wrong[a, filled] / rows[a, filled]
        rising = isotonic_regression(share, weights=rows[a, filled].astype(np.float64)).x
        sure = rising - other[a] >= CERTAIN * (right[a] - other[a])
        if not sure[-1]:
            continue
        level[a] = filled[int(np.argmax(sure))]
        n, bad = rows[a, level[a] :].sum(), wrong[a, level[a] :].sum()
        estimate = (1.0 - bad / n - other[a]) / (right[a] - other[a])
        purity[a] = min(1.0, float(estimate))
    return Certain(level, purity, right, other)
