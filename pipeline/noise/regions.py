"""Whether mistakes depend on the features: the rates of a class must agree in several regions.

All noise rates here assume ``P(given | true, x) = P(given | true)``. To test it, regions of one
class are found without the labels they are then read on: a small tree splits half of the class'
rows by feature, and the held-out labels of the other half are counted in its leaves; then the
halves change places. The two sides of the tree's first cut are compared; its leaves are named.

Where classes overlap, a region's rate counts mistakes and rows of the other class together. So of
two classes only the core is looked at, rows away from where the other class is in the majority, and
nothing is said where classes blend (`cores`). Overlap that is left lowers the rows' chances of the
class, region by region and row by row. Mistakes that vary lower a region's chances too, but within
the region they are as frequent where chances are high as where they are low. So the slope within
regions, as in an analysis of covariance, says how much of the difference between the two sides
overlap may explain; the sides disagree if what is left exceeds chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from pipeline.arrays import Bools, Float64, Floating
from pipeline.noise.rates import NoiseRates
from pipeline.noise.segments import Bound, narrowed

Places = NDArray[np.intp]
LEAVES = 5
"""Regions of a class at most."""
FEWEST = 60
"""Rows of a region at least, about, and a sixth of the class."""
ALARM = 3.0
"""Standard errors between the regions of low and of high rates from which they disagree."""
GRANTED = 1.5
"""Times the difference between a region's purer and less pure halves that its interval grants."""
MIXED = 0.25
"""Part of a difference in chances of other classes that is granted at least."""
CLUSTERED, SPREAD = 4.0, 0.0055
"""Standard errors, and variance of the rate between places, from which wrong labels that lie
together are an alarm."""
SURELY = 0.5
"""Chance of the class from which a row counts towards its regions."""


class RegionRates(TypedDict):
    """One region of a class."""

    bounds: list[list[int | float | None]]
    """(feature, low, high) of the splits that make the region, the most telling first; an open end
    is None."""
    rows: int
    """Rows it was read on."""
    rate: float
    """Share of held-out labels that differ from the class."""
    mixed: float
    """Mean chance that a row of the region is of another class after all."""
    interval: list[float]
    """95 % interval: from the rate less what overlap may explain, to the rate."""


class Regions(TypedDict):
    """A `RegionTest` as a report holds it."""

    regions: list[RegionRates]
    disagree: bool
    z: float


@dataclass(frozen=True)
class RegionTest:
    """What the regions of one class say."""

    regions: list[RegionRates]
    """Lowest rate first."""
    disagree: bool
    """Whether the regions differ beyond chance and overlap."""
    z: float
    """Difference of the regions of high and of low rates in standard errors, what overlap can
    explain taken off; or that of the clustering of wrong labels, where it is the alarm."""
    silent: bool = False
    """Whether it tells nothing, as overlap may pass for mistakes."""

    def or_clustered(self, variance: float, z: float) -> RegionTest:
        """The test, an alarm too where wrong labels lie together (`cores.clustering`)."""
        if self.disagree or z <= CLUSTERED or variance <= SPREAD:
            return self
        return replace(self, disagree=True, z=z)

    @property
    def span(self) -> tuple[float, float]:
        """Lowest and highest rate over the regions, with their intervals."""
        lows, highs = zip(*(region["interval"] for region in self.regions), strict=True)
        return min(lows), max(highs)

    def to_json(self) -> Regions:
        """JSON values for a report."""
        return {"regions": self.regions, "disagree": self.disagree, "z": self.z}


def at_most_weak(rates: NoiseRates, tests: tuple[RegionTest | None, ...]) -> NoiseRates:
    """The rates with their tests, (class 0, class 1), as diagnostics.

    Where regions of a class disagree, the verdict is at most ``weak`` and the class' interval
    spans the rates of its regions.
    """
    record = [None if test is None else test.to_json() for test in tests]
    weakened = replace(rates, diagnostics={**rates.diagnostics, "regions": record})
    for side, test in enumerate(tests):
        if test is None or not test.disagree:
            continue
        low, high = getattr(weakened, f"p{side}_interval")
        span = (min(low, test.span[0]), max(high, test.span[1]))
        first, last = test.regions[0]["rate"], test.regions[-1]["rate"]
        reason = (
            f"Mistakes depend on the features: in one region of class {side} {first:.0%} of "
            f"the given labels are another class, in a second one {last:.0%}; "
            f"no one p{side} holds everywhere"
        )
        support = "weak" if weakened.support == "supported" else weakened.support
        changes = {f"p{side}_interval": span, "support": support, "reason": f"{reason}."}
        weakened = replace(weakened, **changes)  # type: ignore[arg-type]
    if weakened.support == "supported" and any(test.silent for test in tests if test is not None):
        untold = "Whether mistakes depend on the features cannot be told here: the classes overlap."
        weakened = replace(weakened, reason=f"{weakened.reason} {untold}")
    return weakened


