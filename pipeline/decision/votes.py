"""kNN regression of the given labels: integer counts for a grid of k from one graph."""

from __future__ import annotations

import numpy as np

from pipeline.arrays import Float64, Int8, Int32, Integers

FEWEST_NEIGHBORS = 5
"""The least k that is chosen."""


def k_grid(k: int) -> tuple[int, ...]:
    """Neighborhood sizes counted from lists of length k: 5, 10, … and k itself, ascending."""
    return tuple(sorted({*range(FEWEST_NEIGHBORS, k, 5), k}))


def counts(neighbor_label: Int8, grid: tuple[int, ...]) -> Int32:
    """Neighbors given 1 among the first k of each list, for each k of the grid.

    Parameters
    ----------
    neighbor_label : (row, rank) int8 in {0, 1}, nearest first, self excluded; ABSENT (-1) in
        empty places, which count for nothing
    grid : ascending, at most the number of ranks

    Returns
    -------
    (row, k) int32
    """
    running = np.cumsum(neighbor_label == 1, axis=1, dtype=np.int32)
    return np.ascontiguousarray(running[:, np.asarray(grid) - 1])


def share_of_ones(neighbor_label: Int8) -> Float64:
    """Share of each row's neighbors given 1, among those its list has.

    Parameters
    ----------
    neighbor_label : (row, rank) int8 in {0, 1}; ABSENT (-1) in empty places

    Returns
    -------
    (row,) float64; NaN for an empty list
    """
    listed = (neighbor_label >= 0).sum(axis=1)
    ones = (neighbor_label == 1).sum(axis=1)
    share = np.full(len(ones), np.nan)
    np.divide(ones, listed, out=share, where=listed > 0)
    return share


def certain_as(chance: Float64, k: int, n_classes: int | Integers = 2) -> Float64:
    """Chances that k labels tell, no more certain than so many labels can be: as if one label more
    were shared by the classes (Perks' prior)."""
    return np.asarray((k * chance + 1.0 / n_classes) / (k + 1.0))


def extremes_with_self(given_label: Int8, neighbor_label: Int8, grid: tuple[int, ...]) -> Int32:
    """Least and greatest number of ones among a training row itself and its k-1 nearest others.

    The enumeration of a training row begins with that row in Algorithm 2 of Reeve & Kabán 2019.

    Parameters
    ----------
    given_label : (row,) int8, at least one row
    neighbor_label : (row, rank) int8, at least max(grid) - 1 ranks, self excluded

    Returns
    -------
    (2, k) int32, between 0 and k
    """
    labels = np.column_stack([given_label, neighbor_label])
    count = counts(labels, grid)
    return np.stack([count.min(axis=0), count.max(axis=0)])
