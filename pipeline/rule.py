"""The rule that scoring and the label check apply to an average of k given labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline import rknn, threshold
from pipeline.rates import NoiseRates
from pipeline.threshold import MOST_NOISE, Decision, Floats

RULES = ("corrected", "rknn")


@dataclass(frozen=True)
class Rule:
    """``corrected``: 1 where the average reaches the threshold (step 3 of Algorithm 2 of Reeve &
    Kabán 2019); ``rknn``: the open-interval rule of Gao, Yang & Zhou."""

    rule: Literal["corrected", "rknn"]
    threshold: float
    p0: float
    """Rates that posteriors are computed with; their posterior is ½ at the threshold."""
    p1: float

    def predict(self, eta_corr: Floats) -> NDArray[np.int8]:
        """(row,) int8 labels of averages (row,)."""
        if self.rule == "rknn":
            return rknn.predict(eta_corr.astype(np.float64), self.p0, self.p1)
        return threshold.predict(eta_corr, self.threshold)


def rule_of(rates: NoiseRates, decision: Decision) -> Rule:
    """The rule for some rates, at a threshold that may move less than they call for: then their
    difference is shortened with it and their sum kept. RkNN's rates take RkNN's rule."""
    total = min(rates.p0 + rates.p1, MOST_NOISE)
    difference = 2.0 * decision.threshold - 1.0
    half = min(abs(difference), total) / 2.0 * (1.0 if difference >= 0 else -1.0)
    name: Literal["corrected", "rknn"] = "rknn" if rates.method == "rknn" else "corrected"
    return Rule(name, decision.threshold, total / 2 + half, total / 2 - half)
