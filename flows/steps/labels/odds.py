"""Counts → what label qualities of two classes take: one pass over the graph, and weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from flows.engine.collectives import (
    Around,
    Facts,
    PoolGraph,
    Sendings,
    SourceRows,
    over_graph,
    over_rows,
)
from flows.engine.job import Job, Output
from flows.engine.results import Result
from flows.steps.labels.rates import RateEstimates
from pipeline.blocks.sampling import in_sample
from pipeline.decision.odds import (
    OddsWeights,
    WeighedVote,
    first_pass,
    fit_second,
    smoothed_odds,
)
from pipeline.decision.quality import FIT_ROWS, SMOOTHED
from pipeline.streams import Stream
from storage.arrays.groups import Arrays


@dataclass(frozen=True)
class First:
    """What the first pass takes."""

    vote: WeighedVote
    grid: tuple[int, ...]
    """Sizes that rows are counted for."""

    def count(self, count: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """(row, size) of the vote among counts (row, grid)."""
        return count[:, [self.grid.index(k) for k in self.vote.sizes]]


@dataclass(frozen=True)
class Second(Result):
    """Weights of the second pass."""

    weights: OddsWeights


@dataclass(frozen=True)
class LabelOdds:
    """What label qualities take besides counts."""

    first: First
    second: OddsWeights
    counted: Sendings
    smoothed: Sendings


def find_odds(
    job: Job, graph: PoolGraph, counted: Sendings, rates: RateEstimates, seed: int
) -> LabelOdds:
    """Let each row know what the first pass says of its neighbors."""
    first = First(rates.weighed, tuple(rates.k_curve.grid))
    kernel = partial(chance, first=first)
    relayed = over_rows(job, graph, "relay", kernel, of=[counted], requests=counted)
    smoothed = over_graph(
        *(job, graph, "smoothing", partial(smooth, n_rows=graph.pool.n_rows, seed=seed)),
        needs=("distance",),
        known=relayed,
        gives={"smoothed": "f4", "reach": "f4"},
    )
    second = Second.of(job.once("weights", lambda _: _fit_second(counted, smoothed, first)))
    return LabelOdds(first, second.weights, counted, smoothed)


def chance(at: SourceRows, first: First) -> Arrays:
    """What the first pass says of some rows: a byte each."""
    log_odds = first.vote.log_odds(first.count(at.columns["count"]))
    return {"chance": first_pass(log_odds, at.read("y"), first.vote.assumed.correction())}


def smooth(at: Around, n_rows: int, seed: int) -> Facts:
    """What the neighbors of some rows say, and that of those in the sample."""
    near = at.of_neighbors("chance", SMOOTHED)
    smoothed, reach = smoothed_odds(near, at.of_row["distance"])
    columns: Arrays = {"row": at.row, "smoothed": smoothed, "reach": reach}
    drawn = np.flatnonzero(in_sample(at.row, n_rows, FIT_ROWS, seed, Stream.FIT))
    return Facts(columns, drawn={name: column[drawn] for name, column in columns.items()})


def _fit_second(counted: Sendings, smoothed: Sendings, first: First) -> Output:
    """Weights of the second pass."""
    sample, around = counted.drawn(), smoothed.drawn()
    weights = fit_second(
        first.vote.features(first.count(sample["count"])),
        around["smoothed"],
        around["reach"],
        sample["given_label"],
        first.vote.assumed.correction(),
    )
    return Output([], Second(weights))
