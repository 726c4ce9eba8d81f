"""Neighbor lists and their one merge, by (distance, row), which makes the graph independent of the
order of blocks, of retries and of the number of workers: it commutes, associates and is idempotent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

ABSENT = -1
"""Row of an empty place in a list; its distance is infinite and its label `no_label`."""


class Neighbors(NamedTuple):
    """Lists of neighbors, nearest first, ties by row; empty places at the end."""

    row: npt.NDArray[np.int64]
    """(list, k) row numbers"""
    distance: npt.NDArray[np.float32]
    """(list, k) Euclidean"""
    label: npt.NDArray[np.integer]
    """(list, k) codes of the given labels of those rows"""


def no_label(dtype: np.dtype[Any]) -> int:
    """The code in empty places: `ABSENT`, or the greatest of an unsigned type."""
    return ABSENT if dtype.kind == "i" else int(np.iinfo(dtype).max)


def empty(n_lists: int, k: int, label: npt.DTypeLike = np.int8) -> Neighbors:
    """Lists without any neighbor; `label` is the type of the codes."""
    kind = np.dtype(label)
    return Neighbors(
        np.full((n_lists, k), ABSENT, np.int64),
        np.full((n_lists, k), np.inf, np.float32),
        np.full((n_lists, k), no_label(kind), kind),
    )


def rank_in_group(group: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """(item,) position of each item in its run of equal values; `group` must be sorted."""
    position = np.arange(len(group))
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else position
    lengths = np.diff(np.r_[starts, len(group)])
    return position - np.repeat(starts, lengths)


def select(
    group: npt.NDArray[np.integer[Any]],
    row: npt.NDArray[np.int64],
    distance: npt.NDArray[np.float32],
    k: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of loose (group, row, distance) candidates, the k nearest distinct rows of each group.

    All arguments are (candidate,). A row offered twice to a group must have one distance.

    Returns
    -------
    chosen : (selected,) candidate numbers, sorted by group, distance, row
    rank : (selected,) place of each in its group's list, below k
    """
    order = _order(group, row, distance)
    group, row = group[order], row[order]
    fresh = np.r_[True, (group[1:] != group[:-1]) | (row[1:] != row[:-1])][: len(order)]
    order, group = order[fresh], group[fresh]
    rank = rank_in_group(group)
    near = rank < k
    return order[near], rank[near]


def _order(
    group: npt.NDArray[np.integer[Any]],
    row: npt.NDArray[np.int64],
    distance: npt.NDArray[np.float32],
) -> npt.NDArray[np.int64]:
    """`np.lexsort((row, distance, group))`, by one sort of packed keys and a second of ties only.

    Bits of floats that are not negative order as the floats do.
    """
    key = (group.astype(np.uint64) << np.uint64(32)) | distance.view(np.uint32)
    order = np.argsort(key, kind="stable")
    key = key[order]
    same = key[1:] == key[:-1]
    tied = np.flatnonzero(np.r_[False, same] | np.r_[same, False])
    if len(tied):
        order[tied] = order[tied][np.lexsort((row[order[tied]], key[tied]))]
    return order


def merge(home: npt.NDArray[np.integer[Any]], lists: Neighbors, n_homes: int) -> Neighbors:
    """One list for each home row from any number of lists for it.

    Parameters
    ----------
    home : (list,) number in [0, n_homes) of the row each list belongs to
    lists : (list, k)

    Returns
    -------
    (n_homes, k) lists; a home without any list is left empty.
    """
    source = merge_order(home, lists.row, lists.distance, n_homes)
    merged = empty(n_homes, lists.row.shape[1], lists.label.dtype)
    there = source != ABSENT
    merged.row[there] = lists.row.ravel()[source[there]]
    merged.distance[there] = lists.distance.ravel()[source[there]]
    merged.label[there] = lists.label.ravel()[source[there]]
    return merged


