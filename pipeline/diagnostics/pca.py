"""A flat picture of a sample: its two directions of largest variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float64, Floating
from pipeline.knn.threads import one_thread


@dataclass(frozen=True)
class Plane:
    """A sample on its first two principal components."""

    at: Float64
    """(row, 2), centered; the second column is 0 where there is one feature."""
    share: tuple[float, float]
    """Share of the sample's variance along each component."""


def principal_plane(x: Floating) -> Plane:
    """The sample `x`, (row, feature) finite, seen along its two directions of largest variance.

    The sign of a component is such that its largest weight is positive, and one thread computes,
    so that equal samples give equal pictures. Of more features than rows, the matrix of the rows'
    products is decomposed in place of that of the features'. ValueError where `x` has no rows.
    """
    if len(x) == 0:
        raise ValueError("x: no rows to see")
    centered = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    with one_thread():
        wide = centered.shape[1] > len(centered)
        variance, vector = np.linalg.eigh(centered @ centered.T if wide else centered.T @ centered)
        first = vector[:, ::-1][:, :2]
        if wide:
            first = centered.T @ first
            first /= np.maximum(np.linalg.norm(first, axis=0), np.finfo(np.float64).tiny)
        largest = np.abs(first).argmax(axis=0)
        at = centered @ (first * np.sign(first[largest, np.arange(first.shape[1])]))
    total = max(float(variance.sum()), np.finfo(np.float64).tiny)
    shares = [max(0.0, float(v)) / total for v in variance[::-1][:2]]
    if at.shape[1] == 1:
        return Plane(np.column_stack([at, np.zeros(len(at))]), (shares[0], 0.0))
    return Plane(at, (shares[0], shares[1] if len(shares) > 1 else 0.0))
