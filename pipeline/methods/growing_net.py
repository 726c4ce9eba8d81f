"""The practical mode of `marmann`: a net that grows where labels are worth most. No guarantee.

As in MARMANN, few rows are labeled and the nearest labeled row predicts. But each point is
labeled by one query, and the scale is local: the next rows to label are those around which the
doubt is greatest. The doubt in a row is the ratio of its distances to the nearest labeled row and
to the nearest one of another class: near 0 deep in a labeled cell, near 1 at a boundary or far
from all labels. A row is worth the doubt in itself and in its neighbors, and rows that are bought
together share no neighbors, so that the first labels go where rows are dense.

Where classes overlap doubt does not end, and labels that are drawn at random are as good. So a part
of the labels is drawn at random, greater or smaller as these show what the others are worth.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Float32, Float64, Int64, Integers
from pipeline.blocks.sampling import shuffled
from pipeline.knn.exact import nearest
from pipeline.knn.lots import lots
from pipeline.methods.bought_labels import BoughtLabels, BudgetSpent
from pipeline.methods.marmann import Prototypes
from pipeline.streams import Stream

FEWEST = 3
"""Labels bought for their worth, at least, to judge by."""
START, MOST, SLOPE = 0.5, 0.9, 0.25
"""Share of labels chosen by worth before there is evidence, the greatest, and what a standard error
of evidence adds; evidence against takes away twice as much."""
N_NEIGHBORS = 20
"""Neighbors whose doubt counts for a row."""
BATCH, SHARE = 5, 0.05
"""Labels bought at once, at least, and as a share of those there are."""
MOST_TESTS = 1000
"""Labels drawn at random on which those bought for their worth are tried, at most."""


@dataclass(frozen=True)
class Surroundings:
    """What a block of rows knows of the labels bought so far; updated batch by batch."""

    label: Int64
    """(row,) int64 label of the nearest labeled row, -1 for none yet"""
    distance: Float32
    """(row,) to it"""
    other: Float32
    """(row,) to the nearest labeled row of another label"""
    labeled: Int64
    """(row,) int64 that nearest labeled row, -1 for none yet"""

    @staticmethod
    def empty(n_rows: int) -> Surroundings:
        """Before the first label."""
        far = np.full(n_rows, np.inf, np.float32)
        none = np.full(n_rows, -1, np.int64)
        return Surroundings(none, far, far.copy(), none.copy())

    def updated(self, x: Float32, rows: Int64, label: Int64) -> Surroundings:
        """With some more labeled rows of the pool, ``rows`` (point,) and their ``label`` (point,).

        Ties of distance go to the lowest of the labeled rows, in whatever order they come.
        """
        first, near, second, labeled = self.label, self.distance, self.other, self.labeled
        for code in np.unique(label).tolist():
            some = np.sort(rows[label == code])
            place, apart = (lists[:, 0] for lists in nearest(x, x[some], 1))
            same = first == code
            ahead = (apart < near) | ((apart == near) & (some[place] < labeled))
            second = np.where(same, second, np.where(ahead, near, np.minimum(second, apart)))
            first = np.where(ahead, code, first)
            labeled = np.where(ahead, some[place], labeled)
            near = np.minimum(near, apart)
        return Surroundings(first, near, second, labeled)

    def doubt(self) -> Float64:
        """(row,) in [0, 1]; 1 before the first label, and the distances while there is but one."""
        near = self.distance.astype(np.float64)
        if np.isinf(near).all():
            return np.ones(len(near))
        if np.isinf(self.other).all():
            return near
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = near / self.other
        return np.where(self.other > 0, ratio, 1.0)


@dataclass(frozen=True)
class LabeledPoints:
    """Labeled rows, counted together where they are equal."""

    point: Float32
    """(point, feature)"""
    label: Int64
    """(label,) those there are, ascending"""
    votes: Float64
    """(point, label) rows with the label, and less than one more where the label is common"""

    @classmethod
    def of(cls, x: Float32, rows: Int64, label: Int64) -> LabeledPoints:
        """Rows of the pool ``x`` and their labels."""
        point, place = np.unique(x[rows], axis=0, return_inverse=True)
        every, code, size = np.unique(label, return_inverse=True, return_counts=True)
        votes = np.tile(size / (len(label) + 1.0), (len(point), 1))
        np.add.at(votes, (place, code), 1.0)
        return cls(point, every, votes)


def most_worth(doubt: Float64, neighbor: Integers, open_: Bools, n: int) -> Int64:
    """(n,) rows of greatest worth, one after another; each takes away its neighborhood's doubt.

    ``neighbor`` (row, k) lists, negative where they end; ``open_`` (row,) rows that may be bought.
    Ties: by lot. Worth only sinks as doubt is taken away, so that a row whose worth is still the
    greatest after it is computed anew is the best (lazy greedy of Minoux).
    """
    rest = np.append(doubt, 0.0)  # a negative place is the last one
    worth = rest[:-1] + rest[neighbor].sum(axis=1)
    order = np.argsort(lots(np.arange(len(doubt))))
    queue = [(-worth[row], turn) for turn, row in enumerate(order.tolist()) if open_[row]]
    heapq.heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < n:
        turn = heapq.heappop(queue)[1]
        row = int(order[turn])
        now = (-(rest[row] + rest[neighbor[row]].sum()), turn)
        if queue and now > queue[0]:
            heapq.heappush(queue, now)
            continue
        chosen.append(row)
        rest[row] = 0.0
        rest[neighbor[row]] = 0.0
    return np.array(chosen, np.int64)


def grow(
    x: Float32, neighbor: Integers, labels: BoughtLabels, n_labels: int, seed: int = 0
) -> Prototypes:
    """Buy up to ``n_labels`` labels of a pool, those known at the start not counted.

    What is bought next depends on the labels known alone, in whatever order they came.

    Parameters
    ----------
    x : (row, feature) float32 pool
    neighbor : (row, k) rows, nearest first, self excluded, negative where lists end
    seed : of the order in which rows are drawn at random
    """
    lists = neighbor[:, :N_NEIGHBORS]
    rows, known = labels.known()
    around = Surroundings.empty(len(x))
    if len(rows):
        around = around.updated(x, rows, known)
    open_ = np.ones(len(x), np.bool_)
    open_[rows] = False
    order = shuffled(len(x), seed, Stream.ACQUIRE)
    left = n_labels
    while left and open_.any():
        size = min(left, max(BATCH, int(SHARE * len(labels.labels))))
        by_worth = int(share_by_worth(x, *labels.known(), order) * size)
        chosen = most_worth(around.doubt(), lists, open_, by_worth)
        open_[chosen] = False
        drawn = order[open_[order]][: size - len(chosen)]
        chosen = np.concatenate([chosen, drawn])
        try:
            answers = labels(chosen)
        except BudgetSpent:
            break
        open_[chosen] = False
        around = around.updated(x, chosen, answers)
        left -= len(chosen)
    return Prototypes(*labels.known(), None, None)


def share_by_worth(x: Float32, rows: Int64, label: Int64, order: Int64) -> float:
    """Share of the next labels to choose by their worth, from the labels there are: more where such
    labels have shown to be better than as many that are drawn at random, none where worse.

    The rows that come first in a random order and are all labeled are drawn at random, whatever
    they were bought for. On the last of them, each left out, the nearest of them all answers beside
    the nearest of as many, the last of which are replaced by labels bought for their worth.

    Parameters
    ----------
    rows, label : (known,) rows whose labels are known, ascending, and these
    order : (row,) all rows of the pool in random order
    """
    code = np.full(len(x), -1, np.int64)
    code[rows] = label
    known = code[order] >= 0
    n = len(known) if known.all() else int(known.argmin())
    drawn, others = order[:n], order[n:][known[n:]]
    few = min(len(others), n // 2)
    if few < FEWEST:
        return START
    test = drawn[-MOST_TESTS:]

    def wrong(train: Int64) -> Float64:
        labeled = LabeledPoints.of(x, train, code[train])
        first, second = nearest(x[test], labeled.point, 2)[0].T
        own = np.isin(test, train)[:, None] & (labeled.label == code[test][:, None])
        votes = labeled.votes[first] - own
        alone = votes.max(axis=1) < 1.0
        votes[alone] = labeled.votes[second[alone]]
        return np.asarray(labeled.label[votes.argmax(axis=1)] != code[test], np.float64)

    gain = wrong(drawn) - wrong(np.concatenate([drawn[: n - few], others[:few]]))
    error = max(float(gain.std(ddof=1)) / np.sqrt(n_tests := len(test)), 0.5 / n_tests)
    errors = float(gain.mean()) / error
    return float(np.clip(START + (SLOPE if errors > 0 else 2.0 * SLOPE) * errors, 0.0, MOST))


def predict(query: Float32, x: Float32, answer: Prototypes) -> Int64:
    """(query,) int64 label of the nearest labeled row of the pool ``x``; of equal rows, the label
    that most of them have."""
    labeled = LabeledPoints.of(x, answer.row, answer.label)
    best = labeled.label[labeled.votes.argmax(axis=1)]
    return np.asarray(best[nearest(query, labeled.point, 1)[0][:, 0]])
