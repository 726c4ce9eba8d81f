"""Exact neighbor lists of each data set, computed once and kept beside the results, and what rates
are read off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.study.data import load
from pipeline.knn.distance import list_distance
from pipeline.knn.exact import nearest
from pipeline.noise.extrema import anchor_plan
from pipeline.noise.rates import NoiseRates
from pipeline.noise.transition import Transition, transition_matrix

Int = NDArray[np.integer]
WIDE, NARROW = 640, 240
"""Lists of all rows: up to 20,000 rows, and beyond."""
HELD_OUT = 0.25


@dataclass(frozen=True)
class Anchors:
    """The rows that rates are read off, as a training has them."""

    near: NDArray[np.int64]
    """(anchor, K), self first."""
    x: NDArray[np.float32]
    """(anchor, feature)"""
    distance: NDArray[np.float32]
    """(anchor, K)"""

    @classmethod
    def of(cls, x: NDArray[np.float32], near: Int) -> Anchors:
        """Anchors with lists (anchor, K), self first, among the rows of ``x``."""
        own = x[near[:, 0]]
        return cls(near.astype(np.int64), own, list_distance(own, x, near))

    def rates(self, given: NDArray[np.int8]) -> NoiseRates:
        """By the given labels (row,) of the pool."""
        rates = self.matrix(given, 2).rates
        assert rates is not None
        return rates

    def matrix(self, given: Int, classes: int) -> Transition:
        """Likewise."""
        label = given[self.near]
        return transition_matrix(self.near, label, len(given), classes, self.x, self.distance)


@dataclass(frozen=True)
class Lists:
    """One set with its neighbors; lists start with the row itself."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    near: NDArray[np.int32]
    """(n, K) int32 of all rows."""
    anchor_near: NDArray[np.int32]
    """(anchors, K) int32; the same array where all rows are anchors."""

    @property
    def n(self) -> int:
        return len(self.y)

    @cached_property
    def anchors(self) -> Anchors:
        """As `anchor_plan` asks for the whole set."""
        wanted, columns = anchor_plan(*self.x.shape)
        return Anchors.of(self.x, self.anchor_near[:wanted, :columns])


def search(x: NDArray[np.float32], rows: Int, k: int) -> NDArray[np.int32]:
    """(rows, k) int32: each row itself and its k - 1 nearest others."""
    others, _ = nearest(x[rows], x, k - 1, exclude=rows)
    return np.column_stack([rows, others]).astype(np.int32)


def lists_of(folder: Path, cache: Path, name: str) -> Lists:
    """Lists of one set, from the cache if it is there."""
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{name}.npz"
    x, y = load(folder, name)
    if not path.exists():
        n, everything = len(x), np.arange(len(x))
        wanted, columns = anchor_plan(n, x.shape[1])
        near = search(x, everything, min(n, WIDE if wanted == n else NARROW))
        anchors = near
        if wanted < n:  # a third more than planned, as a quarter of rows may be held out
            drawn = np.random.default_rng([5, n]).permutation(n)[: wanted * 4 // 3]
            anchors = search(x, drawn, columns * 4 // 3)
        kept = {"near": near}
        if wanted < n:
            kept["anchor_near"] = anchors
        temporary = path.with_suffix(".tmp.npz")
        np.savez(temporary, **kept)
        temporary.rename(path)
    with np.load(path, allow_pickle=False) as file:
        near = file["near"]
        return Lists(x, y, near, file.get("anchor_near", near))


def within(near: Int, keep: NDArray[np.bool_], width: int) -> NDArray[np.int64]:
    """(row, width) int64: the lists without rows outside `keep`, renumbered; -1 where short."""
    number = np.where(keep, np.cumsum(keep) - 1, -1)
    found = number[near]
    rank = np.cumsum(found >= 0, axis=1) - 1
    packed = np.full((len(near), width), -1, np.int64)
    row, column = np.nonzero((found >= 0) & (rank < width))
    packed[row, rank[row, column]] = found[row, column]
    return packed


@dataclass(frozen=True)
class Split:
    """Training rows with their lists among themselves, and test rows' lists among them."""

    train: NDArray[np.bool_]
    near: NDArray[np.int64]
    """(train, K) self first."""
    anchors: Anchors
    test_near: NDArray[np.int64]


def split(lists: Lists, trial: int, k: int = 100) -> Split:
    """A quarter of the rows held out; the split stream knows nothing of the noise stream."""
    n = lists.n
    train = np.ones(n, bool)
    out = np.random.default_rng([7, n, trial]).permutation(n)[: int(HELD_OUT * n)]
    train[out] = False
    wanted, columns = anchor_plan(int(train.sum()), lists.x.shape[1])
    most = min(k, int(train.sum()) - 1)
    anchors = lists.anchor_near[train[lists.anchor_near[:, 0]]][:wanted]
    near = within(lists.near[train], train, most + 1)
    test_near = within(lists.near[~train], train, most)
    held = within(anchors, train, columns)
    full = int((held >= 0).all(axis=0).sum())
    return Split(train, near, Anchors.of(lists.x[train], held[:, :full]), test_near)
