"""PL A-kNN of Errandonea et al.: rows whose labels are sets of candidates (Algorithm 2).

Each training row has a candidate set, kept as a bit mask. A query's neighbors are taken one by one,
nearest first; labels whose count among the neighbors' sets falls behind the leading one by a margin
are dropped, until one is left. A set of one label is an ordinary label, an empty one a missing
label, which is passed over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Float64, Int64, Integers, UInt64

Masks = UInt64
_BITS = 64
_ANY = np.empty((0, 1), np.uint64)
"""No sets to begin with: all labels are possible."""
NAME = "pl-aknn"
"""The rule, as runs call it."""
C1 = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
"""Values of c1 that `choose` chooses from."""
STOPS = (3, 5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320, 400)
"""Values of T that `choose` chooses from, as far as lists go."""


@dataclass(frozen=True)
class AdaptiveParams:
    """Parameters of PL A-kNN; the defaults are the paper's."""

    c1: float = 0.5
    """Margin of a label that is dropped, in units of sqrt((log n + log(c / delta)) / k)"""
    delta: float = 0.1
    most_neighbors: int = 400
    """T, the most neighbors looked at"""

    def __post_init__(self) -> None:
        if not (self.c1 > 0.0 and 0.0 < self.delta < 1.0 and self.most_neighbors >= 1):
            raise ValueError(f"{self}: need c1 > 0, 0 < delta < 1 and at least one neighbor")

    def margin(self, n: int, n_classes: int) -> float:
        """A: labels that trail by ``A sqrt(k)`` of k counted neighbors are dropped."""
        return self.c1 * math.sqrt(math.log(n) + math.log(n_classes / self.delta))


@dataclass(frozen=True)
class Predictions:
    """One answer per query."""

    label: Int64
    """(query,) int64 class"""
    n_neighbors: Int64
    """(query,) int64 neighbors used, those without any candidate not counted"""
    n_labels: Int64
    """(query,) int64 labels left at the end; 1 where the neighbors decided"""
    n_closest: Int64
    """(query,) int64 neighbors among which the label came closest to beating the others"""


