"""The preprocessing of Errandonea et al., appendix D.2, of a pool and of queries.

It has two stages, each a run in a folder of its own below the training (or the scoring). The first
is the source as it was read; rows at unit length are averaged with their neighbors in its graph.
The second is these averages; its graph says how dense they lie, and queries search it for their
neighbors. From both the pool is made. Averages and densities are taken block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flows.engine.cluster import SHARED
from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from flows.engine.results import as_json
from flows.options.params import TrainParams
from flows.steps.graph.building import build
from flows.steps.graph.networks import choose_probes
from flows.steps.graph.partition import BLOCKS, Wanted
from flows.steps.ingest.columns import IMPUTE, WORDS, CandidateCodes
from flows.steps.ingest.pool import SAMPLES, Ingested, ingest
from flows.steps.sets.stages import (
    AVERAGED,
    FEATURES,
    GIVEN,
    StageFeatures,
    UnitRows,
    stage_digest,
)
from pipeline.arrays import Float32, Int32
from pipeline.blocks.scaling import Scaling
from pipeline.diagnostics.neighborhood import mean_distance
from pipeline.graph.build import NeighborParams
from pipeline.graph.resources import choose_builder
from pipeline.methods.partial_features import PIPELINES, density_scaled, least_reach, smoothed
from storage.arrays.groups import Arrays, read_array
from storage.arrays.schema import GROUPS
from storage.errors import InputError
from storage.runs.pool import Pool, pool_chunk_rows
from storage.runs.run import Run
from storage.sources.base import Source

AVERAGES, REACHES = "averages", "reaches"
"""Names of steps."""
PORTION_BYTES = 32 << 20
"""Features of neighbors, in float64, that are averaged at a time."""
STAGE_RECALL = 0.99
"""Share of the true neighbors that stages find at least: a vote bears neighbors that are missed,
while a mean distance grows with each."""

Change = Callable[[SourceRows], Float32]
"""Rows of a pool as they were read → (row, feature) float32 what becomes of their features."""


def average(job: Job, graph: PoolGraph, unit: UnitRows, alpha: float) -> Sendings:
    """The rows of a pool at unit length, moved towards all neighbors in their lists, the neighbors'
    mean weighed by `alpha`."""
    requests = over_graph(job, graph, "wanted", asks=Asks(own=True))
    return over_graph(
        *(job, graph, AVERAGES, partial(moved, alpha=alpha)),
        needs=("distance",),
        known=neighbors_features(job, graph, requests, unit),
        gives={"x": f"({graph.pool.n_features},)f4"},
    )


def neighbors_features(
    job: Job, graph: PoolGraph, requests: Sendings, by: Scaling | None = None
) -> Sendings:
    """The features of the rows that were asked for, scaled; the pool may be another run's."""
    kernel = partial(features, by=by or Scaling())
    return over_rows(job, graph, FEATURES, kernel, requests=requests)


def features(at: SourceRows, by: Scaling) -> Arrays:
    """The features of some rows, if anybody asks for them."""
    return {"x": by.apply(at.read("x"))} if at.wanted else {}


def moved(at: Around, alpha: float) -> Arrays:
    x = at.known["x"]
    return {"x": towards(x[at.own], x, at.near, at.of_row["distance"], alpha)}


