"""From sums over rows to matrices of annotators, in rounds until the matrices stay.

An annotator's matrix is drawn to that expected of somebody of the same skill. That one has the mean
of all annotators' rights, moved in log odds by as much for every class, so that as many labels are
right in all as the annotator's are; and mistakes in the proportions of the mean. It counts for
``DRAWN`` labels of each class, so that an annotator of few labels is taken for the mean, and a
class that one saw rarely for one's own skill.

The mean of all is itself drawn to a matrix that no round changes (`PriorMatrix`). If rows have one
label each, nothing tells mistakes from overlapping classes: any skill fits, with neighbors that are
right more or less often to match, and rounds would drift along. There the mean is this matrix, and
rounds find how often neighbors are right, and how annotators differ. Rows with several labels, if
they are many, tell both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from pipeline.arrays import Float64, Int64, Integers
from pipeline.noise.annotator_kernels import LEAST
from pipeline.noise.annotators import EDGES, Expected, Skills

DRAWN = 10.0
"""Labels of each true class for which what an annotator's skill lets expect counts."""
SKILL = 5.0
"""Labels for which the mean skill counts in an annotator's skill."""
LEVELED = 8.0
"""Known rows for which the mean of all levels counts in each, and that of a level in each cell."""
ROUNDS = 20
"""Rounds at most."""
STILL = 0.001
"""Change of the matrices that ends the rounds: absolute, summed over a row, mean of all labels."""
SHARED = 0.2
"""Share of rows with several annotations from which on these tell how good annotators are."""
TYPICAL = 0.75
"""Least share of a class' labels that annotators are taken to get right, where labels are single:
less may just say that the pool's purest neighborhoods are not pure."""
PAIRS = 30.0
"""Pairs of annotations of one row for which these shares count, where few rows are shared."""
PULL = 250.0
"""Pairs for which the first matrix counts in the mean of all where rows are shared; it counts alone
where labels are single."""
MOST_CELLS = 1 << 23
"""Annotators times classes squared at most."""


