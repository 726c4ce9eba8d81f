"""Classes that lie around another, which is nearest to all rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def scattered(
    n: int,
    wide: float,
    seed: int = 3,
    rates: tuple[float, ...] = (0.3, 0.1),
    n_features: int = 20,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Features (row, feature) of classes around one place, each so many times as widely spread as
    the one before, and clean and given labels (row,), mistaken for the next class at these rates.
    """
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, len(rates), n)
    x = rng.normal(size=(n, n_features)) * np.power(wide, clean)[:, None]
    wrong = rng.random(n) < np.take(rates, clean)
    return x.astype(np.float32), clean, (clean + wrong) % len(rates)
