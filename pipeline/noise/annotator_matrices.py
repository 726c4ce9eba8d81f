"""Sums over rows → matrices of annotators, and rounds of both until they stay.

A matrix is drawn to what an annotator of this skill would do: of each true class as many right as
the mean of all annotators, moved in log-odds so that all in all as many are right as were, and
mistakes as the mean of all makes them. This counts for ``DRAWN`` labels of each class, so that an
annotator of few labels is taken for the whole, and a class that one saw rarely for one's own skill.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pipeline.noise.annotator_kernels import NOTHING
from pipeline.noise.annotators import (
    EDGES,
    Expected,
    Floats,
    Ints,
    Judged,
    RowLabels,
    Skills,
    expect,
)

DRAWN = 10.0
"""Labels of each true class that an annotator's skill counts for."""
SKILL = 5.0
"""Labels that the mean skill counts for in an annotator's."""
LEVELED = 20.0
"""Rows that a level of clearness counts for in a class' cell."""
ROUNDS, FEW_ROUNDS = 20, 5
"""Rounds at most; and where labels are single, of which none tells on another: every further round
then takes mistakes for truth a little more."""
STILL = 0.001
"""Change of the matrices that ends the rounds: absolute, summed over a row, mean of all labels."""
SHARED = 0.2
"""Share of the rows with several annotations from which these tell how good annotators are."""
HELD_OUT, CLEAR = 0.05, 0.25
"""How far a class is ahead of any other, at least, where neighbors are asked about single labels:
among the labels of rows whose neighbors alone say it, and in the annotators' matrices."""
FEWEST_LABELS = 10.0
"""Labels of a class by which it is judged."""
STANDING = (0.6, 0.95)
"""Bounds of how often labels that stand are taken to be right."""
MOST_CELLS = 1 << 23
"""Annotators times classes squared at most."""


