"""PL A-kNN of Errandonea et al.: rows whose labels are sets of candidates (Algorithm 2).

Each training row has a candidate set, kept as a bit mask. A query's neighbors are taken one by one,
nearest first; labels whose count among the neighbors' sets falls behind the leading one by a margin
are dropped, until one is left. A set of one label is an ordinary label, an empty one a missing
label, which is passed over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Masks = NDArray[np.uint64]
Ints = NDArray[np.int64]
_BITS = 64
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

    label: Ints
    """(query,) int64 class"""
    n_neighbors: Ints
    """(query,) int64 neighbors used, those without any candidate not counted"""
    n_labels: Ints
    """(query,) int64 labels left at the end; 1 where the neighbors decided"""


def pack(candidate: NDArray[np.bool_]) -> Masks:
    """(row, word) uint64 bit masks of candidate sets (row, class) bool: class c is bit c % 64 of
    word c // 64."""
    n, n_classes = candidate.shape
    words = -(-n_classes // _BITS)
    padded = np.zeros((n, words * _BITS), np.bool_)
    padded[:, :n_classes] = candidate
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def unpack(mask: Masks, n_classes: int) -> NDArray[np.bool_]:
    """(row, class) bool candidate sets of bit masks (row, word)."""
    bits = np.unpackbits(mask.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return bits[:, :n_classes].astype(np.bool_)


def predict(
    neighbor: NDArray[np.integer[Any]],
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
    label, used, left = _adaptive(np.ascontiguousarray(neighbor), mask, n_classes, margin, stops)
    return Predictions(label[:, 0], used, left)


def predict_each(
    neighbor: NDArray[np.integer[Any]], mask: Masks, n_classes: int, margin: float, stops: Ints
) -> Ints:
    """(query, stop) int64 answers if no more than ``stops`` (stop,), ascending, neighbors are
    looked at; arguments as for `predict`, ``margin`` as by `AdaptiveParams.margin`."""
    label: Ints
    label, _, _ = _adaptive(np.ascontiguousarray(neighbor), mask, n_classes, margin, stops)
    return label


def most_voted(
    neighbor: NDArray[np.integer[Any]], mask: Masks, n_classes: int, sizes: Ints
) -> Ints:
    """(query, size) int64: the class in most sets of the first k neighbors, for each k of ``sizes``
    (size,), ascending; ties: the lowest class. Plain kNN on candidate sets (Hüllermeier & Beringer
    2006)."""
    label: Ints = _votes(np.ascontiguousarray(neighbor), mask, n_classes, sizes, np.inf)
    return label


def predict_aknn(
    neighbor: NDArray[np.integer[Any]],
    mask: Masks,
    n_classes: int,
    n: int,
    params: AdaptiveParams = AdaptiveParams(),
) -> Ints:
    """(query,) int64: A-kNN of Balsubramani et al. 2019 for many classes, on candidate sets.

    The neighborhood grows until the leading class's share exceeds 1/c by the margin (appendix B.2
    of Errandonea et al.); where it never does, the leading class of T neighbors is the answer.
    """
    sizes = np.array([params.most_neighbors], np.int64)
    margin = params.margin(n, n_classes)
    label: Ints = _votes(np.ascontiguousarray(neighbor), mask, n_classes, sizes, margin)
    return label[:, 0]


def agreement(
    neighbor: NDArray[np.integer[Any]],
    mask: Masks,
    own: Masks,
    n_classes: int,
    margins: NDArray[np.float64],
    stops: Ints,
) -> Ints:
    """(margin, stop) int64 rows whose answer is in their own candidate set; blocks add up.

    ``neighbor`` (row, list) leaves the row itself out, ``own`` (row, word) are the rows' sets;
    rows without a candidate count for nothing. The rest as for `predict_each`.
    """
    hits = np.zeros((len(margins), len(stops)), np.int64)
    row = np.arange(len(own))[:, None]
    for at, margin in enumerate(margins):
        answer = predict_each(neighbor, mask, n_classes, float(margin), stops)
        bit = own[row, answer >> 6] >> (answer & 63).astype(np.uint64)
        hits[at] = (bit & np.uint64(1)).sum(axis=0)
    return hits


def choose(
    hits: Ints, c1: tuple[float, ...] = C1, stops: tuple[int, ...] = STOPS, delta: float = 0.1
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
    neighbor: NDArray[np.integer[Any]], mask: Masks, n_classes: int, margin: float, stops: Ints
) -> tuple[Ints, Ints, Ints]:
    """Answers at each stop, neighbors used and labels left at the last one.

    ``M(k, y) = A - (count_y - m2) / sqrt(k)``, so that its least value belongs to the greatest
    lead over the second; leads are compared without rounding, by signed squares.
    """
    n_query = len(neighbor)
    label = np.empty((n_query, len(stops)), np.int64)
    used, remaining = np.zeros(n_query, np.int64), np.empty(n_query, np.int64)
    count, alive = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    lead, at = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    for q in range(n_query):
        count[:] = 0
        at[:] = 0
        left = n_classes
        for y in range(n_classes):
            alive[y] = y
        k, stop, j = 0, 0, 0
        while stop < len(stops):
            if left == 1 or j == neighbor.shape[1] or neighbor[q, j] < 0 or k == stops[stop]:
                label[q, stop] = _closest(alive, left, lead, at)
                stop += 1
                continue
            place = neighbor[q, j]
            j += 1
            filled = False
            for word in range(mask.shape[1]):
                filled = filled or mask[place, word] != 0
            if not filled:
                continue
            k += 1
            first, second = -1, -1
            for a in range(left):
                y = alive[a]
                if (mask[place, y >> 6] >> np.uint64(y & 63)) & np.uint64(1):
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
        used[q], remaining[q] = k, left
    return label, used, remaining


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _closest(alive: Ints, left: int, lead: Ints, at: Ints) -> int:
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
def _votes(
    neighbor: NDArray[np.integer[Any]], mask: Masks, n_classes: int, sizes: Ints, margin: float
) -> Ints:
    """(query, size) leading class of the first neighbors, or of as many as exceed the margin."""
    label = np.empty((len(neighbor), len(sizes)), np.int64)
    count = np.empty(n_classes, np.int64)
    for q in range(len(neighbor)):
        count[:] = 0
        k, size, j, best, over = 0, 0, 0, 0, False
        while size < len(sizes):
            if over or j == neighbor.shape[1] or neighbor[q, j] < 0 or k == sizes[size]:
                label[q, size] = best
                size += 1
                continue
            place = neighbor[q, j]
            j += 1
            filled = False
            for word in range(mask.shape[1]):
                filled = filled or mask[place, word] != 0
            if not filled:
                continue
            k += 1
            for y in range(n_classes):
                if (mask[place, y >> 6] >> np.uint64(y & 63)) & np.uint64(1):
                    count[y] += 1
            best = int(np.argmax(count))
            over = count[best] / k - 1.0 / n_classes >= margin / math.sqrt(k)
    return label
