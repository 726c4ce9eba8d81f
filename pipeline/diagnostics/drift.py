"""What changed between two trainings: have the rates moved, and which verdicts flipped?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipeline.arrays import AnyArray, Bools

Rate = tuple[float, tuple[float, float]]
"""A rate and its 95 % interval."""


@dataclass(frozen=True)
class Change:
    """One rate in two trainings."""

    before: float
    after: float
    change: float
    """`after - before`"""
    interval: tuple[float, float]
    """95 % interval of the change, the two trainings taken as independent."""
    verdict: Literal["within error", "drifted", "unknown"]
    """drifted: the interval leaves 0 out; unknown: an interval is not to be relied on."""


def rate_change(before: Rate, after: Rate, *, reliable: bool) -> Change:
    """The change of a rate; `reliable` False where either interval is not calibrated.

    The interval of the difference joins by squares the sides that face each other (Newcombe 1998,
    method 10, for any pair of intervals). For pools that share rows it is wider than need be.
    """
    (a, (a_low, a_high)), (b, (b_low, b_high)) = before, after
    change = b - a
    low = change - math.hypot(b - b_low, a_high - a)
    high = change + math.hypot(b_high - b, a - a_low)
    if not reliable:
        return Change(a, b, change, (low, high), "unknown")
    moved = low > 0.0 or high < 0.0
    return Change(a, b, change, (low, high), "drifted" if moved else "within error")


def flips(before: Mapping[str, AnyArray], after: Mapping[str, AnyArray]) -> dict[str, int]:
    """Counts of what differs between verdicts on the same rows; counts of chunks add up.

    Both hold given_label, predicted_label (codes) and is_label_issue (bool), each (row,).
    """
    was, now = before["predicted_label"], after["predicted_label"]
    suspect, still = before["is_label_issue"], after["is_label_issue"]
    return {
        "n_rows": len(was),
        "given_changed": int((before["given_label"] != after["given_label"]).sum()),
        "predicted_changed": int((was != now).sum()),
        "predicted_to_1": int(((was == 0) & (now == 1)).sum()),
        "predicted_to_0": int(((was == 1) & (now == 0)).sum()),
        "newly_suspect": int((~suspect & still).sum()),
        "no_longer_suspect": int((suspect & ~still).sum()),
        "flipped": int(flipped(before, after).sum()),
    }


def flipped(before: Mapping[str, AnyArray], after: Mapping[str, AnyArray]) -> Bools:
    """(row,) whether the predicted label or the verdict on the given one differs."""
    predicted = before["predicted_label"] != after["predicted_label"]
    return np.asarray(predicted | (before["is_label_issue"] != after["is_label_issue"]))
