"""Scaling of features, from statistics of the training rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SCALES = ("none", "range", "standard")


@dataclass(frozen=True)
class Scaling:
    """x → (x - offset) · factor, feature by feature; None leaves x as it is."""

    offset: tuple[float, ...] | None = None
    factor: tuple[float, ...] | None = None

    def apply(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """(row, feature) float32, computed in float64 and rounded once."""
        if self.offset is None or self.factor is None:
            return x
        moved = (x.astype(np.float64) - np.asarray(self.offset)) * np.asarray(self.factor)
        return np.asarray(moved, np.float32)


class FeatureStatistics:
    """Minimum, maximum, mean and standard deviation of each feature, chunk by chunk."""

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.mean = np.zeros(n_features)
        self.squares = np.zeros(n_features)

    def see(self, x: npt.NDArray[np.float32]) -> None:
        """Take a chunk, (row, feature) float32, at least one row (Chan's parallel update)."""
        values = x.astype(np.float64)
        n, mean = len(values), values.mean(axis=0)
        squares = np.square(values - mean).sum(axis=0)
        shift, total = mean - self.mean, self.n + n
        self.squares += squares + np.square(shift) * (self.n * n / total)
        self.mean += shift * (n / total)
        self.n = total
        self.low = np.minimum(self.low, values.min(axis=0))
        self.high = np.maximum(self.high, values.max(axis=0))

    def scaling(self, scale: str) -> Scaling:
        """`none`; `range`: to [-1, 1]; `standard`: mean 0, deviation 1. Constants become 0."""
        if scale == "none":
            return Scaling()
        if scale == "range":
            offset, width = (self.low + self.high) / 2, (self.high - self.low) / 2
        else:
            offset, width = self.mean, np.sqrt(self.squares / max(1, self.n))
        factor = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
        return Scaling(tuple(offset.tolist()), tuple(factor.tolist()))

    def summary(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "minimum": self.low.tolist(),
            "maximum": self.high.tolist(),
            "mean": self.mean.tolist(),
            "standard_deviation": np.sqrt(self.squares / max(1, self.n)).tolist(),
        }
