"""Pool → graph: find anchors and pairs; cut, build, audit, and again with a wider cut if recall is
low."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_block
from flows.engine.results import result_of
from flows.steps.graph.anchors import find_anchors, find_mates, find_pairs
from flows.steps.graph.neighbors import build_graph
from flows.steps.graph.partition import (
    AUDIT,
    WIDENED,
    Blocks,
    Wanted,
    choose_partition,
    make_blocks,
)
from pipeline.blocks.cost import Pairs, recall_wanted
from pipeline.blocks.scaling import Scaling
from pipeline.graph.build import NeighborParams, load_blas
from pipeline.knn.lists import Recall, row_recall, summarize
from pipeline.noise.copies import Mates
from storage.arrays.groups import array, read_array
from storage.errors import amount
from storage.runs.pool import Pool
from storage.runs.run import Run

TRIES = 3


@dataclass(frozen=True)
class Graph:
    """The graph a run ended with, and how it came to it."""

    blocks: Blocks
    pairs: Pairs
    """Anchors and neighbors by which the pool was cut."""
    recall: Recall
    notes: list[str]
    mates: Mates


def build(
    job: Job,
    pool: Pool,
    scaling: Scaling,
    how: NeighborParams,
    wanted: Wanted,
    *,
    n_classes: int = 0,
    n_groups: int = 0,
) -> Graph:
    """The graph of a pool, built until its measured recall reaches the target, at most `TRIES`
    times. Noise rates of `n_classes`, if any, and mates are read off the anchors' lists; a column
    that divides the rows into `n_groups`, if any, says which are mates instead."""
    job.task("anchors", find_anchors, pool, scaling, how.k, n_classes)
    mates = job.task("mates", find_mates, pool, how.k, n_groups) if n_classes else Mates()
    how = replace(how, k=how.k + mates.most)
    pairs = job.task("pairs", find_pairs, pool, scaling, how.k)
    if how.builder != "exact":
        load_blas()
    notes: list[str] = []
    for attempt in range(TRIES):
        given_up = job.run.ledger.get(_widened(attempt), "all")
        if given_up is not None:
            notes.append(result_of(given_up, str))
            continue
        chosen = job.task("partition", choose_partition, pool, scaling, pairs, wanted, attempt)
        blocks = job.task("blocks", make_blocks, pool, scaling, chosen, attempt)
        recall_of_lists = recall_wanted(wanted.target_recall, chosen.ceiling, attempt)
        job.task("neighbors", build_graph, blocks, replace(how, recall=recall_of_lists))
        recall = job.task("audit", audit_graph, blocks, how.k)
        low = recall.value < wanted.target_recall
        if not low or wanted.exact or attempt == TRIES - 1:
            return Graph(blocks, pairs, recall, notes, mates)
        note = (
            f"recall was {recall.value:.4f} with {amount(len(blocks.sizes), 'block')}, "
            f"lists made of {blocks.copies:.2f} copies of a row, "
            f"below {wanted.target_recall:g}: widened"
        )
        job.reporter.say(note)
        job.reporter.recall = None  # of a graph that is given up
        notes.append(note)
        job.once(_widened(attempt), partial(blocks.give_up, note=note))
    raise AssertionError("the last attempt returns")


def _widened(attempt: int) -> str:
    return f"{WIDENED}-{attempt}"


@dataclass(frozen=True)
class Audited:
    """Recall at each anchor at home in one block."""

    recall: list[float]


def audit_graph(job: Job, blocks: Blocks, list_length: int) -> Recall:
    """Recall of the graph at the anchors, whose exact neighbors are known."""
    audit = partial(audit_part, list_length=list_length)
    records = job.parts(blocks.name(AUDIT), audit, by_block(range(len(blocks.sizes))))
    recalls = np.concatenate([np.asarray(result_of(record, Audited).recall) for record in records])
    return summarize(recalls)


def audit_part(run: Run, part: Part[int], list_length: int) -> Output:
    """Recall of each anchor at home in one block."""
    group = run.group(f"graph/{part.args:05d}")
    anchors = run.group("anchors")
    row, anchor = read_array(group, "row"), read_array(anchors, "row")
    _, here, anchor_place = np.intersect1d(row, anchor, assume_unique=True, return_indices=True)
    listed = read_array(group, "distance")[here]
    exact = np.asarray(array(anchors, "distance").oindex[anchor_place, slice(1, list_length + 1)])
    return Output([], Audited(row_recall(listed, exact).tolist() if len(here) else []))
