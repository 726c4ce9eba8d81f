"""The steps of a run, one module each: what a part does, and how a step is planned and finished."""

from flows.steps import (
    anchors,
    audit,
    graph,
    ingest,
    labels,
    partition,
    probes,
    rates,
    scoring,
    searching,
)

__all__ = [
    "anchors",
    "audit",
    "graph",
    "ingest",
    "labels",
    "partition",
    "probes",
    "rates",
    "scoring",
    "searching",
]
