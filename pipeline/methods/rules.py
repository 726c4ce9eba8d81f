"""The registry of decision rules, and the rule that scoring and the label check apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float64, Floating, Int8
from pipeline.decision import threshold
from pipeline.decision.threshold import Decision, bounded
from pipeline.decision.votes import certain_as, k_grid
from pipeline.methods import rknn
from pipeline.noise.rates import NoiseRates

LONGEST = {"exact": 100, "join": 50, "pynndescent": 50}
"""Neighbors per row among which k is chosen; longer lists cost the approximate builders much."""
ENOUGH = 30
"""Neighbors per row that label qualities are read off at least, where a smaller k is asked for."""


@dataclass(frozen=True)
class Kind:
    """What a rule asks of the graph, and how it decides."""

    list_length: Callable[[int | None, int, str], int]
    """(k or None, rows, builder) → neighbors kept per row."""
    sizes: Callable[[int | None, int], tuple[int, ...]]
    """(k or None, list length) → sizes whose averages are taken."""
    predict: Callable[[Floating, float, float, float], Int8]
    """(averages (row,), threshold, p0, p1) → labels (row,) int8."""
    own_pass: bool = False
    """The module `flows.steps.labels.NAME` has a function `select`, a pass over the graph that
    chooses k and estimates the rates the rule's own way."""


RULES: dict[str, Kind] = {
    "corrected": Kind(  # step 3 of Algorithm 2 of Reeve & Kabán 2019
        lambda k, n_rows, builder: max(k or 5, min(ENOUGH if k else LONGEST[builder], n_rows // 4)),
        lambda k, longest: tuple(sorted({*k_grid(longest), k or longest})),
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
    """The noise rates."""
    p1: float
    even: float | None = None
    """The average at which both classes are as likely; None: the threshold."""

    def predict(self, eta_corr: Floating) -> Int8:
        """(row,) int8 labels of averages (row,) of k given labels."""
        return RULES[self.rule].predict(eta_corr, self.threshold, self.p0, self.p1)

    def posterior(self, eta_corr: Floating, k: int) -> Float64:
        """P(clean label is 1) of averages (row,) of k given labels."""
        even = self.threshold if self.even is None else self.even
        return certain_as(threshold.posterior(eta_corr, self.p0, self.p1, even), k)


def rule_of(rates: NoiseRates, decision: Decision) -> Rule:
    """The rule for some rates; those that a rule estimated its own way take that rule."""
    name = rates.method if rates.method in RULES else "corrected"
    return Rule(name, decision.threshold, *bounded(rates.p0, rates.p1), decision.even)
