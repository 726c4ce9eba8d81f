"""The preprocessing of Errandonea et al., appendix D.2, of a pool and of queries.

Each stage is a run in a folder of its own below the training (or the scoring): the source as it was
read; its rows at unit length, whose graph averages them; the averages, whose graph says how dense
they lie, and in which the queries' neighbors are searched. The pool is made of the last. What it
takes of a graph, rows moved towards their neighbors and how far these are, it takes block by block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from flows.engine.cluster import SHARED
from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, over_rows
from flows.engine.collectives.sent import Facts, Sendings, source_order
from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_rows
from flows.engine.results import result_of
from flows.options.params import TrainParams
from flows.steps.graph.building import build, find_probes
from flows.steps.graph.networks import Probes
from flows.steps.graph.partition import BLOCKS, Blocks, Wanted
from flows.steps.ingest.columns import IMPUTE, CandidateCodes
from flows.steps.ingest.derived import derive
from flows.steps.ingest.pool import Ingested, ingest
from flows.steps.sets.stages import (
    AVERAGED,
    FEATURES,
    GIVEN,
    UNIT,
    StageFeatures,
    stage,
    stage_digest,
)
from pipeline.arrays import Float32, Int32
from pipeline.blocks.scaling import Scaling
from pipeline.graph.build import NeighborParams, choose_builder
from pipeline.methods.partial_features import (
    PIPELINES,
    density_scaled,
    least_reach,
    reach,
    smoothed,
    unit_rows,
)
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays
from storage.errors import InputError
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run
from storage.sources.base import Source

AVERAGES, REACHES = "averages", "reaches"
"""Names of steps."""
PORTION_BYTES = 32 << 20
"""Features of neighbors, in float64, that are averaged at a time."""


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
    return reaches, min(reaches.left(float))


def reached(at: Around) -> Facts:
    """The mean distances of the rows of a block; leaves the least positive one."""
    mean = reach(at.of_row["distance"])
    return Facts({"mean": mean}, left=least_reach(mean))


STAGE_RECALL = 0.99
"""Share of the true neighbors that stages find at least: a vote bears neighbors that are missed,
while a mean distance grows with each."""


@dataclass(frozen=True)
class Unit:
    """Rows at unit length."""

    pool: Pool
    scaling: Scaling
    center: tuple[float, ...] | None

    def features(self, rows: Rows) -> Float32:
        x = self.scaling.apply(self.pool.read("x", rows))
        return unit_rows(x, None if self.center is None else np.array(self.center))


@dataclass(frozen=True)
class Averaged:
    """Rows that blocks have moved towards their neighbors."""

    sent: Exchange
    slices: list[Slice]

    def features(self, rows: Rows) -> Float32:
        x: Float32 = _in_order(self.sent, self.slices, rows, "averages")["x"]
        return x


@dataclass(frozen=True)
class Thinned:
    """Averages divided by the mean distance to their neighbors."""

    pool: Pool
    sent: Exchange
    slices: list[Slice]
    copies: float

    def features(self, rows: Rows) -> Float32:
        mean = _in_order(self.sent, self.slices, rows, "mean distances")["mean"]
        return density_scaled(self.pool.read("x", rows), mean, self.copies)


def _in_order(sent: Exchange, slices: list[Slice], rows: Rows, what: str) -> Arrays:
    """What was sent of some rows, in the order of the source."""
    columns = sent.receive(slices)
    order = source_order(columns.pop("row"), rows, what)
    return {name: column[order] for name, column in columns.items()}


def prepare(job: Job, source: Source, params: TrainParams) -> Ingested:
    """Write the pool with its features preprocessed, each stage in a folder of its own."""
    name, seed, given = params.candidate_features, params.seed, job.below(GIVEN)
    more: dict[str, Any] = {"labels": CandidateCodes, "gaps": IMPUTE}
    read = given.task("ingest", ingest, source, path="pool", scale=params.scale, seed=seed, **more)
    pool, how = read.pool(given.run, "pool"), PIPELINES[name]
    if pool.n_rows <= how.n_density:
        raise InputError(
            f"{pool.n_rows} rows are too few for --candidate-features {name}, which looks at "
            f"{how.n_density} neighbors; leave it out"
        )
    center = None if how.cube_root else find_center(given, pool, read.scaling)
    unit = job.below(UNIT)
    rows = Unit(pool, read.scaling, center)
    derive(unit, read, pool, [rows] * len(pool.parts()))
    first = replace(pool, run=unit.run)
    averaged, reaches, copies, blocks, probes = _averages(job, unit, read, first, params)

    def tell(run: Run) -> Output:
        digests = {folder: stage_digest(stage(run, folder)) for folder in (GIVEN, UNIT, AVERAGED)}
        subtracted = None if center is None else list(center)
        kept = name, read.scaling, subtracted, copies
        of_queries = len(blocks.sizes), blocks.name(BLOCKS), probes
        return Output([], StageFeatures(*kept, *of_queries, digests))

    job.once(FEATURES, tell)
    thinned = [
        Thinned(averaged, reaches.exchange("rows"), slices, copies)
        for slices in reaches.slices("rows", len(pool.parts()))
    ]
    return derive(job, read, pool, thinned, whole=True)


def _averages(
    job: Job, unit: Job, read: Ingested, first: Pool, params: TrainParams
) -> tuple[Pool, Sendings, float, Blocks, Probes]:
    """Move rows at unit length, the pool `first`, towards their neighbors; the averages, their mean
    distances, what copies are divided by, and how they are searched."""
    how, plain = PIPELINES[params.candidate_features], Scaling()
    graph = build(unit, first, plain, *_graph(unit, params, first, how.n_smooth), rates=False)
    lists = PoolGraph(first, len(graph.blocks.sizes))
    moved = unit.task(AVERAGES, average, lists, how.alpha)
    averaged, to = job.below(AVERAGED), moved.exchange("rows")
    slices = moved.slices("rows", len(first.parts()))
    derive(averaged, read, first, [Averaged(to, some) for some in slices])
    pool = replace(first, run=averaged.run)
    neighbors, wanted = _graph(averaged, params, pool, how.n_density)
    built = build(averaged, pool, plain, neighbors, wanted, rates=False)
    blocks = built.blocks
    of_averages = PoolGraph(pool, len(blocks.sizes))
    reaches, copies = averaged.task(REACHES, find_reaches, of_averages)
    probes = find_probes(averaged, built, plain, neighbors, how.n_density, wanted.target_recall)
    return pool, reaches, copies, blocks, probes


def _graph(job: Job, params: TrainParams, pool: Pool, length: int) -> tuple[NeighborParams, Wanted]:
    """How the graph of a stage is built."""
    builder, seed = choose_builder(params.builder, pool.n_rows, pool.n_features), params.seed
    recall = max(STAGE_RECALL, params.target_recall)
    machine = job.machine() if builder == "join" else SHARED
    wanted = Wanted(params.block_rows, recall, length, builder == "exact", seed, machine)
    return NeighborParams(length, builder, seed=seed), wanted


def find_center(job: Job, pool: Pool, scaling: Scaling) -> tuple[float, ...]:
    """(feature,) mean of the scaled rows."""
    add = partial(sum_part, pool=pool, scaling=scaling)
    sums = [result_of(one, list[float]) for one in job.parts("center", add, by_rows(pool.parts()))]
    return tuple((np.sum(sums, axis=0) / pool.n_rows).tolist())


def sum_part(run: Run, part: Part[Rows], pool: Pool, scaling: Scaling) -> Output:
    """Add up some rows."""
    x = scaling.apply(pool.read("x", part.args))
    return Output([], x.sum(axis=0, dtype=np.float64).tolist())
