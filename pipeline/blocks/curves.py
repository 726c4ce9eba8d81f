"""Features of heavy tails as normal scores: where a few amounts are far away, all others are near
each other, whatever they tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pipeline.arrays import Float32, Float64, Int64
from pipeline.blocks.scaling import FeatureStatistics

SHARE = np.linspace(0.0, 1.0, 101)
"""Of rows that are below each knot."""
HEAVY = 4.0
"""Tails are heavy where the middle 98 % of the rows spread over more than so many times what the
middle half does; normal ones over 3.45, exponential ones over 4.2."""
FEWEST_KNOTS = 10
"""Distinct ones of a feature that is no count of a few."""


class Curves(NamedTuple):
    """Of some features, functions that rise: linear between knots, and beyond them as from the
    first to the last."""

    place: Int64
    """(curve,) the features."""
    knot: Float64
    """(curve, knot) values, ascending."""
    score: Float64
    """(curve, knot) what they become."""

    def apply(self, x: Float32) -> Float32:
        """(row, feature) float32 of rows (row, feature) float32."""
        out = x.copy()
        for place, knot, score in zip(self.place, self.knot, self.score, strict=True):
            value = x[:, place].astype(np.float64)
            slope = (score[-1] - score[0]) / (knot[-1] - knot[0])
            beyond = value - np.clip(value, knot[0], knot[-1])
            out[:, place] = np.interp(value, knot, score) + slope * beyond
        return out


def curves(x: Float32) -> Curves | None:
    """Those that make normal scores (van der Waerden 1952) of the features of heavy tails, times
    each one's deviation, so that it counts as much beside the others; None where there are none.

    ``x`` is a sample (row, feature). Equal values have the mean of the scores of their ranks.
    """
    statistics = FeatureStatistics(x.shape[1])
    statistics.see(x)
    normal = ndtri(np.clip(SHARE, 0.5 / len(x), 1.0 - 0.5 / len(x)))
    each = []
    for place, deviation in enumerate(statistics.deviation.tolist()):
        knot = np.quantile(x[:, place].astype(np.float64), SHARE)
        _, which = np.unique(knot, return_inverse=True)
        heavy = knot[99] - knot[1] > HEAVY * (knot[75] - knot[25])
        if heavy and which[-1] + 1 >= FEWEST_KNOTS:
            score = (np.bincount(which, normal) / np.bincount(which))[which]
            each.append((place, knot, deviation * score))
    if not each:
        return None
    places, knots, scores = zip(*each, strict=True)
    return Curves(np.array(places), np.array(knots), np.array(scores))
