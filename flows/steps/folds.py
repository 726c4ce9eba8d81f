"""Graph → the two neighbourhood sizes of RkNN, by four-fold cross-validation over the blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.job import Job, Output
from flows.steps.partition import Blocks, block_name
from pipeline.blockwise import Part
from pipeline.extrema import minmax
from pipeline.merge import ABSENT
from pipeline.rates import NoiseRates
from pipeline.rknn import Selection, best, fold_sums, gains, own_extremes
from pipeline.sampling import row_hash
from storage.groups import read_array
from storage.run import Run

FOLDS = 4
_STREAM = 5
"""Of the hash that deals rows to folds."""


@dataclass(frozen=True)
class Folds:
    """What cross-validation chose, and the rates seen at it."""

    chosen: Selection
    rates: NoiseRates

    def told(self, grid: tuple[int, ...]) -> dict[str, Any]:
        """For the report: mean held-out accuracy on the given labels, by k and by k'."""
        score = self.chosen.score.tolist()
        return {"grid": list(grid), "score": score, "shortfall": self.chosen.shortfall}


def choose_sizes(
    job: Job, blocks: Blocks, grid: tuple[int, ...], k: int | None, seed: int
) -> Folds:
    """(k, k') of the best held-out accuracy on the given labels, and the rates that k' shows."""
    numbers = range(len(blocks.sizes))
    common = {"grid": grid, "seed": seed}
    seen = job.parts(
        "fold-extremes",
        extremes_part,
        [Part(block_name(b), {**common, "block": b}) for b in numbers],
    )
    each = np.array([record.result["extremes"] for record in seen])
    ends = np.stack([each[:, :, 0].min(axis=0), each[:, :, 1].max(axis=0)], axis=1)
    scored = job.parts(
        "fold-scores",
        scores_part,
        [Part(block_name(b), {**common, "block": b, "ends": ends[:FOLDS]}) for b in numbers],
    )
    total = np.sum([record.result["right"] for record in scored], axis=0)
    shortfall = sum(record.result["shortfall"] for record in scored)
    chosen = best(total / sum(blocks.core), grid, shortfall, k)
    rates = minmax(ends[FOLDS, :, grid.index(chosen.k_noise)], chosen.k_noise + 1)
    return Folds(chosen, replace(rates, method="rknn"))


def extremes_part(run: Run, part: Part) -> Output:
    """Least and greatest own average without each fold, and without none."""
    grid, seed = part.args["grid"], part.args["seed"]
    group, fold, own_fold = _block(run, part.args["block"], seed)
    found = []
    for left_out in (*range(FOLDS), FOLDS):
        ones, sizes = fold_sums(group["neighbor_label"], (fold >= 0) & (fold != left_out), grid)
        inside = own_fold != left_out
        found.append(own_extremes(ones[inside], sizes[inside], group["given_label"][inside]))
    return Output([], {"extremes": np.array(found).tolist()})


def scores_part(run: Run, part: Part) -> Output:
    """Left-out rows predicted right by each (k, k'); rows whose list ran out."""
    grid, seed = part.args["grid"], part.args["seed"]
    group, fold, own_fold = _block(run, part.args["block"], seed)
    right, shortfall = np.zeros((len(grid), len(grid))), 0
    for left_out in range(FOLDS):
        ones, sizes = fold_sums(group["neighbor_label"], (fold >= 0) & (fold != left_out), grid)
        shortfall += int((sizes[:, -1] < grid[-1]).sum())
        out = own_fold == left_out
        label = group["given_label"][out]
        right += gains(ones[out], sizes[out], label, part.args["ends"][left_out])
    return Output([], {"right": right.astype(int).tolist(), "shortfall": shortfall})


def _block(
    run: Run, number: int, seed: int
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Labels of one block of the graph, and the folds of the neighbours (-1: none) and rows."""
    group = run.group(f"graph/{number:05d}")
    labels = {name: read_array(group, name) for name in ("given_label", "neighbor_label")}
    neighbor = read_array(group, "neighbor")
    fold = np.where(neighbor == ABSENT, -1, deal(neighbor, seed)).astype(np.int8)
    return labels, fold, deal(read_array(group, "row"), seed)


def deal(row: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int8]:
    """The fold of each row, whatever block it is met in."""
    return (row_hash(row, seed, _STREAM) % np.uint64(FOLDS)).astype(np.int8)
