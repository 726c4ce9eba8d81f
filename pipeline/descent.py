"""The one importer of pynndescent. Its kernels compile in 45-60 s in each process that is not
forked from one that has compiled them, so nothing imports this module before it is needed.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
from pynndescent import NNDescent

from pipeline.merge import ABSENT

_TREES = 10
"""Search trees where descent is cut short."""


def build(
    x: npt.NDArray[np.float32], n_neighbors: int, *, seed: int, rounds: int | None = None
) -> npt.NDArray[np.int32]:
    """Approximate neighbour lists without the row itself.

    One thread: seed and thread count decide the graph.

    Parameters
    ----------
    x : (row, feature) float32, at least two rows more than `n_neighbors`
    rounds : of nearest-neighbour descent; 0 leaves what the leaves of a few search trees hold, None
        is as many as pynndescent takes to be enough

    Returns
    -------
    (row, n_neighbors + 1) int32; ABSENT in one place, or in several where pynndescent found no more
    """
    effort = {} if rounds is None else {"n_trees": _TREES, "n_iters": rounds}
    if rounds == 0:
        effort["max_candidates"] = 1  # room for them is made all the same
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lists that are not full: the caller fills them
        index = NNDescent(
            x,
            n_neighbors=n_neighbors + 1,
            metric="euclidean",
            random_state=seed,
            n_jobs=1,
            **effort,
        )
        lists: npt.NDArray[np.int32] = index.neighbor_graph[0]
    lists[lists == np.arange(len(x))[:, None]] = ABSENT  # what pynndescent too calls -1
    return lists
