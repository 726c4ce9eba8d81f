"""The two plateaus of the held-out label rate, as a function of how positive a neighborhood looks.

If rows are ordered by a score that does not use their own label, the chance that the label is 1 is
``p0 + (1 - p0 - p1) * F(score)`` with F the chance that the clean label is 1. F rises from 0 to 1,
so the lower plateau is ``p0`` and the upper one ``1 - p1``. Two readings of the plateaus live here:

* ``fit_asymptotes``: maximum likelihood of that curve, F a probit in ``score`` and ``score**3``.
  Every label counts, so the variance is small; the end of a slope is extrapolated.
* ``read_plateau``: the mean label of the most extreme rows, as many rows as the best confidence
  bound asks for. Nothing is extrapolated; a slope that never flattens leaves a bias inwards.

``eta_corr = (1 - p0 - p1) * eta + p0`` is equation (1) of Reeve & Kaban 2019; that extrema of
``eta_corr`` are ``p0`` and ``1 - p1`` is their Assumption 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, ndtr

from pipeline.arrays import Float64

RIDGE = 1e-3
"""Penalty on squared slopes of standardized columns; only keeps a separable fit finite."""
SLOPE_LIMIT = 50.0
"""Largest slope: beyond it the curve is a step between neighboring rows."""


@dataclass(frozen=True)
class HeldOutLabels:
    """Held-out labels of m rows, row i's own labels not used in row i's score."""

    ones: Float64
    """(m,) weight of the held-out labels equal to 1."""
    trials: Float64
    """(m,) weight of the held-out labels, positive. A label held out by c rows weighs 1/c in each,
    so that weights add up to numbers of distinct labels."""

    def flipped(self) -> HeldOutLabels:
        """The same labels with 0 and 1 exchanged."""
        return HeldOutLabels(self.trials - self.ones, self.trials)


@dataclass(frozen=True)
class Asymptotes:
    """A fitted curve; ``lower`` estimates p0 and ``upper`` 1 - p1."""

    lower: float
    upper: float
    lower_se: float
    """Standard error against the rate realized in the pool."""
    upper_se: float
    clean: Float64
    """(m,) F at each row: the chance that the row's clean label is 1."""


def _curve(free: Float64, design: Float64, probit: bool) -> tuple[float, float, Float64, Float64]:
    """Lower and upper asymptote, F and dF/dz; ``free`` = (logit L, logit (U-L)/(1-L), bend...)."""
    lower = float(expit(free[0]))
    upper = lower + (1.0 - lower) * float(expit(free[1]))
    z = free[2] + design @ free[3:]
    if probit:
        return lower, upper, ndtr(z), np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    f = expit(z)
    return lower, upper, f, f * (1.0 - f)


def _loss(
    free: Float64, design: Float64, sample: HeldOutLabels, probit: bool
) -> tuple[float, Float64]:
    """Negative log likelihood of the held-out labels with its gradient."""
    lower, upper, f, df = _curve(free, design, probit)
    p = np.clip(lower + (upper - lower) * f, 1e-9, 1.0 - 1e-9)
    zeros = sample.trials - sample.ones
    loss = -float(sample.ones @ np.log(p) + zeros @ np.log1p(-p)) + RIDGE * float(
        free[3:] @ free[3:]
    )
    g = zeros / (1.0 - p) - sample.ones / p
    gz = g * (upper - lower) * df
    d_upper = float(g @ f)
    share = float(expit(free[1]))
    d_lower = float(g @ (1.0 - f)) + d_upper * (1.0 - share)
    head = [d_lower * lower * (1.0 - lower), d_upper * (1.0 - lower) * share * (1.0 - share)]
    return loss, np.concatenate([head, [gz.sum()], design.T @ gz + 2 * RIDGE * free[3:]])


