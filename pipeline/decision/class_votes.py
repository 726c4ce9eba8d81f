"""Votes of c classes among each row's neighbors, for several neighborhood sizes.

A row's candidates are the classes that occur among its neighbors or that models make likeliest; of
these the ``CANDIDATES`` with most votes are kept, so that memory does not grow with the classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Float32, Int32, Int64, Integers, UInt8, UInt16

Codes = Int32
BYTE = 255
"""What a chance of 1 is in a byte."""
CANDIDATES = 32
"""Classes kept per row; up to this many classes, all of them are."""
SIZES = (4, 8, 16, 32, 64, 100)
"""Neighborhood sizes that votes are counted for."""
LIKELIEST = 8
"""Classes that are candidates because models make them likeliest, where not all classes are."""
NONE = -1
"""Code of a candidate that is not there."""


@dataclass(frozen=True)
class ClassVotes:
    """Votes of the candidates of some rows."""

    code: Int32
    """(row, candidate) classes, ascending; -1 at the end where a row has fewer."""
    votes: UInt16
    """(row, candidate, size) labels of that class among the nearest."""
    total: UInt16
    """(row, size) labels among the nearest that are not missing."""
    own: Int32
    """(row,) place of the row's own label among its candidates; -1 where it is missing."""
    trees: UInt8 | None = None
    """(row, candidate) chances by models of the features, in parts of ``BYTE``; None without them.
    """
    reach: Float32 | None = None
    """(row,) how far the neighbors are (``quality.reach_of``); None where that does not count."""

    def take(self, rows: Integers | Bools | slice) -> ClassVotes:
        """Those of some rows."""
        trees = None if self.trees is None else self.trees[rows]
        reach = None if self.reach is None else self.reach[rows]
        columns = self.code[rows], self.votes[rows], self.total[rows], self.own[rows]
        return ClassVotes(*columns, trees, reach)


def class_losses(
    neighbor_label: Integers, own_label: Integers, n_classes: int, grid: tuple[int, ...]
) -> Int64:
    """Sum of ``squared_losses`` over rows and classes, for each k: (size,) int64, exact.

    Parameters
    ----------
    neighbor_label : (row, rank) codes, nearest first, self excluded; a code outside
        [0, n_classes) is a missing label and votes for nobody
    own_label : (row,) codes; rows whose label is missing are left out
    grid : ascending, at most the number of ranks
    """
    losses = np.zeros(len(grid), np.int64)
    near, own = neighbor_label.astype(np.int32, copy=False), own_label.astype(np.int32)
    _add_losses(losses, near, own, n_classes, np.asarray(grid))
    return losses


def vote_sizes(list_length: int) -> tuple[int, ...]:
    """The sizes of ``SIZES`` that lists of this length allow, at least one."""
    return tuple(k for k in SIZES if k <= list_length) or (list_length,)


def class_votes(
    neighbor_label: Integers,
    own_label: Integers,
    n_classes: int,
    sizes: tuple[int, ...],
    trees: UInt8 | None = None,
    reach: Float32 | None = None,
) -> ClassVotes:
    """Count neighbors' labels by class.

    Parameters
    ----------
    neighbor_label : (row, rank) codes, nearest first, self excluded; a code outside
        [0, n_classes) is a missing label and votes for nobody
    own_label : (row,) codes; the row's own class is always a candidate, without a vote
    sizes : ascending, at most the number of ranks
    trees : (row, class) chances by models, in parts of ``BYTE``, whose ``LIKELIEST`` are
        candidates, too; None without models
    reach : (row,) how far the neighbors are, if that is to count

    Raises
    ------
    ValueError
        for sizes that are not ascending or longer than the lists.
    """
    if list(sizes) != sorted(set(sizes)) or not 1 <= sizes[0] <= sizes[-1] <= len(neighbor_label.T):
        raise ValueError(f"sizes {sizes}: need ascending sizes up to {len(neighbor_label.T)}")
    near, own = neighbor_label.astype(np.int32, copy=False), own_label.astype(np.int32)
    n_likeliest = 0 if trees is None else LIKELIEST
    most = min(CANDIDATES, sizes[-1] + 1 + n_likeliest)
    width = n_classes if n_classes <= CANDIDATES else most
    votes = ClassVotes(
        np.full((len(near), width), NONE, np.int32),
        np.zeros((len(near), width, len(sizes)), np.uint16),
        np.zeros((len(near), len(sizes)), np.uint16),
        np.full(len(near), NONE, np.int32),
        reach=reach,
    )
    if n_classes <= CANDIDATES:
        votes.code[:] = np.arange(n_classes)
    else:
        chance = np.zeros((len(near), 0), np.uint8) if trees is None else trees
        _choose(votes.code, near[:, : sizes[-1]], own, chance, n_likeliest, n_classes)
    _count(votes.votes, votes.total, votes.own, votes.code, near, own, n_classes, np.asarray(sizes))
    if trees is None:
        return votes
    return replace(votes, trees=np.take_along_axis(trees, np.maximum(votes.code, 0), axis=1))


