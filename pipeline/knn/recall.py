"""Recall of approximate lists against exact ones, with an honest interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float32, Float64

_Z = 1.959964


@dataclass(frozen=True)
class Recall:
    """Mean share of true neighbors found, over a random sample of rows."""

    value: float
    interval: tuple[float, float]
    """95 %"""
    n_rows: int


def row_recall(distance: Float32, exact_distance: Float32) -> Float64:
    """(row,) share of each row's true neighbors that its list holds.

    Distances are exact on both sides, so a listed row counts when it is no farther than the last
    true neighbor: which of several rows at one distance is listed makes no difference.

    Parameters
    ----------
    distance : (row, k) float32, inf where the list is short
    exact_distance : (row, k) float32, ascending
    """
    limit = exact_distance[:, -1:]
    hits: Float64 = (distance <= limit).sum(axis=1) / distance.shape[1]
    return hits


def summarize(recalls: Float64) -> Recall:
    """Mean and Wilson interval; the neighbors of a row are not independent, so the sample counts
    as its rows, or as more where the recalls of rows vary less than that.

    Parameters
    ----------
    recalls : (row,) in [0, 1], at least one
    """
    n = len(recalls)
    p = float(recalls.mean())
    variance = float(recalls.var(ddof=1)) if n > 1 else 0.0
    spread = variance + p * (1 - p) / n  # a small sample tells little of its own variance
    size = max(float(n), n * p * (1 - p) / spread) if spread > 0 else float(n)
    return Recall(p, wilson(p, size), n)


def wilson(share: float, size: float) -> tuple[float, float]:
    """95 % Wilson interval of a share of `size` > 0 independent rows."""
    center = (share + _Z**2 / (2 * size)) / (1 + _Z**2 / size)
    half = _Z / (1 + _Z**2 / size) * np.sqrt(share * (1 - share) / size + _Z**2 / (4 * size**2))
    low, high = float(center - half), float(center + half)
    return max(0.0, min(share, low)), min(1.0, max(share, high))
