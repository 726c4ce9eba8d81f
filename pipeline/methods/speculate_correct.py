"""Error bounds of k-nearest-neighbor classifiers without held-out rows: Bax, Weng & Tian 2019.

The true error ``p*`` of a k-nearest-neighbor classifier, over rows from the distribution that the n
training rows came from, labels included, lies within ``epsilon`` (Theorem 13) of an estimate from
the training rows themselves. The estimate withholds r subsets of m rows in turn and corrects for
what the withholding changes. Natural logarithms throughout.

It is sampled by the modified procedure, equations (109) and (110). Every row is sampled equally
often and from a stream of its own, so the result depends on the seed and the rows alone: blocks of
rows can be sampled anywhere, in any order, and their counts add up. Equally many samples per row
keep the mean and never add to the variance, so that (115) holds. The printed probability that
neighbor j is in no validation subset does not sum to one with the others; it is
``(n - rm - f) / (n - j)``.

Theorem 13 needs of the loss only that it lies in [0, 1]; any loss of (given, predicted) label is
certified after shifting and scaling. `docs/understand/certificates.md` has the derivations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numba import njit

from pipeline.arrays import Float64, Int64, Integers
from pipeline.decision.threshold import predict
from pipeline.knn.lots import GOLDEN, mixed_one

SUBSETS = tuple(range(1, 11))
"""Numbers of validation subsets (r) that the paper tries."""
SHARES = tuple(j / 1000 for j in range(1, 100))
"""Subset sizes (m) that the paper tries, as shares of the rows."""
SAMPLING_SHARE = 0.1
"""Share of delta for the sampling; the validation has the rest (Theorem 13)."""
SAMPLED = 0.02
"""Share of the width that sampling may add before more samples are drawn."""

Inequality = Literal["hoeffding", "lemma6"]
"""`hoeffding`: averages of dependent means obey the inequality of one mean, as the exponential is
convex (Hoeffding 1963, section 5). `lemma6`: the paper's equation (112), 2.7 times as wide."""
_SAMPLES_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Design:
    """What is sampled; all of it is chosen before any label is looked at."""

    n: int
    """labeled training rows"""
    k: int
    """voting neighbors"""
    r: int
    """validation subsets"""
    m: int
    """rows of a validation subset"""
    w: int
    """neighbors known per row; samples that need more count as zero"""
    samples: int
    """samples in all"""

    def __post_init__(self) -> None:
        if not (self.r >= 1 and self.m >= 1 and self.r * self.m <= self.n - self.k):
            raise ValueError(
                f"r={self.r}, m={self.m}: need r, m >= 1 and r m <= n - k = {self.n - self.k}"
            )
        if not (1 <= self.k <= self.w < self.n):
            raise ValueError(f"k={self.k}, w={self.w}: need 1 <= k <= w < n = {self.n}")
        if self.samples < 1:
            raise ValueError(f"samples={self.samples}: at least 1 is needed")


@dataclass(frozen=True)
class Epsilon:
    """The half width of the bound, in its parts; for a loss in [0, 1]."""

    validation: float
    """epsilon_v, (112) or less: the training rows are a sample"""
    remainder: float
    """epsilon_r, (113): what r corrections leave uncorrected"""
    cutoff: float
    """epsilon_c, (114): samples that would need more than w neighbors"""
    sampling: float
    """epsilon_s, (115): the estimate itself is sampled"""

    @property
    def total(self) -> float:
        return self.validation + self.remainder + self.cutoff + self.sampling


def chance_all_nearer(design: Design, i: int) -> float:
    """P(b_i), equation (62): each of i subsets has a row nearer than the k-th row of no subset."""
    rest = design.n - design.r * design.m
    j = np.arange(design.k)
    terms = (
        (-1) ** h * math.comb(i, h) * math.prod(((rest - j) / (rest + h * design.m - j)).tolist())
        for h in range(i + 1)
    )
    return max(0.0, math.fsum(terms))


def loss_range(design: Design) -> float:
    """Greatest difference between two values of the summed terms of one row, expression (73)."""
    return math.fsum(2 ** (i - 1) * chance_all_nearer(design, i - 1) for i in _steps(design))


