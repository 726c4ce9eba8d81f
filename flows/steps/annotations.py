"""The annotations of a pool, brought to the blocks whose rows they are of, or neighbors of such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Routed, Sent, incoming, slices_by_destination
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import LabelValue, Result
from flows.steps.answers import Asked, ask, askers
from flows.steps.ingest import annotations_of, certain
from flows.steps.partition import Blocks
from pipeline.knn.lists import ABSENT
from pipeline.noise.annotator_matrices import Agreement
from pipeline.noise.annotators import CERTAIN, NEAR, RowLabels, distance_weights
from storage.exchange import Exchange, Slice
from storage.groups import Arrays, read_array, read_group
from storage.pool import Pool, Rows, pool_chunk_rows
from storage.run import Run

WANTED, SENT = "annotations-wanted", "annotations-sent"
"""Names of exchanges."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Want:
    """One block of the graph."""

    block: int
    pool: Pool
    to: Exchange


@dataclass(frozen=True)
class Tell(Asked):
    """The same, whose annotations are sent."""

    number: int
    pool: Pool
    n_classes: int
    to: Exchange


@dataclass(frozen=True)
class Annotated(Result):
    """What was sent, and how annotators agree."""

    sent: Sent
    agreement: Agreement
    n_annotations: int
    n_unused: int


@dataclass(frozen=True)
class Collected:
    """Annotations on their way to the blocks."""

    slices: list[list[Slice]]
    agreement: Agreement
    n_annotations: int
    n_unused: int


@dataclass(frozen=True)
class Annotators:
    """Who annotated a pool."""

    names: list[LabelValue]
    n_empty: int


def annotators_of(run: Run, pool: Pool) -> Annotators:
    """What the pool says of its annotators."""
    about: dict[str, Any] = run.group(pool.path).attrs.asdict()
    return Annotators(about["annotator_values"], about["annotations_empty"])


def collect(job: Job, pool: Pool, blocks: Blocks, n_classes: int) -> Collected:
    """Send every block the annotations of its rows and of their neighbors, once."""
    n_blocks, n_parts = len(blocks.sizes), len(pool.parts())
    exchange, wanted = (Exchange(job.run.location, name) for name in (SENT, WANTED))
    asked = job.parts(
        WANTED, want_part, [Part(block_name(b), Want(b, pool, wanted)) for b in range(n_blocks)]
    )
    slices = incoming(asked, n_parts)
    told = job.parts(
        "annotations",
        tell_part,
        [
            Part(f"rows-{i:06d}", Tell(rows, n_blocks, slices[i], i, pool, n_classes, exchange))
            for i, rows in enumerate(pool.parts())
        ],
    )
    found = [Annotated.of(record) for record in told]
    agreement = Agreement(0, 0, 0, 0)
    for part in found:
        agreement = agreement.plus(part.agreement)
    return Collected(
        slices_by_destination(told, n_blocks, lambda record: Annotated.of(record).sent),
        agreement,
        sum(part.n_annotations for part in found),
        sum(part.n_unused for part in found),
    )


def want_part(run: Run, part: Part[Want]) -> Output:
    """Ask for the rows of one block and their neighbors."""
    want = part.args
    key, sent = ask(want.to, part.name, want.block, want.pool, needed(run, want.block))
    return Output([key], Routed(sent))


def needed(run: Run, block: int) -> Ints:
    """The rows of a block and their neighbors, ascending."""
    group = run.group(f"graph/{block:05d}")
    near = read_array(group, "neighbor")[:, :NEAR]
    return np.union1d(read_array(group, "row"), near[near != ABSENT])


def tell_part(run: Run, part: Part[Tell]) -> Output:
    """Send the annotations of some rows of the pool to the blocks that want them."""
    tell, rows, exchange = part.args, part.args.rows, part.args.to
    row, annotator, label, n_unused = _annotations(run, tell)
    start = np.searchsorted(row, np.arange(rows.start, rows.stop + 1))
    agreement = Agreement.of(start, label, tell.n_classes)
    wanted, asker = askers(Exchange(run.location, WANTED), tell.wanted)
    sure = certain(run, rows)
    known = np.concatenate([row, sure + rows.start])
    order = np.argsort(known, kind="stable")
    who = np.concatenate([annotator, np.full(len(sure), CERTAIN, np.int32)])[order]
    what = np.concatenate([label, pool_labels(tell.pool, rows)[sure]])[order]
    known = known[order]
    first = np.searchsorted(known, wanted)
    item, owner = ragged(first, np.searchsorted(known, wanted, "right") - first)
    columns = {"row": known[item], "annotator": who[item], "label": what[item]}
    sent = exchange.send(part.name, asker[owner], tell.n_askers, columns)
    return Output([exchange.key(part.name)], Annotated(sent, agreement, len(row), n_unused))


def pool_labels(pool: Pool, rows: Rows) -> npt.NDArray[np.int32]:
    """(row,) codes of the given labels."""
    return pool.read("y", rows).astype(np.int32)


def _annotations(
    run: Run, tell: Tell
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
    """(annotation,) row, annotator and class, by row; and how many are of no class."""
    chunk, pool = pool_chunk_rows(tell.pool.n_features), tell.pool
    codes = np.array(run.group(pool.path).attrs.asdict()["annotation_codes"], np.int32)
    numbers = range(tell.rows.start // chunk, -(-tell.rows.stop // chunk))
    parts = [read_group(run.store, annotations_of(number)) for number in numbers]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    label = codes[whole["label"]]
    used = label >= 0
    annotator = whole["annotator"][used].astype(np.int32)
    return whole["row"][used], annotator, label[used], int((~used).sum())


def ragged(first: Ints, length: Ints) -> tuple[Ints, Ints]:
    """(item,) places of all items of some runs, one run after the other, and whose run each is in.

    first, length : (run,)
    """
    owner = np.repeat(np.arange(len(length)), length)
    before = np.cumsum(length) - length
    return np.repeat(first - before, length) + np.arange(len(owner)), owner


@dataclass(frozen=True)
class BlockAnnotations:
    """What one block of the graph knows of its rows and of their neighbors."""

    row: Ints
    """(row,) at home here."""
    own: Ints
    """(row,) their places in `labels`."""
    near: Ints
    """(row, rank) places of the neighbors."""
    distance: npt.NDArray[np.float32]
    labels: RowLabels

    def weights(self, some: slice) -> npt.NDArray[np.float64]:
        """(row, rank) weights of some rows' neighbors."""
        return distance_weights(self.distance[some])


def of_block(run: Run, block: int, slices: list[Slice]) -> BlockAnnotations:
    """What was sent to one block."""
    group, known = run.group(f"graph/{block:05d}"), needed(run, block)
    row, neighbor = read_array(group, "row"), read_array(group, "neighbor")[:, :NEAR]
    there = neighbor != ABSENT
    distance = np.where(there, read_array(group, "distance")[:, :NEAR], np.inf)
    found: Arrays = {
        "row": np.empty(0, np.int64),
        "annotator": np.empty(0, np.int32),
        "label": np.empty(0, np.int32),
    }
    if slices:
        found = Exchange(run.location, SENT).receive(slices)
    order = np.argsort(found["row"], kind="stable")
    start = np.searchsorted(found["row"][order], np.append(known, np.iinfo(np.int64).max))
    return BlockAnnotations(
        row,
        np.searchsorted(known, row),
        np.where(there, np.searchsorted(known, neighbor), 0),
        distance,
        RowLabels(start, found["annotator"][order], found["label"][order]),
    )
