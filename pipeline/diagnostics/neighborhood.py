"""What the neighbor graph tells of rows besides their labels: outliers, duplicates, data value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Float32, Float64, Int8, Int32, Int64
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import distinct, places

Labels = Int8

OUTLIER = 1 / 0.37037 - 1
"""Interquartile ranges above the upper quartile from which a mean distance is an outlier's, as in
cleanlab's Datalab."""
NEAR = 0.13
"""Share of the median nearest distance below which a neighbor is a near duplicate, as there."""


@dataclass(frozen=True)
class Usual:
    """What distances are usual, from a uniform sample of rows."""

    distance: float
    """Median of the mean distance to the neighbors."""
    outlying: float
    """Mean distance above which a row is an outlier."""
    near: float
    """Distance below which two rows are near duplicates; equal rows are in any case."""


def usual_distances(distance: Float32) -> Usual:
    """Usual distances of a sample, (row, rank) float32, nearest first, the row itself left out."""
    mean = mean_distance(distance)
    low, middle, high = np.quantile(mean, (0.25, 0.5, 0.75))
    nearest = float(np.median(distance[:, 0]))
    return Usual(float(middle), float(high + OUTLIER * (high - low)), NEAR * nearest)


def mean_distance(distance: Float32) -> Float64:
    """(row,) mean over the neighbors that are there (finite)."""
    there = np.isfinite(distance)
    if there.all():
        return np.asarray(np.ascontiguousarray(distance).mean(axis=1, dtype=np.float64))
    total = np.where(there, distance, 0).sum(axis=1, dtype=np.float64)
    return np.asarray(total / np.maximum(1, there.sum(axis=1)))


def outlier_score(mean: Float64, usual: Usual) -> Float32:
    """(row,) exp(-mean / median): near 1 amid others, near 0 far from all."""
    scale = max(usual.distance, 100 * np.finfo(np.float64).eps)
    return np.exp(-mean / scale).astype(np.float32)


def is_near(distance: Float32, below: float) -> Bools:
    """Which distances are those of near duplicates; equal rows are so in any case."""
    return np.asarray((distance < below) | (distance == 0))


def near_duplicates(
    distance: Float32, neighbor_label: Labels, given: Labels, usual: Usual
) -> tuple[Int32, Int32]:
    """(row,) listed neighbors that are near duplicates, and those of them given another label."""
    near, other = (np.zeros(len(distance), np.int32) for _ in range(2))
    _near(distance, neighbor_label, given, np.float32(usual.near), near, other)
    return near, other


def data_values(
    row: Int64, neighbor: Int64, neighbor_label: Labels, given: Labels
) -> tuple[Int64, Float64]:
    """Rows that are listed, ascending, and the sum of their values for the votes of the rows that
    list them: KNN-Shapley (Jia et al. 2019, Theorem 1) for the k nearest, k the length of the
    lists, cut off at the end of the list, which changes a value by at most 1 / k.

    Parameters
    ----------
    row : (row,) numbers of the rows whose lists are given, distinct
    neighbor, neighbor_label : (row, k) their lists, nearest first; ABSENT where short
    given : (row,)
    """
    place = places(row, neighbor)
    other = np.flatnonzero((place == ABSENT) & (neighbor != ABSENT))
    away = neighbor.ravel()[other]
    elsewhere = distinct(away)
    place.ravel()[other] = len(row) + places(elsewhere, away)
    known = np.concatenate([row, elsewhere])
    value, listed = np.zeros(len(known)), np.zeros(len(known), np.bool_)
    _add_values(place, neighbor_label, given, value, listed)
    order = np.argsort(known)
    order = order[listed[order]]
    return known[order], value[order]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _near(
    distance: Float32,
    neighbor_label: Labels,
    given: Labels,
    below: np.float32,
    near: Int32,
    other: Int32,
) -> None:
    for i in range(len(distance)):
        for j in range(distance.shape[1]):
            if distance[i, j] < below or distance[i, j] == 0:
                near[i] += 1
                other[i] += neighbor_label[i, j] != given[i]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _add_values(
    place: Int32, neighbor_label: Labels, given: Labels, value: Float64, listed: Bools
) -> None:
    """The last neighbor is worth nothing, each before it what the next is, and 1 / k more or less
    where their labels differ."""
    k = place.shape[1]
    for i in range(len(place)):
        term, after = 0.0, np.float64(neighbor_label[i, k - 1] == given[i])
        for j in range(k - 1, -1, -1):
            match = np.float64(neighbor_label[i, j] == given[i])
            term += (match - after) / k
            after = match
            if place[i, j] != ABSENT:
                value[place[i, j]] += term
                listed[place[i, j]] = True
