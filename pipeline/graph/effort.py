"""How much effort the lists of one block take: chosen by recall measured on some of its rows."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from pipeline.arrays import Float32, Float64, Int32, Int64
from pipeline.graph.carving import carve
from pipeline.graph.local_join import (
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
"""Rows searched exactly to measure the recall of a block: the fewest and the most, and between."""
_SPARE = 2
"""Places beyond k: a search in float32 may misplace the last ones."""
_CELL_ROWS, _LARGE_CELL_ROWS = 256, 1024
"""Rows of a cell at most: of data of few dimensions, and of many."""
_GROUP_ROWS = 64
_LOOK = 3
"""Carvings after which the share found tells how many dimensions the data have."""
_LOW_RECALL = 0.35
"""Share found by `_LOOK` carvings below which cells are made large and lists long."""
_HIGH_RECALL = 0.6
"""Share found from which neighbors of neighbors find more than another carving does."""
_CARVINGS, _PASSES = 8, 8
"""The most of each."""
_STALLED = 0.6
"""A pass that leaves more than this of what was missing is followed by one of longer lists."""
_GROWN, _MOST_GROWN = 1.5, 3
"""Growth of what is joined of a list each time, and in all: nothing longer is tried."""
_SHARES = (0.45, 0.7, 1.0, 1.2, 1.45)
"""Lengths by which neighbors are joined, over the base: the least that finds enough is taken."""
_LEFT = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Shares of the rows, those with the nearest neighbors, that the last pass may leave out."""
_SURE = 2.0
"""Standard errors above the recall wanted from which they are left out."""
_FINE = 2.0**-12
"""Neighbor distance, in spreads of a block, below which float32 products tell too little."""


@dataclass(frozen=True)
class Sample:
    """Some rows of a block and the distances of their exact neighbors."""

    rows: Int64
    distance: Float32
    """(row, k) ascending"""
    fine: bool
    """Whether neighbors are so near, for the size of the block, that float32 has to be spared."""

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
        """(row,) share of the k nearest in the lists of the sampled rows."""
        place = np.arange(len(x))
        _, distance = rank_lists(x[self.rows], x, lists.index, place, k)
        return row_recall(distance, self.distance[:, :k])


def distances_to_nearest(x: Float32, rows: Int64, k: int, threads: Threads) -> Float32:
    """(row, k) ascending distances of some rows of a block to their nearest others, which are found
    by float32 products."""
    lists = GrowingLists.none(len(rows), k + 4 * _SPARE)
    join_all(x, rows, lists, threads)
    return rank_lists(x[rows], x, lists.index, np.arange(len(x)), k)[1]


def lists_of_recall(
    x: Float32, k: int, recall: float, seed: int, threads: Threads = ALONE
) -> Int32:
    """Lists that hold the share `recall` of true neighbors, as measured on some rows; or as many
    as passes over the longest lists find.

    Carvings into cells find most neighbors of data of few dimensions; then groups of near rows and
    the neighbors of neighbors find the rest. Data of many dimensions are carved into large cells,
    and joins of neighbors of neighbors follow, nearest-neighbor descent, of longer lists where the
    recall is far and nears slowly.

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
    quantized = _quantized(x, sample, threads)
    lists = lists.widened(k + _SPARE, threads)
    tried = partial(_tried, x, quantized, k=k, recall=recall, sample=sample, threads=threads)
    forward, reached, beyond = tried(lists, base, base)
    if share >= _HIGH_RECALL and reached < recall:
        forward = base // 2
        groups = carve(x, _GROUP_ROWS, seed + _CARVINGS, threads)
        join_groups(x, groups, forward, forward // 2, lists, threads)
        forward, reached, beyond = tried(lists, base, base)
    missing, longest = 1.0, _MOST_GROWN * base
    for _ in range(_PASSES):
        joined = near(lists, forward, forward // 2, threads=threads)
        rows = np.flatnonzero(lists.far[:, k - 1] >= beyond)
        join_near(x, quantized, joined, rows, lists, threads)
        if reached >= recall:
            break
        if 1.0 - reached > _STALLED * missing:
            if base >= longest:
                break
            base = min(round(_GROWN * base), longest)
            lists = lists.widened(base, threads)
        missing = 1.0 - reached
        forward, reached, beyond = tried(lists, base, lists.index.shape[1])
    return lists.index


def _carved(
    x: Float32, k: int, recall: float, seed: int, sample: Sample, threads: Threads
) -> tuple[GrowingLists, float]:
    """Short lists from as many carvings as pay, and the share found of the nearest."""
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
            lists = lists.widened(k + _SPARE, threads)
        if share >= min(_HIGH_RECALL, recall):
            break
    return lists, share


def base_length(k: int) -> int:
    """Length of lists before they are joined by neighbors of neighbors: what these find is near."""
    return 12 + -(-k // 3)


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
) -> tuple[int, float, float]:
    """How many neighbors of a list, up to `longest`, the least join of neighbors' neighbors takes
    that reaches a recall, tried on the sampled rows, or `base`; the recall it reaches, a standard
    error below the sample's; and the squared distance of the k-th neighbor from which on rows have
    to be joined for it: lists of rows in dense places are the best."""

    @cache
    def joined(forward: int) -> Float64:
        lists = growing.of(sample.rows)
        by = near(growing, forward, forward // 2, sample.rows, threads)
        join_near(x, quantized, by, sample.rows, lists, threads)
        return sample.recall(x, lists, k)

    def enough(forward: int) -> bool:
        return _surely(joined(forward)) >= recall

    lengths = sorted({min(round(share * base), longest) for share in _SHARES})
    middle = lengths.index(base)
    some = (0, middle) if enough(base) else (middle + 1, len(lengths))
    at = bisect_left(lengths, True, *some, key=enough)
    if at == len(lengths):
        return base, _surely(joined(base)), 0.0
    forward, after = lengths[at], joined(lengths[at])
    before, far = sample.recall(x, growing.of(sample.rows), k), growing.far[sample.rows, k - 1]
    for left in _LEFT:
        beyond = float(np.quantile(far, left, method="lower"))
        if _surely(np.where(far < beyond, before, after), _SURE) >= recall:
            return forward, _surely(after), beyond
    return forward, _surely(after), 0.0


def _surely(recalls: Float64, errors: float = 1.0) -> float:
    """So many standard errors below the mean."""
    return float(recalls.mean() - errors * recalls.std() / np.sqrt(len(recalls)))


def _quantized(x: Float32, sample: Sample, threads: Threads) -> Quantized:
    """The rows in bytes; none where rounding would tell."""
    if sample.fine:
        return Quantized.none(len(x))
    return Quantized.of(x, float(np.median(sample.distance[:, -1])), threads)