def _fit(design: Float64, sample: HeldOutLabels, slopes: Float64, probit: bool) -> Float64:
    """Most likely free parameters; ``slopes`` are the starting slopes, kept >= 0 for the probit."""
    rate = sample.ones / sample.trials
    order = np.argsort(design @ slopes, kind="stable")
    tail = max(1, len(order) // 20)
    low = float(np.clip(rate[order[:tail]].mean(), 0.02, 0.9))
    high = float(np.clip(rate[order[-tail:]].mean(), low + 0.05, 0.98))
    start = np.concatenate([[logit(low), logit((high - low) / (1.0 - low)), 0.0], slopes])
    slope_bounds = (0.0 if probit else -SLOPE_LIMIT, SLOPE_LIMIT)
    bounds = [(-9.0, 9.0), (-9.0, 9.0), (-50.0, 50.0)] + [slope_bounds] * len(slopes)
    arguments = (design, sample, probit)
    from scipy.optimize import minimize  # slow to import: only where it is used

    result = minimize(_loss, start, arguments, "L-BFGS-B", True, bounds=bounds)
    return np.asarray(result.x, dtype=np.float64)


def _standardized(columns: Float64) -> Float64:
    spread = columns.std(axis=0)
    centered: Float64 = columns - columns.mean(axis=0)
    return centered / np.where(spread > 0, spread, 1.0)


def fit_index(features: Float64, sample: HeldOutLabels) -> Float64:
    """One score per row out of several: ``(m,)`` float64, higher = more surely positive.

    ``features`` is (m, g) float64, averages of the labels of g neighborhoods, none using the row's
    held-out labels. A logistic regression with free asymptotes weighs them by maximum likelihood.
    """
    design = _standardized(features)
    slopes = np.full(design.shape[1], 2.0 / design.shape[1])
    return np.asarray(design @ _fit(design, sample, slopes, probit=False)[3:], dtype=np.float64)


def fit_asymptotes(index: Float64, sample: HeldOutLabels, n_rows: int) -> Asymptotes:
    """The two asymptotes of the label rate over ``index`` (m,), for a pool of ``n_rows`` rows."""
    t = _standardized(index[:, None])[:, 0]
    design = np.stack([t, t**3], axis=1)
    free = _fit(design, sample, np.array([2.0, 0.05]), probit=True)
    lower, upper, f, df = _curve(free, design, probit=True)
    p = np.clip(lower + (upper - lower) * f, 1e-9, 1.0 - 1e-9)
    gz = ((upper - lower) * df)[:, None]
    jacobian = np.concatenate([(1.0 - f)[:, None], f[:, None], gz, gz * design], axis=1)
    weight = sample.trials / (p * (1.0 - p))
    fisher = jacobian.T @ (jacobian * weight[:, None])
    scale = np.sqrt(np.maximum(np.diag(fisher), 1e-12))
    inverse = np.linalg.pinv(fisher / np.outer(scale, scale), rcond=1e-10) / np.outer(scale, scale)
    influence = (jacobian / (p * (1.0 - p))[:, None]) @ inverse[:, :2]
    errors = []
    for side, (rate, of_side) in enumerate(((lower, 1.0 - f), (upper, f))):
        labels = max(1.0, n_rows * float(of_side.mean()))
        own = rate * (1.0 - rate)
        spread = float(sample.trials @ (influence[:, side] ** 2 * p * (1.0 - p)))
        shared = float(sample.trials @ (influence[:, side] * of_side)) * own / labels
        errors.append(np.sqrt(max(spread - 2.0 * shared + own / labels, 0.0)))
    return Asymptotes(lower, upper, float(errors[0]), float(errors[1]), f)


def fewest_rows(m: int) -> int:
    """Rows that a plateau of m rows averages at least."""
    return min(m, max(40, m // 200))


def read_plateau(score: Float64, sample: HeldOutLabels, z: float) -> tuple[float, float, int]:
    """Lowest honest label rate: (rate, its standard error, number of rows it averages).

    Rows are taken in order of ``score`` (m,), of ties each for the mean of all, as a file may be
    sorted by labels; of a geometric grid of counts the one with the lowest upper confidence bound
    (Agresti-Coull, ``z`` standard errors) is used.
    """
    _, tie, size = np.unique(score, return_inverse=True, return_counts=True)
    m = len(score)
    rows = np.unique(np.geomspace(fewest_rows(m), max(1, int(0.7 * m)), 60).astype(int))
    ones, trials = (
        np.cumsum(np.repeat(np.bincount(tie, weight) / size, size))[rows - 1]
        for weight in (sample.ones, sample.trials)
    )
    counted = trials + z * z
    center = (ones + 0.5 * z * z) / counted
    error = np.sqrt(center * (1.0 - center) / counted)
    best = int(np.argmin(center + z * error))
    return float(ones[best] / trials[best]), float(error[best]), int(rows[best])
