"""How far the transition matrix of many classes corrects predictions and label qualities.

Between the plain vote and the full correction lie matrices ``part * T + (1 - part) * S``. S has the
same share of right labels, and its wrong ones go to all other classes alike, so it decides like the
plain vote. What it is worth to change a prediction from a to b is estimated without bias by the
row's own given label, which no vote contains: ``inverse(T)[given, b] - inverse(T)[given, a]`` is 1
on average where b is the clean class, and -1 where a is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Float64, Integers
from pipeline.noise.rates import trusted, unknown_mistakes
from pipeline.noise.transition import Transition

PARTS = (0.25, 0.5, 0.75, 1.0)
"""Parts of the correction that are tried."""
DOUBTED = 3.0
"""Standard errors of the matrix, beside one of the labels, by which a part must pay. They are those
of the diagonal, and hold if mistakes depend on the class alone."""
MISTAKEN = 0.75
"""Part of the contradicted labels that is taken for wrong, the rest for wrong votes, where a matrix
is shrunk entry by entry."""
STANDS_OUT = 2.0
"""Standard errors from the unknown mistakes' entry beyond which that of a class that stands apart
says for itself how far it is to be trusted."""
AGREEING = 2.0
"""Standard errors by which predictions agree more with the given labels, surely."""


@dataclass(frozen=True)
class MatrixDecision:
    """The part of the correction in use and what it is worth."""

    part: float
    """0 is the plain vote, 1 the full correction."""
    gain: float
    """How many more rows are right than by the plain vote, estimated on the given labels."""
    gain_error: float
    """Standard error of ``gain``."""


@dataclass(frozen=True)
class Worth:
    """What predictions are worth compared with others of the same rows."""

    gain: float
    """How many more rows of the sample are right, estimated on the given labels."""
    gain_error: float
    """Standard error of ``gain`` by the labels' noise."""
    matrix_error: float
    """The same by the errors of the matrix."""
    agreeing: float = 0.0
    """How many more rows of the sample are predicted as they are given, in standard errors."""

    @property
    def taken(self) -> bool:
        """Whether the vote of several sizes predicts instead of that of one k. It does, as it gains
        in most pools, unless it would lose more than a standard error if the matrix were off by one
        of its own; more than two where the labels' error is the larger one. Even where it predicts
        the same its chances are better, as shares of one k carry the labels' noise. However wrong
        the matrix may be, it does where it gains by that and surely by the given labels as they
        are."""
        if self.gain >= 0.0 and self.agreeing >= AGREEING:
            return True
        sure = 2.0 if self.matrix_error <= self.gain_error else 1.0
        return self.gain - self.matrix_error >= -sure * self.gain_error


def softened(matrix: Float64, given_counts: Integers, part: float) -> Float64:
    """``part`` of the matrix (class, class), row = true class; the rest is its symmetric peer."""
    return np.asarray(part * matrix + (1.0 - part) * _symmetric(matrix, given_counts))


def believed(noise: Transition, given_counts: Integers) -> Float64:
    """The matrix (class, class), row = true class, with doubtful rows replaced by those of its
    symmetric peer: of unsupported classes unless they stand apart and mostly keep their label, and
    of weak ones that do neither. Without verdicts the matrix is as it is.

    A class of few rows takes the mistakes of large ones for its own labels: corrected by such a
    row, votes would move whole classes to it, and the matrix' inverse would count that as a gain.
    """
    if not noise.class_support:
        return noise.matrix
    tempered, verdict = noise.matrix.copy(), np.array(noise.class_support)
    support = np.select([verdict == "supported", verdict == "weak"], [2, 1], 0)
    n_reasons = support + noise.apart + (np.diag(noise.matrix) >= noise.matrix.max(axis=1))
    tempered[n_reasons < 2] = _symmetric(noise.matrix, given_counts)[n_reasons < 2]
    return tempered


