"""Queries → blocks → lists → scores, through the same exchange as training."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, Result
from flows.steps.classes import decision_matrix, labels_of
from flows.steps.graph import block_lists, block_with_enough_rows
from flows.steps.lists import Routed, incoming, receive_lists, send_lists
from flows.steps.partition import block_name
from flows.steps.probes import ClassRule, Model, Probes, audit_queries
from pipeline.blocks.partition import Halo, nearest_blocks, spread
from pipeline.decision.class_rule import decide
from pipeline.decision.quality import KEPT
from pipeline.decision.threshold import posterior
from pipeline.decision.votes import share_of_ones
from pipeline.diagnostics.neighborhood import is_near
from pipeline.graph.walk import nearest_in_block, walks_pay
from pipeline.knn.lists import ABSENT, Neighbors, places
from pipeline.knn.recall import Recall, row_recall, summarize
from pipeline.methods.rules import Rule
from storage.convert import read_metadata, write_table
from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.groups import Arrays, array, read_array
from storage.pool import ChunkWriter, Pool, Rows
from storage.run import Run

BATCH_ROWS = 1 << 17
"""Queries that one part searches, at most."""
BATCH_BYTES = 256 << 20
"""Features of these queries, at most."""
SCORING = "knnoise.scoring"
"""Key of the metadata of a file of scores that holds their identity."""
COLUMNS = ("row", "eta_corr", "posterior", "predicted_label", "near_duplicates")
CLASS_COLUMNS = (
    *("row", "predicted_label", "posterior", "vote_share", "near_duplicates"),
    *("top_label", "top_posterior"),
)


@dataclass(frozen=True)
class Route:
    """Queries on their way to the blocks they probe."""

    model: Model
    queries: Pool
    halo: Halo
    rows: Rows
    to: Exchange


@dataclass(frozen=True)
class Search:
    """Queries sent to one block."""

    model: Model
    queries: Pool
    block: int
    sent: Exchange
    slices: list[Slice]
    to: Exchange


@dataclass(frozen=True)
class Score:
    """Queries whose lists are merged."""

    model: Model
    queries: Pool
    number: int
    rows: Rows
    slices: list[Slice]
    limit: npt.NDArray[np.float32]
    """Distance of the k-th true neighbor of each sampled query."""


@dataclass(frozen=True)
class Scored(Result):
    """Recall at the sampled queries among some rows, how many rows are predicted each class, and
    how many are in the training pool."""

    recall: list[float]
    predicted: list[int]
    equal: int = 0
    """Rows equal to a training row."""
    near: int = 0
    """Rows equal or nearly equal to one."""


def search_queries(job: Job, queries: Pool, model: Model, probes: Probes) -> list[list[Slice]]:
    """Send queries to their blocks and search there; slices of lists by part of the queries."""
    route, lists = (Exchange(job.run.location, name) for name in ("queries", "lists"))
    routed = job.parts(
        "route",
        route_part,
        [
            Part(f"rows-{i:06d}", Route(model, queries, probes.halo, rows, route))
            for i, rows in enumerate(queries.parts())
        ],
    )
    arrived = incoming(routed, model.n_blocks)
    found = job.parts(
        "search",
        search_part,
        [
            Part(f"{block_name(b)}-{i:03d}", Search(model, queries, b, route, batch, lists))
            for b in range(model.n_blocks)
            for i, batch in enumerate(batches(arrived[b], batch_rows(queries.n_features)))
        ],
    )
    return incoming(found, len(queries.parts()))


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


def route_part(run: Run, part: Part[Route]) -> Output:
    """Send some queries, scaled, to the blocks they probe."""
    rows, model, exchange = part.args.rows, part.args.model, part.args.to
    x = model.scaling.apply(part.args.queries.read("x", rows))
    near, distance = nearest_blocks(x, model.centroid())
    row, block, _ = spread(near, distance, part.args.halo)
    columns: Arrays = {"x": x[row], "row": row + rows.start}
    sent = exchange.send(part.name, block, model.n_blocks, columns)
    return Output([exchange.key(part.name)], Routed(sent))


def search_part(run: Run, part: Part[Search]) -> Output:
    """The k nearest of some queries among the rows of one block, halo included."""
    model, exchange, queries = part.args.model, part.args.to, part.args.queries
    model.check_block(part.args.block)
    block = block_with_enough_rows(model.run, part.args.block, model.k)
    asked = part.args.sent.receive(part.args.slices)
    start = time.perf_counter()
    recall = 1.0 if model.exact else model.recall_of_parts
    walked = recall < 1.0 and walks_pay(len(asked["x"]), int(block["core"].sum()))
    if walked:  # a copy is found in the block where it is at home, and has its list there
        block = {name: column[block["core"]] for name, column in block.items()}
    listed = _listed(model, part.args.block, block["row"]) if walked else None
    index, distance = nearest_in_block(asked["x"], block["x"], model.k, recall, listed)
    seconds = time.perf_counter() - start
    lists = block_lists(block, index, distance)
    destination = queries.part_of(asked["row"])
    n_parts = len(queries.parts())
    result = send_lists(exchange, part.name, destination, n_parts, asked["row"], lists)
    return Output([exchange.key(part.name)], result, seconds)


def _listed(model: Model, number: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """(row, k) the graph's lists of the rows at home in one block as places among them."""
    return places(rows, read_array(model.run.group(f"graph/{number:05d}"), "neighbor"))