def merge_order(
    home: npt.NDArray[np.integer[Any]],
    row: npt.NDArray[np.int64],
    distance: npt.NDArray[np.float32],
    n_homes: int,
) -> npt.NDArray[np.int64]:
    """(n_homes, k) where each place of the merged lists comes from: number of list times k plus
    rank, ABSENT where it stays empty. Arguments are those of `merge`."""
    k = row.shape[1]
    merged = np.full((n_homes, k), ABSENT, np.int64)
    nearest_row = np.full((n_homes, k), ABSENT, np.int64)
    nearest = np.full((n_homes, k), np.inf, np.float32)
    _merge(home.astype(np.int64), row, distance, merged, nearest_row, nearest)
    return merged


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _merge(
    home: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
    distance: npt.NDArray[np.float32],
    merged: npt.NDArray[np.int64],
    nearest_row: npt.NDArray[np.int64],
    nearest: npt.NDArray[np.float32],
) -> None:
    """Insert list after list; rows that are there already are found next to where they belong."""
    k = row.shape[1]
    for p in range(len(home)):
        h = home[p]
        for q in range(k):
            r, d = row[p, q], distance[p, q]
            if r == ABSENT:
                break
            at = k
            while at > 0 and (
                nearest_row[h, at - 1] == ABSENT
                or d < nearest[h, at - 1]
                or (d == nearest[h, at - 1] and r < nearest_row[h, at - 1])
            ):
                at -= 1
            if at == k:
                break
            if at > 0 and nearest_row[h, at - 1] == r:
                continue
            for later in range(k - 1, at, -1):
                nearest_row[h, later] = nearest_row[h, later - 1]
                nearest[h, later] = nearest[h, later - 1]
                merged[h, later] = merged[h, later - 1]
            nearest_row[h, at], nearest[h, at], merged[h, at] = r, d, p * k + q


def places(known: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Where each wanted number is among the known ones, which are distinct; ABSENT where it is not.

    known : (row,), at least 0
    wanted : any shape
    """
    place = np.empty(wanted.size, np.int32)
    _places(known, wanted.ravel(), place)
    return place.reshape(wanted.shape)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _places(
    known: npt.NDArray[np.int64],
    wanted: npt.NDArray[np.int64],
    place: npt.NDArray[np.int32],
) -> None:
    """By a table of open addresses, twice as long as there are numbers."""
    bits = 1
    while 1 << bits < 2 * len(known):
        bits += 1
    shift, mask = np.uint64(64 - bits), np.int64((1 << bits) - 1)
    factor = np.uint64(0x9E3779B97F4A7C15)
    table = np.full(1 << bits, ABSENT, np.int32)
    for p in range(len(known)):
        at = np.int64((np.uint64(known[p]) * factor) >> shift)
        while table[at] != ABSENT:
            at = (at + 1) & mask
        table[at] = p
    for q in range(len(wanted)):
        number = wanted[q]
        at = np.int64((np.uint64(number) * factor) >> shift)
        while table[at] != ABSENT and known[table[at]] != number:
            at = (at + 1) & mask
        place[q] = table[at]


def distinct(row: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The different numbers in an array of any shape, ascending; `ABSENT` is none."""
    table = np.full(1 << 10, ABSENT, np.int64)
    flat, done = row.ravel(), 0
    while True:
        done = _gather(flat, done, table)
        found = table[table != ABSENT]
        if done == len(flat):
            return np.sort(found)
        table = np.full(4 * len(table), ABSENT, np.int64)
        _gather(found, 0, table)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gather(row: npt.NDArray[np.int64], start: int, table: npt.NDArray[np.int64]) -> int:
    """Put numbers from `start` on into a table of open addresses until half of it is full; up to
    which number."""
    bits = 1
    while 1 << bits < len(table):
        bits += 1
    shift, mask = np.uint64(64 - bits), np.int64(len(table) - 1)
    factor, n = np.uint64(0x9E3779B97F4A7C15), (table != ABSENT).sum()
    for q in range(start, len(row)):
        number = row[q]
        if number == ABSENT:
            continue
        at = np.int64((np.uint64(number) * factor) >> shift)
        while table[at] != ABSENT and table[at] != number:
            at = (at + 1) & mask
        if table[at] == ABSENT:
            if 2 * n == len(table):
                return q
            table[at], n = number, n + 1
    return len(row)
