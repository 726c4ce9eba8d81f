"""Queries → blocks → lists, by the blocks and networks of a finished training; the audit, exact
lists of a sample of queries; and questions about the rows in lists."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.rows import Table
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
from flows.engine.results import result_of
from flows.steps.graph.neighbors import block_lists, block_with_enough_rows, in_reach
from flows.steps.graph.networks import Probes, stored_network
from pipeline.arrays import AnyArray, Float32, Int64
from pipeline.blocks.partition import nearest_blocks, spread
from pipeline.blocks.scaling import Scaling
from pipeline.decision.class_rule import Decided
from pipeline.diagnostics.neighborhood import Usual
from pipeline.graph.build import load_blas
from pipeline.graph.walk import Network, nearest_in_block, walkable
from pipeline.knn.exact import kth_distance_bound, nearest
from pipeline.knn.lists import Neighbors
from pipeline.knn.places import distinct
from storage.arrays.exchange import Exchange
from storage.arrays.groups import Arrays, read_array
from storage.errors import StorageError
from storage.runs.ledger import Record
from storage.runs.pool import Pool
from storage.runs.run import Run, lasting

AUDITED = (48, 500)
"""Queries of a file whose lists are compared with exact ones: at least, and at most."""
_QUERIES_TO_AUDITED = 250
"""Exact search of all blocks costs about as much as 25 walks (measured): a tenth of the time."""
_BOUND_ROWS = 1 << 15
"""Rows of the training's sample from which the reach of exact lists is bounded."""
BATCH_ROWS = 1 << 17
"""Queries that one part searches, at most."""
BATCH_BYTES = 256 << 20
"""Features of these queries, at most."""


Scores = tuple[Arrays, Decided | None]
"""Columns, and the posterior of each class where there is one."""


@dataclass(frozen=True)
class Scored:
    """Recall at the sampled queries among some rows, how many rows are predicted each class, and
    how many are in the training pool."""

    recall: list[float]
    predicted: list[int]
    equal: int = 0
    """Rows equal to a training row."""
    far: int = 0
    """Rows farther from the training's than almost all of these are from each other."""
    near: int = 0
    """Rows equal or nearly equal to one."""


class ScoringRule(ABC):
    """How the lists of queries become scores; a class for each kind of labels."""

    n_classes: int
    group: ClassVar[str]
    """Kind of the group `scores` in the schema, whose columns are those of the table."""
    counted: ClassVar[type[Scored]] = Scored
    """What is said of some rows."""

    @property
    @abstractmethod
    def n_neighbors(self) -> int:
        """Neighbors that are looked for."""

    @abstractmethod
    def attributes(self) -> dict[str, Any]:
        """What the attributes of the group `scores` say of the rule."""

    def table(self, training: Run, queries: Pool) -> Table:
        """The group `scores` of queries."""
        return Table("scores", self.group)

    def send(
        self, job: Job, model: Model, queries: Pool, lists: Sequence[Lists]
    ) -> Sequence[Inbox | None]:
        """For each part of the queries what the rule asks of their neighbors."""
        return [None] * len(lists)

    @abstractmethod
    def columns(self, score: Score, lists: Neighbors) -> Scores:
        """Scores of queries from their merged lists."""

    def counts(self, columns: Arrays) -> dict[str, Any]:
        """What `counted` holds of some scores besides what all kinds do."""
        return {}

    def total(self, counted: Sequence[Any]) -> dict[str, Any]:
        """The same of all rows, as fields of the report."""
        return {}

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """What the report of a scoring says of the rule."""


@dataclass(frozen=True)
class Model:
    """What scoring takes from a finished training."""

    run: Run
    scaling: Scaling
    k: int
    """Neighbors that are looked for."""
    n_blocks: int
    rule: ScoringRule
    n_rows: int
    target_recall: float
    probes: Probes
    blocks_step: str
    """Step that committed the blocks."""
    usual: Usual | None = None
    """How far the rows of the training are from each other."""
    usual_k: int = 1
    """Neighbors that a mean distance is of."""
    all_classes: bool = False
    """Whether the posterior of every class is wanted."""

    def centroid(self) -> Float32:
        return read_array(self.run.group("partition"), "centroid")

    def network(self, number: int, n_rows: int, x: Float32) -> Network | None:
        """What walks follow in a block with features x; None where it is searched exactly, or has
        borrowed rows.

        Raises `StorageError` where it is not as it was committed.
        """
        if self.probes.steps is None or not walkable(n_rows, self.k):
            return None
        self.checked("networks", number)
        return stored_network(self.run, number, x)

    def checked(self, step: str, number: int) -> Record:
        """The record of a block; `StorageError` where that, or the block, is not as committed."""
        record = self.run.ledger.get(step, block_name(number))
        if record is None:
            raise StorageError(
                f"{self.run.location.url}/ledger/{step}/{block_name(number)}.json is "
                "damaged; run train again to repair"
            )
        self.run.check_records([record], lasting)
        return record


