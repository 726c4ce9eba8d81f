"""How far posteriors agree with clean labels: sums by bin, which add up over chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from pipeline.arrays import Floating, Integers
from pipeline.knn.lists import wilson

BINS = 10
"""Of equal width over posteriors from 0 to 1."""


def clopper_pearson(wrong: int, rows: int, delta: float) -> tuple[float, float]:
    """Interval of an error by `rows` rows that nothing was chosen by, of which `wrong` are wrong:
    it fails with probability `delta` at most, whatever the distribution.

    Source: Clopper & Pearson, *The use of confidence or fiducial limits illustrated in the case of
    the binomial*, Biometrika 1934.
    """
    low = betaincinv(wrong, rows - wrong + 1, delta / 2) if wrong else 0.0
    high = betaincinv(wrong + 1, rows - wrong, 1 - delta / 2) if wrong < rows else 1.0
    return float(low), float(high)


@dataclass(frozen=True)
class Reliability:
    """The reliability curve and what it comes to."""

    n_rows: int
    rows: tuple[int, ...]
    """Rows by bin of posterior; bins that are empty are left out here and below."""
    posterior: tuple[float, ...]
    """Mean posterior of each bin."""
    share: tuple[float, ...]
    """Share of clean label 1 in each bin."""
    interval: tuple[tuple[float, float], ...]
    """95 % Wilson interval of each share."""
    brier: float
    """Mean squared difference of posterior and clean label."""
    error: float
    """Expected calibration error: mean over rows of |mean posterior - share| of their bin."""
    accuracy: float
    """Of the predicted labels."""
    accuracy_half: float
    """Of the plain vote: 1 where `eta_corr` is at least 1/2."""


class ReliabilityCounter:
    """Takes scored rows with their clean labels, chunk by chunk; order does not matter."""

    def __init__(self) -> None:
        self.rows = np.zeros(BINS, np.int64)
        self.ones = np.zeros(BINS, np.int64)
        self.posterior = np.zeros(BINS)
        self.squares = 0.0
        self.right = np.zeros(2, np.int64)

    def see(
        self, eta_corr: Floating, posterior: Floating, predicted: Integers, truth: Integers
    ) -> None:
        """All (row,): shares and posteriors in [0, 1], labels 0 or 1. ValueError if outside."""
        p = posterior.astype(np.float64)
        if len(p) and not bool(((p >= 0) & (p <= 1)).all()):
            raise ValueError("posterior: must lie in [0, 1]")
        bin_ = np.minimum((p * BINS).astype(np.int64), BINS - 1)
        self.rows += np.bincount(bin_, minlength=BINS)
        self.ones += np.bincount(bin_, truth, minlength=BINS).astype(np.int64)
        self.posterior += np.bincount(bin_, p, minlength=BINS)
        self.squares += float(np.square(p - truth).sum())
        plain = eta_corr >= 0.5
        self.right += [int((predicted == truth).sum()), int((plain == truth).sum())]

    def finish(self) -> Reliability:
        """The curve over all rows seen, at least one; else ValueError."""
        n = int(self.rows.sum())
        if n == 0:
            raise ValueError("no rows were seen")
        there = self.rows > 0
        rows, ones = self.rows[there], self.ones[there]
        mean, share = self.posterior[there] / rows, ones / rows
        return Reliability(
            n,
            tuple(rows.tolist()),
            tuple(mean.tolist()),
            tuple(share.tolist()),
            tuple(wilson(s, float(r)) for s, r in zip(share.tolist(), rows.tolist(), strict=True)),
            self.squares / n,
            float((np.abs(mean - share) * rows).sum() / n),
            float(self.right[0] / n),
            float(self.right[1] / n),
        )
