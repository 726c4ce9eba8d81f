"""Passes as calls: over a graph, block by block, and over the rows of a pool in source order."""

from flows.engine.collectives.graph import Around, Asks, PoolGraph, Stored, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings

__all__ = [
    "Around",
    "Asks",
    "Facts",
    "PoolGraph",
    "Sendings",
    "SourceRows",
    "Stored",
    "Table",
    "over_graph",
    "over_rows",
]