def region_test(
    features: Floating, chance: Float64, wrong: Float64, trials: Float64, core: Bools | None = None
) -> RegionTest | None:
    """Compare the rates of one class over regions of the feature space.

    Parameters
    ----------
    features : (anchor, feature), finite
    chance : (anchor,) chance that the clean label is of the class, made without held-out labels
    wrong : (anchor,) weight of the held-out labels that are not of the class
    trials : (anchor,) weight of the held-out labels
    core : (anchor,) which anchors are looked at (`cores.in_core`); None: all likelier of the class

    Returns
    -------
    the test, or None where the class has rows for fewer than two regions; the same for the same
    anchors in the same order
    """
    rows = np.flatnonzero(chance >= SURELY if core is None else core & (chance >= SURELY))
    fewest = max(FEWEST, len(rows) // 6)
    if len(rows) < 4 * fewest:
        return None
    of = _Class(features, chance, wrong, trials)
    halves = [_half(of, rows[part::2], rows[1 - part :: 2], fewest) for part in (0, 1)]
    tested = [half for half in halves if half is not None]
    if not tested:
        return None
    z = sum(half.difference for half in tested) / float(np.sqrt(sum(h.variance for h in tested)))
    regions = sorted(tested[0].regions, key=lambda region: region["rate"])
    return RegionTest(regions, z > ALARM, z)


class _Class(NamedTuple):
    """The anchors of a class, as `region_test` has them."""

    features: Floating
    chance: Float64
    wrong: Float64
    trials: Float64

    def rate(self, rows: Places) -> tuple[float, float]:
        """Share of wrong held-out labels of some anchors, and its standard error."""
        total = float(self.trials[rows].sum())
        rate = float(self.wrong[rows].sum()) / total
        smooth = (rate * total + 1.0) / (total + 2.0)
        return rate, float(np.sqrt(smooth * (1.0 - smooth) / total))

    def region(self, rows: Places, bounds: Sequence[Bound] = ()) -> tuple[RegionRates, float]:
        """The region that some anchors are in, and the standard error of its rate."""
        order = rows[np.argsort(-self.chance[rows], kind="stable")]
        middle = len(order) // 2
        (pure, pure_error), (mixed, mixed_error) = map(self.rate, (order[:middle], order[middle:]))
        rate, error = self.rate(order)
        slope = max(0.0, mixed - pure)
        granted = GRANTED * slope if slope > float(np.hypot(pure_error, mixed_error)) else 0.0
        other = float(1.0 - self.chance[rows].mean())
        low = max(0.0, rate - granted - MIXED * other - 1.96 * error)
        return {
            "bounds": [list(bound) for bound in bounds],
            "rows": len(rows),
            "rate": rate,
            "mixed": other,
            "interval": [low, min(1.0, rate + 1.96 * error)],
        }, error

    def slope(self, sides: list[Places]) -> float:
        """By how much wrong labels grow with the chance of other classes, within the sides: about 1
        where classes overlap, 0 where a side's mistakes have nothing to do with it."""
        product = square = 0.0
        for rows in sides:
            wrong, weight, other = self.wrong[rows], self.trials[rows], 1.0 - self.chance[rows]
            away = other - np.average(other, weights=weight)
            product += float((away * (wrong - weight * wrong.sum() / weight.sum())).sum())
            square += float((weight * away**2).sum())
        return product / square if square > 0 else 0.0

    def fit_tree(self, rows: Places, fewest: int) -> Any:
        """A tree that tells the anchors' rates of wrong labels by their features."""
        from sklearn.tree import DecisionTreeRegressor  # here: importing it costs half a second

        rate, weight = self.wrong[rows] / self.trials[rows], self.trials[rows]
        tree = DecisionTreeRegressor(
            max_leaf_nodes=LEAVES, min_samples_leaf=fewest // 3, random_state=0, max_features=None
        )
        return tree.fit(self.features[rows], rate, sample_weight=weight)


class _Half(NamedTuple):
    """Regions that one half of the rows makes, read on the other."""

    regions: list[RegionRates]
    difference: float
    """Of the rates at the two sides of the first cut, less what overlap may explain."""
    variance: float


def _half(of: _Class, grow: Places, read: Places, fewest: int) -> _Half | None:
    """Regions of the rows `grow`, and their rates on the rows `read`; None: fewer than two."""
    fitted = of.fit_tree(grow, fewest)
    tree, leaf = fitted.tree_, fitted.apply(of.features[read])
    nodes = [node for node in np.unique(leaf).tolist() if (leaf == node).sum() >= fewest // 6]
    if len(nodes) < 2:
        return None
    regions = [of.region(read[leaf == node], _path(tree, node))[0] for node in nodes]
    children = [int(tree.children_left[0]), int(tree.children_right[0])]
    children.sort(key=lambda node: float(tree.value[node].item()))
    sides = [read[np.isin(leaf, _leaves_below(tree, node))] for node in children]
    if min(map(len, sides)) < fewest // 6:
        return None
    (low, low_error), (high, high_error) = map(of.region, sides)
    granted = float(np.clip(of.slope(sides), MIXED, 1.0))
    granted *= max(0.0, high["mixed"] - low["mixed"])
    difference = high["rate"] - low["rate"] - granted
    return _Half(regions, difference, high_error**2 + low_error**2)


def _path(tree: Any, leaf: int) -> tuple[Bound, ...]:
    """The bounds that lead to a leaf, the first split first."""
    bounds: tuple[Bound, ...] = ()
    at = 0
    while at != leaf:
        left, cut = int(tree.children_left[at]), float(tree.threshold[at])
        is_left = leaf in _leaves_below(tree, left)
        ends = (None, cut) if is_left else (cut, None)
        bounds = narrowed(bounds, int(tree.feature[at]), ends)
        at = left if is_left else int(tree.children_right[at])
    return bounds


def _leaves_below(tree: Any, node: int) -> list[int]:
    left, right = int(tree.children_left[node]), int(tree.children_right[node])
    return [node] if left == -1 else _leaves_below(tree, left) + _leaves_below(tree, right)