def epsilon(design: Design, delta: float, inequality: Inequality = "hoeffding") -> Epsilon:
    """The bound's half width: ``P(|p* - estimate| >= total) <= delta``.

    ValueError unless 0 < delta < 1. ``(1 - SAMPLING_SHARE) delta`` goes to the validation, the rest
    to the sampling, as in the paper.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta={delta}: need a probability strictly between 0 and 1")
    r, s = design.r, design.samples
    chance = [chance_all_nearer(design, i) for i in range(r + 1)]
    log = math.log(2.0 / ((1.0 - SAMPLING_SHARE) * delta))
    factor = math.sqrt(log) if inequality == "hoeffding" else 1.06 * math.sqrt(log) + 3.22
    spread = math.fsum(2 ** (i - 1) * chance[i - 1] for i in _steps(design))
    square = math.fsum(r * 4 ** (i - 1) * chance[i - 1] for i in _steps(design))
    rare = math.log(2.0 / (SAMPLING_SHARE * delta))
    return Epsilon(
        validation=spread / math.sqrt(2.0 * design.m) * factor,
        remainder=2 ** (r - 1) * chance[r],
        cutoff=r * 2 ** (r - 1) * chance_cut_off(design),
        sampling=math.sqrt(2.0 * square * rare / s) + r * 2**r * rare / (3.0 * s),
    )


def chance_cut_off(design: Design) -> float:
    """Fewer than k of the w nearest of n - 1 rows are in no subset, which rm - 1 of them are.

    The sum of (114): the lower tail of a hypergeometric count.
    """
    known, hidden = design.n - design.r * design.m, design.r * design.m - 1
    every = math.comb(design.n - 1, design.w)
    few = sum(math.comb(known, i) * math.comb(hidden, design.w - i) for i in range(design.k))
    return few / every


def best_design(
    n: int,
    k: int,
    w: int,
    samples: int,
    delta: float,
    inequality: Inequality = "hoeffding",
) -> Design:
    """The (r, m) of least ``epsilon`` over the paper's grid; ties: least r, then m.

    It looks at no label, so that the bound holds for it as for any (r, m) fixed in advance.
    ValueError where no pair of the grid leaves k rows outside the subsets.
    """
    sizes = sorted({max(1, round(share * n)) for share in SHARES})
    pairs = [(r, m) for r in SUBSETS for m in sizes if r * m <= n - k]
    if not pairs:
        raise ValueError(f"n={n}, k={k}: too few rows for any validation subset beside k neighbors")
    designs = [Design(n, k, r, m, w, samples) for r, m in pairs]
    return min(designs, key=lambda design: epsilon(design, delta, inequality).total)


def enough_samples(design: Design, delta: float) -> Design:
    """The design with a tenth of its samples, and a tenth of these, while they add less than
    `SAMPLED` to what the other parts of epsilon are without them."""
    fewer = replace(design, samples=max(1, design.samples // 10))
    parts = epsilon(fewer, delta)
    narrow = parts.sampling < SAMPLED * (parts.total - parts.sampling)
    return enough_samples(fewer, delta) if narrow and fewer != design else design


def _steps(design: Design) -> range:
    return range(1, design.r + 1)


Labels = Integers
Rule = Callable[[Labels], Labels]
"""(sample, k) labels of the voters -> (sample,) class; it must depend on them alone."""


@dataclass(frozen=True)
class Counts:
    """What a block's samples add up to; the counts of all blocks are summed."""

    weight: Int64
    """(class, class) signed samples by given and predicted label; over all samples, times r, an
    estimate of P(given, predicted)"""
    rows: int
    """labeled rows sampled"""
    samples: int
    """samples drawn, equally many per row"""
    short_rows: int
    """rows with fewer than w labeled neighbors"""


def majority(n_classes: int) -> Rule:
    """The class of most votes; ties: of two classes 1, of more the lowest."""
    if n_classes == 2:
        return at_least(0.5)

    def most_voted(voter: Labels) -> Labels:
        votes = np.zeros((len(voter), n_classes), np.int32)
        np.add.at(votes, (np.arange(len(voter))[:, None], voter), 1)
        return np.asarray(votes.argmax(axis=1))

    return most_voted


def at_least(threshold: float) -> Rule:
    """1 where the share of voters labeled 1 reaches a threshold, as that of the corrected rule."""
    return lambda voter: predict(np.mean(voter, axis=1), threshold)


