"""Where labels are wrong more often: places of the feature space that stand for groups.

A place is a leaf of a small tree of the chance that a row's label is wrong. Its rates (``whose``)
are the whole's or higher, and only where labels held out are surely likelier by them: of overlap a
tree makes places, too, and rates below the whole's would hide what is wrong there.

Chances that were fitted to the labels may take a place's mistakes for overlap, by which labels are
as likely. Rows outside tell: those that are like the place's in all features but one of its bounds.
Where they agree with each other, and not with the labels of the place, these are mistakes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from pipeline.arrays import Bools, Float32, Float64, Int32, Int64, Integers
from pipeline.decision.whose import ROWS, Attributed, Place, wrong_rates
from pipeline.knn.exact import nearest
from pipeline.noise.segments import Bound, inside, leaves, sample_rows

FEWEST = 100
"""Rows of a place at least, or a thirtieth of all."""
AROUND = 15
"""Rows outside a place that a row of it is compared with."""
TRIED, MOST_TRIED, OTHERS = 250, 2000, 4000
"""Rows of a place that are compared, for each class and at most in all; and rows outside."""
TELLING = 50
"""Features that rows are compared by, at most: those that tell most of the labels."""
AGREE, AGREE_OF_MANY = 1 / 3, 0.4
"""Rows outside may contradict each other so much as often, at most, as the place's labels: of two
classes and of more, which share the votes between others, too."""
SURELY = 3.0
"""Standard errors by which a class' rate has to be higher in a place, as a likelihood ratio."""
SIMPLER = 2.0
"""Standard errors by which chances may make a place's labels likelier than its rates do."""
CLEARLY = 2.0
"""Standard errors by which rows with a class' label have more of its labels around them."""
DOUBTED = 0.25
"""Chances take mistakes for overlap if those of other classes come to this part of them."""
SEPARATE = 0.15
"""Labels tell two classes apart if each has its own so much more often than the other's."""


def find_places(
    x: Float32,
    chance: Float64,
    code: Int32,
    given: Integers,
    matrix: Float64,
    outside: float = 0.0,
) -> tuple[Place, ...]:
    """The places of a sample whose labels are wrong more often; none where nothing is sure.

    x : (row, feature); the others as of ``wrong_rates``
    outside : of the rows nearest to a place's, by all features but one, this part of what chance
        has must lie outside, for those there to be like them
    """
    known = np.flatnonzero((given >= 0) & (given < len(matrix)))
    known = _spread(known, sample_rows(x.shape[1]))
    if len(known) < 2 * FEWEST:
        return ()
    some, slot, own = x[known], np.maximum(code[known], 0), given[known].astype(np.int64)
    before = chance[known] * (code[known] >= 0)
    after = before * matrix[slot, own[:, None]]
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
    group = place_of(places, x)
    rates = wrong_rates(chance, code, given, group, matrix, len(places), True)
    sample = Attributed(before, slot, own, group[known])
    for at, one in enumerate(places):
        others = _by_others(some, sample, likely, at, one.bounds, matrix, outside)
        if others is not None:
            rates[at] = 1.0 - np.diag(others.matrix)
            if others.as_overlap:
                places[at] = replace(one, matrix=others.matrix.tolist())
    if not (rates > rates[-1]).any():
        return ()
    return tuple(replace(one, wrong=of.tolist()) for one, of in zip(places, rates, strict=False))


class _ByOthers(NamedTuple):
    """What rows outside say of a place."""

    matrix: Float64
    """(class, class) P(given | true)"""
    as_overlap: bool
    """Whether chances take its mistakes for overlap."""


def _by_others(
    x: Float32,
    sample: Attributed,
    likely: Float64,
    place: int,
    bounds: tuple[Bound, ...],
    matrix: Float64,
    least_outside: float,
) -> _ByOthers | None:
    """What rows outside a place are given that are like its rows in all features but one; None
    where these do not agree, where chances make the labels likelier, or where these are not surely
    wrong more often than by the whole's ``matrix``, or do not tell classes apart.

    x, sample : (row, feature) and what chances say of the same rows
    likely : (row,) how likely they make the labels
    """
    here, c = sample.group == place, len(matrix)
    rows = _spread(np.flatnonzero(here), min(TRIED * c, MOST_TRIED))
    others = _spread(np.flatnonzero(~here), OTHERS)
    own, label, outside = sample.given[rows], sample.given[others], x[others]
    weight = _telling(outside, label, c)
    if x.shape[1] < 2 or weight is None:
        return None
    telling = _most_telling(weight, outside)
    query, among = ((part * weight).astype(np.float32) for part in (x[rows], outside))
    fewest, best = 0.5, None  # mistakes: most labels of a place are right
    agree = AGREE if c == 2 else AGREE_OF_MANY
    for feature in sorted({bound[0] for bound in bounds}):
        rest = telling[telling != feature]
        index, _ = nearest(query[:, rest], among[:, rest], AROUND)
        cell = np.arange(len(rows))[:, None] * c + label[index]
        votes = np.bincount(cell.ravel(), minlength=len(rows) * c).reshape(len(rows), c)
        clean = votes.argmax(axis=1)
        often, there = (own != clean).mean(), _matrix_there(clean, own, matrix)
        more = np.log(likely[rows] / there[clean, own])
        if (
            often < fewest
            and 1.0 - votes.max(axis=1).mean() / AROUND < agree * often
            and more.sum() <= SIMPLER * more.std() * np.sqrt(len(rows))
            and (np.diag(there) < np.diag(matrix)).any()
            and _tells_apart(there)
            and (not least_outside or _outside(x, here, rows, weight, rest) >= least_outside)
        ):
            doubt = sample.chance[rows] * (sample.code[rows] != clean[:, None])
            fewest, best = often, _ByOthers(there, doubt.sum(axis=1).mean() > DOUBTED * often)
    return best


