"""What the neighbor graph tells of rows besides their labels: outliers, duplicates, data value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Distances = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int8]

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


def usual_distances(distance: Distances) -> Usual:
    """Usual distances of a sample, (row, rank) float32, nearest first, the row itself left out."""
    mean = mean_distance(distance)
    low, middle, high = np.quantile(mean, (0.25, 0.5, 0.75))
    nearest = float(np.median(distance[:, 0]))
    return Usual(float(middle), float(high + OUTLIER * (high - low)), NEAR * nearest)


def mean_distance(distance: Distances) -> npt.NDArray[np.float64]:
    """(row,) mean over the neighbors that are there (finite)."""
    there = np.isfinite(distance)
    total = np.where(there, distance, 0).sum(axis=1, dtype=np.float64)
    return np.asarray(total / np.maximum(1, there.sum(axis=1)))


def outlier_score(mean: npt.NDArray[np.float64], usual: Usual) -> Distances:
    """(row,) exp(-mean / median): near 1 amid others, near 0 far from all."""
    scale = max(usual.distance, 100 * np.finfo(np.float64).eps)
    return np.exp(-mean / scale).astype(np.float32)


def is_near(distance: Distances, below: float) -> npt.NDArray[np.bool_]:
    """Which distances are those of near duplicates; equal rows are so in any case."""
    return np.asarray((distance < below) | (distance == 0))


def near_duplicates(
    distance: Distances, neighbor_label: Labels, given: Labels, usual: Usual
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(row,) listed neighbors that are near duplicates, and those of them given another label."""
    near = is_near(distance, usual.near)
    other = near & (neighbor_label != given[:, None])
    return near.sum(axis=1, dtype=np.int32), other.sum(axis=1, dtype=np.int32)


def shapley_terms(neighbor_label: Labels, given: Labels) -> npt.NDArray[np.float64]:
    """(row, rank) value of each listed neighbor for the vote of the row's k nearest, k the length
    of the lists: KNN-Shapley (Jia et al. 2019, Theorem 1), cut off at the end of the list, which
    changes a value by at most 1 / k.
    """
    k = neighbor_label.shape[1]
    match = (neighbor_label == given[:, None]).astype(np.float64)
    steps = (match[:, :-1] - match[:, 1:]) / k
    terms = np.zeros(match.shape)
    terms[:, :-1] = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    return terms


def summed(
    neighbor: npt.NDArray[np.int64], terms: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Rows that are listed, ascending, and the sum of their terms; absent ones (-1) left out."""
    there = neighbor >= 0
    row, place = np.unique(neighbor[there], return_inverse=True)
    total = np.zeros(len(row))
    np.add.at(total, place, terms[there])
    return row, total
