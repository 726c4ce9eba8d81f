"""The k nearest neighbors within one block, by local joins, pynndescent or exact search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float32, Int32, Int64
from pipeline.graph.carving import carve
from pipeline.graph.effort import distances_to_nearest, lists_of_recall
from pipeline.knn.distance import rank_lists
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT
from pipeline.knn.lots import lots
from pipeline.knn.threads import ALONE, Threads, one_thread

_EXACT_ROWS = 1000
"""Blocks up to this many rows are searched exactly: no slower, and always right."""
_ORDER_ROWS = 128
"""Rows of the cells into which a block is carved to put near rows next to each other."""
_TRIED, _TIED = 64, 0.05
"""Rows that tell whether distances tie at the end of lists, and the share of them from which on."""
_LONGER = 1.5
"""Length of the lists that pynndescent builds, over k: the nearest are found among more."""
_EXPONENTS = 30
"""Powers of two by which the largest feature may differ from 1."""


@dataclass(frozen=True)
class NeighborParams:
    """How lists are built."""

    k: int = 30
    """Length of the lists, the row itself excluded."""
    builder: str = "join"
    """`join` (local joins), `pynndescent` or `exact`."""
    seed: int = 0
    recall: float = 0.99
    """Share of the neighbors within a block that lists by local joins reach."""


def load_blas() -> None:
    """Load the library with which compiled kernels multiply matrices.

    Numba does so at the first product, which is too late: a limit to threads, whose number decides
    the last bits, holds for libraries that are loaded. Exact search has no such kernel.
    """
    import scipy.linalg.cython_blas  # noqa: F401


def build_lists(
    x: Float32, params: NeighborParams, threads: Threads = ALONE
) -> tuple[Int64, Float32, int]:
    """Neighbor lists of all rows of a block among the rows of that block.

    Parameters
    ----------
    x : (row, feature) float32, finite
    threads : that local joins share; no part of what is found

    Returns
    -------
    index : (row, k) rows of the block, nearest first, ties by lot, self excluded, ABSENT at the
        end where the block has no more rows
    distance : (row, k) float32, the exact distance of each; inf where ABSENT
    n_repaired : rows whose list was left short and exact search completed
    """
    if params.builder != "exact":
        load_blas()
    with one_thread():
        if params.builder == "exact" or len(x) <= max(_EXACT_ROWS, 2 * params.k):
            index, distance = nearest(x, x, params.k, exclude=np.arange(len(x)), threads=threads)
            return index, distance, 0
        order = _order(x, params, threads)
        ordered = threads.take(x, order)
        del x  # which may be the largest array there is
        listed = _lists(ordered, params, threads)
        k = params.k
        index, distance = rank_lists(ordered, ordered, listed, order, k, threads, to=order)
        short = np.flatnonzero(index[:, -1] == ABSENT)
        if len(short):
            x = threads.take(ordered, np.argsort(order))
            index[short], distance[short] = nearest(x[short], x, k, exclude=short, threads=threads)
        return index, distance, len(short)


def _order(x: Float32, params: NeighborParams, threads: Threads) -> Int64:
    """(row,) rows in spatial order. Where lists end among many rows at one distance, of which a
    builder takes those that come first, rows at one place are in the order of their lots."""
    x = of_unit_size(x)[0]
    sampled = np.linspace(0, len(x) - 1, _TRIED).astype(np.int64)
    distance = distances_to_nearest(x, sampled, params.k + 1, threads)
    if (distance[:, -1] == distance[:, -2]).mean() < _TIED:
        return spatial_order(x, params.seed, threads)
    drawn = np.argsort(lots(np.arange(len(x))))
    return drawn[spatial_order(threads.take(x, drawn), params.seed, threads)]


def spatial_order(x: Float32, seed: int = 0, threads: Threads = ALONE) -> Int64:
    """(row,) rows in an order in which near ones tend to follow each other."""
    return carve(of_unit_size(x)[0], _ORDER_ROWS, seed, threads).row.astype(np.int64)


def _lists(x: Float32, params: NeighborParams, threads: Threads) -> Int32:
    """Finalists for the lists of a block in spatial order."""
    if params.builder == "pynndescent":
        from pipeline.graph import descent  # compiled: only those who need it pay for the import

        longer = min(round(_LONGER * params.k), len(x) - 2)
        return descent.build(of_unit_size(x)[0], longer, seed=params.seed)
    return lists_of_recall(of_unit_size(x)[0], params.k, params.recall, params.seed, threads)


def of_unit_size(x: Float32) -> tuple[Float32, float]:
    """The rows, times a power of two if their squares would leave the range of float32, and that
    power; 1 if they are left as they are."""
    largest = max(x.max(initial=0.0), -x.min(initial=0.0))  # with no array of magnitudes
    exponent = int(np.frexp(largest)[1])
    if abs(exponent) <= _EXPONENTS:
        return x, 1.0
    return np.ldexp(x, -exponent), 2.0**-exponent
