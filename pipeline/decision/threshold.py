"""From an average of given labels to a decision and a clean probability.

Step 3 of Algorithm 2 of Reeve & Kaban 2019, and Bayes' rule with
``eta_corr = (1 - p0 - p1) * eta + p0`` (their equation 1). Where the rates are estimates, the
threshold is the one of least risk on the held-out labels, as Natarajan et al. 2013 correct it,
with the errors of labels and rates counted against every move.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.arrays import Float64, Floating, Int8, Int64, Integers
from pipeline.noise.rates import NoiseRates, clean_shares

TIE = 8
"""An average this many units of rounding below the threshold meets it."""
SURE = 1.0
"""Standard errors of the labels, and of the rates, by which a moved threshold must gain."""
DOUBTED = (
    "By the estimated rates most rows of one class would be given the other label, and labels "
    "around the other class are mixed as well, which is more like mistakes that depend on the "
    "features: the plain vote decides."
)
UNKNOWN = (
    "The error of a rate is as large as the difference between the classes' labels, so that the "
    "rates are not known: the plain vote decides."
)
MOST_NOISE = 0.98
"""Largest sum of the rates that decisions use: beyond it labels say nothing."""


def threshold(p0: float, p1: float, cost: float = 0.5) -> float:
    """``p0 + cost * (1 - p0 - p1)``, with equal costs ``(1 + p0 - p1) / 2``.

    ``cost`` is as from ``cost_share``. ValueError unless both rates are in [0, 1] and p0 + p1 < 1.
    """
    if not (0.0 <= p0 <= 1.0 and 0.0 <= p1 <= 1.0 and p0 + p1 < 1.0):
        raise ValueError(f"p0={p0}, p1={p1}: need rates in [0, 1] with p0 + p1 < 1")
    return p0 + cost * (1.0 - p0 - p1)


def cost_share(objective: str) -> float | None:
    """C01 / (C01 + C10) of an objective: the chance of class 1 from which predicting 1 pays.

    ``C01:C10`` are the costs of predicting 1 where 0 is true and 0 where 1 is; ``accuracy`` is 1:1.
    None for ``balanced``, whose costs are the shares of the clean classes, C01 that of class 1.
    ValueError for anything else.
    """
    if objective in ("accuracy", "balanced"):
        return 0.5 if objective == "accuracy" else None
    number = r"(\d+(?:\.\d+)?)"
    costs = re.fullmatch(f"{number}:{number}", objective)
    c01, c10 = (float(one) for one in costs.groups()) if costs else (0.0, 0.0)
    if not (0.0 < c01 < np.inf and 0.0 < c10 < np.inf):
        raise ValueError(
            f"{objective!r}: need accuracy, balanced, or two costs such as 1:5, of predicting the "
            "second class where the first is true and of the opposite"
        )
    return c01 / (c01 + c10)


def bounded(p0: float, p1: float) -> tuple[float, float]:
    """The rates, lowered alike where their sum exceeds ``MOST_NOISE``."""
    less = min(1.0, MOST_NOISE / max(p0 + p1, MOST_NOISE))
    return p0 * less, p1 * less


@dataclass(frozen=True)
class Decision:
    """The threshold to use and what it is worth compared with the plain vote's 1/2."""

    threshold: float
    full: float
    """The threshold the rates call for, ``p0 + cost * (1 - p0 - p1)``."""
    gain: float | None
    """How many more rows are right than at 1/2, estimated leave-one-out on the given labels; may be
    below 0 for another objective than accuracy; None if the rates are taken at their word."""
    gain_error: float | None
    """Standard error of ``gain``, from the labels' noise and the rates' own errors."""
    reason: str
    objective: str = "accuracy"
    """What the threshold serves, as ``cost_share`` takes it."""
    balanced_gain: float | None = None
    """How much higher balanced accuracy is than at 1/2, estimated like ``gain``."""
    even: float | None = None
    """The threshold of accuracy, where both classes are as likely; None: ``threshold``."""


