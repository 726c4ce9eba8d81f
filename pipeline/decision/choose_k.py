"""The neighborhood size, from one graph, by the leave-one-out Brier score on the given labels.

The score is proper, so its expectation is least for the average nearest to ``eta_corr``; clean
labels are not needed. With counts ``c`` of ones among the k nearest others it is
``mean((label - c/k) ** 2)``, and ``(k * label - c) ** 2`` is an integer: blocks' sums add up
exactly, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Int64, Integers


@dataclass(frozen=True)
class Choice:
    """The chosen k and the curve it was read from."""

    k: int
    grid: tuple[int, ...]
    score: tuple[float, ...]
    """Mean leave-one-out Brier score of each k; lower is better."""


def squared_losses(count: Integers, label: Integers, grid: tuple[int, ...]) -> Int64:
    """Sum over rows of ``(k * label - count) ** 2`` for each k: (g,) int64, exact.

    ``count`` is (row, g): ones among each row's k nearest others, its own label left out; ``label``
    (row,) 0 or 1. Sums of several blocks are added up and passed to ``choose``. ValueError if a
    count exceeds its k or the shapes differ.
    """
    if count.shape != (len(label), len(grid)):
        raise ValueError(f"count {count.shape}: expected ({len(label)}, {len(grid)})")
    sizes = np.asarray(grid, dtype=np.int64)
    wide = count.astype(np.int64)
    if bool(np.any((wide < 0) | (wide > sizes))):
        raise ValueError("count: more ones than neighbors; was the row itself counted?")
    miss = sizes * label.astype(np.int64)[:, None] - wide
    return np.asarray((miss**2).sum(axis=0), dtype=np.int64)


def choose(total: Int64, n_rows: int, grid: tuple[int, ...]) -> Choice:
    """The k of least mean score; of equal scores the largest k, whose averages are the steadiest.

    ``total`` is (g,) int64, the sum of all blocks' ``squared_losses``; ``n_rows`` their rows.
    """
    if n_rows < 1 or len(total) != len(grid) or not grid:
        raise ValueError(f"{n_rows} rows, {len(total)} sums, {len(grid)} sizes: nothing to choose")
    score = total / (np.asarray(grid, dtype=np.float64) ** 2 * n_rows)
    best = len(grid) - 1 - int(np.argmin(score[::-1]))
    return Choice(grid[best], tuple(grid), tuple(float(s) for s in score))
