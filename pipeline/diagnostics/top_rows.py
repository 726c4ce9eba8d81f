"""The rows of greatest value, from a stream of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.blocks.sampling import row_hash
from pipeline.streams import Stream


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
        order = np.lexsort((row_hash(row, self.seed, Stream.TOP_ROWS), -value))[: self.size]
        self.row, self.value = row[order], value[order]
