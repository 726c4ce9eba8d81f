"""The rows whose given labels their neighbours contradict most, from a stream of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.sampling import row_hash

STREAM = 4
"""Hash stream that decides among rows contradicted equally."""


def contradiction(
    eta_corr: npt.NDArray[np.floating], given_label: npt.NDArray[np.integer], p0: float, p1: float
) -> npt.NDArray[np.float64]:
    """(row,) how far the neighbours are from the given label; greater is more suspect.

    1 minus the posterior of the given label before it is cut to [0, 1], so that it orders also
    the rows whose `label_quality` is 0.
    """
    eta = (eta_corr.astype(np.float64) - p0) / (1.0 - p0 - p1)
    return np.where(given_label == 1, 1.0 - eta, eta)


class MostSuspect:
    """The `size` most contradicted rows among all seen; among equals a fixed random draw."""

    def __init__(self, size: int, k: int, p0: float, p1: float, seed: int = 0) -> None:
        """`size` at least 1; `k` neighbours to a count; `p0 + p1 < 1`."""
        self.size, self.k, self.p0, self.p1, self.seed = size, k, p0, p1, seed
        self.row = np.empty(0, np.int64)
        self.contradiction = np.empty(0)

    def see(
        self,
        first_row: int,
        count: npt.NDArray[np.integer],
        given_label: npt.NDArray[np.integer],
    ) -> None:
        """Take the rows `first_row` and following; count : (row,) neighbours given 1, of k."""
        value = contradiction(count / self.k, given_label, self.p0, self.p1)
        full = len(self.row) == self.size
        near = np.flatnonzero(value >= self.contradiction[-1]) if full else np.arange(len(value))
        row = np.concatenate([self.row, near + first_row])
        value = np.concatenate([self.contradiction, value[near]])
        order = np.lexsort((row_hash(row, self.seed, STREAM), -value))[: self.size]
        self.row, self.contradiction = row[order], value[order]

    def tied(self, votes: npt.NDArray[np.integer]) -> int:
        """Rows contradicted exactly as much as the last row kept; 0 where none was seen.

        votes : (k + 1, 2) rows by count and given label, from `threshold.vote_table`
        """
        if not len(self.row):
            return 0
        eta = np.arange(self.k + 1) / self.k
        cells = [contradiction(eta, np.full(self.k + 1, y), self.p0, self.p1) for y in (0, 1)]
        return int(votes[np.column_stack(cells) == self.contradiction[-1]].sum())
