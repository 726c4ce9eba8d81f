"""Search in a block for rows from outside it: walks over the graph of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit
from threadpoolctl import threadpool_limits

from pipeline.graph.build import of_unit_size, spatial_order
from pipeline.graph.local_join import Found, near
from pipeline.knn.distance import Float32, rank_lists
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT
from pipeline.knn.prefetch import prefetch
from pipeline.knn.recall import row_recall

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_LINKS = 20
"""Neighbors of a list's beginning that a walk follows; half as many that list the row, too."""
_ROWS_PER_GATE = 256
_GATES = 4
"""Gates from which a walk begins: the nearest of rows drawn at random."""
_PAYS = 256
"""Rows to a query up to which it pays to prepare walks rather than to search all rows."""
_FEWEST_ROWS = 4096
_TRIED = 256
"""Queries searched exactly, to choose how far walks go."""
_SPARE = 2
"""Places beyond k: a search in float32 may misplace the last ones."""
_CHUNK = 4096


@dataclass(frozen=True)
class Network:
    """The rows of one block, near ones next to each other, and where walks go from each."""

    row: Int64
    """(row,) number in the block"""
    x: Float32
    """(row, feature)"""
    link: Int32
    """(row, most) rows, none twice; ABSENT at the end"""
    gate: Int64
    """(gate,) rows from which walks begin"""


def nearest_in_block(
    query: Float32, x: Float32, k: int, recall: float, listed: Int32 | None
) -> tuple[Int64, Float32]:
    """The k nearest rows of a block for each query: exactly, or where there are many of both by
    walks, as far as a share `recall` of the true neighbors takes. A list is short only where the
    block has fewer than k rows: a query whose walk finds too few is searched exactly.

    Other parameters and results are those of ``exact.nearest``.

    Parameters
    ----------
    listed : (row, any) neighbor lists of the rows of the block, ABSENT where there is none; None if
        not known
    """
    if recall >= 1.0 or listed is None or not walks_pay(len(query), len(x)):
        return nearest(query, x, k)
    with threadpool_limits(1, user_api="blas"):
        network = lay_out(x, listed)
        few = min(_TRIED, len(query))
        tried = query[np.linspace(0, len(query) - 1, few).astype(np.int64)]
        _, exact = nearest(tried, network.x, k)
        steps = max(4, k // 4)
        while row_recall(walk(tried, network, k, steps)[1], exact).mean() < recall:
            steps += steps // 2
            if steps > len(x) // _PAYS:
                return nearest(query, x, k)
        index, distance = walk(query, network, k, steps)
    short = np.flatnonzero(index[:, -1] == ABSENT)
    if len(short):
        index[short], distance[short] = nearest(query[short], x, k)
    return index, distance


def walks_pay(n_queries: int, n_rows: int) -> bool:
    """Whether walks to so many rows, all preparations counted, cost less than exact search."""
    return n_rows >= _FEWEST_ROWS and n_queries * _PAYS >= n_rows


def lay_out(x: Float32, listed: Int32) -> Network:
    """The network of a block."""
    order = spatial_order(x)
    place = np.append(np.argsort(order), ABSENT).astype(np.int32)  # ABSENT stays ABSENT
    index = place[listed[order]]
    lists = Found(index, np.empty((0, 0), np.float32), np.zeros(index.shape, np.uint8))  # no far
    forward = min(_LINKS, index.shape[1])
    joins = near(lists, forward, _LINKS // 2)
    drawn = np.random.default_rng(0).permutation(len(x))[: max(1, len(x) // _ROWS_PER_GATE)]
    return Network(order, np.ascontiguousarray(x[order]), joins.index, np.sort(drawn))


def walk(query: Float32, network: Network, k: int, steps: int) -> tuple[Int64, Float32]:
    """About the k nearest rows of each query: from the nearest gates, always to the neighbors of
    the nearest row not left yet, until the `steps` nearest rows met have been left.

    Parameters
    ----------
    query : (query, feature) float32, finite
    steps : at least 1

    Returns
    -------
    index : (query, k) int64 rows of the block, nearest first, ties by row; ABSENT where fewer were
        met
    distance : (query, k) float32, exact; inf where ABSENT
    """
    place = np.full((len(query), max(k, steps) + _SPARE), ABSENT, np.int32)
    scaled, unit = of_unit_size(network.x)
    asked = query if unit == 1.0 else query * np.float32(unit)
    gates = network.gate.astype(np.int32)
    at = scaled[gates]
    half = np.einsum("ij,ij->i", at, at) / np.float32(2.0)
    order = spatial_order(asked)
    for start in range(0, len(query), _CHUNK):
        some = order[start : start + _CHUNK]
        score = asked[some] @ at.T - half
        n_gates = min(_GATES, len(gates))
        first = np.argpartition(-score, n_gates - 1, axis=1)[:, :n_gates]
        _walk(asked, some, gates[first], scaled, network.link, steps, place)
    return rank_lists(query, network.x, place, network.row, k)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _apart(query: Float32, x: Float32) -> np.float32:
    d = np.float32(0.0)
    for f in range(len(x)):
        apart = query[f] - x[f]
        d += apart * apart
    return d


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _walk(
    query: Float32,
    order: Int64,
    first: Int32,
    x: Float32,
    link: Int32,
    steps: int,
    place: Int32,
) -> None:
    """Places of the nearest rows met by the queries named in `order`."""
    width = place.shape[1]
    far = np.empty(width, np.float32)
    left = np.empty(width, np.uint8)
    met = np.full(len(x), ABSENT, np.int32)
    for number in range(len(order)):
        q = order[number]
        index = place[q]
        far[:] = np.inf
        left[:] = 1
        row, turn = -1, 0
        while True:
            rows = first[number] if row < 0 else link[row]
            low = width
            for c in rows:
                prefetch(x, c)
            for c in rows:
                if c == ABSENT:
                    break
                if met[c] == number:
                    continue
                met[c] = number
                d = _apart(query[q], x[c])
                if d < far[width - 1]:
                    at = width - 1
                    while at > 0 and far[at - 1] > d:
                        far[at], index[at], left[at] = far[at - 1], index[at - 1], left[at - 1]
                        at -= 1
                    far[at], index[at], left[at] = d, c, 0
                    prefetch(link, c)
                    low = min(low, at)
            turn = min(turn, low)
            while turn < steps and left[turn] == 1:
                turn += 1
            if turn >= steps:
                break
            left[turn] = 1
            row = index[turn]