def contradicted(votes: ClassVotes) -> float:
    """Share of rows whose given label the plain vote contradicts, by the size that contradicts
    fewest; at least 0.05, at most 0.9 of what chance would contradict. Of c classes all or most are
    candidates."""
    labeled = votes.own != NONE
    top = votes.votes[labeled].argmax(axis=1)
    shares = (top != votes.own[labeled, None]).sum(axis=0) / max(1, int(labeled.sum()))
    return float(np.clip(shares.min(), 0.05, 0.9 * (1.0 - 1.0 / votes.code.shape[1])))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _add_losses(losses: Int64, near: Codes, own: Codes, n_classes: int, grid: Int64) -> None:
    count = np.zeros(n_classes, np.int64)
    for i in range(len(own)):
        if not 0 <= own[i] < n_classes:
            continue
        squares, at = 0, 0
        for rank in range(grid[-1]):
            label = near[i, rank]
            if 0 <= label < n_classes:
                squares += 2 * count[label] + 1
                count[label] += 1
            if rank + 1 == grid[at]:
                k = grid[at]
                losses[at] += k * k - 2 * k * count[own[i]] + squares
                at += 1
        for rank in range(grid[-1]):
            if 0 <= near[i, rank] < n_classes:
                count[near[i, rank]] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _choose(
    code: Codes, near: Codes, own: Codes, chance: UInt8, n_likeliest: int, n_classes: int
) -> None:
    """Fill in each row's candidates: its own class, so many others of the largest chances, then
    those of most votes; of equal ones the lower code."""
    most = near.shape[1] + 1
    count, observed = np.zeros(n_classes, np.int64), np.empty(most + n_likeliest, np.int64)
    for i in range(len(near)):
        n = 0
        if 0 <= own[i] < n_classes:
            observed[0], n = own[i], 1
            count[own[i]] = most  # before all others
        for _ in range(n_likeliest):
            best = -1
            for c in range(n_classes):
                if count[c] == 0 and (best < 0 or chance[i, c] > chance[i, best]):
                    best = c
            observed[n], count[best] = best, most
            n += 1
        for label in near[i]:
            if 0 <= label < n_classes:
                if count[label] == 0:
                    observed[n] = label
                    n += 1
                count[label] += 1
        kept = min(n, code.shape[1])
        if n > kept:
            rank = np.empty(n, np.int64)
            for j in range(n):
                rank[j] = observed[j] - count[observed[j]] * n_classes
            rank.sort()
            for j in range(n):
                count[observed[j]] = 0
            for j in range(kept):
                code[i, j] = rank[j] % n_classes
        else:
            for j in range(n):
                count[observed[j]] = 0
                code[i, j] = observed[j]
        code[i, :kept].sort()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count(
    votes: UInt16,
    total: UInt16,
    own_place: Codes,
    code: Codes,
    near: Codes,
    own: Codes,
    n_classes: int,
    sizes: Int64,
) -> None:
    """Fill in votes by size, totals and the places of the rows' own labels."""
    place, n_sizes = np.full(n_classes, NONE, np.int32), len(sizes)
    for i in range(len(near)):
        for p in range(code.shape[1]):
            if code[i, p] != NONE:
                place[code[i, p]] = p
        first = 0
        for g in range(n_sizes):
            for rank in range(first, sizes[g]):
                label = near[i, rank]
                if 0 <= label < n_classes:
                    total[i, g] += 1
                    if place[label] != NONE:
                        votes[i, place[label], g] += 1
            first = sizes[g]
        for g in range(1, n_sizes):
            total[i, g] += total[i, g - 1]
            for p in range(code.shape[1]):
                votes[i, p, g] += votes[i, p, g - 1]
        if 0 <= own[i] < n_classes:
            own_place[i] = place[own[i]]
        for p in range(code.shape[1]):
            if code[i, p] != NONE:
                place[code[i, p]] = NONE
