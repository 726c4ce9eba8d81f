"""What the samples certify: the error against the given labels, and against the clean ones.

Theorem 13 needs of the loss only that it lies in [0, 1]; any loss of (given, predicted) label is
certified after shifting and scaling. `docs/understand/certificates.md` has the derivations.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float64
from pipeline.methods.speculate_correct.bound import (
    Design,
    Epsilon,
    Inequality,
    epsilon,
    loss_range,
)
from pipeline.methods.speculate_correct.sampling import Counts


@dataclass(frozen=True)
class Certificate:
    """With probability at least 1 - delta the expected loss lies in [lower, upper]."""

    estimate: float
    """p_s, not clipped"""
    half_width: float
    """in units of the loss"""
    epsilon: Epsilon
    """its parts, for a loss in [0, 1]"""
    short: float
    """what rows with short lists add to the half width, for a loss in [0, 1]"""
    design: Design
    delta: float

    @property
    def lower(self) -> float:
        return max(0.0, self.estimate - self.half_width)

    @property
    def upper(self) -> float:
        return min(1.0, self.estimate + self.half_width)


def error_loss(n_classes: int) -> Float64:
    """(class, class): 1 where the predicted label is not the given one."""
    return 1.0 - np.eye(n_classes)


def clean_loss(transition_matrix: Float64) -> Float64:
    """(given, predicted) loss whose mean is the error against the clean labels.

    ``transition_matrix`` (class, class) is P(given b | true a) in row a, and must be invertible.
    Assumes noise that depends on the true class alone (given the class, not on the features). For
    two classes it is the unbiased loss of Natarajan et al. 2013, Lemma 1.
    """
    return np.asarray(1.0 - np.linalg.inv(transition_matrix))


def certify(
    counts: Counts,
    design: Design,
    delta: float,
    loss: Float64 | None = None,
    inequality: Inequality = "hoeffding",
    n_rules: int = 1,
) -> Certificate:
    """The bound on the expected loss of the rule that was sampled.

    Parameters
    ----------
    counts : of all labeled rows
    loss : (given, predicted); by default 1 where they differ
    n_rules : rules of which this one may have been chosen by the labels it is certified on: all of
        them are certified at once by ``delta / n_rules`` each. `threshold_rules` for thresholds.
    """
    if counts.rows != design.n:
        raise ValueError(f"{counts.rows} rows were sampled, the design is for n={design.n}")
    loss = error_loss(len(counts.weight)) if loss is None else loss
    least, spread = float(loss.min()), float(np.ptp(loss))
    parts = epsilon(design, delta / n_rules, inequality)
    mean = design.r * counts.weight / counts.samples
    most = 0.5 * (1.0 + loss_range(design))
    short = most * counts.short_rows / counts.rows
    return Certificate(
        estimate=least + float(((loss - least) * mean).sum()),
        half_width=spread * (parts.total + short),
        epsilon=parts,
        short=short,
        design=design,
        delta=delta,
    )


def threshold_rules(k: int) -> int:
    """How many rules "1 where the share of k voters reaches a threshold" there are at all."""
    return k + 2


def clean_range(
    counts: Counts,
    design: Design,
    delta: float,
    p0: tuple[float, float],
    p1: tuple[float, float],
    n_rules: int = 1,
) -> tuple[float, float]:
    """Bounds of the clean error of a rule of two classes whose noise rates lie in two intervals.

    Holds with probability at least 1 - delta, less the chance that a rate lies outside its
    interval. The ends are ratios of functions linear on either side of p0 = p1, so that they are
    greatest and least at corners of the box or where the diagonal enters and leaves it.
    """
    if not (0.0 <= p0[0] <= p0[1] and 0.0 <= p1[0] <= p1[1] and p0[1] + p1[1] < 1.0):
        raise ValueError(f"p0 in {p0}, p1 in {p1}: need intervals with p0 + p1 < 1")
    corners = list(itertools.product(p0, p1))
    corners += [(e, e) for e in (max(p0[0], p1[0]), min(p0[1], p1[1])) if _in(e, p0) and _in(e, p1)]
    certificates = []
    for a, b in corners:
        loss = clean_loss(np.array([[1.0 - a, a], [b, 1.0 - b]]))
        certificates.append(certify(counts, design, delta, loss, n_rules=n_rules))
    return min(c.lower for c in certificates), max(c.upper for c in certificates)


def _in(value: float, interval: tuple[float, float]) -> bool:
    return interval[0] <= value <= interval[1]
