"""Cut, build, audit; and again with a wider cut while recall is below the target."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from flows.job import Job, Output
from flows.steps.audit import audit_graph
from flows.steps.graph import build_graph
from flows.steps.partition import Blocks, choose_partition, make_blocks
from flows.tasks import as_task
from pipeline.audit import Recall
from pipeline.neighbours import NeighbourParams, recall_wanted
from pipeline.plan import Pairs
from pipeline.scale import Scaling
from storage.pool import Pool
from storage.run import Run

TRIES = 3


@dataclass(frozen=True)
class Graph:
    """The graph a run ended with, and how it came to it."""

    blocks: Blocks
    recall: Recall
    copies: float
    notes: list[str]


def widen_until(
    job: Job,
    pool: Pool,
    scaling: Scaling,
    pairs: Pairs,
    params: NeighbourParams,
    wish: dict[str, Any],
) -> Graph:
    """Build the graph, at most `TRIES` times, until its measured recall reaches the target.

    wish : block_rows, target_recall, k, exact, seed, as `choose_partition` takes them
    """
    notes: list[str] = []
    for attempt in range(TRIES):
        given_up = job.run.ledger.get(_widened(attempt), "all")
        if given_up is not None:
            notes.append(given_up.result["note"])
            continue
        graph = _attempt(job, pool, scaling, pairs, params, {**wish, "attempt": attempt}, notes)
        low = graph.recall.value < wish["target_recall"]
        if not low or wish["exact"] or attempt == TRIES - 1:
            return graph
        note = (
            f"recall was {graph.recall.value:.4f} with {len(graph.blocks.sizes)} blocks and "
            f"{graph.copies:.2f} copies a row, below {wish['target_recall']:g}: widened"
        )
        job.reporter.say(note)
        job.reporter.recall = None  # of a graph that is given up
        notes.append(note)
        _give_up(job, graph.blocks, note)
    raise AssertionError("the last attempt returns")


def _attempt(
    job: Job,
    pool: Pool,
    scaling: Scaling,
    pairs: Pairs,
    params: NeighbourParams,
    wish: dict[str, Any],
    notes: list[str],
) -> Graph:
    attempt = wish["attempt"]
    chosen = as_task("partition", lambda: choose_partition(job, pool, scaling, pairs, wish))
    blocks = as_task("blocks", lambda: make_blocks(job, pool, scaling, chosen, attempt))
    wanted = recall_wanted(wish["target_recall"], chosen["meet"], attempt)
    how = replace(params, recall=wanted)
    as_task("neighbours", lambda: build_graph(job, blocks, how))
    recall = as_task("audit", lambda: audit_graph(job, blocks, params.k))
    return Graph(blocks, recall, chosen["copies"], notes)


def _widened(attempt: int) -> str:
    return f"widened-{attempt}"


def _give_up(job: Job, blocks: Blocks, note: str) -> None:
    """Remove what an attempt made, so that groups hold the graph that counts; then say so."""
    ledger = job.run.ledger

    def clear(run: Run) -> Output:
        for step in ("partition", "route", "blocks", "neighbours", "graph", "audit"):
            name = blocks.name(step)
            for part in ledger.records(name):
                ledger.forget(name, part)
        for path in ("results.zarr/partition", "results.zarr/blocks", "results.zarr/graph"):
            run.location.remove(path)
        for exchange in ("route", "lists"):
            run.location.remove(f"scratch.zarr/{blocks.name(exchange)}")
        return Output([], {"note": note})

    job.once(_widened(blocks.attempt), clear)


def recall_json(graph: Graph) -> dict[str, Any]:
    """The part of the report on the graph."""
    return {
        "recall": graph.recall.value,
        "recall_interval": list(graph.recall.interval),
        "recall_rows": graph.recall.n_rows,
        "n_blocks": len(graph.blocks.sizes),
        "largest_block_rows": max(graph.blocks.sizes),
        "halo": asdict(graph.blocks.halo),
        "copies": sum(graph.blocks.sizes) / sum(graph.blocks.core),
        "predicted_recall_ceiling": graph.blocks.meet,
        "notes": graph.notes,
    }
