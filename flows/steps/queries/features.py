"""The preprocessing of queries by that of their training: moved towards their neighbors among its
averages, then divided by the mean distance to the nearest of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Replies, exchange
from flows.engine.job import Job
from flows.engine.results import LabelValue
from flows.steps.ingest.columns import CandidateCodes
from flows.steps.ingest.derived import derive
from flows.steps.ingest.pool import Ingested, ingest
from flows.steps.queries.probes import Model
from flows.steps.queries.searching import Lists, answers, search_queries
from flows.steps.sets.features import Unit, neighbors_features, towards
from flows.steps.sets.stages import AVERAGED, FEATURES, GIVEN, UNIT, StageFeatures, stage
from pipeline.arrays import Float32
from pipeline.blocks.scaling import Scaling
from pipeline.methods.partial_features import density_scaled, reach
from storage.arrays.exchange import Slice
from storage.runs.pool import Pool, Rows
from storage.sources.base import Source

N = TypeVar("N", np.int64, np.float32)


@dataclass(frozen=True)
class AveragedQueries:
    """Queries at unit length, moved towards their neighbors."""

    queries: Pool
    lists: Lists
    known: list[Slice]
    """Where the neighbors' features lie."""
    n_smooth: int
    alpha: float

    def features(self, rows: Rows) -> Float32:
        lists = self.lists.of(rows)
        replies = Replies(exchange(self.lists.at.location, FEATURES, "answers"), self.known)
        near = replies.places(_first(lists.row, self.n_smooth))
        distance = _first(lists.distance, self.n_smooth)
        x = replies.columns["x"]
        return towards(self.queries.read("x", rows), x, near, distance, self.alpha)


@dataclass(frozen=True)
class ThinnedQueries:
    """Averaged queries divided by the mean distance to their neighbors."""

    queries: Pool
    lists: Lists
    copies: float

    def features(self, rows: Rows) -> Float32:
        mean = reach(self.lists.of(rows).distance)
        return density_scaled(self.queries.read("x", rows), mean, self.copies)


def _first(lists: npt.NDArray[N], n: int) -> npt.NDArray[N]:
    """The first n of each list."""
    return np.ascontiguousarray(lists[:, :n])


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
    how, trained = by.how, stage(model.run, AVERAGED)
    given, unit, averaged = (job.below(folder) for folder in (GIVEN, UNIT, AVERAGED))
    read = given.task("ingest", read_queries, source, classes, by.scaling)
    first = read.pool(given.run, "queries")
    among = Pool(trained, "pool", model.n_rows, first.n_features)
    averages = replace(
        model,
        run=trained,
        scaling=Scaling(),
        k=how.n_density,
        n_blocks=by.n_blocks,
        probes=by.probes,
        blocks_step=by.blocks_step,
    )
    center = None if by.center is None else tuple(by.center)
    derive(unit, read, first, [Unit(first, by.scaling, center)] * len(first.parts()))
    second = replace(first, run=unit.run)
    lists = _search(unit, second, averages)
    known = answers(unit, second, lists, among, how.n_smooth, neighbors_features)
    moved = [
        AveragedQueries(second, *both, how.n_smooth, how.alpha)
        for both in zip(lists, known, strict=True)
    ]
    derive(averaged, read, second, moved)
    third = replace(first, run=averaged.run)
    lists = _search(averaged, third, averages)
    thinned = [ThinnedQueries(third, some, by.copies) for some in lists]
    return derive(job, read, first, thinned, whole=True)


def _search(job: Job, queries: Pool, model: Model) -> list[Lists]:
    """The neighbors of each part of the queries."""
    searched = job.task("search", search_queries, queries, model)
    return [Lists(job.run, slices, model.k) for slices in searched.slices]
