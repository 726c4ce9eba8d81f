"""Anchors: a random sample of training rows with their exact neighbors in the whole pool.

They serve three times: to choose how the pool is cut, to audit the graph, to estimate the rates.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.sent import Inbox, incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_rows
from flows.steps.graph.lookup import as_given, pick, source_rows
from pipeline.arrays import Float32, Int64
from pipeline.blocks.cost import Pairs, pair_index
from pipeline.blocks.scaling import Scaling
from pipeline.knn.exact import kth_distance_bound, nearest
from pipeline.knn.lists import ABSENT, LISTED, empty, select
from pipeline.knn.threads import Threads
from pipeline.noise.copies import Mates, most_mates, of_one_value
from pipeline.noise.extrema import anchor_plan
from pipeline.noise.transition import mates_in
from storage.arrays.exchange import Exchange
from storage.arrays.groups import Arrays, array, chunk_rows, read_array, read_group
from storage.runs.pool import ChunkWriter, Pool
from storage.runs.run import Run

A = TypeVar("A")
MERGE_BYTES = 8 << 20
"""Candidates that one merging part holds."""
PAIR_ANCHORS = 500
"""Anchors whose pairs with their neighbors decide how the pool is cut."""
AUDIT_ANCHORS = 2000
"""Anchors where no rate is read off their lists."""
WHOLE_BYTES = 64 << 20
"""Features of a pool that is searched as a whole: lists are found where they stay."""
GROUP_BYTES, FEWEST_GROUPS = 32 << 20, 4
"""Lists that one part finds in such a pool, and parts, if they have as many chunks."""
BOUND_ROWS = 8192
"""Sampled rows, at least, from which the reach of the anchors' lists is bounded."""
PAIR_BYTES = 256 << 20
"""Features of those pairs: of wide rows they are fewer."""
MOST_LISTED = 2_000_000_000
"""Neighbors listed in all, at most, for lists to be longer: of 13 bytes each. Beyond it those that
vouch for each other leave places empty."""
_PAIR_BYTES = 25