@dataclass(frozen=True)
class Agreement:
    """How often two annotators of one row say the same; counts of blocks add up."""

    rows: int
    """Rows with several annotations."""
    agreeing: int
    """Those where all say the same."""
    pairs: int
    """Pairs of annotations of one row."""
    equal: int
    """Those that say the same."""

    @staticmethod
    def of(start: Ints, label: npt.NDArray[np.integer], c: int) -> Agreement:
        """start : (row + 1,) where the labels (annotation,) of each row begin"""
        n = np.diff(start)
        row = np.repeat(np.arange(len(n)), n)
        cell, count = np.unique(row * c + label, return_counts=True)
        equal = np.bincount(cell // c, count * (count - 1) // 2, len(n)).astype(np.int64)
        pairs = n * (n - 1) // 2
        several = n > 1
        whole = int((several & (equal == pairs)).sum())
        return Agreement(int(several.sum()), whole, int(pairs.sum()), int(equal.sum()))

    def plus(self, other: Agreement) -> Agreement:
        """Both together."""
        return Agreement(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )


def first_matrix(agreement: Agreement, n_rows: int, given: Floats) -> Floats:
    """(class, class) matrix that all annotators start from.

    Where rows have several annotations, it is that of annotators who err as often as their
    agreement says, each other class alike; else the matrix of the labels given, (class, class).
    """
    c = len(given)
    if not is_shared(agreement, n_rows):
        return np.asarray(0.98 * given + 0.02 / c)
    k = c / (c - 1.0)
    inside = 1.0 - k * (1.0 - agreement.equal / agreement.pairs)
    wrong = float(np.clip((1.0 - np.sqrt(max(inside, 0.0))) / k, 0.02, 0.6 / k))
    return np.asarray((1.0 - wrong * k) * np.eye(c) + wrong * k / c)


def is_shared(agreement: Agreement, n_rows: int) -> bool:
    """Whether annotations of the same rows tell how good annotators are."""
    return agreement.rows >= SHARED * n_rows


def started(matrix: Floats, n_annotators: int, shares: Floats) -> Skills:
    """All annotators alike, with the shares (class,) of the labels given."""
    c = len(matrix)
    whole = np.broadcast_to(matrix, (n_annotators, c, c))
    prior = np.maximum(shares @ np.linalg.pinv(matrix), 0.02 / c)
    return Skills(
        np.ascontiguousarray(whole), prior / prior.sum(), np.full((c, len(EDGES)), np.nan)
    )


def earned(sums: Expected) -> bool:
    """Whether neighbors are to be asked where labels are single: each class that they say is the
    commonest among the labels, which are no part of what they say, and in the matrices that
    come of it. Else rounds end anywhere: a class whose labels are as often another's takes all."""
    return _ahead(sums.predicted) >= HELD_OUT and _ahead(sums.counts.sum(axis=0)) >= CLEAR


def _ahead(count: Floats) -> float:
    """How far each class' own labels are ahead of any other's, as a share of the row of counts
    (class, class) of the class worst off; -1 where no class has labels enough."""
    rows = np.flatnonzero(count.sum(axis=1) >= FEWEST_LABELS)
    share = count[rows] / count[rows].sum(axis=1, keepdims=True)
    own = share[np.arange(len(rows)), rows]
    share[np.arange(len(rows)), rows] = 0.0
    return float((own - share.max(axis=1)).min(initial=1.0)) if len(rows) else -1.0


def alone(skills: Skills) -> bool:
    """Whether the labels given stand, as neighbors are not asked."""
    return bool((skills.sure == NOTHING).all())


def standing(n_annotators: int, given: Floats) -> Skills:
    """By which each row's label is what most of its annotators say: all are alike, as often right
    as the matrix (class, class) of the labels given says, within bounds; neighbors are not asked.
    """
    c = len(given)
    right = float(np.clip(np.diag(given).mean(), *STANDING))
    matrix = np.full((c, c), (1.0 - right) / (c - 1)) + np.eye(c) * (
        right - (1.0 - right) / (c - 1)
    )
    skills = started(matrix, n_annotators, np.full(c, 1.0 / c))
    return replace(skills, sure=np.full((c, len(EDGES)), NOTHING))


def together(before: Expected, part: Expected) -> Expected:
    """The sums of both."""
    return Expected(
        *(a + b for a, b in zip(vars(before).values(), vars(part).values(), strict=True))
    )


def maximize(sums: Expected) -> Skills:
    """The likeliest matrices, shares and chances for the sums over all rows."""
    rows, right = sums.sure[:, :, 0], sums.sure[:, :, 1]
    level = right.sum(axis=0) / np.maximum(rows.sum(axis=0), 1e-12)
    sure = (right + LEVELED * level) / (rows + LEVELED)
    sure = np.where(rows.sum(axis=0) > 0, sure, np.nan)
    return Skills(_matrices(sums.counts), sums.prior / sums.prior.sum(), sure)


def _matrices(counts: Floats) -> Floats:
    """(annotator, class, class) rates of counts, drawn as told above."""
    c = counts.shape[1]
    mean = counts.sum(axis=0) + 0.5 / c
    mean /= mean.sum(axis=1, keepdims=True)
    off = mean * (1.0 - np.eye(c))
    off /= off.sum(axis=1, keepdims=True)
    of_class = counts.sum(axis=2)
    d = _skills(of_class, np.trace(counts, axis1=1, axis2=2), np.diag(mean))
    drawn = off * (1.0 - d)[:, :, None]
    drawn[:, np.arange(c), np.arange(c)] = d
    return np.asarray((counts + DRAWN * drawn) / (of_class + DRAWN)[:, :, None])


def _skills(of_class: Floats, right: Floats, mean: Floats) -> Floats:
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


def change(before: Skills, after: Skills, counts: Floats) -> float:
    """How far matrices moved: sum of the absolute differences of a row, mean of all labels."""
    moved = np.abs(after.matrix - before.matrix).sum(axis=2)
    of_class = counts.sum(axis=2)
    return float((moved * of_class).sum() / max(float(of_class.sum()), 1e-12))


def consensus_of(
    near: Ints,
    weight: Floats,
    labels: RowLabels,
    n_annotators: int,
    given: Floats,
    shares: Floats,
) -> tuple[Judged, Expected, Skills]:
    """All rounds over a pool in memory.

    ``near`` and ``weight`` are (row, rank), self excluded; ``given`` and ``shares`` the matrix
    (class, class) and shares (class,) of the labels given.
    """
    n, c = len(near), len(given)
    own = np.arange(n)
    agreement = Agreement.of(labels.start, labels.label, c)
    skills = started(first_matrix(agreement, n, given), n_annotators, shares)
    for _ in range(most_rounds(agreement, n)):
        _, sums = expect(own, near, weight, labels, skills)
        before, skills = skills, maximize(sums)
        if change(before, skills, sums.counts) < STILL:
            break
    if not (is_shared(agreement, n) or earned(sums)):
        skills = standing(n_annotators, given)
    judged, sums = expect(own, near, weight, labels, skills)
    return judged, sums, skills


def most_rounds(agreement: Agreement, n_rows: int) -> int:
    """Rounds at most."""
    return ROUNDS if is_shared(agreement, n_rows) else FEW_ROUNDS
