"""A class that lies around another, which is nearest to all rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def scattered(
    n: int,
    wide: float,
    seed: int = 3,
    rates: tuple[float, float] = (0.3, 0.1),
    n_features: int = 20,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Features (row, feature) of two classes around one place, the second so many times as widely
    spread, and clean and given labels (row,), mistaken at these rates."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 2, n)
    x = rng.normal(size=(n, n_features)) * np.where(clean == 1, wide, 1.0)[:, None]
    wrong = rng.random(n) < np.take(rates, clean)
    return x.astype(np.float32), clean, np.where(wrong, 1 - clean, clean)