@dataclass(frozen=True)
class Score:
    """Queries that are scored by their lists."""

    model: Model
    queries: Pool
    number: int
    rows: slice
    lists: Lists
    limit: Float32
    """Distance of the k-th true neighbor of each audited query."""
    known: Inbox | None
    """What the rule asked of the neighbors."""

    def features(self) -> Float32:
        """(row, feature) unscaled."""
        return self.queries.read("x", self.rows)


Distances = list[float | None]
"""Of the k-th neighbor of each audited query; None where nothing is known, or there are fewer."""


def n_audited(n_queries: int) -> int:
    fewest, most = AUDITED
    return min(n_queries, max(fewest, min(most, n_queries // _QUERIES_TO_AUDITED)))


def audit_queries(run: Run, scaling: Scaling, n: int) -> tuple[Int64, AnyArray]:
    """Rows, ascending, and scaled features of the audited queries, n of them."""
    sample, first = run.group("samples/anchors"), slice(0, n)
    row, x = read_array(sample, "row", first), read_array(sample, "x", first)
    order = np.argsort(row)
    return row[order], scaling.apply(x[order])


def bound_audit(job: Job, queries: Pool, model: Model) -> Distances:
    """A distance within which each audited query surely has its neighbors: what lies beyond needs
    not be read."""

    def find(run: Run) -> Output:
        _, x = audit_queries(run, model.scaling, n_audited(queries.n_rows))
        sample = model.run.group("samples/partition")
        rows = model.scaling.apply(read_array(sample, "x", slice(0, _BOUND_ROWS)))
        return Output([], _known(kth_distance_bound(x, rows, model.k, model.n_rows)))

    return job.result("audit", find, Distances)


def true_limits(job: Job, model: Model, n: int, searched: Sendings) -> Distances:
    """Distance of the k-th true neighbor of each of the n audited queries, by the nearest that each
    part drew."""

    def merge(run: Run) -> Output:
        nearest = np.full((n, model.k), np.inf, np.float32)
        for drawn in searched.drawn_by_part():
            query = drawn["query"]
            both = np.concatenate([nearest[query], drawn["distance"]], axis=1)
            nearest[query] = np.sort(both, axis=1)[:, : model.k]
        return Output([], _known(nearest[:, -1]))

    return job.result("truth", merge, Distances)


def _known(distance: Float32) -> Distances:
    return [float(d) if np.isfinite(d) else None for d in distance]


def as_distances(known: Distances) -> Float32:
    """(query,) float32; inf where nothing is known."""
    return np.array([np.inf if d is None else d for d in known], np.float32)


def answers(
    job: Job,
    queries: Pool,
    lists: Sequence[Lists],
    pool: Pool,
    nearest: int,
    answer: Callable[[Job, PoolGraph, Sendings], Sendings],
) -> list[Inbox]:
    """For each part of the queries, what a pool says of the nearest rows in their lists.

    answer : a pass over the pool's rows that answers these requests
    """
    parts = queries.parts()
    wants = by_rows(zip(range(len(parts)), parts, lists, strict=True))
    want = partial(want_part, pool=pool, nearest=nearest)
    requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want, wants))
    return answer(job, PoolGraph(pool, len(parts)), requests).inboxes("answers", len(parts))


def want_part(run: Run, part: Part[tuple[int, slice, Lists]], pool: Pool, nearest: int) -> Output:
    """Ask the pool for the nearest rows of some queries, each once."""
    number, rows, lists = part.args
    near = np.ascontiguousarray(lists.of(rows).row[:, :nearest])
    out = Outbox(run.location, "wanted", part.name)
    out.ask(number, pool, distinct(near))
    return out.output()


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
    return min(BATCH_ROWS, max(1, BATCH_BYTES // (4 * n_features)))


def route_part(run: Run, part: Part[slice], model: Model, queries: Pool) -> Output:
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
    """The k nearest of some queries among the rows of one block; and, if this part sees to the
    audit, the exact distances of the audited queries whose `bound` reaches the block."""
    number, inbox, audits = part.args
    start = time.perf_counter()
    audited, x = np.empty(0, np.int64), np.empty((0, 0), np.float32)
    if audits:
        _, x = audit_queries(run, model.scaling, len(bound))
        audited = in_reach(model.run, number, model.centroid(), x, bound)
    out = Outbox(run.location, "search", part.name)
    if not len(audited) and not inbox:
        return out.output()
    n_rows = result_of(model.checked(model.blocks_step, number), int)
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
        near = nearest(x, block["x"], model.k, row=block["row"])
    else:
        near = nearest_in_block(x, block["x"], network, model.k, steps)
    return block_lists(block, *near)