@dataclass(frozen=True)
class AnchorPlan:
    """How many anchors, and how long their lists (the anchor itself in column 0)."""

    n_anchors: int
    n_columns: int

    @property
    def n_groups(self) -> int:
        """Groups of anchors, each a range of them, whose lists one part merges."""
        return max(1, self.n_anchors * self.n_columns * _PAIR_BYTES // MERGE_BYTES)

    def group(self, anchor: Int64) -> Int64:
        """(anchor,) the group of each."""
        return anchor * self.n_groups // self.n_anchors


def plan_anchors(pool: Pool, k: int, n_sampled: int, n_classes: int) -> AnchorPlan:
    """As many anchors, with lists as long, as rates of so many classes need; or, of none, the
    audit."""
    wanted, columns = (AUDIT_ANCHORS, k + 1)
    if n_classes:
        wanted, columns = anchor_plan(pool.n_rows, pool.n_features, n_classes)
    return AnchorPlan(min(wanted, n_sampled), min(max(columns, k + 1), pool.n_rows))


def anchor_rows(run: Run, plan: AnchorPlan) -> Int64:
    """(anchor,) row numbers of the anchors, ascending."""
    return np.sort(read_array(run.group("samples/anchors"), "row", slice(0, plan.n_anchors)))


def sampled(run: Run, sample: str, row: Int64) -> Float32:
    """(row, feature) unscaled features of rows that are in a sample of the pool, which is read up
    to the last of them."""
    group = run.group(f"samples/{sample}")
    listed = read_array(group, "row")
    order = np.argsort(listed)
    place = order[np.searchsorted(listed[order], row)]
    return read_array(group, "x", slice(0, int(place.max(initial=-1)) + 1))[place]


def anchor_lists(run: Run, graph: PoolGraph) -> dict[str, Any]:
    """The anchors' lists, by the names that `transition_matrix` has for them, with the labels that
    rows were given."""
    anchors, groups = run.group("anchors"), graph.mates.groups
    neighbor = read_array(anchors, "neighbor")
    return {
        "neighbor": neighbor,
        "label": as_given(run, neighbor, read_array(anchors, "neighbor_label")),
        "n_rows": groups or graph.pool.n_rows,
        "x": sampled(run, "anchors", neighbor[:, 0]),
        "distance": read_array(anchors, "distance"),
        "group": source_rows(run, neighbor, "together") if groups else None,
    }


def find_anchors(job: Job, pool: Pool, scaling: Scaling, k: int, n_classes: int) -> None:
    """Write the group `anchors`: exact lists, by a search of the whole pool where it is small,
    merged from a search of every part of it otherwise.

    n_classes : whose noise rates are read off these lists, which takes long ones; 0 for none
    """
    n_sampled = array(job.run.group("samples/anchors"), "row").shape[0]
    plan = plan_anchors(pool, k, n_sampled, n_classes)
    if 4 * pool.n_rows * pool.n_features <= WHOLE_BYTES:
        writer = _writer(job.run, plan, pool)
        n_chunks = -(-plan.n_anchors // writer.rows)
        most = GROUP_BYTES // (_PAIR_BYTES * plan.n_columns * writer.rows)
        step = max(1, min(most, n_chunks // FEWEST_GROUPS))
        chunks = [(a, min(a + step, n_chunks)) for a in range(0, n_chunks, step)]
        search = partial(search_all_part, plan=plan, scaling=scaling, pool=pool)
        job.parts("anchors-search", search, _by_group(chunks))
        job.once("anchors", lambda run: Output(_writer(run, plan, pool).finish(plan.n_anchors, {})))
        return
    exchange = Exchange(job.run.location, "anchors")
    threads = Threads(job.machine().threads)
    job.once("anchor-bounds", lambda run: _bound(run, pool, plan, scaling, threads))
    search_some = partial(search_part, plan=plan, scaling=scaling, exchange=exchange)
    searched = job.parts("anchors-search", search_some, by_rows(pool.parts()))
    groups = _by_group(enumerate(incoming(exchange, searched, plan.n_groups)))
    merged = job.parts("anchors-merge", partial(merge_part, plan=plan), groups)
    job.once("anchors", lambda run: _gather(run, [record.part for record in merged]))


def _writer(run: Run, plan: AnchorPlan, pool: Pool) -> ChunkWriter:
    """Of the group `anchors`, where each part finds its lists where they stay."""
    columns, label = plan.n_columns, pool.label_dtype()
    rows = chunk_rows(8 * columns)
    return ChunkWriter(run, "anchors", rows, plan.n_anchors, label=label, rank=columns)


def _by_group(each: Iterable[A]) -> list[Part[A]]:
    return [Part(f"group-{number:04d}", args) for number, args in enumerate(each)]


def _bound(run: Run, pool: Pool, plan: AnchorPlan, scaling: Scaling, threads: Threads) -> Output:
    """A distance within which each anchor surely has all the neighbors wanted."""
    x = scaling.apply(sampled(run, "anchors", anchor_rows(run, plan)))
    size = max(BOUND_ROWS, pool.n_rows // 16)
    sample = scaling.apply(read_array(run.group("samples/partition"), "x", slice(0, size)))
    bound = kth_distance_bound(x, sample, plan.n_columns, pool.n_rows, threads)
    return Output(run.write_scratch("anchor-bounds", "bounds", {"bound": bound}))


def search_all_part(
    run: Run, part: Part[tuple[int, int]], plan: AnchorPlan, scaling: Scaling, pool: Pool
) -> Output:
    """The exact lists of some anchors, chunks of theirs, in the whole pool."""
    writer = _writer(run, plan, pool)
    group = run.group("pool")
    x, y = scaling.apply(read_array(group, "x")), read_array(group, "y")
    first, last = part.args
    row = anchor_rows(run, plan)[first * writer.rows : last * writer.rows]
    start = time.perf_counter()
    index, distance = nearest(x[row], x, plan.n_columns - 1, exclude=row)
    seconds = time.perf_counter() - start
    columns = {
        "row": row,
        "neighbor": np.concatenate([row[:, None], index], axis=1),
        "distance": np.concatenate([np.zeros((len(row), 1), np.float32), distance], axis=1),
        "neighbor_label": np.concatenate([y[row][:, None], y[index]], axis=1),
    }
    written = []
    for chunk in range(first, last):
        here = slice((chunk - first) * writer.rows, (chunk + 1 - first) * writer.rows)
        written += writer.chunk(chunk, **{name: value[here] for name, value in columns.items()})
    return Output(written, kernel_seconds=seconds)


def search_part(
    run: Run, part: Part[slice], plan: AnchorPlan, scaling: Scaling, exchange: Exchange
) -> Output:
    """Exact neighbors of all anchors among some rows of the pool."""
    rows, anchor = part.args, anchor_rows(run, plan)
    query = scaling.apply(sampled(run, "anchors", anchor))
    bound = read_group(run.scratch, "anchor-bounds")["bound"]
    group = run.group("pool")
    x, y = scaling.apply(read_array(group, "x", rows)), read_array(group, "y", rows)
    start = time.perf_counter()
    own = anchor - rows.start
    own[(own < 0) | (own >= len(x))] = ABSENT
    row = np.arange(rows.start, rows.start + len(x))
    index, distance = nearest(query, x, plan.n_columns - 1, exclude=own, bound=bound, row=row)
    seconds = time.perf_counter() - start
    owner, rank = np.nonzero(index != ABSENT)
    index = index[owner, rank]
    columns: Arrays = {
        "owner": owner,
        "row": index + rows.start,
        "distance": distance[owner, rank],
        "label": y[index],
    }
    sent = exchange.send(part.name, plan.group(owner), plan.n_groups, columns)
    return Output([exchange.key(part.name)], sent, seconds)


def merge_part(run: Run, part: Part[tuple[int, Inbox]], plan: AnchorPlan) -> Output:
    """The exact lists of a group of anchors, the anchor itself put first."""
    number, inbox = part.args
    received = inbox.receive()
    mine = np.flatnonzero(plan.group(np.arange(plan.n_anchors)) == number)
    owner, row = received["owner"] - mine[0], anchor_rows(run, plan)[mine]
    chosen, rank = select(owner, received["row"], received["distance"], plan.n_columns - 1)
    lists = empty(len(row), plan.n_columns, received["label"].dtype)
    lists.row[:, 0], lists.distance[:, 0], lists.label[:, 0] = row, 0.0, pick(run, "pool", "y", row)
    place = owner[chosen], rank + 1
    for name, column in lists._asdict().items():
        column[place] = received[name][chosen]
    full = lists.row[:, -1] != ABSENT  # all of them, but for a chance below 1e-8 each
    columns = {name: column[full] for name, column in ({"row": row} | lists.columns()).items()}
    return Output(run.write_scratch(f"anchor-groups/{part.name}", "anchors", columns))


def _gather(run: Run, parts: list[str]) -> Output:
    groups = [read_group(run.scratch, f"anchor-groups/{part}") for part in parts]
    together = {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}
    order = np.argsort(together["row"])
    return Output(run.write("anchors", "anchors", {n: a[order] for n, a in together.items()}))


def find_mates(job: Job, pool: Pool, k: int, n_groups: int) -> Mates:
    """Which rows share labels, as a column says that makes groups, or else the anchors' lists have
    it, which are longer than ``k``."""
    threads = Threads(job.machine().threads)

    def find(run: Run) -> Output:
        anchors = run.group("anchors")
        neighbor, distance, label = (read_array(anchors, name) for name in LISTED)
        lists = neighbor, label, distance, pool.n_rows, int(label.max()) + 1
        if n_groups:
            group = source_rows(run, neighbor, "together")
            mates = Mates(groups=n_groups, most=most_mates(of_one_value(group[:, 0], group[:, 1:])))
        else:
            mates = mates_in(*lists, threads)
        room = max(0, MOST_LISTED // pool.n_rows - k)
        most = min(mates.most, neighbor.shape[1] - 1 - k, room)
        return Output([], replace(mates, most=most))

    return job.result("mates", find, Mates)


def find_pairs(job: Job, pool: Pool, scaling: Scaling, k: int) -> Pairs:
    """Features of the first anchors and of their k nearest: what a good cut keeps together."""
    group = job.run.group("anchors")
    neighbor = read_array(group, "neighbor")
    chosen = np.sort(np.random.default_rng(0).permutation(len(neighbor))[:PAIR_ANCHORS])
    anchor, row = few_pairs(*pair_index(neighbor[chosen], PAIR_ANCHORS, k), pool.n_features)
    wanted = np.unique(np.concatenate([row, neighbor[chosen[anchor], 0]]))
    parts = pool.parts()
    places = np.searchsorted(wanted, [rows.start for rows in parts] + [pool.n_rows])
    parts_wanted = by_rows(wanted[a:b].tolist() for a, b in pairwise(places))
    records = job.parts("pairs", pair_part, [part for part in parts_wanted if part.args])
    pieces = [read_group(job.run.scratch, f"pairs/{record.part}") for record in records]
    at = np.concatenate([part["row"] for part in pieces])
    x = scaling.apply(np.concatenate([part["x"] for part in pieces]))
    own = np.searchsorted(at, neighbor[chosen[anchor], 0])
    return Pairs(x[own], x[np.searchsorted(at, row)])


def few_pairs(anchor: Int64, row: Int64, n_features: int) -> tuple[Int64, Int64]:
    """As many of the pairs, drawn at random, as have `PAIR_BYTES` of features; all where they fit.

    anchor, row : (pair,) as `pair_index` gives them
    """
    most = max(1, PAIR_BYTES // (8 * n_features))
    if len(row) <= most:
        return anchor, row
    kept = np.sort(np.random.default_rng(1).permutation(len(row))[:most])
    return anchor[kept], row[kept]


def pair_part(run: Run, part: Part[list[int]]) -> Output:
    """Features, unscaled, of a few rows of the pool."""
    row = np.asarray(part.args, np.int64)
    columns = {"row": row, "x": pick(run, "pool", "x", row)}
    return Output(run.write_scratch(f"pairs/{part.name}", "sample", columns))
