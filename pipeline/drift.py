"""Have the noise rates moved between two trainings, or is it chance?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["steady", "drifted", "unknown"]


@dataclass(frozen=True)
class Change:
    """One rate in two trainings."""

    before: float
    after: float
    change: float
    """`after - before`"""
    interval: tuple[float, float]
    """95 % interval of the change, the two trainings taken as independent."""
    verdict: Verdict
    """drifted: the interval leaves 0 out; unknown: one of the rates is unsupported."""


def rate_change(
    before: tuple[float, tuple[float, float], str], after: tuple[float, tuple[float, float], str]
) -> Change:
    """The change of a rate; each side is (rate, 95 % interval, support).

    The interval of the difference joins the sides that face each other by squares (Newcombe 1998,
    method 10, for any pair of intervals). Pools that share rows make it wider than it need be.
    """
    (a, (a_low, a_high), _), (b, (b_low, b_high), _) = before, after
    change = b - a
    low = change - math.hypot(b - b_low, a_high - a)
    high = change + math.hypot(b_high - b, a - a_low)
    if "unsupported" in (before[2], after[2]):
        verdict: Verdict = "unknown"
    else:
        verdict = "drifted" if low > 0.0 or high < 0.0 else "steady"
    return Change(a, b, change, (low, high), verdict)
