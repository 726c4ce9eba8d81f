"""Neighbors of training rows that are in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from pipeline.blocks.sampling import row_hash
from pipeline.graph.build import BUILDERS, NeighborParams, build_lists, choose_builder
from pipeline.knn.rows import Rows, nearest_rows
from pipeline.knn.threads import Threads
from pipeline.methods.rules import RULES
from pipeline.noise.extrema import anchor_plan
from pipeline.streams import Stream

Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


def training_lists(
    x: Rows, n_neighbors: int | str, builder: str, seed: int, threads: Threads
) -> tuple[Int64, Floats, Int64, Floats]:
    """Neighbors of every row with their distances, and longer exact lists of the anchors, each its
    own first, with theirs.

    Parameters
    ----------
    x : (row, feature) float32
    n_neighbors : length of the lists, or "auto"
    builder : "auto" or how neighbors are found; sparse rows are searched exactly
    seed : of the search and of the draw of anchors
    threads : that share the search; no part of what is found

    Raises
    ------
    ValueError
        for a builder that there is not, or that takes no sparse rows.
    """
    n, sparse = x.shape[0], issparse(x)
    if builder not in BUILDERS:
        raise ValueError(f"builder={builder!r}: need {', '.join(map(repr, BUILDERS))}")
    if sparse and builder not in ("auto", "exact"):
        raise ValueError(f"builder={builder!r} with sparse X: need 'auto' or 'exact'")
    builder = "exact" if sparse else choose_builder(builder, *x.shape)
    asked = None if n_neighbors == "auto" else int(n_neighbors)
    longest = min(RULES["corrected"].list_length(asked, n, builder), n - 1)
    n_anchors, width = anchor_plan(*x.shape)
    if n_anchors == n and builder == "exact":
        index, distance = nearest_rows(
            x, x, max(longest, width - 1), exclude=np.arange(n), threads=threads
        )
        row, more, reach = np.arange(n), index, distance
    else:
        if sparse:
            index, distance = nearest_rows(x, x, longest, exclude=np.arange(n))
        else:
            index, distance, _ = build_lists(
                x, NeighborParams(longest, builder, seed=seed), threads
            )
        order = np.argsort(row_hash(np.arange(n), seed, Stream.ANCHORS), kind="stable")
        row = np.sort(order[:n_anchors])
        more, reach = nearest_rows(x[row], x, width - 1, exclude=row, threads=threads)
    lists = np.column_stack([row, more[:, : width - 1]])
    away = np.column_stack([np.zeros(len(row), np.float32), reach[:, : width - 1]])
    return index[:, :longest], distance[:, :longest], lists, away
