"""The core of a class, rows away from where the other class is in the majority; and whether wrong
labels in it lie together."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse

from pipeline.arrays import Bools, Float64, Floating, Int64
from pipeline.knn.lists import ABSENT
from pipeline.knn.rows import nearest_rows
from pipeline.knn.threads import ALONE, Threads

NEAR = 20
"""Anchors around a row that count as near."""
AMONG = 4000
"""Anchors at most among which the near ones are sought."""
NEIGHBORS = 60
"""Neighbors that vote, at most."""
MAJORITIES = ((10, 2.0), (20, 1.6), (NEIGHBORS, 1.3))
"""Numbers of neighbors that vote, each with the standard errors by which the other class has to be
ahead to be in the majority."""
BLENDED = 0.06
"""Part of a class that lies among rows likelier of the other, from which on classes blend."""
RARE = 0.05
"""Rows likelier of the other class, per row of the class, below which the other class is rare."""


def near_anchors(x: Floating, threads: Threads = ALONE) -> Int64:
    """The nearest anchors of each, among at most `AMONG` of them, evenly spaced.

    Each dense column counts by its standard deviation, so that units do not matter.

    Parameters
    ----------
    x : (anchor, feature), dense or CSR, finite

    Returns
    -------
    (anchor, rank) int64 places of anchors, nearest first, itself left out; ABSENT where there are
    no more
    """
    n = x.shape[0]
    among = np.linspace(0, n - 1, min(n, AMONG)).astype(np.int64)
    own = np.searchsorted(among, np.arange(n))
    own[among[np.minimum(own, len(among) - 1)] != np.arange(n)] = ABSENT
    k = min(NEAR, len(among) - 1)
    if not issparse(x):
        spread = x.std(axis=0, dtype=np.float64)
        x = np.ascontiguousarray(x / np.where(spread > 0, spread, 1.0), np.float32)
    nearest, _ = nearest_rows(x, x[among], k, exclude=own, threads=threads)
    return np.where(nearest == ABSENT, ABSENT, among[nearest])


def in_core(wrong: Bools, even: float, near: Int64) -> Bools:
    """Which anchors lie away from where the other class is in the majority.

    Where a class is by itself an anchor is of its core as long as its labels are right more often
    than not, however many are wrong: the majority has to be surpassed by so many standard errors.

    Parameters
    ----------
    wrong : (anchor, neighbor) which neighbors' labels are not of the class, nearest first
    even : share of such labels where both classes are as likely
    near : (anchor, rank) anchors near each, of which none may be the other class' (`near_anchors`)

    Returns
    -------
    (anchor,) bool
    """
    other = np.zeros(len(wrong), bool)
    for size, z in MAJORITIES:
        other |= wrong[:, :size].mean(axis=1) > even + z * 0.5 / np.sqrt(size)
    return np.asarray(~other & ~(other[near] & (near != ABSENT)).any(axis=1))


def blends(chance: Float64) -> bool:
    """Whether overlap may pass for mistakes: a part of the class lies where the other one is
    likelier, or the other one is so rare that it may be likelier nowhere.

    ``chance`` (anchor,) of the class.
    """
    own = chance >= 0.5
    rare = np.count_nonzero(~own) <= RARE * np.count_nonzero(own)
    return bool(rare or chance[~own].sum() >= BLENDED * np.count_nonzero(own))


def clustering(wrong: Bools, core: Bools, near: Int64) -> tuple[float, float]:
    """Variance of the rate of wrong labels between places, and its standard errors from 0.

    The mean product of the deviations of near anchors' own labels from the core's rate, of which
    no label is in both factors (Moran, *Notes on continuous stochastic phenomena*, 1950).

    Parameters
    ----------
    wrong : (anchor,) which anchors' own labels are not of the class
    core : (anchor,) those looked at
    near : (anchor, rank) anchors near each, or ABSENT
    """
    first, second = np.repeat(np.arange(len(near)), near.shape[1]), near.ravel()
    both = (second != ABSENT) & core[first] & core[second]
    first, second = first[both], second[both]
    pair = np.minimum(first, second) * len(near) + np.maximum(first, second)
    pair, times = np.unique(pair, return_counts=True)
    if not len(times):
        return 0.0, 0.0
    first, second = np.divmod(pair, len(near))
    rate = float(wrong[core].mean())
    away = wrong - rate
    variance = float((times * away[first] * away[second]).sum() / times.sum())
    error = rate * (1.0 - rate) * float(np.linalg.norm(times) / times.sum())
    return variance, variance / error if error > 0 else 0.0
