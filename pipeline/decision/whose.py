"""How often each group that gave labels is wrong, and with that, what a row's own label tells.

The chances of the clean classes come from neighbors, whoever labeled them. A group's labels, set
against the chances of its rows, tell how often it is wrong about each class: the likeliest rates
are found by expectation and maximization (Dawid & Skene 1979, of one label a row). They are drawn
to the whole's as far as labels held out ask for it: where classes overlap, groups that do not
differ look as if they did.

Where nobody says whose labels they are, places stand for groups (``where``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pipeline.arrays import AnyArray, Bools, Float64, Int32, Int64, Integers
from pipeline.noise.segments import Bound

DRAWN = (5.0, 20.0, 80.0)
"""Strengths, in mistakes that the whole's rates expect, by which a group's rate may be drawn to the
whole's; labels held out choose."""
ROWS = 4.0
"""Rows of a class for each of them that draw a group's rate there to its rate in all."""
ROUNDS = 30
LEAST = 0.01
"""Chance of all other classes together, at least, after a place's mistakes are taken out."""
LEAST_GAIN = 1.0
"""Nats that labels held out have to be likelier by, all together, for groups to differ."""
MOST = 0.95
"""Rate at which a group may be wrong."""
SURE_GAIN = 10.0
"""Nats that labels held out have to be likelier by for places to differ."""


@dataclass(frozen=True)
class Place:
    """A part of the feature space whose labels are wrong more often than the whole's."""

    bounds: tuple[Bound, ...]
    wrong: list[float]
    """(class,) P(given another | true)"""
    matrix: list[list[float]] = field(default_factory=list)
    """(class, class) P(given | true) where rows outside tell the classes apart, and chances take
    the place's mistakes for overlap; empty elsewhere."""


class Whose(NamedTuple):
    """Whose labels some rows have, or in which place they lie, and how often each is wrong."""

    group: Integers
    """(row,) -1 for nobody's, or no place."""
    rates: Float64
    """(group + 1, class) P(given another | true), the whole's last."""
    places: tuple[Place, ...] = ()
    """What groups are, where they are places."""

    def take(self, rows: Bools | Int64 | slice) -> Whose:
        return self._replace(group=self.group[rows])

    def apart(self) -> Bools:
        """(row,) whether chances take mistakes for overlap."""
        return np.isin(self.group, [at for at, one in enumerate(self.places) if one.matrix])

    def likelihood(self, code: Int32, given: Integers, matrix: Float64) -> Float64:
        """(row, candidate) of the rows' own labels, by the whole's matrix where a group has none of
        its own."""
        likely = own_likelihood(code, given, matrix, self.rates[self.group[:, None], code])
        for at, one in enumerate(self.places):
            if one.matrix:
                rows = self.group == at
                likely[rows] = np.array(one.matrix)[code[rows], given[rows, None]]
        return likely

    def cleaned(self, chance: Float64, code: Int32) -> Float64:
        """(row, candidate) chances without the mistakes that they take for overlap."""
        c, after = self.rates.shape[1], chance.copy()
        for at, one in enumerate(self.places):
            rows = np.flatnonzero(self.group == at)
            if one.matrix and len(rows):
                of, there, slot = chance[rows], code[rows] >= 0, np.maximum(code[rows], 0)
                cell = np.arange(len(rows))[:, None] * c + slot
                of_class = np.bincount(cell.ravel(), (of * there).ravel(), len(rows) * c)
                inverse = np.linalg.pinv(np.array(one.matrix))
                clean = np.einsum("ra,ab->rb", of_class.reshape(-1, c), inverse)
                least = LEAST / np.maximum(there.sum(axis=1, keepdims=True) - 1, 1)
                clean = np.maximum(np.take_along_axis(clean, slot, axis=1), least) * there
                after[rows] = clean * (of.sum(axis=1) / clean.sum(axis=1))[:, None]
        return after


class Attributed(NamedTuple):
    """Rows of which it is known who gave their labels."""

    chance: Float64
    """(row, candidate) of the clean class, without the row's own label."""
    code: Int32
    """(row, candidate) which classes these are."""
    given: Int64
    group: Int64
    """(row,) labels by code, and whose they are."""

    def take(self, rows: Bools) -> Attributed:
        return Attributed(self.chance[rows], self.code[rows], self.given[rows], self.group[rows])

    def together(self, matrix: Float64, rates: Float64) -> Float64:
        """(row, candidate) chances of the clean class and of the given label together, by rates
        (group, class)."""
        wrong = rates[self.group[:, None], self.code]
        return self.chance * own_likelihood(self.code, self.given, matrix, wrong)


