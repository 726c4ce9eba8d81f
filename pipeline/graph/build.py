"""The k nearest neighbors within one block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float32, Int32, Int64
from pipeline.blocks.sampling import MOST_ANCHORS
from pipeline.graph.carving import carve
from pipeline.graph.effort import distances_to_nearest, lists_of_recall
from pipeline.knn.distance import rank_lists
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT
from pipeline.knn.lots import lots
from pipeline.knn.threads import ALONE, Threads, one_thread

BUILDERS = ("auto", "join", "pynndescent", "exact")

_EXACT_PAIR_NS = (2.0, 0.06)
"""Cost of exact search per pair of rows: constant and per feature, ns·core (measured)."""

_EXACT_SECONDS = 2.0
"""Core seconds of exact search below which approximate lists save too little to matter."""

_READ_SECONDS, _WALK_SECONDS = 5e-8, 7e-7
"""Core seconds to a feature: of a row that is read and searched for a few queries, and of a walk
(measured, 32 and 64 features; six times that among Gaussians)."""
_ROW_SECONDS = (1.2e-5, 6e-7)
"""Core seconds of a row in all: constant and per feature (measured, 32 to 128 features, k = 30)."""

_PASS_SECONDS = 2e-5
"""Core seconds of a row in a pass over a graph that is there (measured, k = 50)."""

_ROW_BYTES = (8, 40)
"""Bytes of a row while lists are made: to a feature, and to a place of its list (measured)."""

_EXACT_ROWS = 1000
"""Blocks up to this many rows are searched exactly: no slower, and always right."""

_ORDER_ROWS = 128
"""Rows that a block is carved into to put near rows next to each other."""
_TRIED, _TIED = 64, 0.05
"""Rows whose lists tell whether rows tie, and the share of them from which they do."""
_LONGER = 1.5
"""Lists that pynndescent builds, over k: it finds more of the nearest among more."""
_EXPONENTS = 30
"""Powers of two by which the largest feature may be off 1."""


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


def lists_bytes(n_rows: int, n_features: int, k: int) -> int:
    """About how many bytes `build_lists` takes by local joins, rows and lists included."""
    return n_rows * (_ROW_BYTES[0] * n_features + _ROW_BYTES[1] * k)


def load_blas() -> None:
    """Load the library with which compiled kernels multiply matrices.

    Numba does so at the first product, too late: a limit of threads, which decide the last bits,
    holds for libraries that are loaded. Exact search has no such kernel.
    """
    import scipy.linalg.cython_blas  # noqa: F401


def choose_builder(builder: str, n_rows: int, n_features: int) -> str:
    """What `auto` stands for: exact search where it costs little, or nothing, as anchors ask it."""
    if builder != "auto":
        return builder
    cheap = exact_seconds(n_rows, n_features) <= _EXACT_SECONDS
    return "exact" if cheap or n_rows <= MOST_ANCHORS else "join"


def exact_seconds(n_rows: int, n_features: int) -> float:
    """About how many core seconds exact search of a whole pool takes."""
    return n_rows**2 * (_EXACT_PAIR_NS[0] + _EXACT_PAIR_NS[1] * n_features) * 1e-9


def training_seconds(builder: str, n_rows: int, n_features: int) -> float:
    """About how many core seconds a whole training takes."""
    exact = choose_builder(builder, n_rows, n_features) == "exact"
    lists = exact_seconds(n_rows, n_features) if exact else 0.0
    return lists + n_rows * (_ROW_SECONDS[0] + _ROW_SECONDS[1] * n_features)


def scoring_seconds(
    n_queries: int, n_rows: int, n_features: int, block_rows: float, probes: float, walked: bool
) -> float:
    """About how many core seconds it takes to score queries: blocks are read and audited, then
    walked or searched exactly.

    block_rows : rows of a block
    probes : blocks that a query is sent to
    """
    read = n_rows * n_features * _READ_SECONDS
    pair = _EXACT_PAIR_NS[0] + _EXACT_PAIR_NS[1] * n_features
    search = n_features * _WALK_SECONDS if walked else block_rows * pair * 1e-9
    return read + n_queries * probes * search


def pass_seconds(n_rows: int) -> float:
    """About how many core seconds a pass over a graph takes that is there."""
    return n_rows * _PASS_SECONDS


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
    """(row,) rows in spatial order; those at one place by lot, where the lists end at many rows of
    one distance, of which a builder takes those that come first."""
    x = of_unit_size(x)[0]
    some = np.linspace(0, len(x) - 1, _TRIED).astype(np.int64)
    distance = distances_to_nearest(x, some, params.k + 1, threads)
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
    """The rows, times a power of two where their squares would leave the range of float32; and that
    power, 1 where they are left as they are."""
    largest = max(x.max(initial=0.0), -x.min(initial=0.0))  # with no array of magnitudes
    exponent = int(np.frexp(largest)[1])
    if abs(exponent) <= _EXPONENTS:
        return x, 1.0
    return np.ldexp(x, -exponent), 2.0**-exponent
