"""Neighbor lists and their one merge, by (distance, lot), which makes the graph independent of the
order of blocks, of retries and of the number of workers: it commutes, associates and is idempotent.
Recall of approximate lists against exact ones, with an honest interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from pipeline.arrays import AnyArray, Float32, Float64, Floating, Int64, Integers
from pipeline.knn.lots import lot, lots

ABSENT = -1
"""Row of an empty place in a list; its distance is infinite and its label `no_label`."""
WIDTH = 1.5
"""Standard deviation of ``nearness``, in distances to the fifth neighbor."""


def nearness(distance: Floating) -> Float64:
    """(row, rank) weights of neighbors, nearest first, near ones more; 0 where the distance is
    infinite."""
    near = distance.astype(np.float64)
    there = np.isfinite(near)
    scale = np.maximum(near[:, min(4, near.shape[1] - 1)], 1e-12)[:, None]
    scale = np.where(np.isfinite(scale), scale, 1.0)
    weight = np.exp(-0.5 * (np.where(there, near, 0.0) / scale / WIDTH) ** 2) + 1e-3
    return np.asarray(np.where(there, weight, 0.0))


class Neighbors(NamedTuple):
    """Lists of neighbors, nearest first, ties by lot; empty places at the end."""

    row: Int64
    """(list, k) row numbers"""
    distance: Float32
    """(list, k) Euclidean"""
    label: Integers
    """(list, k) codes of the given labels of those rows"""

    def columns(self) -> dict[str, AnyArray]:
        """The lists by the names that a group gives them, `LISTED`."""
        return dict(zip(LISTED, self._asdict().values(), strict=True))


LISTED = ("neighbor", "distance", "neighbor_label")
"""Columns of a group that hold such lists, in this order."""


def no_label(dtype: np.dtype[Any]) -> int:
    """The code in empty places: `ABSENT`, or the greatest of an unsigned type."""
    return ABSENT if dtype.kind == "i" else int(np.iinfo(dtype).max)


def nothing(column: str, dtype: np.dtype[Any]) -> float:
    """What a column of lists, neighbor, distance or neighbor_label, has in empty places."""
    if column == "distance":
        return float("inf")
    return ABSENT if column == "neighbor" else no_label(dtype)


def empty(n_lists: int, k: int, label: npt.DTypeLike = np.int8) -> Neighbors:
    """Lists without any neighbor; `label` is the type of the codes."""
    kind = np.dtype(label)
    return Neighbors(
        np.full((n_lists, k), ABSENT, np.int64),
        np.full((n_lists, k), np.inf, np.float32),
        np.full((n_lists, k), no_label(kind), kind),
    )


def rank_in_group(group: Integers) -> Int64:
    """(item,) position of each item in its run of equal values; `group` must be sorted."""
    position = np.arange(len(group))
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else position
    lengths = np.diff(np.r_[starts, len(group)])
    return position - np.repeat(starts, lengths)


def select(group: Integers, row: Int64, distance: Float32, k: int) -> tuple[Int64, Int64]:
    """Of loose (group, row, distance) candidates, the k nearest distinct rows of each group.

    All arguments are (candidate,). A row offered twice to a group must have one distance.

    Returns
    -------
    chosen : (selected,) candidate numbers, sorted by group, distance, lot
    rank : (selected,) place of each in its group's list, below k
    """
    order = _order(group, row, distance)
    group, row = group[order], row[order]
    fresh = np.r_[True, (group[1:] != group[:-1]) | (row[1:] != row[:-1])][: len(order)]
    order, group = order[fresh], group[fresh]
    rank = rank_in_group(group)
    near = rank < k
    return order[near], rank[near]


def _order(group: Integers, row: Int64, distance: Float32) -> Int64:
    """`np.lexsort((lots(row), distance, group))`, by one sort of packed keys and one of ties.

    Bits of floats that are not negative order as the floats do.
    """
    key = (group.astype(np.uint64) << np.uint64(32)) | distance.view(np.uint32)
    order = np.argsort(key, kind="stable")
    key = key[order]
    same = key[1:] == key[:-1]
    tied = np.flatnonzero(np.r_[False, same] | np.r_[same, False])
    if len(tied):
        order[tied] = order[tied][np.lexsort((lots(row[order[tied]]), key[tied]))]
    return order


def merge(home: Integers, lists: Neighbors, n_homes: int) -> Neighbors:
    """One list for each home row from any number of lists for it.

    Parameters
    ----------
    home : (list,) number in [0, n_homes) of the row each list belongs to
    lists : (list, k)

    Returns
    -------
    (n_homes, k) lists; a home without any list is left empty.
    """
    merged = empty(n_homes, lists.row.shape[1], lists.label.dtype)
    _merge(home.astype(np.int64), *lists, *merged)
    return merged


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _merge(
    home: Int64,
    row: Int64,
    distance: Float32,
    label: Integers,
    to_row: Int64,
    to_distance: Float32,
    to_label: Integers,
) -> None:
    """Go through both lists at once, the one that comes and the one that is there; a row that is in
    both stands in one place."""
    k = row.shape[1]
    filled = np.zeros(len(to_row), np.int64)
    for p in range(len(home)):
        h = home[p]
        n, at = filled[h], 0
        for q in range(k):
            r, d = row[p, q], distance[p, q]
            if r == ABSENT:
                break
            while at < n and (
                to_distance[h, at] < d or (to_distance[h, at] == d and lot(to_row[h, at]) < lot(r))
            ):
                at += 1
            if at == k:
                break
            if at < n and to_row[h, at] == r:
                continue
            for later in range(min(n, k - 1), at, -1):
                to_row[h, later] = to_row[h, later - 1]
                to_distance[h, later] = to_distance[h, later - 1]
                to_label[h, later] = to_label[h, later - 1]
            to_row[h, at], to_distance[h, at], to_label[h, at] = r, d, label[p, q]
            n = min(n + 1, k)
        filled[h] = n


_Z = 1.959964


@dataclass(frozen=True)
class Recall:
    """Mean share of true neighbors found, over a random sample of rows."""

    value: float
    interval: tuple[float, float]
    """95 %"""
    n_rows: int


def row_recall(distance: Float32, exact_distance: Float32) -> Float64:
    """(row,) share of each row's true neighbors that its list holds.

    Distances are exact on both sides, so a listed row counts when it is no farther than the last
    true neighbor: which of several rows at one distance is listed makes no difference.

    Parameters
    ----------
    distance : (row, k) float32, inf where the list is short
    exact_distance : (row, k) float32, ascending
    """
    limit = exact_distance[:, -1:]
    hits: Float64 = (distance <= limit).sum(axis=1) / distance.shape[1]
    return hits


def summarize(recalls: Float64) -> Recall:
    """Mean and Wilson interval; the neighbors of a row are not independent, so the sample counts
    as its rows, or as more where the recalls of rows vary less than that.

    Parameters
    ----------
    recalls : (row,) in [0, 1], at least one
    """
    n = len(recalls)
    p = float(recalls.mean())
    variance = float(recalls.var(ddof=1)) if n > 1 else 0.0
    spread = variance + p * (1 - p) / n  # a small sample tells little of its own variance
    size = max(float(n), n * p * (1 - p) / spread) if spread > 0 else float(n)
    return Recall(p, wilson(p, size), n)


def wilson(share: float, size: float) -> tuple[float, float]:
    """95 % Wilson interval of a share of `size` > 0 independent rows."""
    center = (share + _Z**2 / (2 * size)) / (1 + _Z**2 / size)
    half = _Z / (1 + _Z**2 / size) * np.sqrt(share * (1 - share) / size + _Z**2 / (4 * size**2))
    low, high = float(center - half), float(center + half)
    return max(0.0, min(share, low)), min(1.0, max(share, high))
