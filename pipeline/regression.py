"""kNN regression of the given labels: integer counts for a grid of k from one graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def k_grid(k: int) -> tuple[int, ...]:
    """Neighbourhood sizes counted from lists of length k: 5, 10, … and k itself, ascending."""
    return tuple(sorted({*range(5, k, 5), k}))


def counts(neighbor_label: npt.NDArray[np.int8], grid: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Neighbours given 1 among the first k of each list, for each k of the grid.

    Parameters
    ----------
    neighbor_label : (row, rank) int8 in {0, 1}, nearest first, self excluded
    grid : ascending, at most the number of ranks

    Returns
    -------
    (row, k) int32
    """
    running = np.cumsum(neighbor_label, axis=1, dtype=np.int32)
    return np.ascontiguousarray(running[:, np.asarray(grid) - 1])


def counts_with_self(
    given_label: npt.NDArray[np.int8], neighbor_label: npt.NDArray[np.int8], k: int
) -> npt.NDArray[np.int32]:
    """Ones among a training row itself and its k-1 nearest others (Algorithm 2 of Reeve & Kabán
    2019, whose enumeration of a training row begins with that row).

    Parameters
    ----------
    given_label : (row,) int8
    neighbor_label : (row, rank) int8, at least k-1 ranks, self excluded

    Returns
    -------
    (row,) int32, between 0 and k
    """
    others = neighbor_label[:, : k - 1].sum(axis=1, dtype=np.int32)
    total: npt.NDArray[np.int32] = given_label.astype(np.int32) + others
    return total
