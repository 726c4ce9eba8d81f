"""The graph → its recall, at the anchors."""

from __future__ import annotations

import numpy as np

from flows.job import Job, Output
from flows.steps.partition import Blocks, block_name
from pipeline.audit import Recall, row_recall, summarise
from pipeline.blockwise import Part
from storage.groups import array, read_array
from storage.run import Run


def audit_graph(job: Job, blocks: Blocks, k: int) -> Recall:
    """Recall of the graph at the anchors, whose exact neighbours are known."""
    records = job.parts(
        blocks.name("audit"),
        audit_part,
        [Part(block_name(b), {"block": b, "k": k}) for b in range(len(blocks.sizes))],
    )
    recalls = np.concatenate([np.asarray(record.result["recall"]) for record in records])
    return summarise(recalls)


def audit_part(run: Run, part: Part) -> Output:
    """Recall of each anchor at home in one block."""
    k = part.args["k"]
    group = run.group(f"graph/{part.args['block']:05d}")
    anchors = run.group("anchors")
    row, anchor = read_array(group, "row"), read_array(anchors, "row")
    _, here, which = np.intersect1d(row, anchor, assume_unique=True, return_indices=True)
    listed = read_array(group, "distance")[here]
    exact = np.asarray(array(anchors, "distance").oindex[which, slice(1, k + 1)])
    return Output([], {"recall": row_recall(listed, exact).tolist() if len(here) else []})
