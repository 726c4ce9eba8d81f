"""Do rows that are near each other in space also stand near each other in the file?

Rows drawn independently may stand in any order, so the two rows of a pair that was chosen by
distance alone are at two random places of the file. Where pairs stand nearer than that, rows come
in an order: drift, blocks, repeated measurements of one thing, or sorting. The question is that of
the non-iid check of cleanlab's Datalab, which compares lists of neighbors with permuted ones; here
pairs share no row, their distances have a known distribution, and the p-value is a bound for any
number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.knn.lists import ABSENT, places

DISTANCES = 40
"""Distances in the file that are looked at: 1, 2, 4, … rows."""
ALARM, LEAST = 0.01, 0.05
"""p-value and excess of near pairs from which an order is worth a warning."""


@dataclass(frozen=True)
class FileOrder:
    """How near in the file the pairs of nearest rows stand."""

    pairs: int
    within: int
    """Rows apart, at which pairs differ most from random ones."""
    share: float
    """Share of the pairs that are at most so far apart."""
    expected: float
    """The same of random pairs."""
    p_value: float
    """At least the chance of such a difference in a file of independent rows."""

    @property
    def ordered(self) -> bool:
        """Whether the order is beyond chance, and large enough to matter."""
        return self.p_value < ALARM and self.share - self.expected >= LEAST


def mutual_pairs(
    row: npt.NDArray[np.int64],
    neighbor: npt.NDArray[np.int64],
    distance: npt.NDArray[np.float32],
) -> npt.NDArray[np.int64]:
    """(pair, 2) rows that are each other's nearest, smaller number first.

    No row is in two pairs. Rows whose nearest is tied are in none: ties are broken by row number,
    which would put neighbors at the beginning of the file.

    Parameters
    ----------
    row : (row,) numbers of the rows whose lists are given, distinct
    neighbor, distance : (row, rank) their lists, nearest first; ABSENT and inf where short
    """
    if neighbor.shape[1] < 2:
        return np.empty((0, 2), np.int64)
    nearest = np.where(distance[:, 0] < distance[:, 1], neighbor[:, 0], ABSENT)
    at = places(row, nearest)
    mutual = (at != ABSENT) & (nearest[at] == row) & (row < nearest)
    return np.column_stack([row[mutual], nearest[mutual]])


def by_distance(pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(DISTANCES,) pairs at most 1, at most 2, at most 4, … rows apart and farther than the one
    before; counts of blocks add up. `pairs` as `mutual_pairs` gives them."""
    _, exponent = np.frexp((pairs[:, 1] - pairs[:, 0] - 1).astype(np.float64))
    return np.bincount(exponent, minlength=DISTANCES)


def random_share(within: npt.NDArray[np.float64], n_rows: int) -> npt.NDArray[np.float64]:
    """Chance that two random rows of `n_rows` are at most `within` rows apart."""
    d = np.minimum(within, n_rows - 1.0)
    return np.asarray(d * (2.0 * n_rows - d - 1.0) / (n_rows * (n_rows - 1.0)))


def file_order(counts: Sequence[int] | npt.NDArray[np.int64], n_rows: int) -> FileOrder | None:
    """The one-sided Kolmogorov-Smirnov test of the sums of `by_distance`; None without pairs.

    The p-value is the inequality of Dvoretzky, Kiefer & Wolfowitz with the constant of Massart
    (1990), which holds for every number of pairs and for distributions with steps. Pairs that share
    no row vary less than independent ones.
    """
    found = np.asarray(counts, np.int64)
    pairs = int(found.sum())
    if pairs == 0:
        return None
    within = np.exp2(np.arange(len(found)))
    share, expected = np.cumsum(found) / pairs, random_share(within, n_rows)
    most = int(np.argmax(share - expected))
    excess = max(0.0, float(share[most] - expected[most]))
    p_value = float(np.exp(-2.0 * pairs * excess**2))
    return FileOrder(
        pairs,
        min(int(within[most]), n_rows - 1),
        float(share[most]),
        float(expected[most]),
        p_value,
    )
