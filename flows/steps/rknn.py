"""Graph → the two neighborhood sizes of RkNN, by four-fold cross-validation over the blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from flows.steps.own import OwnRates
from flows.steps.partition import Blocks
from pipeline.blocks.sampling import row_hash
from pipeline.knn.lists import ABSENT
from pipeline.methods.rknn import FoldScores, best, fold_sums, gains, own_extremes
from pipeline.noise.extrema import minmax
from storage.groups import read_array
from storage.run import Run

FOLDS = 4
_STREAM = 5
"""Of the hash that deals rows to folds."""


@dataclass(frozen=True)
class Fold:
    """One block of the graph, to be dealt to folds."""

    block: int
    grid: tuple[int, ...]
    seed: int
    ends: npt.NDArray[np.float64] | None = None
    """(fold, 2, g) least and greatest own average of all blocks without each fold."""


@dataclass(frozen=True)
class Extremes(Result):
    """(fold + 1, 2, g) least and greatest own average without each fold, and without none."""

    extremes: list[list[list[float]]]


@dataclass(frozen=True)
class Scores(Result):
    """Left-out rows predicted right by each (k, k'); rows whose list ran out."""

    right: list[list[int]]
    shortfall: int


def select(job: Job, blocks: Blocks, grid: tuple[int, ...], k: int | None, seed: int) -> OwnRates:
    """(k, k') of the best held-out accuracy on the given labels, and the rates that k' shows."""
    numbers = range(len(blocks.sizes))
    seen = job.parts(
        "fold-extremes",
        extremes_part,
        [Part(block_name(b), Fold(b, grid, seed)) for b in numbers],
    )
    each = np.array([Extremes.of(record).extremes for record in seen])
    ends = np.stack([each[:, :, 0].min(axis=0), each[:, :, 1].max(axis=0)], axis=1)
    scored = job.parts(
        "fold-scores",
        scores_part,
        [Part(block_name(b), Fold(b, grid, seed, ends[:FOLDS])) for b in numbers],
    )
    results = [Scores.of(record) for record in scored]
    total = np.sum([result.right for result in results], axis=0)
    shortfall = sum(result.shortfall for result in results)
    chosen = best(total / sum(blocks.core), grid, shortfall, k)
    rates = minmax(ends[FOLDS, :, grid.index(chosen.rate_neighbors)], chosen.rate_neighbors + 1)
    evidence = FoldScores(grid, chosen.score.tolist(), chosen.shortfall)
    return OwnRates(chosen.k, replace(rates, method="rknn"), evidence)


def extremes_part(run: Run, part: Part[Fold]) -> Output:
    """Least and greatest own average without each fold, and without none."""
    grid = part.args.grid
    group, fold, own_fold = _block(run, part.args.block, part.args.seed)
    extremes = []
    for left_out in (*range(FOLDS), FOLDS):
        ones, sizes = fold_sums(group["neighbor_label"], (fold >= 0) & (fold != left_out), grid)
        inside = own_fold != left_out
        extremes.append(own_extremes(ones[inside], sizes[inside], group["given_label"][inside]))
    return Output([], Extremes(np.array(extremes).tolist()))


def scores_part(run: Run, part: Part[Fold]) -> Output:
    """Left-out rows predicted right by each (k, k'); rows whose list ran out."""
    grid = part.args.grid
    group, fold, own_fold = _block(run, part.args.block, part.args.seed)
    assert part.args.ends is not None
    right, shortfall = np.zeros((len(grid), len(grid))), 0
    for left_out in range(FOLDS):
        ones, sizes = fold_sums(group["neighbor_label"], (fold >= 0) & (fold != left_out), grid)
        shortfall += int((sizes[:, -1] < grid[-1]).sum())
        out = own_fold == left_out
        label = group["given_label"][out]
        right += gains(ones[out], sizes[out], label, part.args.ends[left_out])
    return Output([], Scores(right.astype(int).tolist(), shortfall))


def _block(
    run: Run, number: int, seed: int
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Labels of one block of the graph, and the folds of the neighbors (-1: none) and rows."""
    group = run.group(f"graph/{number:05d}")
    labels = {name: read_array(group, name) for name in ("given_label", "neighbor_label")}
    neighbor = read_array(group, "neighbor")
    fold = np.where(neighbor == ABSENT, -1, deal(neighbor, seed)).astype(np.int8)
    return labels, fold, deal(read_array(group, "row"), seed)


def deal(row: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int8]:
    """The fold of each row, whatever block it is met in."""
    return (row_hash(row, seed, _STREAM) % np.uint64(FOLDS)).astype(np.int8)
