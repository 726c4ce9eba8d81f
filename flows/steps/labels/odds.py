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
from flows.steps.labels.rates import Counted, RateEstimates
from pipeline.blocks.sampling import in_sample
from pipeline.decision.odds import (
    Assumed,
    OddsWeights,
    assumed,
    count_odds,
    first_pass,
    fit_first,
    fit_second,
    sizes_among,
    smoothed_odds,
)
from pipeline.decision.quality import FIT_ROWS, SMOOTHED
from pipeline.streams import Stream
from storage.arrays.groups import Arrays


@dataclass(frozen=True)
class First(Result):
    """What the first pass takes."""

    assumed: Assumed
    grid: tuple[int, ...]
    weights: OddsWeights

    def odds(self, count: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(row, size) log odds of counts (row, grid)."""
        return _odds(count, self.grid, self.assumed)


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
    grid = tuple(rates.k_curve.grid)
    first = First.of(job.once("first-weights", lambda _: _fit_first(counted, rates, grid)))
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
    odds, by = first.odds(at.columns["count"]), first.assumed.correction()
    return {"chance": first_pass(odds, at.read("y"), by, first.weights)}


def smooth(at: Around, n_rows: int, seed: int) -> Facts:
    """What the neighbors of some rows say, and that of those in the sample."""
    near = at.of_neighbors("chance", SMOOTHED)
    smoothed, reach = smoothed_odds(near, at.of_row["distance"])
    columns: Arrays = {"row": at.row, "smoothed": smoothed, "reach": reach}
    drawn = np.flatnonzero(in_sample(at.row, n_rows, FIT_ROWS, seed, Stream.FIT))
    return Facts(columns, drawn={name: column[drawn] for name, column in columns.items()})


def _odds(
    count: npt.NDArray[np.integer], grid: tuple[int, ...], rates: Assumed
) -> npt.NDArray[np.float64]:
    sizes = sizes_among(grid)
    return count_odds(count[:, [grid.index(k) for k in sizes]], sizes, rates.correction())


def _fit_first(counted: Sendings, rates: RateEstimates, grid: tuple[int, ...]) -> Output:
    """The rates that qualities take, and the weights of counts."""
    tables = [counts.votes for counts in counted.left(Counted)]
    votes = [np.sum([np.asarray(of[at]) for of in tables], axis=0) for at in range(len(grid))]
    taken = assumed(rates.rates, votes)
    sample = counted.drawn()
    odds = _odds(sample["count"], grid, taken)
    weights = fit_first(odds, sample["given_label"], taken.correction())
    return Output([], First(taken, grid, weights))


def _fit_second(counted: Sendings, smoothed: Sendings, first: First) -> Output:
    """Weights of the second pass."""
    sample, around = counted.drawn(), smoothed.drawn()
    weights = fit_second(
        first.odds(sample["count"]),
        around["smoothed"],
        around["reach"],
        sample["given_label"],
        first.assumed.correction(),
    )
    return Output([], Second(weights))
