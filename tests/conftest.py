"""Small pools on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import PoolWriter

os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else one of scikit-learn's checks skips itself


@pytest.fixture
def pool(tmp_path: Path) -> PoolWriter:
    """Writes two noisy clouds as `.npz`; the labels flipped at (0.3, 0.1)."""

    def write(n: int = 600, d: int = 4, seed: int = 0, name: str = "pool.npz", **more: Any) -> Path:
        rng = np.random.default_rng(seed)
        clean = rng.integers(0, 2, n)
        x = rng.normal(size=(n, d)) + 3.0 * clean[:, None]
        flipped = rng.random(n) < np.where(clean == 1, 0.1, 0.3)
        arrays = {"X": x.astype(np.float32), "y": (clean ^ flipped).astype(np.int8), **more}
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return write
