"""The preprocessing of queries as that of their training: they are moved towards their neighbors
among its averages, then divided by their mean distance to the nearest of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from flows.engine.collectives.rows import SourceRows
from flows.engine.collectives.sent import Lists, Replies
from flows.engine.job import Job
from flows.engine.results import LabelValue
from flows.steps.ingest.columns import CandidateCodes
from flows.steps.ingest.pool import Ingested, ingest
from flows.steps.queries.searching import Model, answers, search_queries
from flows.steps.sets.features import derive, neighbors_features, towards
from flows.steps.sets.stages import AVERAGED, GIVEN, StageFeatures, UnitRows
from pipeline.arrays import Float32
from pipeline.blocks.scaling import Scaling
from pipeline.diagnostics.neighborhood import mean_distance
from pipeline.methods.partial_features import Preprocessing, density_scaled
from storage.runs.pool import Pool
from storage.sources.base import Source


def averaged(at: SourceRows, unit: UnitRows, how: Preprocessing) -> Float32:
    """Queries at unit length, moved towards their neighbors: `more` are their lists, and the
    neighbors' features."""
    of_part, known = at.more
    lists, replies = of_part.of(at.rows), Replies(known)
    near, distance = (
        np.ascontiguousarray(of[:, : how.n_smooth]) for of in (lists.row, lists.distance)
    )
    own, x = unit.apply(at.read("x")), replies.columns["x"]
    return towards(own, x, replies.places(near), distance, how.alpha)


def thinned(at: SourceRows, among: Pool, copies: float) -> Float32:
    """Averaged queries, `among`, divided by the mean distance to their neighbors, whose lists are
    `more`."""
    mean = mean_distance(at.more.of(at.rows).distance)
    return density_scaled(among.read("x", at.rows), mean, copies)


def read_queries(
    job: Job, source: Source, classes: Sequence[LabelValue], scaling: Scaling
) -> Ingested:
    """Write the queries as they are read; candidates, if any, are among the training's classes."""
    gaps = ", or train with --impute median"
    read = partial(ingest, labels=CandidateCodes, classes=classes, trained=scaling, gaps=gaps)
    return read(job, source, path="queries", scale="none", seed=0)


def prepare_queries(
    job: Job, source: Source, classes: Sequence[LabelValue], model: Model, by: StageFeatures
) -> Ingested:
    """Write the queries with their features preprocessed, each stage in a folder of its own."""
    how, unit, trained = by.how, by.unit, model.run.below(AVERAGED)
    given, below = job.below(GIVEN), job.below(AVERAGED)
    read = given.task("ingest", read_queries, source, classes, by.scaling)
    queries = read.pool(given.run, "queries")
    among = Pool(trained, "pool", model.n_rows, queries.n_features)
    averages = replace(
        model,
        run=trained,
        scaling=unit,
        k=how.n_density,
        n_blocks=by.n_blocks,
        probes=by.probes,
        blocks_step=by.blocks_step,
    )
    lists = _search(given, queries, averages)
    known = answers(given, queries, lists, among, how.n_smooth, neighbors_features)
    change, more = partial(averaged, unit=unit, how=how), list(zip(lists, known, strict=True))
    moved = derive(below, read, queries, change, more=more).pool(below.run, "queries")
    lists = _search(below, moved, replace(averages, scaling=Scaling()))
    change = partial(thinned, among=moved, copies=by.copies)
    return derive(job, read, queries, change, more=lists, whole=True)


def _search(job: Job, queries: Pool, model: Model) -> list[Lists]:
    """The neighbors of each part of the queries."""
    return job.task("search", search_queries, queries, model).lists