def vote_table(count: Integers, given_label: Integers, k: int) -> Int64:
    """Rows by ones among the k nearest others and by own given label: (k + 1, 2) int64.

    ``count`` is (row,) in 0..k without the row's own label. Tables of blocks add up.
    """
    cell = 2 * count.astype(np.int64) + given_label.astype(np.int64)
    return np.bincount(cell, minlength=2 * (k + 1)).astype(np.int64).reshape(k + 1, 2)


def contradicted(votes: Sequence[Int64]) -> float:
    """Share of rows whose given label the plain vote contradicts, by the size that contradicts
    fewest, at least 0.05 and at most 0.45; ``votes`` has a ``vote_table`` per size."""
    shares = []
    for table in votes:
        ones = 2 * np.arange(len(table)) >= len(table) - 1
        shares.append((table[ones, 0].sum() + table[~ones, 1].sum()) / max(1, table.sum()))
    return float(np.clip(min(shares), 0.05, 0.45))


def credible(rates: NoiseRates, votes: Sequence[Int64]) -> NoiseRates:
    """The rates that decisions rest on: in place of doubtful ones, one rate for both classes, with
    which the plain vote decides; ``votes`` as in ``contradicted``."""
    if not rates.doubtful:
        return rates
    wrong = contradicted(votes)
    doubt = UNKNOWN if rates.unknown else DOUBTED
    reason = rates.reason if rates.in_place else doubt
    return replace(rates, p0=wrong, p1=wrong, method="contradicted", reason=reason)


def tempered(rates: NoiseRates, votes: Int64, objective: str = "accuracy") -> Decision:
    """The threshold that surely serves the objective best.

    ``votes`` is (k + 1, 2) from ``vote_table``, at the k of the predictions. Given rates and the
    papers' own are taken at their word. Otherwise, rows that a threshold moves away from the plain
    vote's side gain by as much as their share of given 1s lies beyond the threshold ``at`` of the
    rates: ``given 1s - at * rows``, without bias, since no row's own label is in its average. Of
    all thresholds, the one whose gain less ``SURE`` standard errors of the rows' labels and of
    ``at`` is greatest is taken; the plain vote where none is above 0. Balanced accuracy needs no
    rates: noise by class only scales it, and the best threshold is the share of given 1s (Menon et
    al. 2015). ValueError for an unknown objective.
    """
    cost, k = cost_share(objective), len(votes) - 1
    p0, p1 = bounded(rates.p0, rates.p1)
    given = float(votes[:, 1].sum() / max(1, votes.sum()))
    plain, at = (given, given) if cost is None else (cost, threshold(p0, p1, cost))
    if rates.method != "crossfit":
        doubted = rates.method == "contradicted"
        reason = rates.reason if doubted else "The rates are taken at their word."
        even = threshold(p0, p1)
        return Decision(at, at, None, None, reason, objective, even=even)
    average = np.arange(k + 1) / k
    start, half, full = (int((predict(average, t) == 0).sum()) for t in (plain, 0.5, at))
    e0, e1 = rates.risk(given).tolist()
    moved = _moved(votes, start, (0.0, 0.0) if cost is None else (p0, p1))
    gain = moved.keep * moved.sign * (moved.truly - (given if cost is None else cost) * moved.rows)
    error = 0.0 if cost is None else float(np.hypot((1.0 - cost) * e0, cost * e1))
    sure = (gain - SURE * (error * moved.rows + moved.noise))[1:-1]  # some rows of either class
    cut, used, reason = start, plain, "No move from the plain vote pays more than its error."
    if sure.max() > 0.0:
        cut = 1 + int(np.argmax(sure))
        used = at if cut == full else (cut - 0.5) / k
        if_so = "" if cost is None else ", if mistakes depend on the class alone"
        reason = f"The threshold pays most, less a standard error, on the held-out labels{if_so}."
    even = used if objective == "accuracy" else tempered(rates, votes).threshold
    rows, rows_error, balanced = _moved(votes, half, (p0, p1)).worth(cut, e0, e1)
    return Decision(used, at, rows, rows_error, reason, objective, balanced, even)


