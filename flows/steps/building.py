"""Pool → graph: anchors, their pairs, blocks, lists, audit."""

from __future__ import annotations

from typing import NamedTuple

from flows.engine.job import Job
from flows.engine.tasks.as_task import as_task
from flows.steps.anchors import find_anchors, find_pairs
from flows.steps.networks import Probes, choose_probes
from flows.steps.partition import Wanted
from flows.steps.widening import Graph, widen_until
from pipeline.blocks.cost import Pairs
from pipeline.blocks.scaling import Scaling
from pipeline.graph.build import NeighborParams
from storage.runs.pool import Pool


class Built(NamedTuple):
    """A graph, and the pairs by which the pool was cut."""

    graph: Graph
    pairs: Pairs


def build(
    job: Job, pool: Pool, scaling: Scaling, how: NeighborParams, wanted: Wanted, *, rates: bool
) -> Built:
    """The graph of a pool; `rates` are read off the anchors' lists where they are long enough."""
    as_task("anchors", lambda: find_anchors(job, pool, scaling, how.k, rates))
    pairs = as_task("pairs", lambda: find_pairs(job, pool, scaling, how.k))
    return Built(widen_until(job, pool, scaling, pairs, how, wanted), pairs)


def find_probes(
    job: Job, built: Built, scaling: Scaling, how: NeighborParams, k: int, target_recall: float
) -> Probes:
    """How queries are searched among the rows of the graph."""
    exact = how.builder == "exact"
    return as_task(
        "probes",
        lambda: choose_probes(
            job, built.graph.blocks, scaling, built.pairs, k, target_recall, exact=exact
        ),
    )