def towards(own: Float32, x: Float32, near: Int32, distance: Float32, alpha: float) -> Float32:
    """(row, feature) float32 rows moved towards their neighbors, a portion at a time.

    near : (row, rank) places in `x`
    """
    moved = np.empty_like(own)
    step = max(1, PORTION_BYTES // (8 * near.shape[1] * own.shape[1]))
    for start in range(0, len(own), step):
        rows = slice(start, start + step)
        moved[rows] = smoothed(own[rows], x, near[rows], distance[rows], alpha)
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
    mean = mean_distance(at.of_row["distance"])
    return Facts({"mean": mean}, left=least_reach(mean))


def derive(
    job: Job,
    read: Ingested,
    of: Pool,
    change: Change,
    sent: Sequence[Sendings] = (),
    *,
    more: Sequence[Any] | None = None,
    whole: bool = False,
) -> Ingested:
    """Write the group of the same name as that of the pool `of`, as it was read, with other
    features, and its samples; what it is.

    read : what is known of the rows; the features made are not to be scaled any more
    sent, more : what `change` gets of rows, as `over_rows` has it
    whole : whether ids and candidates are taken along
    """
    group, columns = of.run.group(of.path), GROUPS[of.path]
    taken = [n for n, column in columns.items() if n in group and (whole or not column.optional)]
    optional = tuple(name for name in taken if columns[name].optional)
    sizes, rows = {"feature": of.n_features, "word": WORDS}, pool_chunk_rows(of.n_features)
    table = Table(of.path, sizes=sizes, optional=optional, chunk_rows=rows)
    kernel = partial(derived, change=change, names=tuple(n for n in taken if n != "x"))

    def make(job: Job) -> Ingested:
        step = f"derive-{of.path}"
        made = over_rows(job, PoolGraph(of, 0), step, kernel, of=sent, table=table, more=more)

        def finish(run: Run) -> Output:
            about: dict[str, Any] = of.run.group(of.path).attrs.asdict()
            result = replace(read, scaling=Scaling())
            written = table.finish(run, of, {**about, **as_json(result)})
            drawn = made.drawn()
            for name in SAMPLES:
                row = read_array(of.run.group(f"samples/{name}"), "row")
                sample = {"x": drawn["x"][np.searchsorted(drawn["row"], row)], "row": row}
                written += run.write(f"samples/{name}", "sample", sample)
            return Output(written, result)

        return job.result(of.path, finish, Ingested)

    return job.task("derive", make)


def derived(at: SourceRows, change: Change, names: tuple[str, ...]) -> Facts:
    """Some rows with other features, and those of them that are in a sample of the old pool."""
    x, rows = change(at), at.rows
    of = [read_array(at.pool.run.group(f"samples/{name}"), "row") for name in SAMPLES]
    row = np.unique(np.concatenate(of))
    row = row[(row >= rows.start) & (row < rows.stop)]
    columns = {"x": x, **{name: at.read(name) for name in names}}
    return Facts(columns, drawn={"row": row, "x": x[row - rows.start]})


def as_moved(at: SourceRows) -> Float32:
    """Rows that blocks have moved towards their neighbors."""
    x: Float32 = at.columns["x"]
    return x


def thinned(at: SourceRows, averaged: Pool, copies: float) -> Float32:
    """Averages divided by the mean distance to their neighbors."""
    return density_scaled(averaged.read("x", at.rows), at.columns["mean"], copies)


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
    unit, plain = UnitRows.of(read.scaling, center), Scaling()
    graph = build(given, pool, unit, *_graph(given, params, pool, how.n_smooth))
    lists = PoolGraph(pool, len(graph.blocks.sizes))
    moved = given.task(AVERAGES, average, lists, unit, how.alpha)
    below = job.below(AVERAGED)
    averaged = derive(below, read, pool, as_moved, [moved]).pool(below.run, "pool")
    neighbors, wanted = _graph(below, params, averaged, how.n_density)
    built = build(below, averaged, plain, neighbors, wanted)
    of_averages = PoolGraph(averaged, len(built.blocks.sizes))
    reaches, copies = below.task(REACHES, find_reaches, of_averages)
    searched = built.blocks, plain, built.pairs, how.n_density, wanted.target_recall
    probes = below.task("probes", choose_probes, *searched, wanted.exact)

    def tell(run: Run) -> Output:
        digests = {folder: stage_digest(run.below(folder)) for folder in (GIVEN, AVERAGED)}
        subtracted = None if center is None else list(center)
        kept = name, read.scaling, subtracted, copies
        of_queries = len(built.blocks.sizes), built.blocks.name(BLOCKS), probes
        return Output([], StageFeatures(*kept, *of_queries, digests))

    job.once(FEATURES, tell)
    change = partial(thinned, averaged=averaged, copies=copies)
    return derive(job, read, pool, change, [reaches], whole=True)


def _graph(job: Job, params: TrainParams, pool: Pool, length: int) -> tuple[NeighborParams, Wanted]:
    """How the graph of a stage is built."""
    builder, seed = choose_builder(params.builder, pool.n_rows, pool.n_features), params.seed
    recall = max(STAGE_RECALL, params.target_recall)
    machine = job.machine() if builder == "join" else SHARED
    wanted = Wanted(params.block_rows, recall, length, builder == "exact", seed, machine)
    return NeighborParams(length, builder, seed=seed), wanted


def find_center(job: Job, pool: Pool, scaling: Scaling) -> tuple[float, ...]:
    """(feature,) mean of the scaled rows."""
    kernel = partial(added, scaling=scaling)
    sums = over_rows(job, PoolGraph(pool, 0), "center", kernel).left(list[float])
    return tuple((np.sum(sums, axis=0) / pool.n_rows).tolist())


def added(at: SourceRows, scaling: Scaling) -> Facts:
    """Some rows, added up."""
    x = scaling.apply(at.read("x"))
    return Facts(left=x.sum(axis=0, dtype=np.float64).tolist())
