"""RkNN of Gao, Yang & Zhou (Algorithm 1): two neighbourhood sizes and an open-interval rule.

Their tau- is ``p0 = P(given 1 | true 0)`` and tau+ is ``p1``. Equation (5) of the paper prints the
two the other way round, against its own equation (1), where ``inf eta = tau-``; equation (1) is
followed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int8]
Floats = NDArray[np.float64]

GRID = tuple(range(5, 101, 5))
"""Sizes the paper tries, for k and for k'."""


@dataclass(frozen=True)
class Selection:
    """The sizes chosen by cross-validation, and the evidence."""

    k: int
    """Neighbours of a prediction."""
    k_noise: int
    """Neighbours, beside the row itself, of the averages whose extremes are the noise rates."""
    score: Floats
    """(k, k') mean held-out accuracy over the grid."""
    shortfall: int
    """Rows whose list held fewer than ``max(grid)`` neighbours outside the left-out fold, over all
    folds; they were averaged over those there were."""


def predict(eta: Floats, p0: float, p1: float) -> Labels:
    """Steps 4-10 of the paper's Algorithm 1 on averages ``eta`` (row,) of k given labels; int8.

    ``1[eta >= 1/2]``, but 0 where ``0 < eta - 1/2 < (p0 - p1)/2`` and 1 where
    ``(p0 - p1)/2 < eta - 1/2 < 0``. Both intervals are open, so at their ends the plain vote holds;
    an average within rounding (1e-12) of an end is taken to be at it.
    """
    above = eta - 0.5
    above = np.where(np.abs(above) < 1e-12, 0.0, above)
    end = 0.5 * (p0 - p1)
    inside = np.abs(above - end) >= 1e-12
    vote = above >= 0
    if p0 > p1:
        vote &= ~((above > 0) & (above < end) & inside)
    elif p0 < p1:
        vote |= (above > end) & (above < 0) & inside
    return vote.astype(np.int8)


def extremes(eta_with_self: Floats) -> tuple[float, float]:
    """(p0, p1) of step 2: least average, and one minus the greatest; (row,) float64 in [0, 1]."""
    if eta_with_self.size == 0:
        raise ValueError("no rows: the extremes of nothing are unknown")
    return float(eta_with_self.min()), 1.0 - float(eta_with_self.max())


def fold_sums(
    neighbor: NDArray[np.int64], label: Labels, left_out: NDArray[np.bool_], grid: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ones and neighbours among each row's first k that are not left out: two (row, g) int64.

    ``neighbor`` is (row, K) int64, nearest first, self excluded, -1 where the list is short;
    ``label`` (n,) int8 the given labels and ``left_out`` (n,) bool, both by row id. ``neighbors``
    is below k where the list runs out. ``grid`` ascends.
    """
    kept = (neighbor >= 0) & ~left_out[neighbor]
    rank = np.cumsum(kept, axis=1)
    packed = np.zeros((len(neighbor), neighbor.shape[1] + 1), dtype=np.int64)
    row, column = np.nonzero(kept)
    packed[row, rank[row, column]] = label[neighbor[row, column]]
    ones = np.cumsum(packed, axis=1)
    sizes = np.minimum(np.asarray(grid, dtype=np.int64), rank[:, -1:])
    return np.take_along_axis(ones, sizes, axis=1), sizes


def select(
    neighbor: NDArray[np.int64],
    label: Labels,
    fold: NDArray[np.integer],
    grid: tuple[int, ...] = GRID,
    rates: tuple[float, float] | None = None,
) -> Selection:
    """(k, k') by cross-validation from one graph.

    ``neighbor`` (n, K) int64, nearest first, self excluded; ``label`` (n,) int8; ``fold`` (n,) the
    left-out part of each row (the paper takes four). A left-out row is predicted from the first k
    neighbours outside its fold, with noise rates from the k' of the rows outside its fold. The
    paper does not say how a candidate is scored: here by accuracy on the given labels, or, with
    ``rates = (p0, p1)``, by the unbiased estimate of clean accuracy (Natarajan et al. 2013, Lemma
    1). Ties go to the smallest k, then the smallest k'.
    """
    total = np.zeros((len(grid), len(grid)))
    shortfall = 0
    for part in np.unique(fold):
        out = fold == part
        ones, sizes = fold_sums(neighbor, label, out, grid)
        shortfall += int((sizes[:, -1] < grid[-1]).sum())
        eta = ones[out] / np.maximum(sizes[out], 1)
        inside = ~out
        own = (ones[inside] + label[inside, None]) / (sizes[inside] + 1.0)
        for j in range(len(grid)):
            p0, p1 = extremes(own[:, j])
            for i in range(len(grid)):
                total[i, j] += _gain(predict(eta[:, i], p0, p1), label[out], rates)
    best_k, best_noise = np.unravel_index(int(np.argmax(total)), total.shape)
    return Selection(grid[best_k], grid[best_noise], total / len(label), shortfall)


def _gain(guess: Labels, label: Labels, rates: tuple[float, float] | None) -> float:
    """Number of right guesses, or its unbiased estimate when labels flip at ``rates``."""
    right = guess == label
    if rates is None:
        return float(right.sum())
    p0, p1 = rates
    keep = np.where(label == 1, 1.0 - p0, 1.0 - p1)
    flip = np.where(label == 1, p1, p0)
    return float(np.where(right, keep, -flip).sum() / (1.0 - p0 - p1))
