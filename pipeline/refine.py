"""Neighbour lists made better and longer, by the neighbours of a row's neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.distance import Float32
from pipeline.merge import ABSENT

_LEAF_ROWS = 128
"""Rows that `spatial_order` leaves as they come."""
_SPREAD_ROWS = 64
"""Rows of a part from which the feature that it is cut along is chosen."""

Int32 = npt.NDArray[np.int32]


def spatial_order(x: Float32) -> npt.NDArray[np.int64]:
    """(row,) all rows, such that near ones tend to follow each other: each part is cut at the
    median of the feature that varies most.

    x : (row, feature) float32
    """
    parts, done = [np.arange(len(x))], []
    while parts:
        rows = parts.pop()
        if len(rows) <= _LEAF_ROWS:
            done.append(rows)
            continue
        some = x[rows[:: len(rows) // _SPREAD_ROWS]]
        feature = int(some.var(axis=0, dtype=np.float64).argmax())
        middle = len(rows) // 2
        order = np.argpartition(x[rows, feature], middle)
        parts += [rows[order[middle:]], rows[order[:middle]]]
    return np.concatenate(done)


def refine(x: Float32, index: Int32, width: int) -> Int32:
    """The nearest of each row's neighbours and their neighbours; to be one's neighbour is to list
    it or to be listed by it.

    Fast where near rows follow each other (`spatial_order`). Distances are of float32: the last
    places may go to rows that are a rounding error farther.

    Parameters
    ----------
    x : (row, feature) float32
    index : (row, any) int32 rows, each once in a list, ABSENT where there are none; the row itself
        is passed over
    width : length of the lists wanted

    Returns
    -------
    (row, width) int32, nearest first; ABSENT at the end where fewer were found
    """
    near, count = _both_ways(np.ascontiguousarray(index))
    found = np.full((len(x), width), ABSENT, np.int32)
    _nearest_of_near(x, near, count, found)
    return found


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _both_ways(index: Int32) -> tuple[Int32, Int32]:
    """(row, 2 k) each row's list, then as many rows again that list it without being listed, those
    that rank it first first; and how many (row,) they are."""
    n, k = index.shape
    near = np.empty((n, 2 * k), np.int32)
    own = np.zeros(n, np.int32)
    for i in range(n):
        for r in range(k):
            if index[i, r] != ABSENT and index[i, r] != i:
                near[i, own[i]] = index[i, r]
                own[i] += 1
    count = own.copy()
    for r in range(k):
        for i in range(n):
            j = index[i, r]
            if j in (ABSENT, i) or count[j] == own[j] + k:
                continue
            listed = False
            for s in range(own[j]):
                listed = listed or near[j, s] == i
            if not listed:
                near[j, count[j]] = i
                count[j] += 1
    return near, count


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def _nearest_of_near(x: Float32, near: Int32, count: Int32, found: Int32) -> None:
    """Fill the lists `found`; finite features only."""
    width = found.shape[1]
    seen = np.full(len(x), ABSENT, np.int32)
    candidate = np.empty(near.shape[1] * (near.shape[1] + 1) + 1, np.int32)
    far = np.empty(width, np.float32)
    for i in range(len(x)):
        seen[i] = i
        n_candidates = 0
        for h in range(count[i]):
            seen[near[i, h]] = i
            candidate[n_candidates] = near[i, h]
            n_candidates += 1
        for h in range(count[i]):
            j = near[i, h]
            for r in range(count[j]):
                c = near[j, r]
                candidate[n_candidates] = c  # overwritten if it was seen: a branch would cost more
                n_candidates += seen[c] != i
                seen[c] = i
        far[:] = np.inf
        for q in range(n_candidates):
            c = candidate[q]
            d = np.float32(0.0)
            for f in range(x.shape[1]):
                apart = x[i, f] - x[c, f]
                d += apart * apart
            if d < far[width - 1]:
                at = width - 1
                while at > 0 and far[at - 1] > d:
                    far[at] = far[at - 1]
                    found[i, at] = found[i, at - 1]
                    at -= 1
                far[at] = d
                found[i, at] = c
