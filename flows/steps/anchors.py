"""Anchors: a random sample of training rows with their exact neighbours in the whole pool.

They serve three times: to choose how the pool is cut, to audit the graph, and to estimate the rates.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.job import Job, Output
from flows.steps.lists import incoming, receive_lists, send_lists
from pipeline.blockwise import Part
from pipeline.distance import nearest
from pipeline.extrema import anchor_plan
from pipeline.merge import ABSENT, Neighbours
from pipeline.plan import Pairs, pair_index
from pipeline.scale import Scaling
from storage.exchange import Exchange
from storage.pool import Pool, Rows
from storage.run import Run
from storage.schema import Arrays, read_array, read_group, write_group

MERGE_BYTES = 64 << 20
"""Candidate lists that one merging part holds."""
PAIR_ANCHORS = 500
"""Anchors whose pairs with their neighbours decide how the pool is cut."""
_LIST_ITEM_BYTES = 13


@dataclass(frozen=True)
class AnchorPlan:
    """How many anchors, and how long their lists (the anchor itself in column 0)."""

    n_anchors: int
    n_columns: int


def plan_anchors(pool: Pool, k: int, n_sampled: int) -> AnchorPlan:
    wanted, columns = anchor_plan(pool.n_rows, pool.n_features)
    return AnchorPlan(min(wanted, n_sampled), min(max(columns, k + 1), pool.n_rows))


def anchor_rows(run: Run, plan: AnchorPlan, scaling: Scaling) -> Arrays:
    """Row numbers and scaled features of the anchors, rows ascending."""
    group = run.group("samples/anchors")
    rows = slice(0, plan.n_anchors)
    row, x = read_array(group, "row", rows), read_array(group, "x", rows)
    order = np.argsort(row)
    return {"row": row[order], "x": scaling.apply(x[order])}


def find_anchors(job: Job, pool: Pool, scaling: Scaling, k: int) -> None:
    """Write the group `anchors`: exact lists, merged from a search of every part of the pool."""
    n_sampled = job.run.group("samples/anchors")["row"].shape[0]  # type: ignore[union-attr]
    plan = plan_anchors(pool, k, n_sampled)
    listed = plan.n_anchors * plan.n_columns * _LIST_ITEM_BYTES
    n_groups = max(1, -(-listed * len(pool.parts()) // MERGE_BYTES))
    common = {"plan": plan, "scaling": scaling, "n_groups": n_groups}
    searched = job.parts(
        "anchors-search",
        search_part,
        [
            Part(f"rows-{i:06d}", {**common, "rows": rows})
            for i, rows in enumerate(pool.parts())
        ],
    )
    slices = incoming(searched, n_groups)
    job.parts(
        "anchors-merge",
        merge_part,
        [Part(f"group-{g:04d}", {**common, "group": g, "slices": slices[g]}) for g in range(n_groups)],
    )
    job.once("anchors", lambda run: _gather(run, n_groups))


def search_part(run: Run, part: Part) -> Output:
    """Exact neighbours of all anchors among some rows of the pool."""
    plan, scaling, n_groups = (part.args[name] for name in ("plan", "scaling", "n_groups"))
    rows: Rows = part.args["rows"]
    anchors = anchor_rows(run, plan, scaling)
    group = run.group("pool")
    span = slice(rows.start, rows.stop)
    x, y = scaling.apply(read_array(group, "x", span)), read_array(group, "y", span)
    start = time.perf_counter()
    own = anchors["row"] - rows.start
    own[(own < 0) | (own >= len(x))] = ABSENT
    index, distance = nearest(anchors["x"], x, plan.n_columns - 1, exclude=own)
    seconds = time.perf_counter() - start
    there = index != ABSENT
    lists = Neighbours(
        np.where(there, index + rows.start, ABSENT),
        distance,
        np.where(there, y[index], ABSENT).astype(np.int8),
    )
    result = send_lists(
        Exchange(run.location, "anchors"),
        part.name,
        np.arange(len(lists.row)) % n_groups,
        n_groups,
        anchors["row"],
        lists,
    )
    return Output([Exchange(run.location, "anchors").key(part.name)], result, seconds)


def merge_part(run: Run, part: Part) -> Output:
    """The exact lists of some anchors, the anchor itself put first."""
    plan, scaling, n_groups = (part.args[name] for name in ("plan", "scaling", "n_groups"))
    owners = anchor_rows(run, plan, scaling)["row"][part.args["group"] :: n_groups]
    exchange = Exchange(run.location, "anchors")
    lists = receive_lists(exchange, part.args["slices"], owners, plan.n_columns - 1)
    own = read_labels(run, owners)
    write_group(
        run.scratch,
        f"anchor-groups/{part.name}",
        "anchors",
        {
            "row": owners,
            "neighbor": np.column_stack([owners, lists.row]),
            "distance": np.column_stack([np.zeros(len(owners), np.float32), lists.distance]),
            "neighbor_label": np.column_stack([own, lists.label]),
        },
    )
    return Output([f"scratch.zarr/anchor-groups/{part.name}"])


def read_labels(run: Run, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """(row,) given labels of rows anywhere in the pool, ascending."""
    labels: npt.NDArray[np.int8] = np.asarray(
        run.group("pool")["y"].oindex[rows]  # type: ignore[union-attr]
    )
    return labels


def _gather(run: Run, n_groups: int) -> Output:
    groups = [read_group(run.scratch, f"anchor-groups/group-{g:04d}") for g in range(n_groups)]
    together = {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}
    order = np.argsort(together["row"])
    write_group(run.store, "anchors", "anchors", {n: a[order] for n, a in together.items()})
    return Output([run.key("anchors")])


def find_pairs(job: Job, pool: Pool, scaling: Scaling, k: int) -> Pairs:
    """Features of the first anchors and of their k nearest: what a good cut keeps together."""
    group = job.run.group("anchors")
    neighbor = read_array(group, "neighbor")
    chosen = np.sort(np.random.default_rng(0).permutation(len(neighbor))[:PAIR_ANCHORS])
    anchor, row = pair_index(neighbor[chosen], PAIR_ANCHORS, k)
    wanted = np.unique(np.concatenate([row, neighbor[chosen, 0]]))
    parts = pool.parts()
    held = np.searchsorted(wanted, [rows.start for rows in parts] + [pool.n_rows])
    records = job.parts(
        "pairs",
        pair_part,
        [
            Part(f"rows-{i:06d}", {"rows": wanted[a:b].tolist()})
            for i, (a, b) in enumerate(zip(held[:-1], held[1:], strict=True))
            if b > a
        ],
    )
    found = [read_group(job.run.scratch, f"pairs/{record.part}") for record in records]
    at = np.concatenate([part["row"] for part in found])
    x = scaling.apply(np.concatenate([part["x"] for part in found]))
    place = {name: np.searchsorted(at, rows) for name, rows in
             (("anchor", neighbor[chosen, 0][anchor]), ("neighbor", row))}
    return Pairs(x[place["anchor"]], x[place["neighbor"]])


def pair_part(run: Run, part: Part) -> Output:
    """Features, unscaled, of a few rows of the pool."""
    row = np.asarray(part.args["rows"], np.int64)
    x = np.asarray(run.group("pool")["x"].oindex[row])  # type: ignore[union-attr]
    write_group(run.scratch, f"pairs/{part.name}", "sample", {"row": row, "x": x})
    return Output([f"scratch.zarr/pairs/{part.name}"])
