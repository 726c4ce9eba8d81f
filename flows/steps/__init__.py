"""The steps of a run, by what they make: what a part does, and how a step begins and ends."""

from flows.steps.graph import anchors, building, neighbors, partition
from flows.steps.ingest import pool
from flows.steps.labels import rates, verdicts
from flows.steps.queries import probes, scoring, searching

__all__ = [
    "anchors",
    "building",
    "neighbors",
    "partition",
    "pool",
    "probes",
    "rates",
    "scoring",
    "searching",
    "verdicts",
]
