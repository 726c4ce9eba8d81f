"""Queries → blocks → lists, through the same exchange as training; and what is asked of the rows in
them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.sent import (
    Passed,
    Routed,
    Sendings,
    ask,
    incoming,
    receive_lists,
    send_lists,
)
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name, by_rows
from flows.steps.graph.neighbors import block_lists, block_with_enough_rows
from flows.steps.queries.probes import (
    Model,
    SearchSent,
    as_distances,
    audit_queries,
    bound_audit,
    in_reach,
    send_truth,
    true_limits,
)
from pipeline.arrays import Float32
from pipeline.blocks.partition import nearest_blocks, spread
from pipeline.graph.build import load_blas
from pipeline.graph.walk import nearest_in_block
from pipeline.knn.exact import nearest
from pipeline.knn.lists import Neighbors
from pipeline.knn.places import distinct
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run


@dataclass(frozen=True)
class Lists:
    """Where the neighbors of some queries lie."""

    at: Run
    slices: list[Slice]
    k: int
    """Length of the lists."""

    def of(self, rows: Rows) -> Neighbors:
        """The merged lists of these queries, which are all that the slices are of."""
        owners = np.arange(rows.start, rows.stop)
        return receive_lists(Exchange(self.at.location, "lists"), self.slices, owners, self.k)


def answers(
    job: Job,
    queries: Pool,
    lists: Sequence[Lists],
    pool: Pool,
    nearest: int,
    answer: Callable[[Job, PoolGraph, Sendings], Sendings],
) -> list[list[Slice]]:
    """For each part of the queries, where lies what a pool says of the nearest rows in their lists.

    answer : runs over the pool's rows, given which of them are wanted
    """
    parts = queries.parts()
    wants = by_rows(zip(range(len(parts)), parts, lists, strict=True))
    want = partial(want_part, pool=pool, nearest=nearest)
    requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want, wants))
    return answer(job, PoolGraph(pool, len(parts)), requests).slices("answers", len(parts))


def want_part(run: Run, part: Part[tuple[int, Rows, Lists]], pool: Pool, nearest: int) -> Output:
    """Ask the pool for the nearest rows of some queries, each once."""
    number, rows, lists = part.args
    near = np.ascontiguousarray(lists.of(rows).row[:, :nearest])
    key, sent = ask(run.location, "wanted", part.name, number, pool, distinct(near))
    return Output([key], Passed({"asked": sent}))


BATCH_ROWS = 1 << 17
"""Queries that one part searches, at most."""
BATCH_BYTES = 256 << 20
"""Features of these queries, at most."""


@dataclass(frozen=True)
class Search:
    """Queries sent to one block."""

    model: Model
    queries: Pool
    block: int
    sent: Exchange
    slices: list[Slice]
    to: Exchange
    audit: Float32 | None
    """Reach of each audited query; None where another part of the block sees to them."""
    truth: Exchange


@dataclass(frozen=True)
class Searched:
    """What the search of all blocks found."""

    slices: list[list[Slice]]
    """Of the lists, by part of the queries."""
    limit: Float32
    """Distance of the k-th true neighbor of each audited query."""
    probes: float
    """Blocks searched per query."""


def search_queries(job: Job, queries: Pool, model: Model) -> Searched:
    """Send queries to their blocks and search there, and the audited ones wherever a neighbor may
    be; a block is read once for both."""
    load_blas()
    route, lists, truth = (
        Exchange(job.run.location, name) for name in ("queries", "lists", "truth")
    )
    bound = as_distances(bound_audit(job, queries, model))
    send = partial(route_part, model=model, queries=queries, exchange=route)
    routed = job.parts("route", send, by_rows(queries.parts()))
    arrived = incoming(routed, model.n_blocks)
    rows = batch_rows(queries.n_features)
    parts = [
        Part(
            f"{block_name(b)}-{i:03d}",
            Search(model, queries, b, route, batch, lists, None if i else bound, truth),
        )
        for b in range(model.n_blocks)
        for i, batch in enumerate(list(batches(arrived[b], rows)) or [[]])
    ]
    records = job.parts("search", search_part, parts)
    limit = true_limits(job, model, len(bound), records)
    sent = sum(part.stop - part.start for slices in arrived for part in slices)
    return Searched(
        incoming(records, len(queries.parts())), as_distances(limit), sent / queries.n_rows
    )


def batch_rows(n_features: int) -> int:
    """Queries that one part searches."""
    return min(BATCH_ROWS, max(1, BATCH_BYTES // (4 * n_features)))


def batches(slices: Sequence[Slice], most: int) -> Iterator[list[Slice]]:
    """The same rows in lists of slices of at most `most` rows each."""
    batch: list[Slice] = []
    room = most
    for part in slices:
        start = part.start
        while start < part.stop:
            stop = min(part.stop, start + room)
            batch.append(Slice(part.producer, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield batch
                batch, room = [], most
    if batch:
        yield batch


def route_part(
    run: Run, part: Part[Rows], model: Model, queries: Pool, exchange: Exchange
) -> Output:
    """Send some queries, scaled, to the blocks they probe."""
    rows = part.args
    x = model.scaling.apply(queries.read("x", rows))
    near, distance = nearest_blocks(x, model.centroid())
    row, block, _ = spread(near, distance, model.probes.halo)
    columns: Arrays = {"x": x[row], "row": row + rows.start}
    sent = exchange.send(part.name, block, model.n_blocks, columns)
    return Output([exchange.key(part.name)], Routed(sent))


def search_part(run: Run, part: Part[Search]) -> Output:
    """The k nearest of some queries among the rows of one block, halo included; and the exact lists
    of those audited."""
    model, number, bound = part.args.model, part.args.block, part.args.audit
    start = time.perf_counter()
    audited, x = np.empty(0, np.int64), np.empty((0, 0), np.float32)
    if bound is not None:
        _, x = audit_queries(run, model.scaling, len(bound))
        audited = in_reach(model, number, x, bound)
    if not len(audited) and not part.args.slices:
        return Output([], SearchSent([]))
    n_rows = model.check_block(number)
    block = block_with_enough_rows(model.run, number, model.k)
    written, sent = [], Routed([])
    if part.args.slices:
        sent = _search(part.args, part.name, block, n_rows)
        written.append(part.args.to.key(part.name))
    if bound is not None and len(audited):
        truth = part.args.truth
        send_truth(truth, part.name, model, block, audited, x[audited], bound[audited])
        written.append(truth.key(part.name))
    return Output(written, SearchSent(sent.sent, len(audited)), time.perf_counter() - start)


def _search(search: Search, producer: str, block: Arrays, n_rows: int) -> Routed:
    """Search one block for the queries sent to it, and send what was found to their parts."""
    model, queries = search.model, search.queries
    query = search.sent.receive(search.slices)
    network = model.network(search.block, n_rows, block["x"])
    if network is None or model.probes.steps is None:
        index, distance = nearest(query["x"], block["x"], model.k)
    else:
        index, distance = nearest_in_block(
            query["x"], block["x"], network, model.k, model.probes.steps
        )
    lists = block_lists(block, index, distance)
    destination, n_parts = queries.part_of(query["row"]), len(queries.parts())
    return send_lists(search.to, producer, destination, n_parts, query["row"], lists)
