"""The one importer of pynndescent. Its kernels compile in 45-60 s in each process that is not
forked from one that has compiled them, so nothing imports this module before it is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pynndescent import NNDescent


def build(
    x: npt.NDArray[np.float32], n_neighbors: int, *, seed: int, effort: int = 0
) -> npt.NDArray[np.int32]:
    """Approximate neighbour lists, the row itself usually among them.

    One thread: seed and thread count decide the graph.

    Parameters
    ----------
    x : (row, feature) float32, more than `n_neighbors` rows

    Returns
    -------
    (row, n_neighbors) int32; -1 where pynndescent found no more
    """
    harder: dict[str, Any] = {}
    if effort:
        harder = {
            "n_trees": 12 + 8 * effort,
            "n_iters": max(5, round(np.log2(len(x)))) + 5 * effort,
            "max_candidates": min(60, n_neighbors) + 20 * effort,
            "delta": 0.0001,
        }
    index = NNDescent(
        x, n_neighbors=n_neighbors, metric="euclidean", random_state=seed, n_jobs=1, **harder
    )
    lists: npt.NDArray[np.int32] = index.neighbor_graph[0]
    return lists


def warm_up() -> None:
    """Compile everything `build` runs, on a pool too small to take time."""
    build(np.random.default_rng(0).random((512, 4), dtype=np.float32), 6, seed=0)
