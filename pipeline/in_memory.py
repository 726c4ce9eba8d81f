"""Neighbors of training rows that are in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from pipeline.arrays import Float32, Int64
from pipeline.blocks.sampling import shuffled
from pipeline.graph.build import NeighborParams, build_lists
from pipeline.graph.resources import BUILDERS, choose_builder
from pipeline.knn.lots import lots
from pipeline.knn.rows import Rows, nearest_rows
from pipeline.knn.threads import ALONE, Threads
from pipeline.methods.rules import RULES
from pipeline.noise.extrema import anchor_plan
from pipeline.streams import Stream


def training_lists(
    x: Rows,
    n_neighbors: int | str,
    builder: str,
    seed: int,
    threads: Threads = ALONE,
    graph: Any = None,
    n_classes: int = 2,
) -> tuple[Int64, Float32, Int64, Float32]:
    """Neighbors of every row with their distances, and longer exact lists of the anchors, each its
    own first, with theirs.

    Parameters
    ----------
    x : (row, feature) float32
    n_neighbors : length of the lists, or "auto"
    builder : "auto" or how neighbors are found; sparse rows are searched exactly
    seed : of the search and of the draw of anchors
    threads : that share the search; no part of what is found
    graph : None, or as of `lists_of_graph`; anchors are searched where its lists are too short
    n_classes : of many, anchors are more

    Raises
    ------
    ValueError
        for a builder that there is not, or that takes no sparse rows; as `lists_of_graph`.
    """
    n, sparse = x.shape[0], issparse(x)
    if builder not in BUILDERS:
        raise ValueError(f"builder={builder!r}: need {', '.join(map(repr, BUILDERS))}")
    if sparse and builder not in ("auto", "exact"):
        raise ValueError(f"builder={builder!r} with sparse X: need 'auto' or 'exact'")
    builder = "exact" if sparse else choose_builder(builder, *x.shape)
    requested = None if n_neighbors == "auto" else int(n_neighbors)
    longest = min(RULES["corrected"].list_length(requested, n, builder), n - 1)
    n_anchors, width = anchor_plan(x.shape[0], x.shape[1], n_classes)
    if graph is not None:
        index, distance = lists_of_graph(graph, n, requested)
    elif sparse or (n_anchors == n and builder == "exact"):
        length = max(longest, width - 1) if n_anchors == n else longest
        index, distance = nearest_rows(x, x, length, exclude=np.arange(n), threads=threads)
    else:
        index, distance, _ = build_lists(x, NeighborParams(longest, builder, seed=seed), threads)
    row = np.sort(shuffled(n, seed, Stream.ANCHORS)[:n_anchors])
    if index.shape[1] >= width - 1 and (graph is not None or builder == "exact"):
        more, reach = index[row], distance[row]
    else:
        more, reach = nearest_rows(x[row], x, width - 1, exclude=row, threads=threads)
    lists = np.column_stack([row, more[:, : width - 1]])
    away = np.column_stack([np.zeros(len(row), np.float32), reach[:, : width - 1]])
    return index[:, :longest], distance[:, :longest], lists, away


def lists_of_graph(graph: Any, n: int, k: int | None) -> tuple[Int64, Float32]:
    """Lists of a graph of nearest neighbors as scikit-learn and cleanlab have it.

    Parameters
    ----------
    graph : (row, row) sparse, entries are distances; entries of a row in any order, those on the
        diagonal left out
    n : rows
    k : neighbors that every row has to have, None for one

    Returns
    -------
    index, distance : (row, length), nearest first, ties by lot; as long as the shortest

    Raises
    ------
    ValueError
        for what is no such graph.
    """
    if not issparse(graph) or graph.shape != (n, n):
        what = f"sparse {graph.shape}" if issparse(graph) else type(graph).__name__
        raise ValueError(f"knn_graph is {what}: need a sparse matrix ({n}, {n}) of distances")
    entries = graph.tocoo()
    row, column = (part.astype(np.int64) for part in (entries.row, entries.col))
    away = row != column
    row, column, distance = row[away], column[away], entries.data[away].astype(np.float32)
    if not (np.isfinite(distance).all() and (distance >= 0).all()):
        raise ValueError("knn_graph: negative or infinite distances")
    if len(distance) and (distance == 1).all():
        raise ValueError("knn_graph: all entries are 1; make it with mode='distance'")
    order = np.lexsort((lots(column), distance, row))
    size = np.bincount(row, minlength=n)
    length, least = int(size.min()), k or 1
    if length < least:
        raise ValueError(
            f"knn_graph: row {size.argmin()} has {length} neighbors besides itself: need {least}"
        )
    first = np.cumsum(size) - size
    kept = order[first[:, None] + np.arange(length)]
    return column[kept], distance[kept]