def assumed(noise: Transition, given_counts: Integers, wrong: float) -> Float64:
    """The matrix (class, class) that label qualities use, where the plain vote contradicts a share
    ``wrong`` of the labels. A matrix that the user gave is used as it is.

    Otherwise it is the average of two: one ``believed`` and ``trusted`` class by class, the other
    ``shrunk`` entry by entry, both with ``unknown_mistakes`` for the rest.
    """
    if noise.impurity is None or noise.doubt is None:
        return noise.matrix
    part = trusted(noise.impurity)[:, None]
    rows = believed(noise, given_counts)
    by_class = part * rows + (1.0 - part) * unknown_mistakes(wrong, given_counts)
    unknown = unknown_mistakes(MISTAKEN * wrong, given_counts)
    by_entry = shrunk(noise.matrix, noise.doubt, unknown, noise.apart)
    return np.asarray(0.5 * (by_class + by_entry))


def shrunk(matrix: Float64, doubt: Float64, unknown: Float64, apart: Bools) -> Float64:
    """The matrix (class, class), row = true class, shrunk towards that of ``unknown`` mistakes.

    By empirical Bayes, an entry counts the less the larger its standard error, in ``doubt`` (class,
    class), is compared with how far entries differ from the unknown ones beyond their errors. That
    is one number for all entries; but for classes that stand ``apart`` (class,), an entry that
    differs far is compared with its own difference: where mistakes go to few of many classes, most
    entries differ little.
    """
    c, other = len(matrix), ~np.eye(len(matrix), dtype=np.bool_)
    away, error = matrix - unknown, np.maximum(doubt, 1e-6) ** 2
    spread = float(np.maximum(away**2 - error, 0.0)[other].mean())
    trust = spread / (spread + error)
    far = apart[:, None] & (away**2 > STANDS_OUT**2 * error)
    trust = np.maximum(trust, np.where(far, 1.0 - error / np.maximum(away**2, error), 0.0))
    mistaken = np.where(other, unknown + trust * away, 0.0)
    mistaken /= np.maximum(1.0, mistaken.sum(axis=1, keepdims=True) / (1.0 - 1.0 / c))
    return np.asarray(mistaken + np.diag(1.0 - mistaken.sum(axis=1)))


def _symmetric(matrix: Float64, given_counts: Integers) -> Float64:
    """The matrix with as many right labels, and the wrong ones alike in all other classes."""
    c = len(matrix)
    share = given_counts / max(1, int(given_counts.sum()))
    right = float(np.clip(np.diag(matrix) @ share, 1 / c + 0.25 * (1 - 1 / c), 0.95))
    alike = np.full((c, c), (1.0 - right) / (c - 1))
    np.fill_diagonal(alike, right)
    return alike


def worth(
    before: Integers,
    after: Integers,
    given_label: Integers,
    matrix: Float64,
    error: npt.ArrayLike,
) -> Worth:
    """What predictions ``after`` (row,) are worth compared with those ``before``, on a sample.

    All votes leave the row's own label out. ``matrix`` is (class, class), row = true class;
    ``error`` (class,) standard errors of its diagonal. They reach the gain by
    ``d inverse = -inverse @ d matrix @ inverse``; right labels that a class loses go to the other
    classes in the matrix' shares.
    """
    c, inverse = len(matrix), np.asarray(np.linalg.pinv(matrix), np.float64)
    changed = before != after
    label, old, new = given_label[changed], before[changed], after[changed]
    gains = inverse[label, new] - inverse[label, old]
    moved = np.zeros((c, c))
    np.add.at(moved, (label, new), 1.0)
    np.add.at(moved, (label, old), -1.0)
    wrong = matrix * (1.0 - np.eye(c))
    wrong /= np.maximum(wrong.sum(axis=1, keepdims=True), 1e-12)
    slope = (inverse.T @ moved @ inverse.T * (wrong - np.eye(c))).sum(axis=1)
    matrix_error = np.linalg.norm(slope * np.asarray(error))
    more = (label == new).astype(np.float64) - (label == old)
    agreeing = more.sum() / max(np.linalg.norm(more), 1.0)
    return Worth(
        *(float(gains.sum()), float(np.linalg.norm(gains)), float(matrix_error), float(agreeing))
    )


def choose_part(of_parts: Sequence[Worth]) -> MatrixDecision:
    """The one of ``PARTS`` that surely gains most over the plain vote; 0 where none does."""
    sure = [one.gain - one.gain_error - DOUBTED * one.matrix_error for one in of_parts]
    best = int(np.argmax(sure))
    if sure[best] <= 0.0:
        return MatrixDecision(0.0, 0.0, 0.0)
    return MatrixDecision(PARTS[best], of_parts[best].gain, of_parts[best].gain_error)
