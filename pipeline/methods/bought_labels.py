"""Labels that are asked for: each row at most once, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pipeline.arrays import Int64

Oracle = Callable[[Int64], Int64]
"""(row,) rows -> (row,) their labels: a column that is held back, a function, people"""


class BudgetSpent(Exception):
    """The labels wanted cost more than is left; what the budget allowed is bought and kept."""


class BoughtLabels:
    """Labels by row. A label once known is never asked for again, whoever wants it.

    ``known`` are labels there are at the start; they cost nothing. ``budget`` is the most labels to
    buy. ValueError for a budget below 1.
    """

    def __init__(self, oracle: Oracle, budget: int, known: Mapping[int, int] | None = None) -> None:
        if budget < 1:
            raise ValueError(f"budget={budget}: at least one label must be allowed")
        self._oracle, self._budget = oracle, budget
        self.labels: dict[int, int] = dict(known or {})
        self.bought: list[int] = []
        """rows that were asked for, in order"""

    def __call__(self, rows: Int64) -> Int64:
        """(row,) labels of rows, which may repeat; raises BudgetSpent."""
        wanted = list(dict.fromkeys(r for r in rows.tolist() if r not in self.labels))
        allowed = wanted[: self._budget - len(self.bought)]
        if allowed:
            answers = np.asarray(self._oracle(np.array(allowed, np.int64)))
            if answers.shape != (len(allowed),):
                raise ValueError(f"oracle: {answers.shape} answers to {len(allowed)} rows")
            self.labels.update(zip(allowed, answers.tolist(), strict=True))
            self.bought += allowed
        if len(allowed) < len(wanted):
            raise BudgetSpent(f"{len(wanted):,} labels are wanted, {len(allowed):,} were left")
        return np.array([self.labels[row] for row in rows.tolist()], np.int64)

    def known(self) -> tuple[Int64, Int64]:
        """Rows whose labels are known, and these labels: two (row,) int64, rows ascending."""
        rows = np.array(sorted(self.labels), np.int64)
        return rows, np.array([self.labels[row] for row in rows.tolist()], np.int64)
