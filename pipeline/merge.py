"""Neighbour lists and their one merge, by (distance, row), which makes the graph independent of the
order of blocks, of retries and of the number of workers: it commutes, associates and is idempotent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ABSENT = -1
"""Row of an empty place in a list; its distance is infinite and its label `ABSENT` too."""


class Neighbours(NamedTuple):
    """Lists of neighbours, nearest first, ties by row; empty places at the end."""

    row: npt.NDArray[np.int64]
    """(list, k) row numbers"""
    distance: npt.NDArray[np.float32]
    """(list, k) Euclidean"""
    label: npt.NDArray[np.int8]
    """(list, k) given labels of those rows"""


def empty(n_lists: int, k: int) -> Neighbours:
    """Lists without any neighbour."""
    return Neighbours(
        np.full((n_lists, k), ABSENT, np.int64),
        np.full((n_lists, k), np.inf, np.float32),
        np.full((n_lists, k), ABSENT, np.int8),
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


def merge(home: npt.NDArray[np.integer[Any]], lists: Neighbours, n_homes: int) -> Neighbours:
    """One list for each home row from any number of lists for it.

    Parameters
    ----------
    home : (list,) number in [0, n_homes) of the row each list belongs to
    lists : (list, k)

    Returns
    -------
    (n_homes, k) lists; a home without any list is left empty.
    """
    k = lists.row.shape[1]
    merged = empty(n_homes, k)
    single = np.bincount(home, minlength=n_homes)[home] == 1
    merged.row[home[single]] = lists.row[single]
    merged.distance[home[single]] = lists.distance[single]
    merged.label[home[single]] = lists.label[single]
    several = Neighbours(*(column[~single] for column in lists))
    there = several.row.ravel() != ABSENT
    group = np.repeat(home[~single], k)[there]
    row, distance, label = (column.ravel()[there] for column in several)
    chosen, rank = select(group, row, distance, k)
    place = group[chosen], rank
    merged.row[place], merged.distance[place] = row[chosen], distance[chosen]
    merged.label[place] = label[chosen]
    return merged
