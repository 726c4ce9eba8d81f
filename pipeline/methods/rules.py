"""The registry of decision rules, and the rule that scoring and the label check apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.decision import threshold
from pipeline.decision.threshold import MOST_NOISE, Decision, Floats
from pipeline.decision.votes import k_grid
from pipeline.methods import rknn
from pipeline.noise.rates import NoiseRates

LONGEST = {"exact": 100, "join": 50, "pynndescent": 50}
"""Neighbors per row among which k is chosen; longer lists cost the approximate builders much."""


@dataclass(frozen=True)
class Kind:
    """What a rule asks of the graph, and how it decides."""

    list_length: Callable[[int | None, int, str], int]
    """(k or None, rows, builder) → neighbors kept per row."""
    sizes: Callable[[int | None, int], tuple[int, ...]]
    """(k or None, list length) → sizes whose averages are taken."""
    predict: Callable[[Floats, float, float, float], NDArray[np.int8]]
    """(averages (row,), threshold, p0, p1) → labels (row,) int8."""
    own_pass: bool = False
    """The module `flows.steps.NAME` has a function `select`, a pass over the graph that chooses k
    and estimates the rates the rule's own way."""


RULES: dict[str, Kind] = {
    "corrected": Kind(  # step 3 of Algorithm 2 of Reeve & Kabán 2019
        lambda k, n_rows, builder: k or max(5, min(LONGEST[builder], n_rows // 4)),
        lambda k, longest: k_grid(longest),
        lambda eta, at, p0, p1: threshold.predict(eta, at),
    ),
    "rknn": Kind(  # Algorithm 1 of Gao, Yang & Zhou
        lambda k, n_rows, builder: rknn.list_length(k, n_rows),
        lambda k, longest: rknn.sizes_tried(longest, k),
        lambda eta, at, p0, p1: rknn.predict(eta.astype(np.float64), p0, p1),
        own_pass=True,
    ),
}


@dataclass(frozen=True)
class Rule:
    """A decision rule with the numbers it decides by."""

    rule: str
    """Its name in `RULES`."""
    threshold: float
    p0: float
    """Rates that posteriors are computed with; their posterior is ½ at the threshold."""
    p1: float

    def predict(self, eta_corr: Floats) -> NDArray[np.int8]:
        """(row,) int8 labels of averages (row,) of k given labels."""
        return RULES[self.rule].predict(eta_corr, self.threshold, self.p0, self.p1)


def rule_of(rates: NoiseRates, decision: Decision) -> Rule:
    """The rule for some rates, at a threshold that may move less than they call for.

    If the threshold is tempered, posteriors use adjusted rates: p0 + p1 is kept and p0 - p1 reduced
    so that a posterior of ½ falls exactly on the threshold. Rates that a rule estimated its own way
    take that rule.
    """
    total = min(rates.p0 + rates.p1, MOST_NOISE)
    difference = 2.0 * decision.threshold - 1.0
    half = min(abs(difference), total) / 2.0 * (1.0 if difference >= 0 else -1.0)
    name = rates.method if rates.method in RULES else "corrected"
    return Rule(name, decision.threshold, total / 2 + half, total / 2 - half)