def pack(candidate: Bools) -> Masks:
    """(row, word) uint64 bit masks of candidate sets (row, class) bool: class c is bit c % 64 of
    word c // 64."""
    n, n_classes = candidate.shape
    words = -(-n_classes // _BITS)
    padded = np.zeros((n, words * _BITS), np.bool_)
    padded[:, :n_classes] = candidate
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def unpack(mask: Masks, n_classes: int) -> Bools:
    """(row, class) bool candidate sets of bit masks (row, word)."""
    bits = np.unpackbits(mask.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return bits[:, :n_classes].astype(np.bool_)


def reordered(mask: Masks, place: Int64) -> Masks:
    """(row, word) masks in which bit b of those given is bit ``place[b]``; ``place`` (class,) are
    0, 1, 2, … in some order."""
    moved: Masks = _moved(mask, place, -(-len(place) // _BITS))
    return moved


def holds(mask: Masks, label: Int64) -> Bools:
    """(row,) whether each row's label (row,) is in its set (row, word)."""
    word = mask[np.arange(len(mask)), label >> 6]
    return np.asarray((word >> (label & 63).astype(np.uint64)) & np.uint64(1) != 0)


def predict(
    neighbor: Integers,
    mask: Masks,
    n_classes: int,
    n: int,
    params: AdaptiveParams = AdaptiveParams(),
) -> Predictions:
    """Algorithm 2 for a block of queries.

    Of equal values of the criterion the smallest neighborhood wins, then the lowest class.

    Parameters
    ----------
    neighbor : (query, list) places in ``mask``, nearest first, negative where the list ends;
        ``params.most_neighbors`` of them or fewer are used
    mask : (place, word) uint64 candidate sets, `pack`; empty ones are passed over
    n : training rows
    """
    stops = np.array([params.most_neighbors], np.int64)
    margin = params.margin(n, n_classes)
    label, *counts = _adaptive(np.ascontiguousarray(neighbor), mask, n_classes, margin, stops, _ANY)
    return Predictions(label[:, 0], *counts)


@dataclass(frozen=True)
class Disambiguation:
    """What the neighbors say of rows' own candidates."""

    label: Int64
    """(row,) int64 the likeliest of the row's candidates"""
    in_candidates: Bools
    """(row,) whether the predicted label is one"""
    quality: Float64
    """(row,) 1 where it is, else exp(-lead² / 2)"""


def disambiguate(
    neighbor: Integers,
    mask: Masks,
    own: Masks,
    predictions: Predictions,
    n_classes: int,
    n: int,
    params: AdaptiveParams = AdaptiveParams(),
) -> Disambiguation:
    """The likeliest of each row's own candidates: the predicted label if it is one, else the answer
    of Algorithm 2 that begins with the candidates in place of all labels.

    Where it is none, the predicted label leads by (its count - the candidate's) / √k among the k
    neighbors where it came closest to beating all others. By Hoeffding's inequality, k neighbors
    that favor neither lead so far with probability exp(-lead² / 2) at most.

    Parameters
    ----------
    own : (row, word) uint64 sets of the rows themselves, none empty
    predictions : what `predict` said of the same rows with the same arguments; ``neighbor`` leaves
        the row itself out
    """
    inside = holds(own, predictions.label)
    label, quality = predictions.label.copy(), np.ones(len(own))
    out = np.flatnonzero(~inside)
    stops = np.array([params.most_neighbors], np.int64)
    near, margin = np.ascontiguousarray(neighbor[out]), params.margin(n, n_classes)
    label[out] = _adaptive(near, mask, n_classes, margin, stops, own[out])[0][:, 0]
    ahead = _ahead(near, mask, predictions.label[out], label[out], predictions.n_closest[out])
    lead = np.maximum(ahead, 0) / np.sqrt(np.maximum(predictions.n_closest[out], 1))
    quality[out] = np.exp(-0.5 * np.square(lead))
    return Disambiguation(label, inside, quality)


def agreement(
    neighbor: Integers, mask: Masks, own: Masks, n_classes: int, margins: Float64, stops: Int64
) -> Int64:
    """(margin, stop) int64 rows whose answer is in their own candidate set, by margins as of
    `AdaptiveParams.margin`, and by most neighbors, ascending; blocks add up.

    ``neighbor`` (row, list) leaves the row itself out, ``own`` (row, word) are the rows' sets;
    rows without a candidate count for nothing. The rest as for `predict`.
    """
    hits = np.zeros((len(margins), len(stops)), np.int64)
    row, near = np.arange(len(own))[:, None], np.ascontiguousarray(neighbor)
    for at, margin in enumerate(margins):
        answer, *_ = _adaptive(near, mask, n_classes, float(margin), stops, _ANY)
        bit = own[row, answer >> 6] >> (answer & 63).astype(np.uint64)
        hits[at] = (bit & np.uint64(1)).sum(axis=0)
    return hits


def choose(
    hits: Int64, c1: tuple[float, ...] = C1, stops: tuple[int, ...] = STOPS, delta: float = 0.1
) -> AdaptiveParams:
    """The c1 and T whose answers, and those of the cells around, agree most with rows' own sets.

    A right answer is in the row's own set more often than a wrong one wherever the labels can be
    learned from sets at all, so the bags alone say what predicts best. Averaging 3 x 3 cells keeps
    the noise of single ones from choosing. Ties: the least c1, then T. ``hits`` (c1, stop) from
    `agreement`, summed over all rows.
    """
    wide = np.pad(hits, 1, mode="edge")
    size = hits.shape
    around = sum(wide[a : a + size[0], b : b + size[1]] for a in range(3) for b in range(3))
    best, stop = np.unravel_index(int(np.argmax(around)), size)
    return AdaptiveParams(c1[best], delta, stops[stop])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _adaptive(
    neighbor: Integers, mask: Masks, n_classes: int, margin: float, stops: Int64, start: Masks
) -> tuple[Int64, Int64, Int64, Int64]:
    """Answers at each stop; neighbors used, labels left and neighbors among which the answer came
    closest at the last one. ``start`` (query, word) are the labels to begin with, without queries
    all.

    ``M(k, y) = A - (count_y - m2) / sqrt(k)``, so that its least value belongs to the greatest
    lead over the second; leads are compared without rounding, by signed squares.
    """
    n_query = len(neighbor)
    label = np.empty((n_query, len(stops)), np.int64)
    used, remaining = np.zeros(n_query, np.int64), np.empty(n_query, np.int64)
    closest = np.empty(n_query, np.int64)
    count, alive = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    lead, at = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    for q in range(n_query):
        count[:] = 0
        at[:] = 0
        left = 0
        for y in range(n_classes):
            if len(start) == 0 or _has(start, q, y):
                alive[left] = y
                left += 1
        k, stop, j = 0, 0, 0
        while stop < len(stops):
            if left == 1 or j == neighbor.shape[1] or neighbor[q, j] < 0 or k == stops[stop]:
                label[q, stop] = _closest(alive, left, lead, at)
                stop += 1
                continue
            place = neighbor[q, j]
            j += 1
            if not mask[place].any():
                continue
            k += 1
            first, second = -1, -1
            for a in range(left):
                y = alive[a]
                if _has(mask, place, y):
                    count[y] += 1
                if count[y] > first:
                    first, second = count[y], first
                elif count[y] > second:
                    second = count[y]
            kept = 0
            for a in range(left):
                y = alive[a]
                ahead = count[y] - second
                if at[y] == 0 or ahead * abs(ahead) * at[y] > lead[y] * abs(lead[y]) * k:
                    lead[y], at[y] = ahead, k
                if (first - count[y]) / k < margin / math.sqrt(k):
                    alive[kept] = y
                    kept += 1
            left = kept
        used[q], remaining[q], closest[q] = k, left, at[label[q, -1]]
    return label, used, remaining, closest


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _has(mask: Masks, row: int, label: int) -> bool:
    """Whether a label is among a row's candidates."""
    return bool((mask[row, label >> 6] >> np.uint64(label & 63)) & np.uint64(1))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _closest(alive: Int64, left: int, lead: Int64, at: Int64) -> int:
    """The label of greatest ``lead / sqrt(at)``; ties: the least ``at``, then the lowest label."""
    best = int(alive[0])
    for a in range(1, left):
        y = alive[a]
        mine = lead[y] * abs(lead[y]) * at[best]
        other = lead[best] * abs(lead[best]) * at[y]
        if mine > other or (mine == other and at[y] < at[best]):
            best = int(y)
    return best


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _ahead(neighbor: Integers, mask: Masks, label: Int64, other: Int64, used: Int64) -> Int64:
    """(query,) how many more of the first ``used`` neighbors have the label among their candidates
    than have the other one."""
    ahead = np.zeros(len(neighbor), np.int64)
    for q in range(len(neighbor)):
        j, k, y, z = 0, 0, label[q], other[q]
        while k < used[q]:
            place = neighbor[q, j]
            j += 1
            if mask[place].any():
                k += 1
                ahead[q] += int(_has(mask, place, y)) - int(_has(mask, place, z))
    return ahead


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _moved(mask: Masks, place: Int64, words: int) -> Masks:
    """(row, word) masks with each bit at its place."""
    moved = np.zeros((len(mask), words), np.uint64)
    for row in range(len(mask)):
        for b in range(len(place)):
            if _has(mask, row, b):
                moved[row, place[b] >> 6] |= np.uint64(1) << np.uint64(place[b] & 63)
    return moved