def sample_block(
    row: Int64,
    label: Labels,
    neighbor_label: Labels,
    design: Design,
    rule: Rule,
    n_classes: int,
    seed: int,
) -> Counts:
    """Samples of some of the labeled rows.

    Parameters
    ----------
    row : (row,) int64 distinct numbers, from which each row's random stream starts
    label : (row,) given labels, 0 to n_classes - 1
    neighbor_label : (row, w) given labels of the nearest labeled rows, nearest first, self
        excluded; a code of no class at the end of short lists. Samples that run
        into the end count as zero.
    rule : the classifier that is certified; fixed before the labels are looked at
    """
    if neighbor_label.shape != (len(row), design.w):
        raise ValueError(
            f"lists {neighbor_label.shape} for {len(row)} rows: need one of w={design.w} per row"
        )
    per_row = max(1, -(-design.samples // design.n))  # at least as many in all as wanted
    weight = np.zeros(n_classes * n_classes, np.int64)
    at_once = max(1, _SAMPLES_AT_ONCE // per_row)
    for first in range(0, len(row), at_once):
        part = slice(first, first + at_once)
        own, sign, voter = _draw(
            row[part],
            np.ascontiguousarray(neighbor_label[part]),
            n_classes,
            (design.n, design.k, design.r, design.m),
            per_row,
            np.uint64(seed),
        )
        cell = label[part][own].astype(np.int64) * n_classes + rule(voter)
        positive = np.bincount(cell[sign > 0], sign[sign > 0], len(weight))
        negative = np.bincount(cell[sign < 0], sign[sign < 0], len(weight))
        weight += (positive + negative).astype(np.int64)
    last = neighbor_label[:, -1]
    short = int(((last < 0) | (last >= n_classes)).sum())
    return Counts(weight.reshape(n_classes, n_classes), len(row), per_row * len(row), short)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _draw(
    row: Int64,
    neighbor_label: Labels,
    n_classes: int,
    sizes: tuple[int, int, int, int],
    per_row: int,
    seed: np.uint64,
) -> tuple[Int64, Int64, Labels]:
    """The samples that are not zero whatever their voters say: place of the row in the block
    (sample,), signed weight 2^(i-1) (-1)^|S| (sample,), labels of the k voters (sample, k)."""
    n, k, r, m = sizes
    w = neighbor_label.shape[1]
    most = len(row) * per_row
    own, sign = np.empty(most, np.int64), np.empty(most, np.int64)
    voter = np.empty((most, k), neighbor_label.dtype)
    taken, votes = np.empty(r, np.int64), np.empty(k, neighbor_label.dtype)
    filled = 0
    for a in range(len(row)):
        state = mixed_one(mixed_one(seed + GOLDEN) ^ (np.uint64(row[a]) * GOLDEN))
        for _ in range(per_row):
            state += GOLDEN
            bits = mixed_one(state)
            i = np.int64((bits >> np.uint64(32)) * np.uint64(r) >> np.uint64(32))
            withheld = np.int64(bits & np.uint64((1 << i) - 1)) | (1 << i)
            taken[:] = 0
            taken[i] = 1
            outside, cast, j = 0, 0, 0
            while outside < k and j < w and 0 <= neighbor_label[a, j] < n_classes:
                state += GOLDEN
                u = np.float64(mixed_one(state) >> np.uint64(11)) * 2.0**-53
                place = np.int64(u * (n - 1 - j)) - (n - r * m - outside)
                counts = True
                if place < 0:
                    outside += 1
                else:
                    subset = 0
                    while place >= m - taken[subset]:
                        place -= m - taken[subset]
                        subset += 1
                    taken[subset] += 1
                    counts = not (withheld >> subset) & 1
                if counts and cast < k:
                    votes[cast] = neighbor_label[a, j]
                    cast += 1
                j += 1
            if outside < k:
                continue
            nearer = True
            odd = False
            for h in range(i):
                nearer = nearer and taken[h] > 0
                odd ^= bool((withheld >> h) & 1)
            if nearer:
                own[filled] = a
                sign[filled] = -(1 << i) if odd else 1 << i
                voter[filled] = votes
                filled += 1
    return own[:filled], sign[:filled], voter[:filled]


@dataclass(frozen=True)
class Certificate:
    """With probability at least 1 - delta the expected loss lies in [lower, upper]."""

    estimate: float
    """p_s, not clipped"""
    half_width: float
    """in units of the loss"""
    epsilon: Epsilon
    """its parts, for a loss in [0, 1]"""

    @property
    def lower(self) -> float:
        return max(0.0, self.estimate - self.half_width)

    @property
    def upper(self) -> float:
        return min(1.0, self.estimate + self.half_width)


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
    loss = 1.0 - np.eye(len(counts.weight)) if loss is None else loss
    least, spread = float(loss.min()), float(np.ptp(loss))
    parts = epsilon(design, delta / n_rules, inequality)
    mean = design.r * counts.weight / counts.samples
    most = 0.5 * (1.0 + loss_range(design))
    short = most * counts.short_rows / counts.rows  # what rows with short lists add
    return Certificate(
        estimate=least + float(((loss - least) * mean).sum()),
        half_width=spread * (parts.total + short),
        epsilon=parts,
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
