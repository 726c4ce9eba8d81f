"""Brute-force twins of the kernels: slow, short, obviously right."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.knn.lists import Neighbors
from pipeline.knn.lots import lots

Lists = list[list[tuple[float, int]]]


@cache
def lot_of(row: int) -> int:
    return int(lots(np.array([row]))[0])


def by_lot(pair: tuple[float, int]) -> tuple[float, int]:
    """What a (distance, row) is sorted by."""
    return pair[0], lot_of(pair[1])


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
    """For each query its k (distance, row), nearest first, ties by lot."""
    table = distances(query, x)
    left_out = [None] * len(query) if exclude is None else exclude.tolist()
    return [
        sorted(((float(d), j) for j, d in enumerate(row) if j != left_out[i]), key=by_lot)[:k]
        for i, row in enumerate(table)
    ]


def merge(home: npt.NDArray[Any], lists: Neighbors, n_homes: int) -> list[list[tuple[float, int]]]:
    """For each home the k (distance, row) of all lists for it, each row once."""
    k = lists.row.shape[1]
    found: list[set[tuple[float, int]]] = [set() for _ in range(n_homes)]
    for place, rows, far in zip(home, lists.row, lists.distance, strict=True):
        found[place] |= {(float(d), int(r)) for d, r in zip(far, rows, strict=True) if r >= 0}
    return [sorted(pairs, key=by_lot)[:k] for pairs in found]


def select(
    group: npt.NDArray[Any], row: npt.NDArray[Any], distance: npt.NDArray[Any], k: int
) -> list[tuple[int, float, int, int]]:
    """The k nearest distinct rows of each group, as (group, distance, row, rank)."""
    offered = set(zip(group.tolist(), distance.tolist(), row.tolist(), strict=True))
    kept = []
    for wanted in sorted(set(group.tolist())):
        near = sorted(((d, r) for g, d, r in offered if g == wanted), key=by_lot)[:k]
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
    """Share of each list that is no farther than the last true neighbor, by distance."""
    return [
        sum(d <= true[-1][0] for d, _ in near) / len(true)
        for near, true in zip(listed, exact, strict=True)
    ]


def listing(index: npt.NDArray[np.int32], forward: int, most: int) -> list[list[int]]:
    """For each row up to `most` that have it among their first `forward`, by rank and row."""
    found: list[list[int]] = [[] for _ in index]
    for rank in range(forward):
        for i, j in enumerate(index[:, rank].tolist()):
            if j != -1 and len(found[j]) < most:
                found[j].append(i)
    return found


def near_by_age(
    index: npt.NDArray[np.int32], joined: npt.NDArray[np.uint8], forward: int, backward: int
) -> list[tuple[list[int], list[int]]]:
    """For each row its new and its old neighbors: those among its first `forward`, then up to
    `backward` in all of those that have it among theirs and that it does not list."""
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in index]
    n_back = [0] * len(index)
    for age in (0, 1):
        for i, row in enumerate(index[:, :forward].tolist()):
            found[i][age].extend(
                j
                for j, seen in zip(row, joined[i].tolist(), strict=False)
                if j != -1 and seen == age
            )
        for rank in range(forward):
            for i, j in enumerate(index[:, rank].tolist()):
                if j == -1 or joined[i, rank] != age or n_back[j] == backward:
                    continue
                if i not in index[j, :forward].tolist():
                    found[j][age].append(i)
                    n_back[j] += 1
    return found


def shapley_terms(
    neighbor_label: npt.NDArray[np.int8], given: npt.NDArray[np.int8]
) -> npt.NDArray[np.float64]:
    """(row, rank) value of each listed neighbor for the vote of a row, from the end of its list."""
    k = neighbor_label.shape[1]
    match = (neighbor_label == given[:, None]).astype(np.float64)
    terms = np.zeros(match.shape)
    for rank in range(k - 2, -1, -1):
        terms[:, rank] = terms[:, rank + 1] + (match[:, rank] - match[:, rank + 1]) / k
    return terms
