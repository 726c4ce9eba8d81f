"""The one importer of pynndescent. Its kernels compile in 45-60 s in each process, so nothing
imports this module unless pynndescent is asked for.
"""

from __future__ import annotations

import numpy as np
from pynndescent import NNDescent

from pipeline.arrays import Float32, Int32
from pipeline.knn.lists import ABSENT
from pipeline.knn.threads import quiet


def build(x: Float32, n_neighbors: int, *, seed: int) -> Int32:
    """Approximate neighbor lists without the row itself, by nearest-neighbor descent.

    One thread: seed and thread count decide the graph.

    Parameters
    ----------
    x : (row, feature) float32, at least two rows more than `n_neighbors`

    Returns
    -------
    (row, n_neighbors + 1) int32; ABSENT in one place, or in several where pynndescent found no more
    """
    with quiet():  # of lists that are not full: the caller fills them
        index = NNDescent(
            x, n_neighbors=n_neighbors + 1, metric="euclidean", random_state=seed, n_jobs=1
        )
        lists: Int32 = index.neighbor_graph[0]
    lists[lists == np.arange(len(x))[:, None]] = ABSENT  # what pynndescent too calls -1
    return lists