@dataclass(frozen=True)
class Total:
    """What the rows of all parts come to, as in `Scored`."""

    recall: Recall
    predicted: list[int]
    equal: int
    near: int


def write_scores(
    job: Job, queries: Pool, model: Model, slices: list[list[Slice]], probes: Probes
) -> Total:
    """Write the group `scores`, in the order of the source."""
    _writer(job.run, queries, model)
    limit = np.array([np.inf if d is None else d for d in probes.limit], np.float32)
    records = job.parts(
        "scores",
        score_part,
        [
            Part(f"rows-{i:06d}", Score(model, queries, i, rows, slices[i], limit))
            for i, rows in enumerate(queries.parts())
        ],
    )

    def finish(run: Run) -> Output:
        attributes = {"k": model.k, **asdict(model.rule)}
        return Output(_writer(run, queries, model).finish(queries.n_rows, attributes))

    job.once("scored", finish)
    results = [Scored.of(record) for record in records]
    recalls = np.concatenate([result.recall for result in results])
    return Total(
        summarize(recalls),
        np.sum([result.predicted for result in results], axis=0).tolist(),
        sum(result.equal for result in results),
        sum(result.near for result in results),
    )


def _writer(run: Run, queries: Pool, model: Model) -> ChunkWriter:
    """The writer of the group `scores`."""
    if isinstance(model.rule, Rule):
        return ChunkWriter(run, "scores", queries.part_rows, queries.n_rows)
    top = min(KEPT, model.rule.n_classes)
    kind, label = "class_scores", array(model.run.group("pool"), "y").dtype
    return ChunkWriter(
        run, "scores", queries.part_rows, queries.n_rows, kind=kind, label=label, top=top
    )


def score_part(run: Run, part: Part[Score]) -> Output:
    """Merge the lists of some queries and apply the rule."""
    rows, model, queries = part.args.rows, part.args.model, part.args.queries
    owners = np.arange(rows.start, rows.stop)
    lists = receive_lists(Exchange(run.location, "lists"), part.args.slices, owners, model.k)
    alone = np.flatnonzero(lists.row[:, 0] == ABSENT)
    if len(alone):
        raise StorageError(
            f"row {owners[alone[0]]:,} of the source has no neighbors in any block; "
            "the training is damaged: run train again to repair"
        )
    columns = _two(lists, model.rule) if isinstance(model.rule, Rule) else _many(lists, model)
    columns["row"] = queries.read("row", rows)
    near = is_near(lists.distance, model.near).sum(axis=1, dtype=np.int32)
    columns["near_duplicates"] = near
    written = _writer(run, queries, model).chunk(part.args.number, **columns)
    sampled, _ = audit_queries(run, model.scaling)
    here = np.flatnonzero((sampled >= rows.start) & (sampled < rows.stop))
    listed = lists.distance[sampled[here] - rows.start]
    recall = row_recall(listed, part.args.limit[here, None])
    n_classes = 2 if isinstance(model.rule, Rule) else model.rule.n_classes
    predicted = np.bincount(columns["predicted_label"], minlength=n_classes).tolist()
    equal = int(np.count_nonzero(lists.distance[:, 0] == 0))
    return Output(written, Scored(recall.tolist(), predicted, equal, int(np.count_nonzero(near))))


def _two(lists: Neighbors, rule: Rule) -> Arrays:
    """Scores by the rule of two classes."""
    eta = share_of_ones(lists.label.astype(np.int8))
    return {
        "eta_corr": eta.astype(np.float32),
        "posterior": posterior(eta, rule.p0, rule.p1).astype(np.float32),
        "predicted_label": rule.predict(eta),
    }


def _many(lists: Neighbors, model: Model) -> Arrays:
    """Scores by the corrected vote of more classes."""
    rule = model.rule
    assert isinstance(rule, ClassRule)
    matrix = decision_matrix(model.run, rule.decision)
    found = decide(labels_of(lists.row, lists.label), rule.n_classes, model.k, matrix)
    best = np.argsort(-found.chance, axis=1, kind="stable")[:, : min(KEPT, rule.n_classes)]
    top = np.take_along_axis(found.code, best, axis=1)
    chance = np.take_along_axis(found.chance, best, axis=1)
    return {
        "predicted_label": found.predicted.astype(array(model.run.group("pool"), "y").dtype),
        "posterior": chance[:, 0].astype(np.float32),
        "vote_share": found.share_of(found.predicted).astype(np.float32),
        "top_label": np.where(chance > 0, top, -1).astype(np.int16),
        "top_posterior": chance.astype(np.float32),
    }


def export_scores(
    run: Run, target: str, identity: str, classes: Sequence[LabelValue] | None = None
) -> None:
    """The scores as one Parquet file, which says of which rows and training they are."""
    wanted = COLUMNS if classes is None or len(classes) == 2 else CLASS_COLUMNS
    columns = tuple(name for name in wanted if name in run.group("scores"))  # of earlier versions
    write_table(run, "scores", target, columns, {SCORING: identity}, ids="queries", classes=classes)


def exported(target: str) -> str | None:
    """The identity that a file of scores says; None where there is none, or not a whole one."""
    return read_metadata(target).get(SCORING)
