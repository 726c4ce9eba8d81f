"""RkNN of Gao, Yang & Zhou (Algorithm 1): two neighborhood sizes and an open-interval rule.

Their tau- is ``p0 = P(given 1 | true 0)`` and tau+ is ``p1``. Equation (5) of the paper prints the
two the other way round, against its own equation (1), where ``inf eta = tau-``; equation (1) is
followed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Float64, Int8, Int64

Labels = Int8

GRID = tuple(range(5, 101, 5))
"""Sizes the paper tries, for k and for k'."""
SPARE = 1.6
"""Neighbors kept to each one that is averaged, as a quarter of them is left out."""


LONGEST = 160
"""Neighbors kept per row, if k is to be chosen: a quarter is left out, up to 100 are averaged."""


def list_length(k: int | None, n_rows: int) -> int:
    """Neighbors kept per row."""
    return max(k or 5, min(LONGEST, n_rows // 2))


@dataclass(frozen=True)
class SizeSelection:
    """The sizes chosen by cross-validation, and the evidence."""

    k: int
    """Neighbors of a prediction."""
    rate_neighbors: int
    """Neighbors, beside the row itself, of the averages whose extremes are the noise rates."""
    score: Float64
    """(k, k') mean held-out accuracy over the grid."""
    shortfall: int
    """Rows whose list held fewer than ``max(grid)`` neighbors outside the left-out fold, over all
    folds; they were averaged over those there were."""


@dataclass(frozen=True)
class FoldScores:
    """The evidence of a selection, for a report."""

    grid: tuple[int, ...]
    score: list[list[float]]
    """Mean held-out accuracy on the given labels, by k and by k'."""
    shortfall: int
    """As of `SizeSelection`."""


def sizes_tried(longest: int, k: int | None) -> tuple[int, ...]:
    """The paper's sizes as far as lists of some length go, and k where it is given."""
    short = {size for size in GRID if size * SPARE <= longest}
    return tuple(sorted(short | {k or min(GRID)}))


def predict(eta: Float64, p0: float, p1: float) -> Labels:
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


def fold_sums(neighbor_label: Labels, kept: Bools, grid: tuple[int, ...]) -> tuple[Int64, Int64]:
    """Ones and neighbors among each row's first k that are kept: two (row, g) int64.

    ``neighbor_label`` is (row, K) int8, nearest first, self excluded; ``kept`` (row, K) bool, False
    where a neighbor is left out or the list is short. ``neighbors`` is below k where the list runs
    out. ``grid`` ascends.
    """
    rank = np.cumsum(kept, axis=1)
    packed = np.zeros((len(kept), kept.shape[1] + 1), dtype=np.int64)
    row, column = np.nonzero(kept)
    packed[row, rank[row, column]] = neighbor_label[row, column]
    ones = np.cumsum(packed, axis=1)
    sizes = np.minimum(np.asarray(grid, dtype=np.int64), rank[:, -1:])
    return np.take_along_axis(ones, sizes, axis=1), sizes


def own_extremes(ones: Int64, sizes: Int64, label: Labels) -> Float64:
    """Least and greatest average over each row itself and its neighbors: (2, g) float64.

    ``ones`` and ``sizes`` are (row, g) from ``fold_sums``, ``label`` (row,) the rows' own. Blocks'
    extremes are combined by their minimum and maximum; (1, 0) where there are no rows.
    """
    own = (ones + label[:, None]) / (sizes + 1.0)
    return np.stack([own.min(axis=0, initial=1.0), own.max(axis=0, initial=0.0)])


def gains(ones: Int64, sizes: Int64, label: Labels, ends: Float64) -> Int64:
    """Rows predicted right by each k with the extremes of each k': (g, g) int64; blocks add up.

    ``ones``, ``sizes`` and ``label`` are of left-out rows; ``ends`` (2, g) the extremes of the
    others.
    """
    eta = ones / np.maximum(sizes, 1)
    table = np.zeros((eta.shape[1], eta.shape[1]), np.int64)
    for j, (least, greatest) in enumerate(ends.T):
        for i, column in enumerate(eta.T):
            table[i, j] = (predict(column, least, 1.0 - greatest) == label).sum()
    return table


def best(
    score: Float64, grid: tuple[int, ...], shortfall: int, k: int | None = None
) -> SizeSelection:
    """The sizes of greatest score (k, k'), of all k or of one; ties: smallest k, then k'."""
    allowed = score if k is None else np.where(np.equal(grid, k)[:, None], score, -np.inf)
    best_k, best_noise = np.unravel_index(int(np.argmax(allowed)), score.shape)
    return SizeSelection(grid[best_k], grid[best_noise], score, shortfall)
