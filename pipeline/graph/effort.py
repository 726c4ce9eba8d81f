"""Neighbor lists of a block, made with as little work as reaches a recall, by some of its rows."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Float32, Float64, Int32, Int64
from pipeline.graph.carving import carve
from pipeline.graph.local_join import (
    SPARE,
    GrowingLists,
    join_all,
    join_cells,
    join_groups,
    join_near,
    near,
)
from pipeline.knn.distance import rank_lists
from pipeline.knn.exact import nearest
from pipeline.knn.lists import row_recall
from pipeline.knn.quantized import Quantized
from pipeline.knn.threads import ALONE, Threads

_TRIED, _TRIED_SHARE = (256, 2048), 1e-3
"""Rows searched exactly to measure a block's recall: at least, at most, and the share between."""
_CELL_ROWS, _LARGE_CELL_ROWS = 256, 1024
"""Rows of a cell at most: of data of few dimensions, and of many."""
_GROUP_ROWS = 64
"""Rows of a group, whose lists are joined together, at most."""
_LOOK = 3
"""Carvings after which the share of neighbors found tells whether dimensions are few or many."""
_LOW_RECALL = 0.35
"""Share found by `_LOOK` carvings below which cells are made large and lists long."""
_HIGH_RECALL = 0.6
"""Share found from which on neighbors of neighbors find more than another carving does."""
_CARVINGS, _PASSES = 8, 8
"""Carvings, and joins of neighbors of neighbors, at most."""
_STALLED = 0.6
"""Part of the missing recall: a pass that leaves more of it is followed by one of longer lists."""
_GROWN, _MOST_GROWN = 1.5, 3
"""Factor by which the joined part of lists grows each time, and at most in all."""
_SHARES = (0.45, 0.7, 1.0, 1.2, 1.45)
"""Joined parts of lists that are tried, over the base; the shortest that finds enough is taken."""
_LEFT = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Shares of the rows, those of the nearest neighbors, that the last pass may leave out, in turn."""
_SURE = 2.0
"""Standard errors by which recall has to exceed the one wanted for rows to be left out."""
_FINE = 2.0**-12
"""Distance of neighbors, over the spread of a block, below which float32 is too coarse."""


@dataclass(frozen=True)
class Sample:
    """Some rows of a block and the distances of their exact neighbors."""

    rows: Int64
    distance: Float32
    """(row, k) ascending"""
    fine: bool
    """Whether neighbors are so near, for the size of the block, that float32 is too coarse."""

    @classmethod
    def of(cls, x: Float32, k: int, threads: Threads) -> Sample:
        """Evenly spread rows of a block in spatial order."""
        size = int(np.clip(_TRIED_SHARE * len(x), *_TRIED))
        rows = np.linspace(0, len(x) - 1, min(size, len(x))).astype(np.int64)
        distance = distances_to_nearest(x, rows, k, threads)
        center = x.mean(axis=0)
        spread = float(np.maximum(x.max(axis=0) - center, center - x.min(axis=0)).max(initial=0.0))
        fine = bool(np.quantile(distance[:, -1], 0.1) < _FINE * spread)
        if fine:
            _, distance = nearest(x[rows], x, k, exclude=rows)
        return cls(rows, distance, fine)

    def recall(self, x: Float32, lists: GrowingLists, k: int) -> Float64:
        """(row,) share of their k nearest that the lists of the sampled rows have."""
        place = np.arange(len(x))
        _, distance = rank_lists(x[self.rows], x, lists.index, place, k)
        return row_recall(distance, self.distance[:, :k])


def distances_to_nearest(x: Float32, rows: Int64, k: int, threads: Threads) -> Float32:
    """(row, k) ascending distances of some rows of a block to their nearest others, by float32."""
    lists = GrowingLists.none(len(rows), k + 4 * SPARE)
    join_all(x, rows, lists, threads)
    return rank_lists(x[rows], x, lists.index, np.arange(len(x)), k)[1]


def lists_of_recall(
    x: Float32, k: int, recall: float, seed: int, threads: Threads = ALONE
) -> Int32:
    """Lists that hold the share `recall` of true neighbors, as measured on some rows; or as many
    as passes over the longest lists find.

    For data of few dimensions, carvings into cells find most neighbors; then groups of near rows
    and the neighbors of neighbors find the rest. Data of many dimensions are carved into large
    cells; neighbors of neighbors follow (nearest-neighbor descent), those of longer lists where
    recall is low and grows slowly.

    Parameters
    ----------
    x : (row, feature) float32, in spatial order, squares within float32
    k : neighbors wanted, fewer than rows
    seed : of the carvings
    threads : no part of what is found

    Returns
    -------
    (row, any) int32, at least k + 2 unless there are fewer rows; nearest first by float32
    """
    sample = Sample.of(x, k, threads)
    lists, share = _carved(x, k, recall, seed, sample, threads)
    base = min(lists.index.shape[1], max(k, base_length(k)))
    near_by = float(np.median(sample.distance[:, -1]))
    quantized = Quantized.none(len(x)) if sample.fine else Quantized.of(x, near_by, threads)
    lists = lists.widened(k + SPARE, threads)
    tried = partial(_tried, x, quantized, k=k, recall=recall, sample=sample, threads=threads)
    join = tried(lists, base, base)
    if share >= _HIGH_RECALL and join.recall < recall:
        groups = carve(x, _GROUP_ROWS, seed + _CARVINGS, threads)
        join_groups(x, groups, base // 2, base // 4, lists, threads)
        join = tried(lists, base, base)
    missing, longest = 1.0, _MOST_GROWN * base
    for _ in range(_PASSES):
        neighbors = near(lists, join.forward, join.forward // 2, threads=threads)
        rows = np.flatnonzero(lists.far[:, k - 1] >= join.beyond)
        join_near(x, quantized, neighbors, rows, lists, threads)
        if join.recall >= recall:
            break
        if 1.0 - join.recall > _STALLED * missing:
            if base >= longest:
                break
            base = min(round(_GROWN * base), longest)
            lists = lists.widened(base, threads)
        missing = 1.0 - join.recall
        join = tried(lists, base, lists.index.shape[1])
    return lists.index


def _carved(
    x: Float32, k: int, recall: float, seed: int, sample: Sample, threads: Threads
) -> tuple[GrowingLists, float]:
    """Short lists from as many carvings as pay, and the share of the nearest that they have."""
    width, cell_rows = base_length(k), _CELL_ROWS
    lists = GrowingLists.none(len(x), width, threads)
    share = 0.0
    for number in range(_CARVINGS):
        join_cells(x, carve(x, cell_rows, seed + number, threads), lists, threads)
        if number + 1 < _LOOK:
            continue
        share = float(sample.recall(x, lists.of(sample.rows), min(width, k)).mean())
        if number + 1 == _LOOK and share < _LOW_RECALL:
            cell_rows = _LARGE_CELL_ROWS
            lists = lists.widened(k + SPARE, threads)
        if share >= min(_HIGH_RECALL, recall):
            break
    return lists, share


def base_length(k: int) -> int:
    """Length of lists from which neighbors of neighbors are joined."""
    return 12 + -(-k // 3)


class _Join(NamedTuple):
    """A join of neighbors' neighbors, as it went on the sampled rows."""

    forward: int
    """How many neighbors of each list it takes."""
    recall: float
    """What it reaches, a standard error below the sample's mean."""
    beyond: float
    """Squared distance of the k-th neighbor below which rows, of dense places, need no join."""


