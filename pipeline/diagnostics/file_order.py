"""Do rows that are near each other in space also stand near each other in the file?

Rows drawn independently may stand in any order, so neighbors stand as far apart as the same graph
would have them after a shuffle. Where they stand nearer, rows come in an order: drift, blocks,
repeated measurements of one thing, or sorting. The question is that of the non-iid check of
cleanlab's Datalab, which shuffles 25 times; here mean and variance over all shuffles are computed,
from the degrees of the graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import gammaincc

from pipeline.arrays import Float32, Int64
from pipeline.blocks.sampling import in_sample
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import places
from pipeline.streams import Stream

MOST_ROWS, RANKS = 1 << 17, 10
"""Rows whose lists are looked at, about, and neighbors of each."""
DISTANCES = 40
"""Distances in the file that are looked at: 1, 2, 4, … rows."""
FEWEST = 10
"""Squared mean over variance of the neighbors within a distance, at least, for it to count: their
number, if they were independent."""
ALARM, LEAST = 0.01, 0.02
"""p-value, and share of neighbors beyond chance, from which an order is worth a warning."""


@dataclass(frozen=True)
class FileDistances:
    """Neighbors by how far apart they stand in the file, and what a shuffle of the file keeps."""

    counts: tuple[int, ...] = (0,) * DISTANCES
    """Neighbors at most 1, 2, 4, … rows apart, and farther than the one before."""
    squares: int = 0
    """Sum over rows of the squared number of neighbors that it lists or that list it."""
    mutual: int = 0
    """Neighbors that list the row, too."""


@dataclass(frozen=True)
class FileOrder:
    """How near in the file neighbors stand."""

    neighbors: int
    within: int
    """Rows apart, at which they differ most from a shuffled file."""
    share: float
    """Share of the neighbors that are at most so far apart."""
    expected: float
    """The same in a shuffled file."""
    p_value: float
    """Chance that a shuffled file looks so at any of the distances."""

    @property
    def ordered(self) -> bool:
        """Whether the order is beyond chance, and large enough to matter."""
        return self.p_value < ALARM and self.share - self.expected >= LEAST


def gaps(row: Int64, neighbor: Int64, distance: Float32, n_rows: int) -> FileDistances:
    """The neighbors of some rows of a file of `n_rows` that are among these rows.

    The lists of about `MOST_ROWS` rows of the file are looked at. Of a list those neighbors count
    that are nearer than the last one: of rows at one distance a list holds those of the lowest
    numbers, and the order of the file would be in the graph.

    Parameters
    ----------
    row : (row,) numbers of the rows whose lists are given, distinct
    neighbor, distance : (row, rank) their lists, nearest first; ABSENT and inf where short
    """
    own = np.flatnonzero(in_sample(row, n_rows, MOST_ROWS, 0, Stream.FILE_ORDER))
    fence = min(RANKS, neighbor.shape[1] - 1)
    listed, far = neighbor[own, :fence], distance[own, : fence + 1]
    at = places(row, np.where(far[:, :-1] < far[:, -1:], listed, ABSENT))
    there = at != ABSENT
    shared = np.bincount(at[there], minlength=len(row))
    shared[own] += there.sum(axis=1)
    list_of = np.full(len(row), ABSENT, np.int64)
    list_of[own] = np.arange(len(own))
    mutual = 0
    for rank in range(fence):
        lists = np.flatnonzero(there[:, rank])
        lists = lists[list_of[at[lists, rank]] != ABSENT]
        theirs = at[list_of[at[lists, rank]]]
        mutual += int((theirs == own[lists, None]).any(axis=1).sum())
    apart = np.abs(listed - row[own, None])[there]
    _, exponent = np.frexp((apart - 1).astype(np.float64))
    counts = np.bincount(exponent, minlength=DISTANCES)
    return FileDistances(tuple(counts.tolist()), int(np.square(shared).sum()), mutual)


def over_shuffles(distances: FileDistances, within: int, n_rows: int) -> tuple[float, float]:
    """Mean and variance, over all orders of the file, of the number of neighbors at most `within`
    rows apart, 1 to n_rows - 1; at least 4 rows.

    Two neighbors in the graph are the same two rows, have one row in common, or none; for each
    kind the chance that both are within the distance is a count of places. As in Friedman & Rafsky
    1979 for trees.
    """
    n, d, edges = n_rows, within, sum(distances.counts)
    a = min(d, n - 1 - d)
    close = d * (2 * n - d - 1)
    squares = 2 * (_squares(d + a - 1) - _squares(d - 1)) + (n - 2 * a) * min(2 * d, n - 1) ** 2
    one, pairs = squares - close, n * (n - 1)
    chance = Fraction(close, pairs)
    chance_one = Fraction(one, pairs * (n - 2))
    chance_none = Fraction(close**2 - 2 * close - 4 * one, pairs * (n - 2) * (n - 3))
    same = edges + distances.mutual
    sharing = distances.squares - 2 * same
    second = same * chance + sharing * chance_one + (edges**2 - same - sharing) * chance_none
    return float(edges * chance), float(second - (edges * chance) ** 2)


def _squares(m: int) -> int:
    """1 + 4 + … + m²"""
    return m * (m + 1) * (2 * m + 1) // 6


def file_order(distances: FileDistances, n_rows: int) -> FileOrder | None:
    """The test at all distances; None where there are too few neighbors to say anything.

    Counts of near places come in heaps, so that their right tail is longer than the normal
    distribution's: p-values are those of the gamma distribution with their mean and variance, times
    the number of distances.
    """
    edges, reached = sum(distances.counts), np.cumsum(distances.counts)
    tried: list[tuple[float, float, int, float]] = []
    for place in range(DISTANCES if n_rows > 3 else 0):
        if 2**place >= n_rows - 1:
            break
        mean, variance = over_shuffles(distances, 2**place, n_rows)
        if mean**2 > FEWEST * variance > 0:
            count = int(reached[place])
            p_value = float(gammaincc(mean**2 / variance, count * mean / variance))
            tried.append((p_value, (mean - count) / math.sqrt(variance), place, mean))
    if not tried:
        return None
    p_value, _, place, mean = min(tried)
    return FileOrder(
        edges,
        2**place,
        int(reached[place]) / edges,
        mean / edges,
        min(1.0, len(tried) * p_value),
    )
