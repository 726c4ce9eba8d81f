"""Theorem 13 of Bax, Weng & Tian 2019: how far a sampled error can lie from the true one.

The true error ``p*`` of a k-nearest-neighbor classifier, over rows from the distribution that the n
training rows came from, labels included, lies within ``epsilon`` of an estimate from the training
rows themselves. The estimate withholds r subsets of m rows in turn and corrects for what the
withholding changes. Natural logarithms throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

SUBSETS = tuple(range(1, 11))
"""Numbers of validation subsets (r) that the paper tries."""
SHARES = tuple(j / 1000 for j in range(1, 100))
"""Subset sizes (m) that the paper tries, as shares of the rows."""
SAMPLING_SHARE = 0.1
"""Share of delta for the sampling; the validation has the rest (Theorem 13)."""

Inequality = Literal["hoeffding", "lemma6"]
"""`hoeffding`: averages of dependent means obey the inequality of one mean, as the exponential is
convex (Hoeffding 1963, section 5). `lemma6`: the paper's equation (112), 2.7 times as wide."""


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


def _steps(design: Design) -> range:
    return range(1, design.r + 1)
