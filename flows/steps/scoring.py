"""Queries → blocks → lists → scores, through the same exchange as training."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.job import Job, Output
from flows.steps.graph import block_lists, block_with_enough_rows
from flows.steps.lists import incoming, receive_lists, send_lists
from flows.steps.partition import block_name
from pipeline.audit import Recall, row_recall, summarise
from pipeline.blockwise import Part
from pipeline.distance import nearest
from pipeline.merge import ABSENT, select
from pipeline.partition import Halo, in_halo, nearest_blocks, spread
from pipeline.plan import HALOS
from pipeline.scale import Scaling
from pipeline.threshold import posterior, predict
from storage.convert import write_parquet
from storage.exchange import Exchange, Slice
from storage.pool import ChunkWriter, Pool
from storage.run import Run
from storage.schema import read_array, read_group

AUDIT_QUERIES = 500
"""Queries searched exactly in all blocks: they choose the probes and measure recall."""
BATCH_ROWS = 1 << 17
"""Queries that one part searches."""
COLUMNS = ("row", "eta_corr", "posterior", "predicted_label")


@dataclass(frozen=True)
class Model:
    """What scoring takes from a finished training."""

    run: Run
    scaling: Scaling
    k: int
    n_blocks: int
    rule: dict[str, float]
    target_recall: float

    def centroid(self) -> npt.NDArray[np.float32]:
        return read_array(self.run.group("partition"), "centroid")


def find_truth(job: Job, model: Model) -> None:
    """Exact lists of a sample of queries, and the blocks their neighbours are at home in."""
    exchange = Exchange(job.run.location, "truth")
    job.parts(
        "truth",
        truth_part,
        [
            Part(block_name(b), {"block": b, "model": model, "to": exchange})
            for b in range(model.n_blocks)
        ],
    )


def audit_queries(run: Run, scaling: Scaling) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Rows, ascending, and scaled features of the sampled queries."""
    sample, first = run.group("samples/anchors"), slice(0, AUDIT_QUERIES)
    row, x = read_array(sample, "row", first), read_array(sample, "x", first)
    order = np.argsort(row)
    return row[order], scaling.apply(x[order])


def truth_part(run: Run, part: Part) -> Output:
    """Nearest rows at home in one block, for each sampled query."""
    model, exchange = part.args["model"], part.args["to"]
    block = read_group(model.run.store, f"blocks/{part.args['block']:05d}")
    core = block["core"]
    row, x = audit_queries(run, model.scaling)
    index, distance = nearest(x, block["x"][core], model.k)
    there = index != ABSENT
    columns = {
        "owner": np.broadcast_to(np.arange(len(row))[:, None], index.shape)[there],
        "row": block["row"][core][index[there]],
        "distance": distance[there],
    }
    n_found = int(there.sum())
    exchange.send(part.name, np.zeros(n_found, np.int64), 1, columns)
    return Output([exchange.key(part.name)], {"found": n_found})


def choose_probes(job: Job, model: Model) -> dict[str, Any]:
    """Which blocks a query is sent to: the fewest that keep a margin above the target recall."""

    def choose(run: Run) -> Output:
        _, x = audit_queries(run, model.scaling)
        owner, distance, home = _true_lists(run, model, len(x))
        block, reach = nearest_blocks(x, model.centroid())
        options = []
        for halo in HALOS:
            probed = in_halo(reach, halo)
            hit = (block[owner] == home[:, None]) & probed[owner]
            options.append((float(probed.sum(axis=1).mean()), float(hit.any(axis=1).mean()), halo))
        wanted = 1.0 - (1.0 - model.target_recall) / 5
        enough = [option for option in options if option[1] >= wanted]
        probes, coverage, halo = (
            min(enough, key=lambda o: o[0]) if enough else max(options, key=lambda o: (o[1], -o[0]))
        )
        limit = np.full(len(x), np.float32(np.inf))
        limit[owner] = distance  # sorted by distance within owner: the last stays
        result = {"halo": vars(halo), "probes": probes, "coverage": coverage}
        return Output([], {**result, "limit": limit.astype(float).tolist()})

    return job.once("probes", choose).result


def _true_lists(run: Run, model: Model, n_queries: int) -> tuple[npt.NDArray[Any], ...]:
    """(item,) query, distance and home block of the k nearest of each sampled query."""
    exchange = Exchange(run.location, "truth")
    best: list[npt.NDArray[Any]] = [
        np.empty(0, kind) for kind in (np.int64, np.int64, np.float32, np.int64)
    ]
    for b, record in enumerate(run.ledger.records("truth").values()):
        found = record.result["found"]
        if not found:
            continue
        new = exchange.receive([Slice(record.part, 0, found)])
        fields = [new["owner"], new["row"], new["distance"], np.full(found, b)]
        best = [np.concatenate(pair) for pair in zip(best, fields, strict=True)]
        chosen, _ = select(best[0], best[1], best[2], model.k)
        best = [column[chosen] for column in best]
    owner, _, distance, home = best
    return owner, distance, home