@dataclass(frozen=True)
class _Moved:
    """What changes if rows with at least c ones among their neighbors are predicted 1: (k + 2,)
    float64 of each, for c in 0..k + 1."""

    sign: Floating
    """1 where rows move to class 1, -1 where to class 0."""
    rows: Floating
    """Rows that move."""
    truly: Floating
    """Rows of these that are truly 1, as estimated; a class is not joined by more than it has."""
    noise: Floating
    """Standard error of the number of given 1s among them."""
    keep: float
    """``1 - p0 - p1``."""
    zeros: float
    """Rows that are truly 0 in all, at least 1."""
    ones: float

    def worth(self, cut: int, e0: float, e1: float) -> tuple[float, float, float]:
        """How many more rows are right at a cut, the standard error of that by errors of (p0, p1),
        and how much higher balanced accuracy is."""
        sign, rows, truly = self.sign[cut], self.rows[cut], self.truly[cut]
        unsure = np.linalg.norm([self.noise[cut], (rows - truly) * e0, truly * e1])
        by_class = min(truly / self.ones, 1.0) - min((rows - truly) / self.zeros, 1.0)
        error = min(rows, 2.0 / self.keep * unsure)
        return float(sign * (2.0 * truly - rows)), float(error), float(0.5 * sign * by_class)


def _moved(votes: Int64, start: int, rates: tuple[float, float]) -> _Moved:
    """Moved from a cut ``start`` of the bins ``votes`` to every other."""
    (p0, p1), n = rates, max(1.0, float(votes.sum()))
    zeros, ones = (max(1.0, n * s) for s in clean_shares(p0, p1, float(votes[:, 1].sum()) / n))
    size = votes.sum(axis=1).astype(np.float64)
    share = np.clip(votes[:, 1] / np.maximum(size, 1.0), 0.05, 0.95)
    below = np.cumsum([size, votes[:, 1], size * share * (1.0 - share)], axis=1)
    below = np.concatenate([np.zeros((3, 1)), below], axis=1)
    rows, given, variance = np.abs(below - below[:, start : start + 1])
    sign = np.sign(start - np.arange(len(size) + 1.0))
    least = np.where(sign < 0, rows - np.minimum(rows, zeros), 0.0)
    most = np.where(sign > 0, np.minimum(rows, ones), rows)
    truly = np.clip((given - p0 * rows) / (1.0 - p0 - p1), least, most)
    return _Moved(sign, rows, truly, np.sqrt(variance), 1.0 - p0 - p1, zeros, ones)


def predict(eta_corr: Floating, at: float) -> Int8:
    """1 where ``eta_corr`` (row,) reaches the threshold ``at``, else 0; int8.

    ``eta_corr`` is a count divided by k and ``at`` a rounded number, so that an average equal to
    the threshold may come out a few units of rounding below; it counts as 1 all the same. Different
    averages are at least 1/k apart, which is far more.
    """
    slack = TIE * float(np.finfo(eta_corr.dtype).eps)
    return (eta_corr.astype(np.float64) >= at - slack).astype(np.int8)


def posterior(eta_corr: Floating, p0: float, p1: float, even: float | None = None) -> Float64:
    """P(clean label is 1) of each row, float64: 0 up to ``p0``, and 1 from ``1 - p1``.

    Without ``even`` it is ``clip((eta_corr - p0) / (1 - p0 - p1), 0, 1)``; otherwise it is 1/2 at
    the average ``even``, and straight on both sides.
    """
    least, middle = 0.5 * (1.0 - MOST_NOISE), threshold(p0, p1)
    even, least = (middle, 0.0) if even is None else (even, least)
    knots = [min(p0, even - least), even, max(1.0 - p1, even + least)]
    return np.asarray(np.interp(eta_corr, knots, [0.0, 0.5, 1.0]), dtype=np.float64)
