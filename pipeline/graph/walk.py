"""Search for a query's nearest rows in a block, by walks over the graph of the block's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Float32, Int32, Int64, Integers
from pipeline.graph.build import of_unit_size, spatial_order
from pipeline.graph.local_join import SPARE, GrowingLists, near
from pipeline.knn.distance import prefetch, rank_lists
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT

LINKS = 20
"""First neighbors of a row's list that a walk follows, beside half as many rows that list it."""
_ROWS_PER_GATE = 256
"""Rows of a block per row that is drawn for walks to begin at."""
_GATES = 4
"""Nearest rows, of those drawn, from which a walk begins."""
_FEWEST_ROWS = 4096
"""Rows below which a block is searched exactly, however many the queries are."""
_RUNGS = 20
"""Numbers of steps that are tried."""


@dataclass(frozen=True)
class Network:
    """The rows of one block, near ones next to each other, and where walks go from each."""

    order: Int64
    """(row,) number in the block of each place"""
    x: Float32
    """(place, feature)"""
    link: Int32
    """(place, most) places, none twice; ABSENT at the end"""
    gate: Int64
    """(gate,) places from which walks begin"""

    @cached_property
    def scaled(self) -> tuple[Float32, float]:
        """The rows as walks compare them, and what they were multiplied by."""
        return of_unit_size(self.x)


def walkable(n_rows: int, k: int) -> bool:
    """Whether a block of so many rows is walked to find k of them; other queries do not matter, so
    that each finds the same rows in whatever company."""
    return n_rows >= max(_FEWEST_ROWS, k + 1)


def efforts(k: int) -> list[int]:
    """How far walks may go, ascending: numbers of steps to try."""
    steps = [max(4, k // 4)]
    while len(steps) < _RUNGS:
        steps.append(steps[-1] + steps[-1] // 4)
    return steps


def nearest_in_block(
    query: Float32, x: Float32, network: Network, k: int, steps: int
) -> tuple[Int64, Float32]:
    """About the k nearest rows of a block for each query, by walks of `steps`. A list is short only
    where the block has fewer than k rows: a query whose walk finds too few is searched exactly.

    Other parameters and results are those of ``exact.nearest``; what a query gets does not depend
    on the others.

    Parameters
    ----------
    network : of these rows
    steps : at least 1
    """
    index, distance = walk(query, network, k, steps)
    short = np.flatnonzero(index[:, -1] == ABSENT)
    if len(short):
        index[short], distance[short] = nearest(query[short], x, k)
    return index, distance


def met_by_effort(
    query: Float32,
    network: Network,
    true_distance: Float32,
    listed: Bools,
    own: Int64,
    steps: Sequence[int],
    most: float,
) -> Int64:
    """How many true neighbors in a block are met by walks of so many steps; a query that is a row
    of the block is left out of its own walk.

    Parameters
    ----------
    true_distance : (query, k) float32, ascending: to the k nearest rows anywhere
    listed : (query, k) which of them are in this block
    own : (query,) row of the block that the query is, ABSENT for none
    steps : ascending
    most : share of the listed neighbors from which on more steps are not tried; they are taken to
        meet as many as the last ones did

    Returns
    -------
    (step,) int64, of `listed.sum()`
    """
    n_listed, k = listed.sum(axis=1), listed.shape[1]
    place = np.append(np.argsort(network.order), ABSENT)
    met: list[int] = []
    for effort in steps:
        if not met or met[-1] < most * n_listed.sum():
            distance = walk(query, network, k, effort, place[own])[1]
            within = (distance <= true_distance[:, -1:]).sum(axis=1)
            met.append(int(np.minimum(within, n_listed).sum()))
        else:
            met.append(met[-1])
    return np.array(met, np.int64)


def links(x: Float32, listed: Int32) -> tuple[Int64, Int32]:
    """The order and the links of a network, which are what is kept of it.

    Parameters
    ----------
    x : (row, feature) float32, finite
    listed : (row, any) neighbor lists of the rows of the block, ABSENT where there is none
    """
    order = spatial_order(x)
    place = np.append(np.argsort(order), ABSENT).astype(np.int32)  # ABSENT stays ABSENT
    index = place[listed[order]]
    lists = GrowingLists(
        index, np.empty((0, 0), np.float32), np.zeros(index.shape, np.uint8)
    )  # no far
    forward = min(LINKS, index.shape[1])
    return order, near(lists, forward, LINKS // 2).index


def network_of(x: Float32, order: Integers, link: Int32) -> Network:
    """The network of rows whose order and links are known."""
    drawn = np.random.default_rng(0).permutation(len(x))[: max(1, len(x) // _ROWS_PER_GATE)]
    rows = order.astype(np.int64)
    return Network(rows, np.ascontiguousarray(x[rows]), link, np.sort(drawn))


def walk(
    query: Float32, network: Network, k: int, steps: int, left_out: Int64 | None = None
) -> tuple[Int64, Float32]:
    """About the k nearest rows of each query. A walk begins at the nearest gates and goes on to the
    neighbors of the nearest row met that it has not left yet, until it has left the `steps` nearest
    rows met.

    Parameters
    ----------
    query : (query, feature) float32, finite
    steps : at least 1
    left_out : (query,) one place of the network that is not met, ABSENT for none

    Returns
    -------
    index : (query, k) int64 rows of the block, nearest first, ties by lot; ABSENT where fewer were
        met
    distance : (query, k) float32, exact; inf where ABSENT
    """
    place = np.full((len(query), max(k, steps) + SPARE), ABSENT, np.int32)
    scaled, unit = network.scaled
    point = query if unit == 1.0 else query * np.float32(unit)
    gates = network.gate.astype(np.int32)
    unmet = np.full(len(query), ABSENT, np.int64) if left_out is None else left_out
    order = spatial_order(point)
    n_first = min(_GATES, len(gates))
    _walk(point, order, unmet, gates, scaled[gates], n_first, scaled, network.link, steps, place)
    return rank_lists(query, network.x, place, network.order, k)


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
    left_out: Int64,
    gate: Int32,
    door: Float32,
    n_first: int,
    x: Float32,
    link: Int32,
    steps: int,
    place: Int32,
) -> None:
    """Places of the nearest rows met by the queries named in `order`; `door` are the features of
    the gates."""
    width = place.shape[1]
    far = np.empty(width, np.float32)
    left = np.empty(width, np.uint8)
    met = np.full(len(x), ABSENT, np.int32)
    first = np.empty(n_first, np.int32)
    reach = np.empty(n_first, np.float32)
    for number in range(len(order)):
        q = order[number]
        index = place[q]
        far[:] = np.inf
        left[:] = 1
        if left_out[q] != ABSENT:
            met[left_out[q]] = number
        first[:] = gate[:n_first]
        reach[:] = np.inf
        for g in range(len(gate)):
            d = _apart(query[q], door[g])
            if d < reach[n_first - 1]:
                at = n_first - 1
                while at > 0 and reach[at - 1] > d:
                    reach[at], first[at] = reach[at - 1], first[at - 1]
                    at -= 1
                reach[at], first[at] = d, gate[g]
        row, turn = -1, 0
        while True:
            rows = first if row < 0 else link[row]
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
