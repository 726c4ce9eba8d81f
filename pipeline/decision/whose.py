"""How often each of those who gave the labels is wrong, for what a row's own label tells.

The chances of the clean classes come from neighbors, whoever labeled them. A group's labels, set
against the chances of its rows, tell how often it is wrong about each class: the likeliest rates
are found by expectation and maximization (Dawid & Skene 1979, of one label a row). They are drawn
to the whole's as far as labels held out ask for it: where classes overlap, groups that do not
differ look as if they did.

Where nobody says whose labels they are, the places of the feature space where labels look wrong
more often stand for groups: leaves of a small tree of the chance that a row's label is wrong. A
place's rates are the whole's or higher, and only where labels held out are surely likelier by them:
of overlap a tree makes places, too, and rates below the whole's would hide what is wrong there.
Of two classes, chances that were fitted to the labels may have a place's mistakes as overlap, by
which labels are as likely. That classes are told apart there is seen from outside: rows that are
like those of the place, but in one of the features that bound it, agree in their labels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pipeline.arrays import AnyArray, Bools, Float32, Float64, Int32, Int64, Integers
from pipeline.knn.exact import nearest
from pipeline.noise.segments import Bound, inside, leaves, sample_rows

DRAWN = (5.0, 20.0, 80.0)
"""Mistakes, as the whole's rates expect them, that may draw a group's rate to the whole's."""
ROWS = 4.0
"""Rows of a class for each of them that draw a group's rate there to its rate in all."""
ROUNDS = 30
LEAST_GAIN = 1.0
"""Nats that labels held out have to be likelier by, all together, for groups to differ."""
MOST = 0.95
"""Rate at which a group may be wrong."""
FEWEST = 100
"""Rows of a place at least, or a thirtieth of all."""
SURE_GAIN = 10.0
"""Nats that labels held out have to be likelier by for places to differ."""
AROUND, TRIED = 15, (500, 4000)
"""Rows outside a place that a row of it is compared with; rows of it, and others, that are."""
TELLING = 50
"""Features by which they are, at most: those that tell most of the labels."""
AGREE = 1 / 3
"""Part of a place's labels that contradict those of rows like them, which these may contradict each
other at most."""
SURELY = 3.0
"""Standard errors that a place's rate lies above the whole's."""
SIMPLER = 2.0
"""Standard errors by which chances may make a place's labels likelier than its rates do."""
MOST_TOGETHER = 0.85
"""Rates of both classes together beyond which labels tell too little."""


@dataclass(frozen=True)
class Place:
    """A part of the feature space whose labels are wrong more often than the whole's."""

    bounds: tuple[Bound, ...]
    wrong: list[float]
    """(class,) P(given another | true)"""
    apart: bool = False
    """Whether the classes are told apart there, and chances have its mistakes as overlap."""


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
    given, group : (row,) labels by code, others for none, and whose they are, -1 for nobody's
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


