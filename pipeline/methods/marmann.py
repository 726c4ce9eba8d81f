"""MARMANN of Kontorovich, Sabato & Urner: which labels to buy for a nearest-neighbor rule.

Algorithms 1 to 4 with the printed constants, whose guarantee (Theorem 4) holds for the scales that
are searched. The constants are large: at m = 100,000 a cell is labeled by the majority of 701
draws and an error of .05 estimated from a hundred thousand, so every label is bought. Where labels
cost something, use `growing_net`, which has no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.bought_labels import BoughtLabels, BudgetSpent
from pipeline.methods.nets import Net, candidate_scales, net, net_points

Ints = NDArray[np.int64]
Float32 = NDArray[np.float32]
BETA = 52
"""The constant of EstBer in EstimateErr."""


@dataclass(frozen=True)
class Prototypes:
    """Labeled rows whose nearest one predicts."""

    row: Ints
    """(point,) rows of the pool"""
    label: Ints
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


def generalization_bound(error: float, net_size: int, m: int, delta: float) -> float:
    """GB(error, N, delta, m, 1); with probability 1 - delta the true error is at most twice it for
    the answer's error on the pool and its number of points (Theorem 4)."""
    return m / (m - net_size) * bound(error, phi(net_size, m, delta))


def estimate_bernoulli(
    draw: Callable[[int], NDArray[np.bool_]], theta: float, beta: float, delta: float
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
        self._nets: dict[float, tuple[Net, list[Ints]]] = {}
        self._cell_label: dict[tuple[float, int], int] = {}

    def run(self) -> Prototypes:
        """Algorithm 1. Where the budget ends it, the rule of all labels bought so far."""
        try:
            scale, estimate = self.select_scale()
            points = self._net(scale)[0].point
            return Prototypes(points, self.label_cells(scale, range(len(points))), scale, estimate)
        except BudgetSpent:
            return Prototypes(*self.labels.known(), None, None)

    def label_cells(self, scale: float, cells: range | list[int]) -> Ints:
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

        def draw(n: int) -> NDArray[np.bool_]:
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

    def _net(self, scale: float) -> tuple[Net, list[Ints]]:
        """The net at half the scale, by which a scale is labeled, and its cells' rows."""
        if scale not in self._nets:
            centers = net(self.x, scale / 2.0)
            self._nets[scale] = centers, centers.members()
        return self._nets[scale]
