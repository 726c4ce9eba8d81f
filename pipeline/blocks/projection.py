"""Principal components of the training rows, and rows projected on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import eigh
from scipy.linalg.blas import dsyr, dsyrk

from pipeline.arrays import Float32, Float64
from pipeline.blocks.scaling import Scaling
from pipeline.knn.threads import one_thread

MOST_FEATURES = 4096
"""Features whose covariance is held, 128 MB, and decomposed in place."""
_TILE = 16
"""Rows that share one pass over the weights."""


class Covariance:
    """Mean and scatter of rows, chunk by chunk (Chan, Golub & LeVeque 1983), in float64."""

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self.mean = np.zeros(n_features)
        self.scatter = np.zeros((n_features, n_features), order="F")
        """(feature, feature) sum of products of deviations; its lower half."""

    def see(self, x: Float32) -> None:
        """Take a chunk, (row, feature) float32, at least one row."""
        values = x.astype(np.float64)
        n, mean = len(values), values.mean(axis=0)
        values -= mean
        shift, total = mean - self.mean, self.n + n
        with one_thread():  # else their number decides the last bits
            into = {"lower": 1, "overwrite_c": 1}
            self.scatter = dsyrk(1.0, values.T, 1.0, self.scatter, **into)
            more = self.n * n / total
            self.scatter = dsyr(more, shift, lower=1, a=self.scatter, overwrite_a=1)
        self.mean += shift * (n / total)
        self.n = total

    def components(self, n_components: int, scaling: Scaling) -> tuple[Components, float]:
        """The directions of largest variance of the rows once they are scaled, the largest first,
        and the share of the variance that they keep.

        The sign of a direction is such that its largest weight is positive, as in scikit-learn.
        The scatter is used up.
        """
        factor = np.ones(len(self.mean)) if scaling.factor is None else np.array(scaling.factor)
        scatter = self.scatter
        scatter *= factor
        scatter *= factor[:, None]
        total, n = float(np.trace(scatter)), len(scatter)
        with one_thread():
            variance, vector = eigh(
                scatter, subset_by_index=(n - n_components, n - 1), lower=True, overwrite_a=True
            )
        variance, vector = np.maximum(variance[::-1], 0.0), vector[:, ::-1]
        largest = np.abs(vector).argmax(axis=0)
        vector = vector * np.where(vector[largest, np.arange(n_components)] < 0, -1.0, 1.0)
        share = min(1.0, float(variance.sum()) / total) if total > 0 else 1.0
        per_row = variance / max(1, self.n - 1)
        weight = np.ascontiguousarray(vector * factor[:, None])
        return Components(self.mean, weight, per_row), share


class Components(NamedTuple):
    """x → (x - center) · weight."""

    center: Float64
    """(feature,)"""
    weight: Float64
    """(feature, component), the scale of the features included."""
    variance: Float64
    """(component,) of the training rows along each, descending."""

    def apply(self, x: Float32) -> Float32:
        """(row, component) float32 of rows (row, feature) float32.

        Summed in float64, feature by feature, and rounded once: the same for a row whatever rows
        stand beside it, which products of matrices do not promise.
        """
        out = np.empty((len(x), self.weight.shape[1]), np.float32)
        _project(np.ascontiguousarray(x), self.center, self.weight, out)
        return out


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _project(x: Float32, center: Float64, weight: Float64, out: Float32) -> None:
    n, width = out.shape
    total = np.empty((_TILE, width), np.float64)
    for first in range(0, n, _TILE):
        rows = min(_TILE, n - first)
        total[:] = 0.0
        for feature in range(len(center)):
            for row in range(rows):
                value = np.float64(x[first + row, feature]) - center[feature]
                for component in range(width):
                    total[row, component] += value * weight[feature, component]
        for row in range(rows):
            for component in range(width):
                out[first + row, component] = total[row, component]
