"""Scaling of features, from statistics of the training rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pipeline.arrays import AnyArray, Bools, Float32, Float64
from pipeline.knn.moments import extent, moved, squares
from pipeline.knn.rows import as_rows
from pipeline.knn.threads import quiet

APART = 25.0
"""Ratio of spreads from which on columns are on different scales: data sets with columns of one
kind are below 16, those with mixed units above 70."""
SPREAD_ROWS = 20_000
"""Rows whose spreads are compared."""


@dataclass(frozen=True)
class Scaling:
    """x → (x - offset) · factor, feature by feature; None leaves x as it is. If only directions are
    to count, rows then get length 1."""

    offset: tuple[float, ...] | None = None
    factor: tuple[float, ...] | None = None
    directions: bool = False

    def apply(self, x: Float32) -> Float32:
        """(row, feature) float32, computed in float64 and rounded once. Directions are (row,
        feature + 1): rows of zeros have none, and are put at a right angle to all others."""
        if self.offset is not None and self.factor is not None:
            x = moved(x, np.asarray(self.offset), np.asarray(self.factor))
        return np.asarray(as_rows(x, "cosine")) if self.directions else x

    def then(self, after: Scaling) -> Self:
        """Both, one after the other, rounded once."""
        if after.offset is None or after.factor is None:
            return replace(self, directions=after.directions)
        if self.offset is None or self.factor is None:
            return replace(self, offset=after.offset, factor=after.factor)
        offset, factor = np.asarray(self.offset), np.asarray(self.factor)
        moved = np.divide(after.offset, factor, out=np.zeros_like(factor), where=factor != 0)
        both = offset + moved, factor * np.asarray(after.factor)
        return replace(self, offset=tuple(both[0].tolist()), factor=tuple(both[1].tolist()))


@dataclass(frozen=True)
class Spreads:
    """How far apart the scales of some columns are."""

    ratio: float
    """Of the widest to the narrowest column; 1 for fewer than two."""
    narrow: int
    wide: int
    """Their places."""
    least: float
    most: float

    @property
    def apart(self) -> bool:
        """Whether the widest column decides nearly alone who is near."""
        return self.ratio > APART

    def described(self, names: Sequence[str]) -> str:
        """The columns that lie furthest apart, in words."""
        return (
            f"{names[self.narrow]!r} spreads over {_plain(self.least)}, {names[self.wide]!r} over "
            f"{_plain(self.most)} and would decide nearly alone who is near"
        )


def _plain(value: float) -> str:
    """Three digits as people write them: 1,270 and not 1.27e+03."""
    return f"{float(f'{value:.3g}'):,.10g}"


def spreads(x: AnyArray) -> Spreads:
    """Compare columns, (row, feature), by the distance between their 5 % and 95 % quantiles, and by
    their ranges, and take the measure in which they differ less: counts and pixels, mostly zero,
    have similar ranges, and heavy tails similar quantiles. Gaps (NaN) and constants do not count.
    """
    x = np.asarray(x[:SPREAD_ROWS], np.float64)
    ratios = [Spreads(1.0, 0, 0, 0.0, 0.0)]
    with quiet():  # of columns that are all gaps
        low, high = np.nanquantile(x, (0.05, 0.95), axis=0) if len(x) else np.zeros((2, x.shape[1]))
        whole = np.nanmax(x, axis=0) - np.nanmin(x, axis=0) if len(x) else np.zeros(x.shape[1])
    for width in (np.where(high > low, high - low, whole), whole):
        there = np.flatnonzero(np.isfinite(width) & (width > 0))
        if len(there) < 2:
            return ratios[0]
        narrow, wide = there[width[there].argmin()], there[width[there].argmax()]
        least, most = float(width[narrow]), float(width[wide])
        ratios.append(Spreads(most / least, int(narrow), int(wide), least, most))
    return min(ratios[1:], key=lambda spread: spread.ratio)


class FeatureStatistics:
    """Minimum, maximum, mean and standard deviation of each feature, chunk by chunk."""

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.mean = np.zeros(n_features)
        self.squares = np.zeros(n_features)

    def see(self, x: Float32) -> None:
        """Take a chunk, (row, feature) float32, at least one row."""
        chunk = FeatureStatistics(x.shape[1])
        chunk.n, (chunk.low, chunk.high, chunk.mean) = len(x), extent(x)
        chunk.squares = squares(x, chunk.mean)
        self.merge(chunk)

    def merge(self, chunk: FeatureStatistics) -> None:
        """Take what is known of other rows (Chan's parallel update); the last bits depend on the
        chunks and their order alone."""
        shift, total = chunk.mean - self.mean, self.n + chunk.n
        self.squares += chunk.squares + np.square(shift) * (self.n * chunk.n / total)
        self.mean += shift * (chunk.n / total)
        self.n = total
        self.low = np.minimum(self.low, chunk.low)
        self.high = np.maximum(self.high, chunk.high)

    @property
    def deviation(self) -> Float64:
        """(feature,)"""
        return np.sqrt(self.squares / max(1, self.n))

    def scaling(self, scale: str, kept: Bools | None = None) -> Scaling:
        """`none`; `range`: to [-1, 1]; `standard`: mean 0, deviation 1. Constants become 0.

        kept : (feature,) which columns stay as they are
        """
        if scale == "none":
            return Scaling()
        if scale == "range":
            offset, width = (self.low + self.high) / 2, (self.high - self.low) / 2
        else:
            offset, width = self.mean, self.deviation
        factor = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
        if kept is not None:
            offset, factor = np.where(kept, 0.0, offset), np.where(kept, 1.0, factor)
        return Scaling(tuple(offset.tolist()), tuple(factor.tolist()))

    def summary(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "minimum": self.low.tolist(),
            "maximum": self.high.tolist(),
            "mean": self.mean.tolist(),
            "standard_deviation": self.deviation.tolist(),
        }