def find_places(
    x: Float32, chance: Float64, code: Int32, given: Integers, matrix: Float64
) -> tuple[Place, ...]:
    """The places of a sample whose labels are wrong more often; none where nothing is sure.

    x : (row, feature); the others as of ``wrong_rates``
    """
    known = np.flatnonzero((given >= 0) & (given < len(matrix)))
    known = _spread(known, sample_rows(x.shape[1]))
    if len(known) < 2 * FEWEST:
        return ()
    some, slot, own = x[known], np.maximum(code[known], 0), given[known].astype(np.int64)
    after = chance[known] * (code[known] >= 0) * matrix[slot, own[:, None]]
    right, likely = (after * (slot == own[:, None])).sum(axis=1), after.sum(axis=1)
    likely = np.maximum(likely, 1e-12)
    wrong = 1.0 - right / likely
    doubted = wrong > wrong.mean()
    fewest, least = max(FEWEST, len(known) // 30), 2.0 * math.log(some.size)
    parts = leaves(some, doubted, fewest, least)
    often = [doubted[inside(some, bounds)].mean() > doubted.mean() for bounds in parts]
    places = [Place(bounds, []) for bounds in itertools.compress(parts, often)]
    if not places:
        return ()
    rates = wrong_rates(chance, code, given, place_of(places, x), matrix, len(places), True)
    by_others: list[Float64 | None] = [None] * len(places)
    if len(matrix) == 2:
        by_others = [_rates_by_others(some, own, likely, one.bounds, rates[-1]) for one in places]
    for at, by in enumerate(by_others):
        if by is not None:
            places[at], rates[at] = replace(places[at], apart=True), by
    if not (rates > rates[-1]).any():
        return ()
    return tuple(replace(one, wrong=of.tolist()) for one, of in zip(places, rates, strict=False))


def _rates_by_others(
    x: Float32, given: Int64, likely: Float64, bounds: tuple[Bound, ...], whole: Float64
) -> Float64 | None:
    """(2,) P(given another | true) of two classes in a place, the ``whole``'s or higher, by what
    rows outside are given that are like its rows in all features but one; None where these do not
    agree, where chances tell more, or it is not surely higher.

    x, given, likely : (row, feature) and (row,) of a sample, and how likely chances make its labels
    """
    here = inside(x, bounds)
    rows, others = (
        _spread(np.flatnonzero(part), most) for part, most in zip((here, ~here), TRIED, strict=True)
    )
    label, outside = given[others], x[others]
    if x.shape[1] < 2 or np.bincount(label, minlength=2).min() < AROUND:
        return None
    means = [outside[label == a].mean(axis=0, dtype=np.float64) for a in (0, 1)]
    variance = outside.var(axis=0, dtype=np.float64)
    by = np.divide(means[1] - means[0], variance, out=np.zeros(x.shape[1]), where=variance > 0)
    telling = np.argsort(-np.abs(by) * np.sqrt(variance), kind="stable")[:TELLING]
    query, among = ((part * by).astype(np.float32) for part in (x[rows], outside))
    fewest, rates = 0.5, None
    for feature in sorted({bound[0] for bound in bounds}):
        rest = telling[telling != feature]
        index, _ = nearest(query[:, rest], among[:, rest], AROUND)
        ones = label[index].mean(axis=1)
        clean = (ones > 0.5).astype(np.int64)
        wrong = given[rows] != clean
        count = np.bincount(clean, minlength=2)
        rate = (np.bincount(clean, wrong, 2) + ROWS * whole) / (count + ROWS)
        error = np.sqrt(rate * (1.0 - rate) / (count + ROWS))
        higher = np.where(rate - whole > SURELY * error, rate, whole)
        more = np.log(likely[rows]) - np.log(np.where(wrong, rate[clean], 1.0 - rate[clean]))
        if (
            wrong.mean() < fewest
            and np.minimum(ones, 1.0 - ones).mean() < AGREE * wrong.mean()
            and more.sum() <= SIMPLER * more.std() * np.sqrt(len(rows))
            and (higher > whole).any()
            and higher.max() < 0.5
            and higher.sum() < MOST_TOGETHER
        ):
            fewest, rates = wrong.mean(), higher
    return rates


def _spread(rows: Int64, most: int) -> Int64:
    """So many of them at most, evenly."""
    return rows[:: max(1, -(-len(rows) // most))]


def place_of(places: Sequence[Place], x: Float32) -> Int64:
    """(row,) the place that features (row, feature) are in, -1 for none."""
    place = np.full(len(x), -1)
    for one, at in enumerate(places):
        place[inside(x, at.bounds)] = one
    return place


def are_apart(places: Sequence[Place]) -> Bools:
    """(place + 1,) whether the classes are told apart in each; of the whole that is not asked."""
    return np.array([*(one.apart for one in places), False])


def place_rates(places: Sequence[Place], matrix: Float64) -> Float64:
    """(place + 1, class) P(given another | true) of each place, and of the whole."""
    return np.array([*(place.wrong for place in places), 1.0 - np.diag(matrix)])


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
