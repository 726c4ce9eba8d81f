"""Rows moved towards their neighbors, and how far these are: what the preprocessing of candidate
sets takes of a graph, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.collectives import (
    Around,
    Asks,
    Facts,
    PoolGraph,
    Sendings,
    SourceRows,
    over_graph,
    over_rows,
)
from flows.engine.job import Job
from flows.engine.results import Result
from pipeline.arrays import Float32, Int32
from pipeline.methods.partial_features import least_reach, reach, smoothed
from storage.arrays.groups import Arrays

AVERAGES, REACHES, FEATURES = "averages", "reaches", "features"
"""Names of steps."""
PORTION_BYTES = 32 << 20
"""Features of neighbors, in float64, that are averaged at a time."""


@dataclass(frozen=True)
class Reached(Result):
    """The least positive mean distance of some rows."""

    least: float


def average(job: Job, graph: PoolGraph, alpha: float) -> Sendings:
    """The rows of a pool moved towards all neighbors in their lists, the neighbors' mean weighed by
    `alpha`."""
    requests = over_graph(job, graph, "wanted", asks=Asks(own=True))
    return over_graph(
        *(job, graph, AVERAGES, partial(moved, alpha=alpha)),
        needs=("distance",),
        known=neighbors_features(job, graph, requests),
        gives={"x": f"({graph.pool.n_features},)f4"},
    )


def neighbors_features(job: Job, graph: PoolGraph, requests: Sendings) -> Sendings:
    """The features of the rows that were asked for; the pool may be another run's."""
    return over_rows(job, graph, FEATURES, features, requests=requests)


def features(at: SourceRows) -> Arrays:
    """The features of some rows, if anybody asks for them."""
    return {"x": at.read("x")} if at.wanted else {}


def moved(at: Around, alpha: float) -> Arrays:
    """Some rows of a block, moved."""
    x = at.known["x"]
    return {"x": towards(x[at.own], x, at.near, at.of_row["distance"], alpha)}


def towards(own: Float32, x: Float32, near: Int32, distance: Float32, alpha: float) -> Float32:
    """(row, feature) float32 rows moved towards their neighbors, a portion at a time.

    near : (row, rank) places in `x`
    """
    moved = np.empty_like(own)
    step = max(1, PORTION_BYTES // (8 * near.shape[1] * own.shape[1]))
    for start in range(0, len(own), step):
        some = slice(start, start + step)
        moved[some] = smoothed(own[some], x, near[some], distance[some], alpha)
    return moved


def find_reaches(job: Job, graph: PoolGraph) -> tuple[Sendings, float]:
    """The mean distance of the rows of a pool to their neighbors, and the least of them that is
    positive."""
    reaches = over_graph(
        *(job, graph, REACHES, reached),
        needs=("distance",),
        gives={"mean": "f8"},
        portion=None,
    )
    return reaches, min(part.least for part in reaches.left(Reached))


def reached(at: Around) -> Facts:
    """The mean distances of the rows of a block."""
    mean = reach(at.of_row["distance"])
    return Facts({"mean": mean}, left=Reached(least_reach(mean)))