def wrong_rates(
    chance: Float64,
    code: Int32,
    given: Integers,
    group: Integers,
    matrix: Float64,
    n_groups: int,
    are_places: bool = False,
) -> Float64:
    """(group + 1, class) P(given another | true) of each group; of the whole in the last row, which
    are also those of nobody's labels, -1.

    Parameters
    ----------
    chance, code : (row, candidate) chances of the clean class without the row's own label, and
        which classes these are, -1 for none
    given, group : (row,) codes of given labels, outside [0, class) for none; and whose they are, -1
        for nobody's
    matrix : (class, class) P(given | true) of the whole, row = true class
    are_places : whether groups are places, which are no less often wrong than the whole
    """
    known, whole = (group >= 0) & (given >= 0) & (given < len(matrix)), 1.0 - np.diag(matrix)
    slot, own, who = np.maximum(code, 0), given.astype(np.int64), group.astype(np.int64)
    rows = Attributed(chance * (code >= 0), slot, own, who).take(known)
    all_alike = np.tile(whole, (n_groups + 1, 1))
    half = np.arange(len(rows.group)) % 2 == 0
    parts = [(rows.take(half), rows.take(~half)), (rows.take(~half), rows.take(half))]

    def log_likelihood(of: Attributed, rates: Float64) -> float:
        likely = of.together(matrix, rates).sum(axis=1)
        return float(np.log(np.maximum(likely, 1e-12)).sum())

    def fit(by: Attributed, drawn: float) -> Float64:
        likeliest = _likeliest(by, matrix, all_alike, drawn)
        return np.maximum(likeliest, whole) if are_places else likeliest

    gain = SURE_GAIN if are_places else LEAST_GAIN
    best, rates = sum(log_likelihood(of, all_alike) for of, _ in parts) + gain, all_alike
    for drawn in DRAWN:
        fits = [fit(by, drawn) for _, by in parts]
        of_both = sum(log_likelihood(of, fit) for (of, _), fit in zip(parts, fits, strict=True))
        if of_both > best:
            best, rates = of_both, fit(rows, drawn)
    return rates


def _likeliest(rows: Attributed, matrix: Float64, rates: Float64, drawn: float) -> Float64:
    """(group + 1, class) the likeliest rates, begun at those of all groups alike."""
    (n, c), whole = rates.shape, rates[-1]
    cell, right = rows.group[:, None] * c + rows.code, rows.code == rows.given[:, None]

    def of_cells(weight: Float64) -> Float64:
        sums = np.bincount(cell.ravel(), weight.ravel(), n * c)
        return np.asarray(sums.reshape(n, c), np.float64)

    for _ in range(ROUNDS):
        after = rows.together(matrix, rates)
        after /= np.maximum(after.sum(axis=1, keepdims=True), 1e-12)
        total, wrong = of_cells(after), of_cells(np.where(right, 0.0, after))
        times = (wrong.sum(axis=1) + drawn) / (total @ whole + drawn)
        toward = np.minimum(times[:, None] * whole, MOST)
        rates = np.minimum((wrong + ROWS * drawn * toward) / (total + ROWS * drawn), MOST)
    return rates


def of_two(one: AnyArray) -> tuple[Float64, Int32]:
    """(row, 2) chances and codes of two classes, by the chance (row,) of class 1."""
    chance = np.column_stack([1.0 - one, one])
    return chance, np.broadcast_to(np.arange(2, dtype=np.int32), chance.shape)


def own_likelihood(code: Int32, given: Integers, matrix: Float64, wrong: Float64) -> Float64:
    """(row, candidate) likelihood of the rows' own labels, if those who gave them are ``wrong``,
    (row, candidate), that often; mistakes fall on other classes as the matrix has it."""
    off = np.maximum(1.0 - np.diag(matrix), 1e-12)
    other = matrix[code, given[:, None]] * wrong / off[code]
    return np.asarray(np.where(code == given[:, None], 1.0 - wrong, other), np.float64)
