"""Seeded pools whose truth is known, for the demo, the tests and the benchmarks."""

from __future__ import annotations

import numpy as np

from pipeline.arrays import Float32, Float64, Int8

N_SHEETS, INNER, OUTER = 20, 8, 32
_BATCH = 4096

Sample = tuple[Float32, Int8, Float64]


def sheets(n: int, seed: int, first: int = 0) -> Sample:
    """Rows `first` to `first + n` of a mixture of 20 curved 8-dimensional sheets in 32 dimensions.

    A row depends on (seed, its number) alone. Most sheets are of one class; on every fifth the
    class changes gradually along the sheet.

    Returns
    -------
    x : (row, 32) float32; y : (row,) int8 clean labels; eta : (row,) float64, P(y = 1 | x)
    """
    batches = range(first // _BATCH, -(-(first + n) // _BATCH))
    made = [_batch(seed, batch) for batch in batches]
    span = slice(first - batches.start * _BATCH, first - batches.start * _BATCH + n)
    x, y, eta = (np.concatenate(columns)[span] for columns in zip(*made, strict=True))
    return x, y, eta


def _batch(seed: int, batch: int) -> Sample:
    shape = np.random.default_rng([seed, 1])
    linear, wave = shape.normal(size=(2, N_SHEETS, INNER, OUTER)) / np.sqrt(INNER)
    center = 3.0 * shape.normal(size=(N_SHEETS, OUTER))
    rng = np.random.default_rng([seed, 2, batch])
    sheet = rng.integers(0, N_SHEETS, _BATCH)
    inner = rng.uniform(-1, 1, (_BATCH, INNER))
    x = np.empty((_BATCH, OUTER), np.float32)
    for s in range(N_SHEETS):
        here = sheet == s
        x[here] = center[s] + 2.0 * inner[here] @ linear[s] + np.sin(2.0 * inner[here]) @ wave[s]
    eta = np.where(sheet % 5 == 0, (1.0 + inner[:, 0]) / 2.0, sheet % 2)
    return x, (rng.random(_BATCH) < eta).astype(np.int8), eta


def flip(y: Int8, p0: float, p1: float, seed: int) -> Int8:
    """(row,) given labels: each 0 becomes 1 with probability p0, each 1 becomes 0 with p1."""
    chance = np.random.default_rng([seed, 3]).random(len(y))
    return np.where(chance < np.where(y == 1, p1, p0), 1 - y, y).astype(np.int8)
