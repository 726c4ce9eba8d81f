"""The rows whose given labels their neighbors contradict most, from a stream of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.blocks.sampling import row_hash

STREAM = 4
"""Hash stream that decides among rows of equal value."""


def contradiction(
    eta_corr: npt.NDArray[np.floating], given_label: npt.NDArray[np.integer], p0: float, p1: float
) -> npt.NDArray[np.float64]:
    """(row,) how far the neighbors are from the given label; greater is more suspect.

    1 minus the posterior of the given label before it is cut to [0, 1], so that it orders also
    the rows whose `label_quality` is 0.
    """
    eta = (eta_corr.astype(np.float64) - p0) / (1.0 - p0 - p1)
    return np.where(given_label == 1, 1.0 - eta, eta)


def rows_contradicted(votes: npt.NDArray[np.integer], p0: float, p1: float, value: float) -> int:
    """Rows whose `contradiction` is exactly `value`.

    votes : (k + 1, 2) rows by count and given label, from `threshold.vote_table`; `value` was
        computed with the same rates from a count divided by k
    """
    eta = np.arange(len(votes)) / (len(votes) - 1)
    cells = [contradiction(eta, np.full(len(votes), label), p0, p1) for label in (0, 1)]
    return int(votes[np.column_stack(cells) == value].sum())


class Greatest:
    """The `size` rows of greatest value among all seen; among equals a fixed random draw."""

    def __init__(self, size: int, seed: int = 0) -> None:
        """`size` at least 1."""
        self.size, self.seed = size, seed
        self.row = np.empty(0, np.int64)
        """Greatest first."""
        self.value = np.empty(0)

    def see(self, row: npt.NDArray[np.int64], value: npt.NDArray[np.float64]) -> None:
        """Take rows, each once; both (row,), no NaN."""
        if len(self.row) == self.size:
            near = np.flatnonzero(value >= self.value[-1])
            row, value = row[near], value[near]
        row = np.concatenate([self.row, row])
        value = np.concatenate([self.value, value])
        order = np.lexsort((row_hash(row, self.seed, STREAM), -value))[: self.size]
        self.row, self.value = row[order], value[order]
