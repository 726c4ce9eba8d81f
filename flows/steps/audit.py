"""The graph → its recall, at the anchors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from flows.steps.partition import Blocks
from pipeline.knn.recall import Recall, row_recall, summarize
from storage.arrays.groups import array, read_array
from storage.runs.run import Run


@dataclass(frozen=True)
class Audit:
    """The graph of which block is audited."""

    block: int
    list_length: int


@dataclass(frozen=True)
class Audited(Result):
    """Recall at each anchor at home in one block."""

    recall: list[float]


def audit_graph(job: Job, blocks: Blocks, list_length: int) -> Recall:
    """Recall of the graph at the anchors, whose exact neighbors are known."""
    records = job.parts(
        blocks.name("audit"),
        audit_part,
        [Part(block_name(b), Audit(b, list_length)) for b in range(len(blocks.sizes))],
    )
    recalls = np.concatenate([np.asarray(Audited.of(record).recall) for record in records])
    return summarize(recalls)


def audit_part(run: Run, part: Part[Audit]) -> Output:
    """Recall of each anchor at home in one block."""
    group = run.group(f"graph/{part.args.block:05d}")
    anchors = run.group("anchors")
    row, anchor = read_array(group, "row"), read_array(anchors, "row")
    _, here, which = np.intersect1d(row, anchor, assume_unique=True, return_indices=True)
    listed = read_array(group, "distance")[here]
    exact = np.asarray(
        array(anchors, "distance").oindex[which, slice(1, part.args.list_length + 1)]
    )
    return Output([], Audited(row_recall(listed, exact).tolist() if len(here) else []))
