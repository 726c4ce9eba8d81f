"""Rows moved towards their neighbors, and how far these are: what the preprocessing of candidate
sets takes of a graph, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.collectives import PoolGraph, Sendings, SourceRows, over_rows
from flows.engine.collectives.sent import (
    Passed,
    Replies,
    Routed,
    Sent,
    ask,
    exchange,
    incoming,
    slices_by_destination,
)
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import distinct, places
from pipeline.methods.partial_features import least_reach, reach, smoothed
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays, read_array
from storage.runs.pool import Pool
from storage.runs.run import Run

Float32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
AVERAGES, REACHES, FEATURES = "averages", "reaches", "features"
"""Names of steps and of their exchanges."""
PORTION_BYTES = 32 << 20
"""Features of neighbors, in float64, that are averaged at a time."""


@dataclass(frozen=True)
class GraphBlock:
    """One block of a graph."""

    number: int
    pool: Pool
    alpha: float = 0.0
    """Weight of the neighbors' mean."""
    known: tuple[Slice, ...] = ()
    """Where the features of neighbors lie that are not in the block."""


@dataclass(frozen=True)
class Reached(Result):
    """What was sent, and the least positive mean distance of the rows."""

    sent: Sent
    least: float


def average(job: Job, pool: Pool, n_blocks: int, alpha: float) -> list[list[Slice]]:
    """For each part of a pool, slices of the exchange `averages` with its rows moved towards all
    neighbors in their lists."""
    numbers = range(n_blocks)
    wants = [Part(block_name(b), GraphBlock(b, pool)) for b in numbers]
    requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want_part, wants))
    known = neighbors_features(job, pool, requests, n_blocks)
    averaged = job.parts(
        AVERAGES,
        average_part,
        [Part(block_name(b), GraphBlock(b, pool, alpha, tuple(known[b]))) for b in numbers],
    )
    return incoming(averaged, len(pool.parts()))


def neighbors_features(job: Job, pool: Pool, wants: Sendings, n_askers: int) -> list[list[Slice]]:
    """For each asker the slices with the features that it asked for; the pool may be another
    run's."""
    graph = PoolGraph(pool, n_askers)
    return over_rows(job, graph, FEATURES, features, requests=wants).slices("answers", n_askers)


def features(at: SourceRows) -> Arrays:
    """The features of some rows, if anybody asks for them."""
    return {"x": at.read("x")} if at.wanted else {}


def want_part(run: Run, part: Part[GraphBlock]) -> Output:
    """Ask for the neighbors of a block's rows that are not in the block themselves."""
    number = part.args.number
    neighbor = read_array(run.group(f"graph/{number:05d}"), "neighbor")
    here = places(read_array(run.group(f"blocks/{number:05d}"), "row"), neighbor)
    outside = distinct(np.where(here == ABSENT, neighbor, ABSENT))
    key, sent = ask(run.location, "wanted", part.name, number, part.args.pool, outside)
    return Output([key], Passed({"asked": sent}))


def average_part(run: Run, part: Part[GraphBlock]) -> Output:
    """Send the rows of a block, moved towards their neighbors, to source order."""
    of, pool = part.args, part.args.pool
    graph, block = (run.group(f"{name}/{of.number:05d}") for name in ("graph", "blocks"))
    row, neighbor, distance = (read_array(graph, name) for name in ("row", "neighbor", "distance"))
    known, x = read_array(block, "row"), read_array(block, "x")
    own = x[places(known, row)]
    if of.known:
        answers = Replies(exchange(run.location, FEATURES, "answers"), of.known)
        known = np.concatenate([known, answers.row])
        x = np.concatenate([x, answers.columns["x"]])
    near = places(known, neighbor)
    columns = {"row": row, "x": towards(own, x, near, distance, of.alpha)}
    away = Exchange(run.location, AVERAGES)
    sent = away.send(part.name, pool.part_of(row), len(pool.parts()), columns)
    return Output([away.key(part.name)], Routed(sent))


def towards(
    own: Float32, x: Float32, near: npt.NDArray[np.int32], distance: Float32, alpha: float
) -> Float32:
    """(row, feature) float32 rows moved towards their neighbors, a portion at a time.

    near : (row, rank) places in `x`
    """
    moved = np.empty_like(own)
    step = max(1, PORTION_BYTES // (8 * near.shape[1] * own.shape[1]))
    for start in range(0, len(own), step):
        some = slice(start, start + step)
        moved[some] = smoothed(own[some], x, near[some], distance[some], alpha)
    return moved


def find_reaches(job: Job, pool: Pool, n_blocks: int) -> tuple[list[list[Slice]], float]:
    """For each part of a pool, slices of the exchange `reaches` with the mean distance of its rows
    to their neighbors; and the least of them that is positive."""
    records = job.parts(
        REACHES, reach_part, [Part(block_name(b), GraphBlock(b, pool)) for b in range(n_blocks)]
    )
    sent = slices_by_destination(records, len(pool.parts()), lambda record: Reached.of(record).sent)
    return sent, min(Reached.of(record).least for record in records)


def reach_part(run: Run, part: Part[GraphBlock]) -> Output:
    """Send the mean distances of a block's rows to source order."""
    pool, group = part.args.pool, run.group(f"graph/{part.args.number:05d}")
    row, mean = read_array(group, "row"), reach(read_array(group, "distance"))
    exchange = Exchange(run.location, REACHES)
    columns = {"row": row, "mean": mean}
    sent = exchange.send(part.name, pool.part_of(row), len(pool.parts()), columns)
    return Output([exchange.key(part.name)], Reached(sent, least_reach(mean)))
