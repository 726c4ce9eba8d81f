"""The preprocessing of Errandonea et al., appendix D.2, before neighbors are searched.

Rows are centered (or their values' signed cube roots taken), scaled to unit length, moved towards a
weighted mean of their neighbors, scaled to unit length again, and divided by the mean distance to
their nearest rows, which keeps single rows from being everyone's neighbor. Every step needs only a
row and its neighbors among the training rows, so blocks of rows can be done one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float32, Float64, Integers


@dataclass(frozen=True)
class Preprocessing:
    """The constants of one of the paper's two pipelines."""

    alpha: float
    """weight of the neighbors' mean"""
    n_density: int
    """neighbors whose mean distance a row is divided by"""
    cube_root: bool = False
    """take signed cube roots of the values instead of centering them"""
    n_smooth: int = 10
    """neighbors that a row is averaged with"""


PIPELINES = {
    "averaged": Preprocessing(alpha=0.25, n_density=50),
    "averaged-cube-root": Preprocessing(alpha=0.1, n_density=100, cube_root=True),
}
"""Those of images and of descriptors, by the name that an option of `train` gives them."""


def unit_rows(x: Float32, center: Float64 | None) -> Float32:
    """(row, feature) float32 rows of unit length; zero rows stay zero.

    ``center`` (feature,) is the training mean that is subtracted first; where it is None, signed
    cube roots are taken instead (equation 15).
    """
    moved = np.cbrt(x.astype(np.float64)) if center is None else x - center
    return _unit(moved)


def smoothed(
    x: Float32, train: Float32, neighbor: Integers, distance: Float32, alpha: float
) -> Float32:
    """(row, feature) float32: rows moved towards their neighbors, at unit length (equation 13).

    ``neighbor`` (row, k) rows of ``train`` and their ``distance``, ascending, infinite where a list
    ends before; the weights are Gaussian, their bandwidth the median distance of the row's own.
    Where that is zero, the neighbors at distance zero weigh the same and the others nothing.
    """
    width = np.median(distance, axis=1, keepdims=True).astype(np.float64)
    for short in np.flatnonzero(~np.isfinite(distance[:, -1])):
        width[short] = np.median(distance[short][np.isfinite(distance[short])])
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(distance > 0, distance / width, 0.0)
    weight = np.exp(-0.5 * np.square(scaled))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = np.einsum("rk,rkf->rf", weight, train[neighbor].astype(np.float64))
    return _unit((1.0 - alpha) * x + alpha * mean)


def least_reach(mean: Float64) -> float:
    """What rows among copies of themselves are divided by: the least positive mean distance, 1 at
    most; of several parts of the rows the least counts."""
    return float(mean[mean > 0].min(initial=1.0))


def density_scaled(x: Float32, mean: Float64, copies: float) -> Float32:
    """(row, feature) float32 rows divided by their mean distance (row,) to neighbors (equation 14).

    Rows among copies of themselves, whose mean is 0, are divided by ``copies``, `least_reach` of
    the training rows.
    """
    scaled: Float32 = (x / np.where(mean > 0, mean, copies)[:, None]).astype(np.float32)
    return scaled


def _unit(x: Float64) -> Float32:
    norm = np.sqrt(np.einsum("rf,rf->r", x, x))[:, None]
    unit: Float32 = (x / np.where(norm > 0, norm, 1.0)).astype(np.float32)
    return unit