@dataclass(frozen=True)
class Agreement:
    """How often annotators of one row agree; counts of blocks add up."""

    rows: int
    """Rows with several annotations."""
    agreeing: int
    """Rows on which all these agree."""
    pairs: int
    """Pairs of annotations of one row."""
    equal: int
    """Pairs that agree."""

    @staticmethod
    def of(start: Int64, label: Integers, c: int) -> Agreement:
        """start : (row + 1,) where the labels (annotation,) of each row begin"""
        n = np.diff(start)
        row = np.repeat(np.arange(len(n)), n)
        cell, count = np.unique(row * c + label, return_counts=True)
        equal = np.bincount(cell // c, count * (count - 1) // 2, len(n)).astype(np.int64)
        pairs = n * (n - 1) // 2
        several = n > 1
        whole = int((several & (equal == pairs)).sum())
        return Agreement(int(several.sum()), whole, int(pairs.sum()), int(equal.sum()))


@dataclass(frozen=True)
class PriorMatrix:
    """What the mean annotator is taken for before any row is judged."""

    matrix: Float64
    """(class, class) P(given | true)."""
    weight: float
    """Weight of its logarithm in the mean of all annotators."""

    @staticmethod
    def of(agreement: Agreement, n_rows: int, given: Float64) -> PriorMatrix:
        """Where enough rows have several annotations, the annotator who errs as often as these
        disagree, with all other classes alike. Else the one of the matrix ``given`` (class, class),
        of the pool's labels, but right at least `TYPICAL` often in each class; the farther it is
        below that, the more alike the other classes are. A few shared rows move how often it is
        right."""
        c = len(given)
        k = c / (c - 1.0)
        agreed = agreement.equal / max(agreement.pairs, 1)
        wrong = (1.0 - np.sqrt(max(1.0 - k * (1.0 - agreed), 0.0))) / k
        wrong = float(np.clip(wrong, 0.02, 0.6 / k))
        others = (1.0 - np.eye(c)) / (c - 1.0)
        if is_shared(agreement, n_rows):
            matrix = np.asarray((1.0 - wrong) * np.eye(c) + wrong * others)
            return PriorMatrix(matrix, PULL / (PULL + agreement.pairs))
        given = 0.98 * given + 0.02 / c
        right = np.diag(given)
        doubt = np.clip((TYPICAL - right) / (TYPICAL - 1.0 / c), 0.0, 1.0)[:, None]
        share = agreement.pairs / (agreement.pairs + PAIRS)
        right = (1.0 - share) * np.maximum(right, TYPICAL) + share * (1.0 - wrong)
        off = given * (1.0 - np.eye(c))
        off = (1.0 - doubt) * off / off.sum(axis=1, keepdims=True) + doubt * others
        return PriorMatrix(np.asarray(off * (1.0 - right)[:, None] + np.diag(right)), 1.0)


def is_shared(agreement: Agreement, n_rows: int) -> bool:
    """Whether annotations of the same rows tell how good annotators are."""
    return agreement.rows >= SHARED * n_rows


def started(matrix: Float64, n_annotators: int, shares: Float64) -> Skills:
    """The first skills: all annotators alike, by the ``shares`` (class,) of the given labels."""
    c = len(matrix)
    whole = np.broadcast_to(matrix, (n_annotators, c, c))
    prior = np.maximum(shares @ np.linalg.pinv(matrix), 0.02 / c)
    return Skills(
        np.ascontiguousarray(whole), prior / prior.sum(), np.full((c, len(EDGES)), np.nan)
    )


def known_share(labels: Float64, right: Float64, open_: Float64) -> Float64:
    """Share of labels, or of rows, that counts as known, by how many are right and the variance of
    this number, ``open_``: a row of open class tells less (Louis, *Finding the observed information
    matrix when using the EM algorithm*, 1982)."""
    share = right / np.maximum(labels, 1.0)
    spread = np.maximum(labels * share * (1.0 - share), 1e-12)
    known = np.clip(1.0 - open_ / spread, 0.0, 1.0)
    return np.asarray(np.where(open_ < 1e-9, 1.0, known))


def maximize(sums: Expected, first: PriorMatrix) -> Skills:
    """The likeliest matrices, shares and chances for the sums over all rows."""
    whole = sums.sure[:, :, 1].sum() / sums.sure[:, :, 0].sum()
    of_level = sums.sure.sum(axis=0)
    level = _drawn(of_level, np.asarray(whole))
    weight = of_level[:, 0] * known_share(*of_level.T) + LEVELED
    sure = _drawn(sums.sure, isotonic_regression(level, weights=weight).x)
    return Skills(_matrices(sums, first), sums.prior / sums.prior.sum(), sure)


def _drawn(sums: Float64, to: Float64) -> Float64:
    """Shares of right ones in the sums (..., 3), drawn to others that count for `LEVELED` rows."""
    rows, right, open_ = np.moveaxis(sums, -1, 0)
    known = known_share(rows, right, open_)
    return np.asarray((known * right + LEVELED * to) / (known * rows + LEVELED))


def _matrices(sums: Expected, first: PriorMatrix) -> Float64:
    """(annotator, class, class) rates of the counts, drawn as the module says. The more the first
    matrix weighs, the less labels count that are not known; those of checked rows count in full."""
    c = len(first.matrix)
    mean = sums.counts.sum(axis=0) + 0.5 / c
    labels = mean.sum(axis=1, keepdims=True)
    open_ = np.maximum(labels - sums.checked.sum(axis=1, keepdims=True), LEAST)
    wanted = (sums.checked + open_ * first.matrix) / labels
    drawn = (mean / labels) ** (1.0 - first.weight) * wanted**first.weight
    drawn /= drawn.sum(axis=1, keepdims=True)
    counts = sums.counts * (drawn * labels / mean)
    off = drawn * (1.0 - np.eye(c))
    off /= off.sum(axis=1, keepdims=True)
    known = known_share(*sums.right[:, :3].T)
    counts *= (1.0 - first.weight * (1.0 - known))[:, None, None]
    of_class = counts.sum(axis=2)
    d = _skills(of_class, np.trace(counts, axis1=1, axis2=2), np.diag(drawn))
    alike = off * (1.0 - d)[:, :, None]
    alike[:, np.arange(c), np.arange(c)] = d
    return np.asarray((counts + DRAWN * alike) / (of_class + DRAWN)[:, :, None])


def _skills(of_class: Float64, right: Float64, mean: Float64) -> Float64:
    """(annotator, class) share that each is to have right: the mean's (class,), moved in log-odds
    by one number per annotator, found by halving."""
    labels = of_class.sum(axis=1)
    share = np.where(
        labels[:, None] > 0, of_class / np.maximum(labels, 1e-12)[:, None], 1.0 / len(mean)
    )
    wanted = (right + SKILL * (share @ mean)) / (labels + SKILL)
    odds = np.log(np.clip(mean, 1e-3, 1 - 1e-3) / (1.0 - np.clip(mean, 1e-3, 1 - 1e-3)))
    low, high = np.full(len(labels), -10.0), np.full(len(labels), 10.0)
    for _ in range(40):
        middle = (low + high) / 2.0
        d = 1.0 / (1.0 + np.exp(-(odds + middle[:, None])))
        below = (share * d).sum(axis=1) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(1.0 / (1.0 + np.exp(-(odds + ((low + high) / 2.0)[:, None]))))


def change(before: Skills, after: Skills, counts: Float64) -> float:
    """How far matrices moved: sum of the absolute differences of a row, mean of all labels."""
    moved = np.abs(after.matrix - before.matrix).sum(axis=2)
    of_class = counts.sum(axis=2)
    return float((moved * of_class).sum() / max(float(of_class.sum()), 1e-12))
