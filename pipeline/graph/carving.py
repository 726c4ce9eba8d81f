"""Rows carved into small cells of near rows: again and again to the nearest of random leaders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pipeline.arrays import Float32, Int32, Int64, UInt64
from pipeline.knn.threads import ALONE, Threads

_LEADERS = 64
"""Leaders of one division, at most."""
_SPARE = 1.6
"""Leaders of the last division, over the fewest that could do: cells are uneven."""
_CHUNK = 512
"""Rows compared with the leaders by one matrix product."""
_PIECE_ROWS = 16 * _CHUNK
"""Rows that one thread compares with the first leaders: whole products."""
_APART = np.uint64(0x9E3779B97F4A7C15)
"""Between the states from which the parts of the first division draw their leaders."""


class Cells(NamedTuple):
    """Rows in the order of their cells."""

    row: Int32
    """(row,) row numbers, cell after cell; near cells tend to follow each other"""
    start: Int64
    """(cell + 1,) place in `row` where each cell begins, and the end"""


def carve(x: Float32, cell_rows: int, seed: int, threads: Threads = ALONE) -> Cells:
    """Cells of at most `cell_rows` rows, about half as many on average.

    Each division draws leaders among its rows and gives every row to the nearest leader. Rows that
    coincide, which no leader tells apart, are divided by halves. Distances are of float32: which
    of two leaders at nearly the same distance takes a row is left to rounding, and no result may
    depend on it. The parts of the first division are carved each by itself, on several threads.

    Parameters
    ----------
    x : (row, feature) float32, finite, squares within float32
    cell_rows : at least 1
    seed : of the leaders, at least 0
    """
    x, state = np.ascontiguousarray(x), np.array([seed + 1], np.uint64)
    row, bound = _divided(x, cell_rows, state, threads)
    states = state + np.arange(len(bound), dtype=np.uint64) * _APART
    inner: list[Int64] = [np.empty(0, np.int64)] * (len(bound) - 1)

    def within(part: int, _: int) -> None:
        a, b = bound[part], bound[part + 1]
        inner[part] = a + _carve(x, row[a:b], cell_rows, states[part : part + 1])

    threads.over(len(inner), within, piece=1)
    return Cells(row, np.concatenate([[0], *inner]))


def _divided(x: Float32, cell_rows: int, state: UInt64, threads: Threads) -> tuple[Int32, Int64]:
    """Rows in the order of the parts of the first division, and where each part begins."""
    row = np.arange(len(x), dtype=np.int32)
    if len(x) <= cell_rows:
        return row, np.array([0, len(x)])
    leader, half = _leaders(x, row, cell_rows, state)
    cell = np.empty(len(x), np.int32)
    threads.over(
        len(x), lambda a, b: _nearest_leader(x, row[a:b], leader, half, cell[a:b]), _PIECE_ROWS
    )
    size = np.bincount(cell)
    if size.max() < len(x):
        row = np.argsort(cell.astype(np.uint8), kind="stable").astype(np.int32)  # by counting
        return row, np.concatenate([[0], np.cumsum(size[size > 0])])
    return row, np.array([0, len(x) // 2, len(x)])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _leaders(x: Float32, row: Int32, cell_rows: int, state: UInt64) -> tuple[Float32, Float32]:
    """Rows drawn among some, and half of their squares; `state` moves on."""
    k = min(_LEADERS, max(2, int(np.ceil(len(row) * _SPARE / cell_rows))))
    leader, half = np.empty((k, x.shape[1]), np.float32), np.empty(k, np.float32)
    for q in range(k):
        state[0] = state[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        r = row[np.int64((state[0] >> np.uint64(33)) % np.uint64(len(row)))]
        square = np.float32(0.0)
        for f in range(x.shape[1]):
            leader[q, f] = x[r, f]
            square += x[r, f] * x[r, f]
        half[q] = square * np.float32(0.5)
    return leader, half


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _nearest_leader(x: Float32, row: Int32, leader: Float32, half: Float32, cell: Int32) -> None:
    """The number of the leader that each row is nearest to."""
    k, d = leader.shape
    part = np.empty((min(_CHUNK, len(row)), d), np.float32)
    product = np.empty(len(part) * k, np.float32)
    for u in range(0, len(row), _CHUNK):
        size = min(_CHUNK, len(row) - u)
        for p in range(size):
            part[p] = x[row[u + p]]
        score = product[: size * k].reshape(size, k)
        np.dot(part[:size], leader.T, score)
        for p in range(size):
            best, nearest = score[p, 0] - half[0], 0
            for q in range(1, k):
                if score[p, q] - half[q] > best:
                    best, nearest = score[p, q] - half[q], q
            cell[u + p] = nearest


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _carve(x: Float32, row: Int32, cell_rows: int, state: UInt64) -> Int64:
    """Put `row` in order; where cells end."""
    n = len(row)
    ordered, cell = np.empty(n, np.int32), np.empty(n, np.int32)
    ends = [np.int64(0)]
    waiting = [(np.int64(0), np.int64(n))]
    while len(waiting):
        a, b = waiting.pop()
        size = b - a
        if size <= cell_rows:
            ends.append(b)
            continue
        leader, half = _leaders(x, row[a:b], cell_rows, state)
        _nearest_leader(x, row[a:b], leader, half, cell[a:b])
        k = len(leader)
        count = np.zeros(k + 1, np.int64)
        for u in range(a, b):
            count[cell[u] + 1] += 1
        if count.max() == size:
            middle = np.int64(a + size // 2)
            waiting.append((middle, b))
            waiting.append((a, middle))
            continue
        for q in range(k):
            count[q + 1] += count[q]
        place = count[:-1].copy()
        for u in range(a, b):
            q = cell[u]
            ordered[a + place[q]] = row[u]
            place[q] += 1
        row[a:b] = ordered[a:b]
        for q in range(k - 1, -1, -1):
            if count[q + 1] > count[q]:
                waiting.append((a + count[q], a + count[q + 1]))
    return np.array(ends[1:])
