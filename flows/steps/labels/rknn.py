"""Graph → the two neighborhood sizes of RkNN, by four-fold cross-validation over the blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from flows.engine.collectives.graph import Around, PoolGraph, over_graph
from flows.engine.collectives.sent import Facts
from flows.engine.job import Job
from flows.steps.labels.two import OwnRates
from pipeline.arrays import Float64, Int8, Int64, added
from pipeline.blocks.sampling import row_hash
from pipeline.knn.lists import ABSENT
from pipeline.methods.rknn import FoldScores, best, fold_sums, gains, own_extremes
from pipeline.noise.extrema import minmax
from pipeline.streams import Stream

FOLDS = 4
NEEDS = ("given_label", "neighbor", "neighbor_label")


@dataclass(frozen=True)
class ScoresOfPart:
    """Left-out rows predicted right by each (k, k'); rows whose list ran out."""

    right: list[list[int]]
    shortfall: int


def select(job: Job, graph: PoolGraph, grid: tuple[int, ...], k: int | None) -> OwnRates:
    """(k, k') of the best held-out accuracy on the given labels, and the rates that k' shows."""
    over = partial(over_graph, job, graph, needs=NEEDS, portion=None)
    extremes = over("fold-extremes", partial(extremes_of, grid=grid))
    each = np.array(extremes.left(list[list[list[float]]]))
    ends = np.stack([each[:, :, 0].min(axis=0), each[:, :, 1].max(axis=0)], axis=1)
    kernel = partial(scores_of, grid=grid, ends=ends[:FOLDS])
    total = added(over("fold-scores", kernel).left(ScoresOfPart))
    chosen = best(np.array(total.right) / graph.pool.n_rows, grid, total.shortfall, k)
    rates = minmax(ends[FOLDS, :, grid.index(chosen.rate_neighbors)], chosen.rate_neighbors + 1)
    evidence = FoldScores(grid, chosen.score.tolist(), chosen.shortfall)
    return OwnRates(chosen.k, replace(rates, method="rknn"), evidence)


def extremes_of(at: Around, grid: tuple[int, ...]) -> Facts:
    """(fold + 1, 2, g) least and greatest own average without each fold, and without none."""
    fold, own_fold = folds(at)
    extremes = []
    for left_out in (*range(FOLDS), FOLDS):
        there = (fold >= 0) & (fold != left_out)
        ones, sizes = fold_sums(at.of_row["neighbor_label"], there, grid)
        inside = own_fold != left_out
        given = at.of_row["given_label"][inside]
        extremes.append(own_extremes(ones[inside], sizes[inside], given))
    return Facts(left=np.array(extremes).tolist())


def scores_of(at: Around, grid: tuple[int, ...], ends: Float64) -> Facts:
    """Left-out rows predicted right by each (k, k'); rows whose list ran out.

    ends : (fold, 2, g) least and greatest own average of all blocks without each fold
    """
    fold, own_fold = folds(at)
    right, shortfall = np.zeros((len(grid), len(grid)), np.int64), 0
    for left_out in range(FOLDS):
        there = (fold >= 0) & (fold != left_out)
        ones, sizes = fold_sums(at.of_row["neighbor_label"], there, grid)
        shortfall += int((sizes[:, -1] < grid[-1]).sum())
        out = own_fold == left_out
        right += gains(ones[out], sizes[out], at.of_row["given_label"][out], ends[left_out])
    return Facts(left=ScoresOfPart(right.tolist(), shortfall))


def folds(at: Around) -> tuple[Int8, Int8]:
    """The folds of the neighbors (-1: none) and of the rows."""
    neighbor, seed = at.of_row["neighbor"], at.graph.seed
    of_neighbors = np.where(neighbor == ABSENT, -1, deal(neighbor, seed)).astype(np.int8)
    return of_neighbors, deal(at.row, seed)


def deal(row: Int64, seed: int) -> Int8:
    """The fold of each row, whatever block it is met in."""
    return (row_hash(row, seed, Stream.FOLDS) % np.uint64(FOLDS)).astype(np.int8)
