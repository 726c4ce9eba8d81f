"""The modified sampling procedure of Bax, Weng & Tian 2019, equations (109) and (110).

Every row is sampled equally often and from a stream of its own, so the result depends on the seed
and the rows alone: blocks of rows can be sampled anywhere, in any order, and their counts add up.
Equally many samples per row keep the mean and never add to the variance, so that (115) holds.

The printed probability that neighbor j is in no validation subset does not sum to one with the
others; it is ``(n - rm - f) / (n - j)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Int64, Integers
from pipeline.decision.threshold import predict
from pipeline.methods.speculate_correct.bound import Design

_SAMPLES_AT_ONCE = 1 << 18
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: the increment of SplitMix64

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

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.weight + other.weight,
            self.rows + other.rows,
            self.samples + other.samples,
            self.short_rows + other.short_rows,
        )


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


def samples_per_row(n: int, samples: int) -> int:
    """Samples of each of n rows, so that there are at least as many as wanted."""
    return max(1, -(-samples // n))


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
    per_row = samples_per_row(design.n, design.samples)
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


def packed(neighbor_label: Labels, kept: Bools, w: int, absent: int) -> Labels:
    """(row, w) labels of each row's first w kept neighbors, ``absent`` where there are fewer.

    For pools of which only some rows are labeled, or only some are certified: with those of half
    of the rows, the threshold may come from the other half. ``kept`` is (row, list) bool.
    """
    order = np.argsort(~kept, axis=1, kind="stable")[:, :w]
    labels = np.take_along_axis(neighbor_label, order, axis=1)
    labels[~np.take_along_axis(kept, order, axis=1)] = absent
    return labels


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator]
def _mixed(z: np.uint64) -> np.uint64:
    """The output function of SplitMix64 (Steele, Lea & Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


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
        state = _mixed(_mixed(seed + _STEP) ^ (np.uint64(row[a]) * _STEP))
        for _ in range(per_row):
            state += _STEP
            bits = _mixed(state)
            i = np.int64((bits >> np.uint64(32)) * np.uint64(r) >> np.uint64(32))
            withheld = np.int64(bits & np.uint64((1 << i) - 1)) | (1 << i)
            taken[:] = 0
            taken[i] = 1
            outside, cast, j = 0, 0, 0
            while outside < k and j < w and 0 <= neighbor_label[a, j] < n_classes:
                state += _STEP
                u = np.float64(_mixed(state) >> np.uint64(11)) * 2.0**-53
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
