"""Brute-force twins of the kernels: slow, short, obviously right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.merge import Neighbours

Lists = list[list[tuple[float, int]]]


def distances(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """(row of a, row of b) float32."""
    wide = a[:, None].astype(np.float64) - b[None].astype(np.float64)
    return np.sqrt(np.square(wide).sum(axis=-1)).astype(np.float32)


def nearest(
    query: npt.NDArray[np.float32],
    x: npt.NDArray[np.float32],
    k: int,
    exclude: npt.NDArray[Any] | None = None,
) -> Lists:
    """For each query its k (distance, row), nearest first, ties by row."""
    table = distances(query, x)
    left_out = [None] * len(query) if exclude is None else exclude.tolist()
    return [
        sorted((float(d), j) for j, d in enumerate(row) if j != left_out[i])[:k]
        for i, row in enumerate(table)
    ]


def merge(home: npt.NDArray[Any], lists: Neighbours, n_homes: int) -> list[list[tuple[float, int]]]:
    """For each home the k (distance, row) of all lists for it, each row once."""
    k = lists.row.shape[1]
    found: list[set[tuple[float, int]]] = [set() for _ in range(n_homes)]
    for place, rows, far in zip(home, lists.row, lists.distance, strict=True):
        found[place] |= {(float(d), int(r)) for d, r in zip(far, rows, strict=True) if r >= 0}
    return [sorted(pairs)[:k] for pairs in found]


def select(
    group: npt.NDArray[Any], row: npt.NDArray[Any], distance: npt.NDArray[Any], k: int
) -> list[tuple[int, float, int, int]]:
    """The k nearest distinct rows of each group, as (group, distance, row, rank)."""
    offered = set(zip(group.tolist(), distance.tolist(), row.tolist(), strict=True))
    kept = []
    for wanted in sorted(set(group.tolist())):
        near = sorted((d, r) for g, d, r in offered if g == wanted)[:k]
        kept += [(wanted, d, r, rank) for rank, (d, r) in enumerate(near)]
    return kept


def as_lists(row: npt.NDArray[Any], distance: npt.NDArray[np.float32]) -> Lists:
    """Padded arrays as lists of (distance, row)."""
    return [
        [(float(d), int(r)) for d, r in zip(far, rows, strict=True) if r >= 0]
        for far, rows in zip(distance, row, strict=True)
    ]


def held(
    block: npt.NDArray[np.int32], distance: npt.NDArray[np.float32], eps: float, copies: int
) -> list[list[int]]:
    """For each row the blocks that hold it, its home first."""
    found = []
    for numbers, far in zip(block.tolist(), distance, strict=True):
        limit = np.float32(1.0 + eps) * far[0]
        near = [b for b, d in zip(numbers[1:copies], far[1:copies], strict=True) if d <= limit]
        found.append([numbers[0], *near])
    return found


def counts(label: npt.NDArray[np.int8], grid: Sequence[int]) -> list[list[int]]:
    """Ones among the first k labels of each row, for each k of the grid."""
    return [[sum(row[:k]) for k in grid] for row in label.tolist()]


def recall(listed: Lists, exact: Lists) -> list[float]:
    """Share of each list that is no farther than the last true neighbour, by distance."""
    return [
        sum(d <= true[-1][0] for d, _ in near) / len(true)
        for near, true in zip(listed, exact, strict=True)
    ]


def near_of_near(index: npt.NDArray[np.int32]) -> list[set[int]]:
    """For each row its neighbours and theirs, without itself. Neighbours are those it lists, then
    up to as many as a list is long of those that list it, by rank and row."""
    k = index.shape[1]
    own = [[j for j in lists if j not in (-1, i)] for i, lists in enumerate(index.tolist())]
    near = [list(lists) for lists in own]
    for rank in range(k):
        for i, j in enumerate(index[:, rank].tolist()):
            if j not in (-1, i) and i not in own[j] and len(near[j]) < len(own[j]) + k:
                near[j].append(i)
    return [{*js, *(c for j in js for c in near[j])} - {i} for i, js in enumerate(near)]
