"""From an average of given labels to a decision and a clean probability.

Step 3 of Algorithm 2 of Reeve & Kaban 2019, and Bayes' rule with
``eta_corr = (1 - p0 - p1) * eta + p0`` (their equation 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.noise.rates import NoiseRates

Floats = NDArray[np.floating]

TIE = 8
"""An average this many units of rounding below the threshold meets it."""
SURE = {"supported": 0.5, "weak": 1.0, "unsupported": 1.5}
"""Standard errors by which a move of the threshold must pay, by verdict."""
PLAIN_ERROR = 0.05
"""Standard error of each plain extreme as far as their difference goes."""
BLENDED_ERROR = 0.03
"""The same, at most, of a rate that is weak because the classes blend alone."""
MOST_NOISE = 0.98
"""Sum of the rates that posteriors are computed with at most: beyond, labels say nothing."""


def threshold(p0: float, p1: float) -> float:
    """``(1 + p0 - p1) / 2``; ValueError unless both rates are in [0, 1] and p0 + p1 < 1."""
    _check(p0, p1)
    return 0.5 * (1.0 + p0 - p1)


@dataclass(frozen=True)
class Decision:
    """The threshold to use and what moving it away from 1/2 is worth."""

    threshold: float
    full: float
    """The threshold the rates call for, ``(1 + p0 - p1) / 2``."""
    gain: float | None
    """Rows more that are right than at 1/2, estimated leave-one-out on the given labels; None if
    the rates are taken at their word."""
    gain_error: float | None
    """Standard error of ``gain``, from the labels' noise and the rates' own errors."""
    reason: str


def vote_table(
    count: NDArray[np.integer], given_label: NDArray[np.integer], k: int
) -> NDArray[np.int64]:
    """Rows by ones among the k nearest others and by own given label: (k + 1, 2) int64.

    ``count`` is (row,) in 0..k without the row's own label. Tables of blocks add up.
    """
    cell = 2 * count.astype(np.int64) + given_label.astype(np.int64)
    return np.bincount(cell, minlength=2 * (k + 1)).astype(np.int64).reshape(k + 1, 2)


def tempered(rates: NoiseRates, votes: NDArray[np.int64]) -> Decision:
    """Move the threshold from 1/2 only as far as it surely pays.

    ``votes`` is (k + 1, 2) from ``vote_table``, at the k of the predictions. Given rates and the
    papers' own are taken at their word. Otherwise rows switch in order from 1/2 to the full
    threshold, ``(given 1s - p0 * rows) / (1 - p0 - p1)`` of them being truly 1, and the move stops
    where the gain less ``SURE`` standard errors is greatest. Rates that rest on too little are
    replaced by the plain extremes: a threshold takes only the rates' difference, in which the
    biases of a minimum and a maximum cancel. Where classes blend, the bias of the rates' intervals
    cancels likewise, and their errors are taken for ``BLENDED_ERROR`` at most.
    """
    if rates.method != "crossfit":
        at = threshold(rates.p0, rates.p1) if rates.p0 + rates.p1 < 1.0 else 0.5
        return Decision(at, at, None, None, "The rates are taken at their word.")
    if rates.support == "unsupported" and rates.plain is None:
        return Decision(0.5, 0.5, 0.0, 0.0, "Nothing tells noise from truth; the plain vote stays.")
    used = rates if rates.support == "supported" else _for_difference(rates)
    at = threshold(used.p0, used.p1)
    k = len(votes) - 1
    average = np.arange(k + 1) / k
    switched = np.flatnonzero(predict(average, at) != predict(average, 0.5))
    order = switched if at > 0.5 else switched[::-1]
    gain, error = _gains(used, votes[order], 1.0 if at < 0.5 else -1.0)
    best = int(np.argmax(gain - SURE[rates.support] * error))
    if best == 0:
        return Decision(0.5, at, 0.0, 0.0, "No correction surely pays, so the plain vote is kept.")
    pays = float(gain[best]), float(error[best])
    if best == len(order):
        return Decision(at, at, *pays, "The full correction pays on the held-out labels.")
    edge = average[order[best - 1]] + (0.5 if at > 0.5 else -0.5) / k
    reason = "The correction goes as far as it surely pays on the held-out labels."
    return Decision(float(edge), at, *pays, reason)


def _for_difference(rates: NoiseRates) -> NoiseRates:
    """The plain extremes, or weak rates themselves, with the errors their difference has."""
    p0, p1 = rates.plain or (rates.p0, rates.p1)
    less = min(1.0, MOST_NOISE / max(p0 + p1, MOST_NOISE))
    p0, p1, half = p0 * less, p1 * less, [1.96 * PLAIN_ERROR] * 2
    if rates.plain is None:
        half = [min(1.96 * error, 1.96 * BLENDED_ERROR) for error in rates.standard_errors]
    return replace(
        rates,
        p0=p0,
        p1=p1,
        p0_interval=(p0 - half[0], p0 + half[0]),
        p1_interval=(p1 - half[1], p1 + half[1]),
        errors=None,
    )


def _gains(
    rates: NoiseRates, votes: NDArray[np.int64], sign: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gain and standard error after switching the first 0, 1, 2, ... of the bins ``votes``."""
    keep = 1.0 - rates.p0 - rates.p1
    rows = votes.sum(axis=1).astype(np.float64)
    ones = votes[:, 1].astype(np.float64)
    share = np.clip(ones / np.maximum(rows, 1.0), 0.05, 0.95)
    total, noise = np.cumsum(rows), np.cumsum(rows * share * (1.0 - share))
    truly = (np.cumsum(ones) - rates.p0 * total) / keep
    gain = sign * (2.0 * truly - total)
    e0, e1 = rates.standard_errors
    error = 2.0 / keep * np.sqrt(noise + ((total - truly) * e0) ** 2 + (truly * e1) ** 2)
    return np.concatenate([[0.0], gain]), np.concatenate([[0.0], error])


def predict(eta_corr: Floats, at: float) -> NDArray[np.int8]:
    """1 where ``eta_corr`` (row,) reaches the threshold ``at``, else 0; int8.

    ``eta_corr`` is a count divided by k and ``at`` a rounded number, so 0.6 may be met a few units
    of rounding too low; a tie counts as 1 all the same. Averages are at least 1/k apart, far more.
    """
    slack = TIE * float(np.finfo(eta_corr.dtype).eps)
    return (eta_corr.astype(np.float64) >= at - slack).astype(np.int8)


def posterior(eta_corr: Floats, p0: float, p1: float) -> NDArray[np.float64]:
    """P(clean label is 1) of each row: ``clip((eta_corr - p0) / (1 - p0 - p1), 0, 1)``, float64."""
    _check(p0, p1)
    moved = (eta_corr.astype(np.float64) - p0) / (1.0 - p0 - p1)
    return np.asarray(np.clip(moved, 0.0, 1.0), dtype=np.float64)


def _check(p0: float, p1: float) -> None:
    if not (0.0 <= p0 <= 1.0 and 0.0 <= p1 <= 1.0 and p0 + p1 < 1.0):
        raise ValueError(f"p0={p0}, p1={p1}: need rates in [0, 1] with p0 + p1 < 1")
