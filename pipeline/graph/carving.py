"""Rows carved into small cells of near rows: again and again to the nearest of random leaders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.knn.distance import Float32

_LEADERS = 64
"""Leaders of one division, at most."""
_SPARE = 1.6
"""Leaders of the last division, over the fewest that could do: cells are uneven."""
_CHUNK = 512
"""Rows compared with the leaders by one matrix product."""

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Cells(NamedTuple):
    """Rows in the order of their cells."""

    row: Int32
    """(row,) row numbers, cell after cell; near cells tend to follow each other"""
    start: Int64
    """(cell + 1,) place in `row` where each cell begins, and the end"""


def carve(x: Float32, cell_rows: int, seed: int) -> Cells:
    """Cells of at most `cell_rows` rows, about half as many on average.

    Each division draws leaders among its rows and gives every row to the nearest leader. Rows that
    coincide, which no leader tells apart, are divided by halves. Distances are of float32: which
    of two leaders at nearly the same distance takes a row is left to rounding, and no result may
    depend on it.

    Parameters
    ----------
    x : (row, feature) float32, finite, squares within float32
    cell_rows : at least 1
    seed : of the leaders, at least 0
    """
    row = np.arange(len(x), dtype=np.int32)
    return Cells(row, _carve(np.ascontiguousarray(x), row, cell_rows, np.uint64(seed)))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})  # type: ignore[untyped-decorator]
def _carve(x: Float32, row: Int32, cell_rows: int, seed: np.uint64) -> Int64:
    """Put `row` in order; where cells begin."""
    state = seed + np.uint64(1)
    n, d = x.shape
    ordered, cell = np.empty(n, np.int32), np.empty(n, np.int32)
    part = np.empty((_CHUNK, d), np.float32)
    leader, half = np.empty((_LEADERS, d), np.float32), np.empty(_LEADERS, np.float32)
    product = np.empty(_CHUNK * _LEADERS, np.float32)
    start = [np.int64(0)]
    waiting = [(np.int64(0), np.int64(n))]
    while len(waiting):
        a, b = waiting.pop()
        size = b - a
        if size <= cell_rows:
            start.append(b)
            continue
        k = min(_LEADERS, max(2, int(np.ceil(size * _SPARE / cell_rows))))
        for q in range(k):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            r = row[a + np.int64((state >> np.uint64(33)) % np.uint64(size))]
            square = np.float32(0.0)
            for f in range(d):
                leader[q, f] = x[r, f]
                square += x[r, f] * x[r, f]
            half[q] = square * np.float32(0.5)
        count = np.zeros(k + 1, np.int64)
        for u in range(a, b, _CHUNK):
            size_here = min(_CHUNK, int(b) - u)
            for p in range(size_here):
                r = row[u + p]
                for f in range(d):
                    part[p, f] = x[r, f]
            score = product[: size_here * k].reshape(size_here, k)
            np.dot(part[:size_here], leader[:k].T, score)
            for p in range(size_here):
                best, nearest = score[p, 0] - half[0], 0
                for q in range(1, k):
                    if score[p, q] - half[q] > best:
                        best, nearest = score[p, q] - half[q], q
                cell[u + p] = nearest
                count[nearest + 1] += 1
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
    return np.array(start)
