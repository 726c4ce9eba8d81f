"""The practical mode of `marmann`: a net that grows where labels are worth most. No guarantee.

As in MARMANN, few rows are labeled and the nearest labeled row predicts. But each point is
labeled by one query, and the scale is local: the next rows to label are those around which the
doubt is greatest. The doubt in a row is the ratio of its distances to the nearest labeled row and
to the nearest one of another class: near 0 deep in a labeled cell, near 1 at a boundary or far
from all labels. A row is worth the doubt in itself and in its neighbors, and rows that are bought
together share no neighbors, so that the first labels go where rows are dense.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.knn.exact import nearest
from pipeline.methods.bought_labels import BoughtLabels, BudgetSpent
from pipeline.methods.marmann import Answer

Ints = NDArray[np.int64]
Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class GrowthParams:
    """How many labels are bought at once, and how far one label's worth reaches."""

    n_neighbors: int = 20
    """neighbors whose doubt counts for a row"""
    share: float = 0.05
    """labels bought at once, as a share of those there are"""
    least: int = 5
    """labels bought at once, at least"""

    def batch(self, known: int, left: int) -> int:
        """Labels to buy next."""
        return min(left, max(self.least, int(self.share * known)))


@dataclass(frozen=True)
class Surroundings:
    """What a block of rows knows of the labels bought so far; updated batch by batch."""

    label: Ints
    """(row,) int64 label of the nearest labeled row, -1 for none yet"""
    distance: Float32
    """(row,) to it"""
    other: Float32
    """(row,) to the nearest labeled row of another label"""

    @staticmethod
    def empty(n_rows: int) -> Surroundings:
        """Before the first label."""
        far = np.full(n_rows, np.inf, np.float32)
        return Surroundings(np.full(n_rows, -1, np.int64), far, far.copy())

    def updated(self, x: Float32, point: Float32, label: Ints) -> Surroundings:
        """With some more labeled rows: features ``point`` (point, feature), ``label`` (point,).

        Ties of distance go to the label there was, then to the lowest.
        """
        first, near, second = self.label, self.distance, self.other
        for code in np.unique(label).tolist():
            apart = nearest(x, point[label == code], 1)[1][:, 0]
            same = first == code
            ahead = apart < near
            second = np.where(same, second, np.where(ahead, near, np.minimum(second, apart)))
            first = np.where(ahead, code, first)
            near = np.minimum(near, apart)
        return Surroundings(first, near, second)

    def doubt(self) -> NDArray[np.float64]:
        """(row,) in [0, 1]; 1 before the first label, and the distances while there is but one."""
        near = self.distance.astype(np.float64)
        if np.isinf(near).all():
            return np.ones(len(near))
        if np.isinf(self.other).all():
            return near
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = near / self.other
        return np.where(self.other > 0, ratio, 1.0)


def most_worth(
    doubt: NDArray[np.float64], neighbor: NDArray[np.integer[Any]], open_: NDArray[np.bool_], n: int
) -> Ints:
    """(n,) rows of greatest worth, one after another; each takes away its neighborhood's doubt.

    ``neighbor`` (row, k) lists, negative where they end; ``open_`` (row,) rows that may be bought.
    Ties: the lowest row. Worth only sinks as doubt is taken away, so that a row whose worth is
    still the greatest after it is computed anew is the best (lazy greedy of Minoux).
    """
    rest = np.append(doubt, 0.0)  # a negative place is the last one
    worth = rest[:-1] + rest[neighbor].sum(axis=1)
    queue = [(-worth[row], int(row)) for row in np.flatnonzero(open_)]
    heapq.heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < n:
        row = heapq.heappop(queue)[1]
        now = (-(rest[row] + rest[neighbor[row]].sum()), row)
        if queue and now > queue[0]:
            heapq.heappush(queue, now)
            continue
        chosen.append(row)
        rest[row] = 0.0
        rest[neighbor[row]] = 0.0
    return np.array(chosen, np.int64)


def grow(
    x: Float32,
    neighbor: NDArray[np.integer[Any]],
    labels: BoughtLabels,
    n_labels: int,
    params: GrowthParams | None = None,
) -> Answer:
    """Buy up to ``n_labels`` labels of a pool, those known at the start not counted.

    Parameters
    ----------
    x : (row, feature) float32 pool
    neighbor : (row, k) rows, nearest first, self excluded, negative where lists end
    """
    how = params or GrowthParams()
    lists = neighbor[:, : how.n_neighbors]
    rows, known = labels.known()
    around = Surroundings.empty(len(x))
    if len(rows):
        around = around.updated(x, x[rows], known)
    open_ = np.ones(len(x), np.bool_)
    open_[rows] = False
    left = n_labels
    while left and open_.any():
        chosen = most_worth(around.doubt(), lists, open_, how.batch(len(labels.labels), left))
        try:
            answers = labels(chosen)
        except BudgetSpent:
            break
        open_[chosen] = False
        around = around.updated(x, x[chosen], answers)
        left -= len(chosen)
    return Answer(*labels.known(), None, None)


def predict(query: Float32, x: Float32, answer: Answer) -> Ints:
    """(query,) int64 label of the nearest labeled row of the pool ``x``; ties: the first."""
    return answer.label[nearest(query, x[answer.row], 1)[0][:, 0]]
