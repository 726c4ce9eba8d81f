"""Nets of metric spaces: few rows that are far from each other and near to all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.knn.distance import pair_distance
from pipeline.knn.exact import nearest

Float32 = NDArray[np.float32]
_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class Net:
    """A net of a pool, and the cell of each row: the net point that is nearest to it."""

    point: NDArray[np.int64]
    """(net,) int64 rows of the pool, in the order they were taken"""
    cell: NDArray[np.int64]
    """(row,) int64 place in ``point``; ties: the first one"""

    def members(self) -> list[NDArray[np.int64]]:
        """Rows of each cell, ascending."""
        order = np.argsort(self.cell, kind="stable")
        ends = np.cumsum(np.bincount(self.cell, minlength=len(self.point)))
        return np.split(order, ends[:-1])


def net_points(
    x: Float32, scale: float, most: int | None = None, block_rows: int = _BLOCK_ROWS
) -> NDArray[np.int64]:
    """Rows of a t-net by the greedy construction (Gottlieb et al. 2014), in order of rows.

    Any two of them are at least ``scale`` apart, and every row is nearer than that to one of them
    (Euclidean, in float32). Blocks of rows are searched among the points there are; what is left
    of a block is settled row by row.

    Parameters
    ----------
    x : (row, feature) float32
    scale : t > 0
    most : stop once there are more points than this; the result is then no net
    """
    if not scale > 0:
        raise ValueError(f"scale={scale}: must be positive")
    point: list[int] = []
    for first in range(0, len(x), block_rows):
        block = np.arange(first, min(first + block_rows, len(x)))
        if point:
            block = block[nearest(x[block], x[point], 1)[1][:, 0] >= scale]
        while len(block):
            point.append(int(block[0]))
            if most is not None and len(point) > most:
                return np.array(point, np.int64)
            near = pair_distance(x[block[:1]], x, np.zeros(len(block), np.int64), block)
            block = block[near >= scale]
    return np.array(point, np.int64)


def net(x: Float32, scale: float) -> Net:
    """The greedy net of a pool (row, feature) float32 at a scale, with the rows' cells."""
    point = net_points(x, scale)
    return Net(point, nearest(x, x[point], 1)[0][:, 0])


def candidate_scales(x: Float32, count: int, seed: int, sample: int = 1000) -> NDArray[np.float64]:
    """(scale,) ascending: quantiles of the distances between some random rows.

    The paper searches all m (m - 1) / 2 distances of the pool; these are of ``sample`` rows.
    Half of the quantiles lie in the lowest hundredth, where nets are large.
    """
    rng = np.random.default_rng([seed, 9])
    some = x[rng.permutation(len(x))[:sample]]
    index, distance = nearest(some, some, len(some) - 1, exclude=np.arange(len(some)))
    known = np.sort(distance[index >= 0].astype(np.float64))
    known = known[known > 0]
    if not len(known):
        raise ValueError("all rows are alike: there is no scale to choose")
    low = np.geomspace(1.0 / len(known), 0.01, count // 2, endpoint=False)
    share = np.concatenate([low, np.linspace(0.01, 1.0, count - count // 2)])
    return np.unique(np.quantile(known, share))
