"""Queries → blocks → lists → scores, through the same exchange as training."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from flows.job import Job, Output
from flows.steps.graph import block_lists, block_with_enough_rows
from flows.steps.lists import incoming, receive_lists, send_lists
from flows.steps.partition import block_name
from flows.steps.probes import Model, aim, audit_queries
from pipeline.audit import Recall, row_recall, summarise
from pipeline.blockwise import Part
from pipeline.cells import nearest_in_block
from pipeline.partition import Halo, nearest_blocks, spread
from pipeline.threshold import posterior
from storage.convert import read_metadata, write_parquet
from storage.exchange import Exchange, Slice
from storage.pool import ChunkWriter, Pool
from storage.run import Run

BATCH_ROWS = 1 << 17
"""Queries that one part searches."""
SCORING = "knnoise.scoring"
"""Key of the metadata of a file of scores that holds their identity."""
COLUMNS = ("row", "eta_corr", "posterior", "predicted_label")


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
    sent = exchange.send(part.name, block, model.n_blocks, columns)
    return Output([exchange.key(part.name)], {"sent": sent})


def search_part(run: Run, part: Part) -> Output:
    """The k nearest of some queries among the rows of one block, halo included."""
    model, exchange, queries = part.args["model"], part.args["to"], part.args["queries"]
    block = block_with_enough_rows(model.run, part.args["block"], model.k)
    asked = part.args["from"].receive(part.args["slices"])
    start = time.perf_counter()
    recall = 1.0 if model.exact else aim(model.target_recall)
    index, distance = nearest_in_block(asked["x"], block["x"], model.k, recall)
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
        return Output(writer.finish(queries.n_rows, {"k": model.k, **asdict(model.rule)}))

    job.once("scored", finish)
    recalls = np.concatenate([record.result["recall"] for record in records])
    return summarise(recalls), sum(record.result["ones"] for record in records)


def score_part(run: Run, part: Part) -> Output:
    """Merge the lists of some queries and apply the rule."""
    rows, model, queries = part.args["rows"], part.args["model"], part.args["queries"]
    owners = np.arange(rows.start, rows.stop)
    lists = receive_lists(Exchange(run.location, "lists"), part.args["slices"], owners, model.k)
    eta = lists.label.sum(axis=1, dtype=np.int64) / model.k
    rule = model.rule
    label = rule.predict(eta)
    written = ChunkWriter(run, "scores", queries.part_rows, queries.n_rows).chunk(
        part.args["number"],
        row=owners,
        eta_corr=eta.astype(np.float32),
        posterior=posterior(eta, rule.p0, rule.p1).astype(np.float32),
        predicted_label=label,
    )
    sampled, _ = audit_queries(run, model.scaling)
    here = np.flatnonzero((sampled >= rows.start) & (sampled < rows.stop))
    listed = lists.distance[sampled[here] - rows.start]
    recall = row_recall(listed, part.args["limit"][here, None])
    return Output(written, {"recall": recall.tolist(), "ones": int(label.sum())})


def export_scores(run: Run, target: str, identity: str) -> None:
    """The scores as one Parquet file, which says of which rows and training they are."""
    write_parquet(run, "scores", target, COLUMNS, {SCORING: identity})


def exported(target: str) -> str | None:
    """The identity that a file of scores says; None where there is none, or not a whole one."""
    return read_metadata(target).get(SCORING)