def _outside(x: Float32, here: Bools, rows: Int64, weight: Float64, by: Int64) -> float:
    """Share of those outside among the rows nearest to some of a place's by some of the weighed
    features, over that among all rows."""
    some = _spread(np.arange(len(x)), OTHERS)
    query, among = ((x[part] * weight).astype(np.float32)[:, by] for part in (rows, some))
    away = ~here[some]
    return float(away[nearest(query, among, AROUND)[0]].mean() / away.mean())


def is_outside(places: Sequence[Place], x: Float32, one: Bools) -> bool:
    """Whether a class lies outside places, too: there, rows with its label surely have more of its
    labels around them than others have, by features that bound no place.

    one : (row,) whether rows have the class' label
    """
    others = _spread(np.flatnonzero(place_of(places, x) < 0), OTHERS)
    bounding = {bound[0] for place in places for bound in place.bounds}
    points = np.delete(x[others], list(bounding), axis=1)
    weight = _telling(points, one[others].astype(np.int64), 2)
    if weight is None or not points.shape[1]:
        return False
    points = (points * weight).astype(np.float32)[:, _most_telling(weight, points)]
    index, _ = nearest(points, points, AROUND, exclude=np.arange(len(points)))
    around = one[others][index].mean(axis=1)
    its, other = around[one[others]], around[~one[others]]
    error = np.hypot(its.std() / np.sqrt(len(its)), other.std() / np.sqrt(len(other)))
    return bool(its.mean() - other.mean() > CLEARLY * error)


def _telling(x: Float32, label: Int64, n_classes: int) -> Float64 | None:
    """(feature,) how far apart the classes are in each feature, against its variance; None where
    only one has rows enough."""
    count = np.bincount(label, minlength=n_classes)
    frequent = np.flatnonzero(count >= AROUND)
    if len(frequent) < 2:
        return None
    mean = np.array([x[label == a].mean(axis=0, dtype=np.float64) for a in frequent])
    share = count[frequent] / count[frequent].sum()
    apart, variance = np.sqrt(share @ (mean - share @ mean) ** 2), x.var(axis=0, dtype=np.float64)
    weight = np.divide(apart, variance, out=np.zeros_like(apart), where=variance > 0)
    return np.asarray(weight, np.float64)


def _most_telling(weight: Float64, x: Float32) -> Int64:
    """The features that tell most, by their weights and how far they spread, in order."""
    spread = weight * x.std(axis=0, dtype=np.float64)
    return np.argsort(-spread, kind="stable")[:TELLING]


def _matrix_there(clean: Int64, given: Int64, matrix: Float64) -> Float64:
    """(class, class) P(given | true) of rows whose clean classes are known: rates of the whole's
    ``matrix``, where they are not surely higher; where mistakes fall, drawn to the same."""
    c, whole = len(matrix), 1.0 - np.diag(matrix)
    pairs = np.bincount(clean * c + given, minlength=c * c).reshape(c, c)
    off, others = (of * (1.0 - np.eye(c)) for of in (pairs, matrix))
    wrong, count = off.sum(axis=1), pairs.sum(axis=1)
    rate = (wrong + ROWS * whole) / (count + ROWS)
    nats = xlogy(wrong, rate / whole) + xlogy(count - wrong, (1.0 - rate) / (1.0 - whole))
    rate = np.where((rate > whole) & (nats > SURELY**2 / 2), rate, whole)
    toward = off + (c - 1) * others / np.maximum(others.sum(axis=1, keepdims=True), 1e-12)
    wrong = rate[:, None] * toward / toward.sum(axis=1, keepdims=True)
    return np.asarray(wrong + np.diag(1.0 - rate), np.float64)


def _tells_apart(matrix: Float64) -> bool:
    """Whether labels by P(given | true) tell each class from each other."""
    own = np.diag(matrix)
    more = (own[:, None] + own - matrix - matrix.T) / 2.0 + np.eye(len(matrix))
    return bool((own[:, None] >= matrix).all() and more.min() > SEPARATE)


def _spread(rows: Int64, most: int) -> Int64:
    """So many of them at most, evenly."""
    return rows[:: max(1, -(-len(rows) // most))]


def place_of(places: Sequence[Place], x: Float32) -> Int64:
    """(row,) the place that features (row, feature) are in, -1 for none."""
    place = np.full(len(x), -1)
    for one, at in enumerate(places):
        place[inside(x, at.bounds)] = one
    return place


def place_rates(places: Sequence[Place], matrix: Float64) -> Float64:
    """(place + 1, class) P(given another | true) of each place, and of the whole."""
    return np.array([*(place.wrong for place in places), 1.0 - np.diag(matrix)])
