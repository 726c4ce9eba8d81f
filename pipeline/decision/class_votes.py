"""Votes of c classes among each row's neighbors, for several neighborhood sizes.

Only classes that occur among a row's neighbors are kept, and of those the ``CANDIDATES`` of most
votes, so that memory does not grow with the number of classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CANDIDATES = 32
"""Classes kept per row; up to this many classes, all of them are."""
SIZES = (4, 8, 16, 32, 64, 100)
"""Neighborhood sizes that votes are counted for."""
LOSS_CELLS = 4_000_000
"""Counts, of rows times classes, held at a time while losses are summed."""
NONE = -1
"""Code of a candidate that is not there."""


@dataclass(frozen=True)
class ClassVotes:
    """Votes of the candidates of some rows."""

    code: npt.NDArray[np.int32]
    """(row, candidate) classes, ascending; -1 at the end where a row has fewer."""
    votes: npt.NDArray[np.uint16]
    """(row, candidate, size) labels of that class among the nearest."""
    total: npt.NDArray[np.uint16]
    """(row, size) labels among the nearest that are not missing."""
    own: npt.NDArray[np.int32]
    """(row,) place of the row's own label among its candidates; -1 where it is missing."""


def class_losses(
    neighbor_label: npt.NDArray[np.integer],
    own_label: npt.NDArray[np.integer],
    n_classes: int,
    grid: tuple[int, ...],
) -> npt.NDArray[np.int64]:
    """Sum of ``squared_losses`` over rows and classes, for each k: (size,) int64, exact.

    Parameters
    ----------
    neighbor_label : (row, rank) codes, nearest first, self excluded; a code outside
        [0, n_classes) is a missing label and votes for nobody
    own_label : (row,) codes; rows whose label is missing are left out
    grid : ascending, at most the number of ranks
    """
    losses = np.zeros(len(grid), np.int64)
    column = {k - 1: i for i, k in enumerate(grid)}
    portion = max(1, min(16_384, LOSS_CELLS // n_classes))
    for start in range(0, len(own_label), portion):
        own = own_label[start : start + portion].astype(np.int64)
        labeled = (own >= 0) & (own < n_classes)
        own = own[labeled]
        near = neighbor_label[start : start + portion][labeled].astype(np.int64)
        near[(near < 0) | (near >= n_classes)] = n_classes  # votes that are not counted
        row = np.arange(len(own))
        count = np.zeros((len(own), n_classes + 1), np.int64)
        squares = np.zeros(len(own), np.int64)
        for rank in range(grid[-1]):
            label = near[:, rank]
            squares += np.where(label < n_classes, 2 * count[row, label] + 1, 0)
            count[row, label] += 1
            if rank in column:
                k = rank + 1
                losses[column[rank]] += (k * k - 2 * k * count[row, own] + squares).sum()
    return losses


def vote_sizes(list_length: int) -> tuple[int, ...]:
    """The sizes of ``SIZES`` that lists of this length allow, at least one."""
    return tuple(k for k in SIZES if k <= list_length) or (list_length,)


def class_votes(
    neighbor_label: npt.NDArray[np.integer],
    own_label: npt.NDArray[np.integer],
    n_classes: int,
    sizes: tuple[int, ...],
) -> ClassVotes:
    """Count neighbors' labels by class.

    Parameters
    ----------
    neighbor_label : (row, rank) codes, nearest first, self excluded; a code outside
        [0, n_classes) is a missing label and votes for nobody
    own_label : (row,) codes; the row's own class is always a candidate, without a vote
    sizes : ascending, at most the number of ranks

    Raises
    ------
    ValueError
        for sizes that are not ascending or longer than the lists.
    """
    if list(sizes) != sorted(set(sizes)) or not 1 <= sizes[0] <= sizes[-1] <= len(neighbor_label.T):
        raise ValueError(f"sizes {sizes}: need ascending sizes up to {len(neighbor_label.T)}")
    near = neighbor_label[:, : sizes[-1]].astype(np.int32)
    near[(near < 0) | (near >= n_classes)] = NONE
    own = own_label.astype(np.int32)
    own = np.where((own < 0) | (own >= n_classes), NONE, own)
    code = _dense(len(near), n_classes) if n_classes <= CANDIDATES else _sparse(near, own)
    place = places(code, near, n_classes)
    votes = _count(place, code.shape[1], sizes)
    total = np.cumsum(near != NONE, axis=1)[:, np.asarray(sizes) - 1].astype(np.uint16)
    return ClassVotes(code, votes, total, places(code, own[:, None], n_classes)[:, 0])


def _dense(n_rows: int, n_classes: int) -> npt.NDArray[np.int32]:
    return np.tile(np.arange(n_classes, dtype=np.int32), (n_rows, 1))


def _sparse(near: npt.NDArray[np.int32], own: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """(row, candidate) the own class and those of most votes; of equal votes the lower code."""
    ranked = np.sort(np.column_stack([own, near]), axis=1)
    n_rows, width = ranked.shape
    starts = np.ones(ranked.shape, bool)
    starts[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    run = np.cumsum(starts, axis=1) - 1
    length = np.bincount((np.arange(n_rows)[:, None] * width + run).ravel(), None, n_rows * width)
    length = np.where(
        ranked == own[:, None],
        2 * width,
        length.reshape(n_rows, width)[np.arange(n_rows)[:, None], run],
    )
    length = np.where(starts & (ranked != NONE), length, 0)
    best = np.argsort(-length, axis=1, kind="stable")[:, :CANDIDATES]
    there = np.take_along_axis(length, best, axis=1) > 0
    last = np.int32(np.iinfo(np.int32).max)
    code = np.sort(np.where(there, np.take_along_axis(ranked, best, axis=1), last), axis=1)
    return np.where(code == last, np.int32(NONE), code)


def places(
    code: npt.NDArray[np.int32], label: npt.NDArray[np.int32], n_classes: int
) -> npt.NDArray[np.int32]:
    """(row, m) place of each label (row, m) among its row's candidates; -1 where it is none."""
    n_rows, width = code.shape
    if width == n_classes:
        return label
    shift = np.arange(n_rows, dtype=np.int64)[:, None] * (n_classes + 1)
    keys = (np.where(code == NONE, n_classes, code) + shift).ravel()
    wanted = label + shift
    place = np.minimum(np.searchsorted(keys, wanted.ravel()), len(keys) - 1)
    hit = (keys[place] == wanted.ravel()) & (label.ravel() != NONE)
    return np.where(hit, place % width, NONE).astype(np.int32).reshape(label.shape)


def _count(
    place: npt.NDArray[np.int32], n_places: int, sizes: tuple[int, ...]
) -> npt.NDArray[np.uint16]:
    n_rows, n_sizes = len(place), len(sizes)
    ring = np.searchsorted(np.asarray(sizes), np.arange(1, sizes[-1] + 1))
    cell = (np.arange(n_rows)[:, None] * n_places + place) * n_sizes + ring
    counted = np.bincount(cell[place != NONE], None, n_rows * n_places * n_sizes)
    rings = counted.reshape(n_rows, n_places, n_sizes)
    return np.cumsum(rings, axis=2).astype(np.uint16)
