"""How to cut the pool: block size and halo by predicted cost, for a recall that is measured before
any block is built, on pairs of anchors and their exact neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.partition import Float32, Halo, fit_centroids, in_halo, meet_share, nearest_blocks

BLOCK_ROWS = (25_000, 50_000, 100_000, 150_000, 200_000)
"""Block sizes tried where the user names none."""
BLOCK_BYTES = 128 << 20
"""Features and lists of a block: sizes beyond it are not tried, the smallest excepted."""

HALOS = (
    Halo(0.0, 1),
    *(Halo(eps, 2) for eps in (0.05, 0.1, 0.2, 0.35, 0.6, 9.0)),
    *(Halo(eps, copies) for copies in (3, 4, 6, 8) for eps in (0.2, 0.4, 9.0)),
)

_COPIES_SAMPLE = 20_000
_MOVED = 6.0
"""Core microseconds a row that it takes to send lists home and to merge them, where rows have
copies (measured)."""
_ROUTED = 0.005
"""Core microseconds that comparing a row with one centre takes (measured)."""
_FEW_ROWS, _BLOCK_ROWS = 1 << 15, 64
"""Sampled rows that centres are fitted to: at least, and to a block."""


@dataclass(frozen=True)
class Cut:
    """One way to cut the pool, with what it is predicted to give."""

    centroid: Float32
    """(block, feature), scaled features"""
    halo: Halo
    copies: float
    """Mean copies of a row, predicted on the sample."""
    meet: float
    """Share of true neighbour pairs that are together in some block."""
    cost: float
    """Predicted core microseconds per row, the time that one of two cores waits included."""


@dataclass(frozen=True)
class Pairs:
    """Anchors and their exact neighbours: the pairs a cut should keep together."""

    anchor: Float32
    """(pair, feature)"""
    neighbor: Float32
    """(pair, feature)"""


def row_cost(block_rows: float) -> float:
    """Core microseconds a row that lists take in a block of this many rows (measured on blocks of
    12,000 to 200,000 rows, 32 features, k = 30; only ratios matter here)."""
    return float(19.5 * (block_rows / 50_000) ** 0.12)


def cuts(sample: Float32, n_rows: int, block_rows: int, pairs: Pairs, seed: int) -> list[Cut]:
    """All halos for one block size.

    Parameters
    ----------
    sample : (row, feature) uniform sample of the pool, scaled
    """
    n_blocks = round(n_rows / block_rows)
    centroid = fit_centroids(sample[: max(_FEW_ROWS, _BLOCK_ROWS * n_blocks)], n_blocks, seed)
    if len(centroid) == 1:
        return [Cut(centroid, Halo(0.0, 1), 1.0, 1.0, _cost(np.ones(1), n_rows))]
    a, b = nearest_blocks(pairs.anchor, centroid), nearest_blocks(pairs.neighbor, centroid)
    block, distance = nearest_blocks(sample[:_COPIES_SAMPLE], centroid)
    found = []
    for halo in HALOS:
        inside = in_halo(distance, halo)
        rows = np.bincount(block[inside], minlength=len(centroid)) / len(block)
        found.append(
            Cut(centroid, halo, float(rows.sum()), meet_share(a, b, halo), _cost(rows, n_rows))
        )
    return found


def _cost(share: npt.NDArray[np.float64], n_rows: int) -> float:
    """What it takes on two cores to find each row's block, and to build the lists of blocks that
    hold these shares of the pool, the largest first."""
    moved = _MOVED if share.sum() > 1.0 + 1e-9 else 0.0
    busy = [0.0, 0.0]
    for one in np.sort(share)[::-1].tolist():
        busy[busy[1] < busy[0]] += one * (row_cost(one * n_rows) + moved)
    return 2.0 * max(busy) + _ROUTED * len(share)


def choose_cut(candidates: Sequence[Cut], target_recall: float, attempt: int = 0) -> Cut:
    """The cheapest cut that leaves a margin above the target recall; where a better margin costs
    little more, that one. The margin doubles with each attempt. Where nothing is enough, the cut
    that keeps most pairs together.
    """
    miss = (1.0 - target_recall) / 2.0**attempt
    enough = [cut for cut in candidates if cut.meet >= 1.0 - miss / 2]
    if not enough:
        return max(candidates, key=lambda cut: (cut.meet, -cut.cost))
    cheapest = min(enough, key=lambda cut: (cut.cost, -cut.meet))
    better = [
        cut for cut in enough if cut.meet >= 1.0 - miss / 10 and cut.cost <= 1.5 * cheapest.cost
    ]
    return min(better, key=lambda cut: (cut.cost, -cut.meet)) if better else cheapest


def pair_index(
    neighbor: npt.NDArray[np.int64], n_anchors: int, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(pair,) anchor numbers and neighbour rows of the first anchors' k nearest, self excluded.

    neighbor : (anchor, rank) rows, the anchor itself in column 0
    """
    lists = neighbor[:n_anchors, 1 : k + 1]
    anchor = np.repeat(np.arange(len(lists)), lists.shape[1])
    there = lists.ravel() >= 0
    return anchor[there], lists.ravel()[there]
