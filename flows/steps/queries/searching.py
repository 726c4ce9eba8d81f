"""Queries → blocks → lists, through the same exchange as training; and what is asked of the rows in
them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.sent import (
    Inbox,
    Lists,
    Outbox,
    Sendings,
    incoming,
    of_owners,
)
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name, by_rows
from flows.steps.graph.neighbors import block_lists, block_with_enough_rows
from flows.steps.queries.probes import (
    Model,
    as_distances,
    audit_queries,
    bound_audit,
    in_reach,
    true_limits,
)
from pipeline.arrays import Float32
from pipeline.blocks.partition import nearest_blocks, spread
from pipeline.graph.build import load_blas
from pipeline.graph.walk import Network, nearest_in_block
from pipeline.knn.exact import nearest
from pipeline.knn.lists import Neighbors
from pipeline.knn.places import distinct
from storage.arrays.exchange import Exchange
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run


def answers(
    job: Job,
    queries: Pool,
    lists: Sequence[Lists],
    pool: Pool,
    nearest: int,
    answer: Callable[[Job, PoolGraph, Sendings], Sendings],
) -> list[Inbox]:
    """For each part of the queries what a pool says of the nearest rows in their lists.

    answer : runs over the pool's rows, given which of them are wanted
    """
    parts = queries.parts()
    wants = by_rows(zip(range(len(parts)), parts, lists, strict=True))
    want = partial(want_part, pool=pool, nearest=nearest)
    requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want, wants))
    return answer(job, PoolGraph(pool, len(parts)), requests).inboxes("answers", len(parts))


def want_part(run: Run, part: Part[tuple[int, Rows, Lists]], pool: Pool, nearest: int) -> Output:
    """Ask the pool for the nearest rows of some queries, each once."""
    number, rows, lists = part.args
    near = np.ascontiguousarray(lists.of(rows).row[:, :nearest])
    out = Outbox(run.location, "wanted", part.name)
    out.ask(number, pool, distinct(near))
    return out.output()


BATCH_ROWS = 1 << 17
"""Queries that one part searches, at most."""
BATCH_BYTES = 256 << 20
"""Features of these queries, at most."""


@dataclass(frozen=True)
class Searched:
    """What the search of all blocks found."""

    lists: list[Lists]
    """By part of the queries."""
    limit: Float32
    """Distance of the k-th true neighbor of each audited query."""
    probes: float
    """Blocks searched per query."""


def search_queries(job: Job, queries: Pool, model: Model) -> Searched:
    """Send queries to their blocks and search there, and the audited ones wherever a neighbor may
    be; a block is read once for both."""
    load_blas()
    bound = as_distances(bound_audit(job, queries, model))
    send = partial(route_part, model=model, queries=queries)
    routed = job.parts("route", send, by_rows(queries.parts()))
    arrived = incoming(_sent(job.run), routed, model.n_blocks)
    rows = batch_rows(queries.n_features)
    parts = [
        Part(f"{block_name(b)}-{i:03d}", (b, batch, i == 0))  # the first sees to the audit
        for b, inbox in enumerate(arrived)
        for i, batch in enumerate(list(inbox.batches(rows)) or [inbox])
    ]
    search = partial(search_part, model=model, queries=queries, bound=bound)
    records = job.parts("search", search, parts)
    sendings = Sendings.of(job.run.location, "search", records)
    limit = true_limits(job, model, len(bound), sendings)
    lists = [Lists(inbox, model.k) for inbox in sendings.inboxes("lists", len(queries.parts()))]
    return Searched(lists, as_distances(limit), sum(map(len, arrived)) / queries.n_rows)


def batch_rows(n_features: int) -> int:
    """Queries that one part searches."""
    return min(BATCH_ROWS, max(1, BATCH_BYTES // (4 * n_features)))


def route_part(run: Run, part: Part[Rows], model: Model, queries: Pool) -> Output:
    """Send some queries, scaled, to the blocks they probe."""
    rows, away = part.args, _sent(run)
    x = model.scaling.apply(queries.read("x", rows))
    near, distance = nearest_blocks(x, model.centroid())
    row, block, _ = spread(near, distance, model.probes.halo)
    columns: Arrays = {"x": x[row], "row": row + rows.start}
    sent = away.send(part.name, block, model.n_blocks, columns)
    return Output([away.key(part.name)], sent)


def _sent(run: Run) -> Exchange:
    """Queries on their way to blocks."""
    return Exchange(run.location, "queries")


def search_part(
    run: Run, part: Part[tuple[int, Inbox, bool]], model: Model, queries: Pool, bound: Float32
) -> Output:
    """The k nearest of some queries among the rows of one block, halo included; and, if so, the
    exact lists of those audited, whose reach is `bound`."""
    number, inbox, audits = part.args
    start = time.perf_counter()
    audited, x = np.empty(0, np.int64), np.empty((0, 0), np.float32)
    if audits:
        _, x = audit_queries(run, model.scaling, len(bound))
        audited = in_reach(model, number, x, bound)
    out = Outbox(run.location, "search", part.name)
    if not len(audited) and not inbox:
        return out.output()
    n_rows = model.check_block(number)
    block = block_with_enough_rows(model.run, number, model.k)
    if len(audited):
        home = block["x"][block["core"]]
        _, distance = nearest(x[audited], home, model.k, bound=bound[audited])
        out.to_driver({"query": audited, "distance": distance})
    if inbox:
        query = inbox.receive()
        lists = _search(query["x"], model, block, model.network(number, n_rows, block["x"]))
        destination, n_parts = queries.part_of(query["row"]), len(queries.parts())
        out.send("lists", destination, n_parts, of_owners(query["row"], lists))
    return out.output(kernel_seconds=time.perf_counter() - start)


def _search(x: Float32, model: Model, block: Arrays, network: Network | None) -> Neighbors:
    """The k nearest of queries (row, feature) among the rows of one block."""
    steps = model.probes.steps
    if network is None or steps is None:
        near = nearest(x, block["x"], model.k)
    else:
        near = nearest_in_block(x, block["x"], network, model.k, steps)
    return block_lists(block, *near)
