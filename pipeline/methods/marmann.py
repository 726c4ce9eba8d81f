"""MARMANN of Kontorovich, Sabato & Urner: which labels to buy for a nearest-neighbor rule.

Algorithms 1 to 4 with the printed constants, whose guarantee (Theorem 4) holds for the scales that
are searched. The constants are large: at m = 100,000 a cell is labeled by the majority of 701
draws and an error of .05 estimated from a hundred thousand, so every label is bought. Where labels
cost something, use `growing_net`, which has no guarantee. Nets of metric spaces are few rows that
are far from each other and near to all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Float32, Float64, Int64
from pipeline.knn.distance import pair_distance
from pipeline.knn.exact import nearest
from pipeline.methods.bought_labels import BoughtLabels, BudgetSpent

_BLOCK_ROWS = 2048
BETA = 52
"""The constant of EstBer in EstimateErr."""


@dataclass(frozen=True)
class Net:
    """A net of a pool, and the cell of each row: the net point that is nearest to it."""

    point: Int64
    """(net,) int64 rows of the pool, in the order they were taken"""
    cell: Int64
    """(row,) int64 place in ``point``; ties: the first one"""

    def members(self) -> list[Int64]:
        """Rows of each cell, ascending."""
        order = np.argsort(self.cell, kind="stable")
        ends = np.cumsum(np.bincount(self.cell, minlength=len(self.point)))
        return np.split(order, ends[:-1])


def net_points(
    x: Float32, scale: float, most: int | None = None, block_rows: int = _BLOCK_ROWS
) -> Int64:
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


def candidate_scales(x: Float32, count: int, seed: int, sample: int = 1000) -> Float64:
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


@dataclass(frozen=True)
class Prototypes:
    """Labeled rows whose nearest one predicts."""

    row: Int64
    """(point,) rows of the pool"""
    label: Int64
    """(point,)"""
    scale: float | None
    """the chosen scale; None where the budget ended the search, so that all bought labels answer"""
    estimate: float | None
    """estimated error on the pool at that scale"""


def queries_per_cell(m: int, delta: float) -> int:
    """Q(m), equation (3)."""
    return math.ceil(18.0 * math.log(4.0 * m**3 / delta))


def phi(net_size: int, m: int, delta: float) -> float:
    """phi(t) for a net of ``net_size`` points, equation (6)."""
    return ((net_size + 1) * math.log(m) + math.log(1.0 / delta)) / m


def bound(error: float, phi_t: float) -> float:
    """G(error, t): the error bound without its factor m / (m - N(t))."""
    return error + 2.0 / 3.0 * phi_t + 3.0 / math.sqrt(2.0) * math.sqrt(error * phi_t)


def estimate_bernoulli(
    draw: Callable[[int], Bools], theta: float, beta: float, delta: float
) -> float:
    """EstBer, Algorithm 3: a mean up to a factor, or some value of at most ``theta``.

    ``draw(n)`` gives n fresh draws. A threshold of 1 or more needs none: 1 is then an answer.
    """
    if theta >= 1.0:
        return 1.0
    k = 4.0 * beta / theta * math.log(8.0 * beta / (delta * theta))
    last = math.ceil(math.log2(beta * math.log(2.0 * k / delta) / theta))
    n = 4
    hits = int(draw(n).sum())
    for i in range(3, last + 1):
        hits += int(draw(2**i - n).sum())
        n = 2**i
        if hits / n > beta * math.log(2.0 * n / delta) / n:
            break
    return hits / n


def search_scale(
    limits: dict[float, float], estimate: Callable[[float], float]
) -> tuple[float, float]:
    """Algorithm 4 over scales and their phi: the scale of least G among those tested that made the
    search go left and the one where it ended, and its estimate; ties: the first tested."""
    left = sorted(limits)
    tested: dict[float, float] = {}
    went_left: list[float] = []
    last: list[float] = []
    while left:
        t = left[(len(left) - 1) // 2]
        tested[t] = estimate(t)
        if tested[t] < limits[t]:
            last, left = [t], [s for s in left if s > t]
        elif tested[t] > 1.1 * limits[t]:
            went_left.append(t)
            left = [s for s in left if s < t]
        else:
            last, left = [t], []
    best = min([*went_left, *last], key=lambda t: bound(tested[t], limits[t]))
    return best, tested[best]


class Marmann:
    """One run over a pool; `run` gives the answer.

    Parameters
    ----------
    x : (row, feature) float32 pool
    labels : where labels come from, and what they may cost
    delta : of the guarantee, in (0, 1/4)
    scales : how many candidate scales are searched, quantiles of sampled distances
    """

    def __init__(
        self, x: Float32, labels: BoughtLabels, delta: float, seed: int, scales: int = 32
    ) -> None:
        if not 0.0 < delta < 0.25:
            raise ValueError(f"delta={delta}: the guarantee needs 0 < delta < 1/4")
        if len(x) < 6:
            raise ValueError(f"{len(x)} rows: the guarantee needs at least 6")
        self.x, self.labels, self.delta = x, labels, delta
        self._rng = np.random.default_rng([seed, 10])
        self._queries = queries_per_cell(len(x), delta)
        self._candidates = candidate_scales(x, scales, seed)
        self._nets: dict[float, tuple[Net, list[Int64]]] = {}
        self._cell_label: dict[tuple[float, int], int] = {}

    def run(self) -> Prototypes:
        """Algorithm 1. Where the budget ends it, the rule of all labels bought so far."""
        try:
            scale, estimate = self.select_scale()
            points = self._net(scale)[0].point
            return Prototypes(points, self.label_cells(scale, range(len(points))), scale, estimate)
        except BudgetSpent:
            return Prototypes(*self.labels.known(), None, None)

    def label_cells(self, scale: float, cells: range | list[int]) -> Int64:
        """GenerateNNSet, Algorithm 2: majority labels of cells of the net at half the scale.

        Majorities of ``queries_per_cell`` draws with replacement; ties: the lowest label. A cell
        keeps its label once it has one.
        """
        members = self._net(scale)[1]
        for cell in cells:
            if (scale, cell) not in self._cell_label:
                drawn = self._rng.choice(members[cell], self._queries)
                labels, votes = np.unique(self.labels(drawn), return_counts=True)
                self._cell_label[scale, cell] = int(labels[votes.argmax()])
        return np.array([self._cell_label[scale, cell] for cell in cells], np.int64)

    def estimate_error(self, scale: float, theta: float) -> float:
        """EstimateErr: the error on the pool that labeling at a scale would give."""
        cell = self._net(scale)[0].cell

        def draw(n: int) -> Bools:
            rows = self._rng.integers(0, len(self.x), n)
            cells, at = np.unique(cell[rows], return_inverse=True)
            guess = self.label_cells(scale, cells.tolist())[at]
            return np.asarray(guess != self.labels(rows))

        return estimate_bernoulli(draw, theta, BETA, self.delta / (2.0 * len(self.x) ** 2))

    def select_scale(self) -> tuple[float, float]:
        """SelectScale: a scale, and its estimated error.

        ValueError where every candidate's net has half of the rows or more.
        """
        size = self._monotone_sizes()
        limits = {t: phi(count, len(self.x), self.delta) for t, count in size.items()}
        return search_scale(limits, lambda t: self.estimate_error(t, limits[t]))

    def _monotone_sizes(self) -> dict[float, int]:
        """Net size of each scale of Dist_mon: below half of the rows, not above a lower scale's."""
        m = len(self.x)
        size: dict[float, int] = {}
        fewest = m
        for t in self._candidates.tolist():
            count = len(net_points(self.x, t, most=m // 2))
            if count + 1 <= m / 2 and count <= fewest:
                size[t] = count
            fewest = min(fewest, count)
        if not size:
            raise ValueError(f"{m} rows: every net tried has half of them or more; use more rows")
        return size

    def _net(self, scale: float) -> tuple[Net, list[Int64]]:
        """The net at half the scale, by which a scale is labeled, and its cells' rows."""
        if scale not in self._nets:
            centers = net(self.x, scale / 2.0)
            self._nets[scale] = centers, centers.members()
        return self._nets[scale]