def _tried(
    x: Float32,
    quantized: Quantized,
    growing: GrowingLists,
    base: int,
    longest: int,
    *,
    k: int,
    recall: float,
    sample: Sample,
    threads: Threads,
) -> _Join:
    """The shortest join of the first neighbors of lists, at most `longest`, that reaches a recall
    on the sampled rows; that of `base` where none does."""

    @cache
    def joined(forward: int) -> Float64:
        lists = growing.of(sample.rows)
        neighbors = near(growing, forward, forward // 2, sample.rows, threads)
        join_near(x, quantized, neighbors, sample.rows, lists, threads)
        return sample.recall(x, lists, k)

    def enough(forward: int) -> bool:
        return _surely(joined(forward)) >= recall

    lengths = sorted({min(round(share * base), longest) for share in _SHARES})
    middle = lengths.index(base)
    half = (0, middle) if enough(base) else (middle + 1, len(lengths))
    at = bisect_left(lengths, True, *half, key=enough)
    if at == len(lengths):
        return _Join(base, _surely(joined(base)), 0.0)
    forward, after = lengths[at], joined(lengths[at])
    before, far = sample.recall(x, growing.of(sample.rows), k), growing.far[sample.rows, k - 1]
    for left in _LEFT:
        beyond = float(np.quantile(far, left, method="lower"))
        if _surely(np.where(far < beyond, before, after), _SURE) >= recall:
            return _Join(forward, _surely(after), beyond)
    return _Join(forward, _surely(after), 0.0)


def _surely(recalls: Float64, errors: float = 1.0) -> float:
    """The mean recall less so many standard errors."""
    return float(recalls.mean() - errors * recalls.std() / np.sqrt(len(recalls)))