def search_queries(
    job: Job, queries: Pool, model: Model, probes: dict[str, Any]
) -> list[list[Slice]]:
    """Send queries to their blocks and search there; slices of lists by part of the queries."""
    route, lists = (Exchange(job.run.location, name) for name in ("queries", "lists"))
    common = {"model": model, "queries": queries, "halo": Halo(**probes["halo"])}
    routed = job.parts(
        "route",
        route_part,
        [
            Part(f"rows-{i:06d}", {**common, "rows": rows, "to": route})
            for i, rows in enumerate(queries.parts())
        ],
    )
    arrived = incoming(routed, model.n_blocks)
    common |= {"from": route, "to": lists}
    found = job.parts(
        "search",
        search_part,
        [
            Part(f"{block_name(b)}-{i:03d}", {**common, "block": b, "slices": batch})
            for b in range(model.n_blocks)
            for i, batch in enumerate(batches(arrived[b], BATCH_ROWS))
        ],
    )
    return incoming(found, len(queries.parts()))


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


def route_part(run: Run, part: Part) -> Output:
    """Send some queries, scaled, to the blocks they probe."""
    rows, model, exchange = part.args["rows"], part.args["model"], part.args["to"]
    x = model.scaling.apply(part.args["queries"].read("x", rows))
    near, distance = nearest_blocks(x, model.centroid())
    row, block, _ = spread(near, distance, part.args["halo"])
    columns = {"x": x[row], "row": row + rows.start}
    offsets = exchange.send(part.name, block, model.n_blocks, columns)
    return Output([exchange.key(part.name)], {"offsets": offsets})


def search_part(run: Run, part: Part) -> Output:
    """The k nearest of some queries among the rows of one block, halo included."""
    model, exchange, queries = part.args["model"], part.args["to"], part.args["queries"]
    block = block_with_enough_rows(model.run, part.args["block"], model.k)
    asked = part.args["from"].receive(part.args["slices"])
    start = time.perf_counter()
    index, distance = nearest(asked["x"], block["x"], model.k)
    seconds = time.perf_counter() - start
    lists = block_lists(block, index, distance)
    destination = queries.part_of(asked["row"])
    n_parts = len(queries.parts())
    result = send_lists(exchange, part.name, destination, n_parts, asked["row"], lists)
    return Output([exchange.key(part.name)], result, seconds)


def write_scores(
    job: Job, queries: Pool, model: Model, slices: list[list[Slice]], limit: list[float]
) -> tuple[Recall, int]:
    """Write the group `scores`, in the order of the source.

    Returns recall at the sampled queries, and the number of rows predicted 1.
    """
    ChunkWriter(job.run, "scores", queries.part_rows, queries.n_rows)
    common = {"model": model, "queries": queries, "limit": np.asarray(limit, np.float32)}
    records = job.parts(
        "scores",
        score_part,
        [
            Part(f"rows-{i:06d}", {**common, "number": i, "rows": rows, "slices": slices[i]})
            for i, rows in enumerate(queries.parts())
        ],
    )

    def finish(run: Run) -> Output:
        writer = ChunkWriter(run, "scores", queries.part_rows, queries.n_rows)
        return Output(writer.finish(queries.n_rows, {"k": model.k, **model.rule}))

    job.once("scored", finish)
    recalls = np.concatenate([record.result["recall"] for record in records])
    return summarise(recalls), sum(record.result["ones"] for record in records)


def score_part(run: Run, part: Part) -> Output:
    """Merge the lists of some queries and apply the corrected rule."""
    rows, model, queries = part.args["rows"], part.args["model"], part.args["queries"]
    owners = np.arange(rows.start, rows.stop)
    lists = receive_lists(Exchange(run.location, "lists"), part.args["slices"], owners, model.k)
    eta = lists.label.sum(axis=1, dtype=np.int64) / model.k
    rule = model.rule
    label = predict(eta, rule["threshold"])
    written = ChunkWriter(run, "scores", queries.part_rows, queries.n_rows).chunk(
        part.args["number"],
        row=owners,
        eta_corr=eta.astype(np.float32),
        posterior=posterior(eta, rule["p0"], rule["p1"]).astype(np.float32),
        predicted_label=label,
    )
    sampled, _ = audit_queries(run, model.scaling)
    here = np.flatnonzero((sampled >= rows.start) & (sampled < rows.stop))
    listed = lists.distance[sampled[here] - rows.start]
    recall = row_recall(listed, part.args["limit"][here, None])
    return Output(written, {"recall": recall.tolist(), "ones": int(label.sum())})


def export_scores(run: Run, target: str) -> None:
    """The scores as one Parquet file."""
    write_parquet(run, "scores", target, COLUMNS)
