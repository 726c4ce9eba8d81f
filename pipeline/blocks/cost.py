"""How to cut the pool: block size and halo by predicted cost, for a recall that is measured before
any block is built, on pairs of anchors and their exact neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float32, Float64, Int32, Int64
from pipeline.blocks.partition import (
    Halo,
    fit_centroids,
    fit_regions,
    in_halo,
    nearest_blocks,
    nearest_regions,
    share_together,
)

BLOCK_ROWS = (25_000, 50_000, 100_000, 150_000, 200_000, 250_000)
"""Block sizes tried where the user names none."""
BLOCK_BYTES = 160 << 20
"""Features and lists of a block: sizes beyond it are not tried."""

HALOS = (
    Halo(0.0, 1),
    *(Halo(eps, 2) for eps in (0.03, 0.05, 0.07, 0.1, 0.2, 0.35, 0.6, 9.0)),
    *(
        Halo(eps, copies)
        for copies in (3, 4)
        for eps in (0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 9.0)
    ),
    *(Halo(eps, copies) for copies in (6, 8) for eps in (0.2, 0.4, 9.0)),
)

NONE = HALOS[0]
"""No row has a copy."""
_COPIES_SAMPLE = 20_000
_MARGIN = 0.9
"""Fraction of the permitted recall loss to spend; the rest absorbs sampling error."""
_LEFT = 0.2
"""Fraction of the permitted recall loss that a cut leaves, at least, to the lists within blocks."""
_MOVED = 9.0
"""Measured core-µs per row to send lists home and merge them, if rows have copies."""
_ROUTED = 0.005
"""Core microseconds that comparing a row with one center takes (measured)."""
_FEW_ROWS, _BLOCK_ROWS = 1 << 15, 64
"""Sampled rows that centers are fitted to: at least, and to a block."""


@dataclass(frozen=True)
class Cut:
    """One way to cut the pool, with what it is predicted to give."""

    centroid: Float32
    """(block, feature), scaled features"""
    region: Int32
    """(block,) the region of each: blocks whose rows are searched together."""
    halo: Halo
    copies: float
    """Mean copies of a row, predicted on the sample."""
    ceiling: float
    """Share of true neighbor pairs that are together in some region."""
    cost: float
    """Predicted core microseconds per row, the time that cores wait included, for lists of recall
    .99."""
    largest: int = 0
    """Predicted rows of the largest region, halo included."""


@dataclass(frozen=True)
class Pairs:
    """Anchors and their exact neighbors: the pairs a cut should keep together."""

    anchor: Float32
    """(pair, feature)"""
    neighbor: Float32
    """(pair, feature)"""


def row_cost(block_rows: float) -> float:
    """Core microseconds a row that lists take in a region of this many rows (measured on 12,000 to
    4,000,000 rows, 32 and 64 features, k = 30; only ratios matter here)."""
    return float(27.0 * (block_rows / 50_000) ** 0.1)


def effort(recall: float) -> float:
    """Time that lists of some recall within a block take, over that of lists of recall .99
    (measured from .9 to .995 on a 10-dimensional surface in 64 dimensions)."""
    return float(max(0.5, 1.0 - 0.17 * np.log(max(1.0 - recall, 1e-9) / 0.01)))


def recall_wanted(target: float, ceiling: float, attempt: int) -> float:
    """Recall that lists within blocks need if a share `ceiling` of all neighbors is in them.

    Each attempt after the first leaves half of what the one before could miss.
    """
    miss = (1.0 - target) / 2.0**attempt
    return min(1.0, (1.0 - _MARGIN * miss) / max(ceiling, 1.0 - miss))


def cuts(
    sample: Float32,
    n_rows: int,
    block_rows: int,
    pairs: Pairs,
    seed: int,
    halos: Sequence[Halo] = HALOS,
    n_regions: Sequence[int] = (),
    at_once: int = 2,
) -> list[Cut]:
    """The cuts of one block size, by number of regions and halo.

    Parameters
    ----------
    sample : (row, feature) uniform sample of the pool, scaled
    n_regions : numbers of regions to try; none where each block is a region of its own
    at_once : regions that are searched at the same time
    """
    n_blocks = round(n_rows / block_rows)
    sample = sample[: max(_FEW_ROWS, _BLOCK_ROWS * n_blocks)]
    centroid = fit_centroids(sample, n_blocks, seed)
    near = [
        nearest_blocks(x, centroid) for x in (pairs.anchor, pairs.neighbor, sample[:_COPIES_SAMPLE])
    ]
    sizes = np.bincount(near[2][0][:, 0], minlength=len(centroid))
    regions = [fit_regions(centroid, sizes, number, seed) for number in n_regions]
    tried = []
    for region in regions or [np.arange(len(centroid), dtype=np.int32)]:
        number = int(region.max()) + 1
        a, b, (of, distance) = (nearest_regions(*one, region) for one in near)
        for halo in halos if number > 1 else [NONE]:
            rows = np.bincount(of[in_halo(distance, halo)], minlength=number) / len(of)
            cost = _cost(rows, n_rows, at_once) + _ROUTED * len(centroid)
            largest = round(float(rows.max()) * n_rows)
            ceiling = share_together(a, b, halo)
            tried.append(Cut(centroid, region, halo, float(rows.sum()), ceiling, cost, largest))
    return tried


def _cost(share: Float64, n_rows: int, at_once: int) -> float:
    """Predicted core-µs per row of building lists, `at_once` regions at the same time, scheduled
    largest first.

    share : (region,) rows per region, halo included, over the rows of the pool
    """
    moved = _MOVED if share.sum() > 1.0 + 1e-9 else 0.0
    busy = [0.0] * at_once
    for one in np.sort(share)[::-1].tolist():
        busy[busy.index(min(busy))] += one * (row_cost(one * n_rows) + moved)
    return at_once * max(busy)


def choose_cut(candidates: Sequence[Cut], target_recall: float, attempt: int = 0) -> Cut:
    """The cut of least cost that keeps enough pairs together, the effort counted that lists within
    its blocks then take to reach the target. What may be missed is halved with each attempt. Where
    nothing is enough, the cut that keeps most pairs together.
    """
    miss = (1.0 - target_recall) / 2.0**attempt
    enough = [cut for cut in candidates if cut.ceiling >= 1.0 - (_MARGIN - _LEFT) * miss]
    if not enough:
        return max(candidates, key=lambda cut: (cut.ceiling, -cut.cost))
    return min(enough, key=lambda cut: (whole_cost(cut, target_recall, attempt), -cut.ceiling))


def whole_cost(cut: Cut, target_recall: float, attempt: int) -> float:
    """Core microseconds per row, for lists of the recall that the cut leaves to them."""
    return cut.cost * effort(recall_wanted(target_recall, cut.ceiling, attempt))


def pair_index(neighbor: Int64, n_anchors: int, k: int) -> tuple[Int64, Int64]:
    """(pair,) anchor numbers and neighbor rows of the first anchors' k nearest, self excluded.

    neighbor : (anchor, rank) rows, the anchor itself in column 0
    """
    lists = neighbor[:n_anchors, 1 : k + 1]
    anchor = np.repeat(np.arange(len(lists)), lists.shape[1])
    there = lists.ravel() >= 0
    return anchor[there], lists.ravel()[there]
