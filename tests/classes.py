"""Small pools of many named classes, for tests of more than two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


def clouds(n: int, n_classes: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Features (row, 4) float32, clean codes and given codes (row,) of clouds around a circle; a
    fifth of the labels is that of the next class."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, n_classes, n)
    angle = 2 * np.pi * clean / n_classes
    center = 0.9 * n_classes * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = rng.normal(size=(n, 4))
    x[:, :2] += center
    given = np.where(rng.random(n) < 0.2, (clean + 1) % n_classes, clean)
    return x.astype(np.float32), clean, given


def names(n_classes: int) -> npt.NDArray[np.str_]:
    """Names of classes, in the order of their codes."""
    return np.array(
        [f"kind {chr(97 + code // 26)}{chr(97 + code % 26)}" for code in range(n_classes)]
    )


def write_csv(target: Path, x: npt.NDArray[np.float32], label: npt.NDArray[Any]) -> Path:
    """A table of the features `a` … and the label `kind`."""
    table = pd.DataFrame(x, columns=[chr(97 + i) for i in range(x.shape[1])])
    table.assign(kind=label).to_csv(target, index=False)
    return target
