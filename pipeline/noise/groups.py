"""Whose labels are wrong: the groups of a pool, each with its noise rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Float64, Int64
from pipeline.labels import ClassName
from pipeline.noise.group_cells import Certain, GroupCells, Layout, certain_rows, table
from pipeline.noise.group_rates import Rates, differ, estimates, p_value
from pipeline.noise.meanings import Meaning
from pipeline.noise.rates import UNSUPPORTED, WEAK, Support, worst

FEW, TOO_FEW = 30, 10
"""Nearly certain rows below which a rate's support is weak, or there is none."""
APART = 0.3
"""How far groups live apart from which on rates are at most ``weak``: neighbors of their rows have
the labels of the same group."""
LISTED = 20
"""Classes of a group that are listed at most."""


@dataclass(frozen=True)
class GroupRate:
    """How often one group labels the rows of one class wrongly."""

    true: ClassName
    rows: int
    """Nearly certain rows of the class that the group labeled."""
    wrong: int
    """Those given another class."""
    estimate: float
    """P(given another | true)."""
    interval: tuple[float, float]
    """95 % interval of the estimate."""
    shrunk: float
    """The estimate drawn to the whole's."""
    support: Support


@dataclass(frozen=True)
class Group:
    """One group, and how often its labels are wrong."""

    value: ClassName
    rows: int
    suspects: int
    """Labels suspected wrong."""
    wrong: float
    """Share of labels that are wrong, as estimated; 0 where no row is nearly certain."""
    wrong_interval: tuple[float, float]
    wrong_shrunk: float
    support: Support
    rates: list[GroupRate]
    """A rate per class, most rows first; classes of which no row is nearly certain are left out."""


@dataclass(frozen=True)
class OtherMeaning:
    """A label that seems to mean another class where one group gives it."""

    group: ClassName
    given: ClassName
    means: ClassName
    rows: int
    """Rows of a sample that the group gave the label."""
    share: float
    """Share of these that are of the other class by their neighbors."""


@dataclass(frozen=True)
class Groups:
    """The groups of a training, worst first by their shrunken share of wrong labels."""

    column: str
    groups: list[Group]
    nobody: int
    """Rows without a group."""
    p_value: float | None
    """Of the hypothesis that all groups have the same rates; None where nothing can be said."""
    class_p_values: list[float | None]
    """The same, class by class."""
    whole: list[float | None]
    """The rate that each class' estimates are drawn to."""
    weight: list[float | None]
    """Nearly certain rows that the whole counts for in a shrunken rate; many: groups are alike."""
    apart: float
    """How much oftener a neighbor is of the same group than by chance: 0 not at all, 1 always."""
    meanings: list[OtherMeaning]
    """Labels that mean another class where a group gives them; by group."""


@dataclass(frozen=True)
class Whole:
    """What is known of the noise of all groups together."""

    classes: Sequence[ClassName]
    matrix: Float64
    """(class, class) P(given | true), row = true class"""
    prior: Float64
    """(class,) shares of the clean classes"""
    error: Float64
    """(class,) standard errors of the diagonal"""
    support: Sequence[Support]
    """(class,)"""
    apart: float = 0.0
    """How far groups live apart (`group_cells.apart`)."""

    def most(self, classes: list[int]) -> Support:
        """The verdict that a rate of some classes has at most."""
        supports = [self.support[a] for a in classes]
        if self.apart > APART:
            supports.append("weak")
        return worst(supports) if classes else "unsupported"


def group_rates(
    cells: GroupCells,
    layout: Layout,
    whole: Whole,
    column: str,
    values: Sequence[ClassName],
    meanings: Sequence[Meaning] = (),
) -> Groups:
    """Rates, intervals and the test of all groups.

    Parameters
    ----------
    cells : the whole pool's
    column : name of the column that says whose label each is
    values : (group,) its values, by code
    meanings : by codes (`other_meanings`)
    """
    group, kind, level = layout.places(cells)
    n, n_classes, names = layout.n_groups + 1, layout.n_classes, whole.classes
    labeled = kind < n_classes
    at_level, wrong_there = (
        table((kind[labeled], level[labeled]), count[labeled], (n_classes, layout.n_levels))
        for count in (cells.rows, cells.wrong)
    )
    certain = certain_rows(at_level, wrong_there, whole.matrix, whole.prior)
    labeled &= level >= np.append(certain.level, layout.n_levels)[kind]
    rows, wrong = (
        table((group[labeled], kind[labeled]), count[labeled], (n, n_classes)).astype(np.float64)
        for count in (cells.rows, cells.wrong)
    )
    rates, drawn, weight = estimates(rows, wrong, certain, whole.error)
    tests = [differ(rates, certain, a) for a in range(n_classes)]
    tested = [test for test in tests if test is not None]
    total = rates.rows.sum(axis=0)
    counts = np.stack(
        [table((group,), cells.rows, (n,)), table((group,), cells.suspect, (n,))], axis=1
    )
    groups = [
        _group(value, counts[g], Rates(*(of[g] for of in rates)), total, certain, whole)
        for g, value in enumerate(values)
    ]
    return Groups(
        column,
        sorted(groups, key=lambda group: (-group.wrong_shrunk, -group.rows, str(group.value))),
        int(counts[-1, 0]),
        p_value(*np.sum(tested, axis=0)) if tested else None,
        [None if test is None else p_value(*test) for test in tests],
        [None if np.isnan(value) else float(value) for value in drawn],
        [None if np.isnan(value) else float(value) for value in weight],
        whole.apart,
        [
            OtherMeaning(values[one.group], names[one.given], names[one.means], one.rows, one.share)
            for one in meanings
        ],
    )


def _support(half: float, gap: float, rows: float, whole: Support) -> Support:
    """The verdict of a rate, at most that of the whole: known to a fraction of the range that is
    left, as the whole's."""
    own: Support = "supported"
    if half > WEAK * gap or rows < FEW:
        own = "weak"
    if half > UNSUPPORTED * gap or rows < TOO_FEW:
        own = "unsupported"
    return worst((own, whole))


def _group(
    value: ClassName, counts: Int64, rates: Rates, total: Float64, certain: Certain, whole: Whole
) -> Group:
    """One group, its classes by rows.

    counts : rows and suspects
    rates : (class,) each; `total` the nearly certain rows of all groups
    """
    gap = certain.right - certain.other
    half = (rates.high - rates.low) / 2.0
    classes = np.flatnonzero(rates.rows > 0)
    order = classes[np.argsort(-rates.rows[classes], kind="stable")][:LISTED]
    listed = [
        GroupRate(
            whole.classes[a],
            int(rates.rows[a]),
            int(rates.wrong[a]),
            float(rates.estimate[a]),
            (float(rates.low[a]), float(rates.high[a])),
            float(rates.shrunk[a]),
            _support(float(half[a]), float(gap[a]), float(rates.rows[a]), whole.most([a])),
        )
        for a in order.tolist()
    ]
    # Clean shares of its classes, if its rows are as often nearly certain as the whole's.
    share = whole.prior[classes] * rates.rows[classes] / total[classes]
    share /= max(float(share.sum()), 1e-12)
    mean, drawn = (float(share @ column[classes]) for column in (rates.estimate, rates.shrunk))
    below, above = (
        float(np.linalg.norm(share * (end[classes] - rates.estimate[classes])))
        for end in (rates.low, rates.high)
    )
    most = whole.most(classes.tolist())
    return Group(
        value,
        int(counts[0]),
        int(counts[1]),
        mean,
        (max(0.0, mean - below), min(1.0, mean + above)) if len(classes) else (0.0, 1.0),
        drawn,
        _support((above + below) / 2.0, float(share @ gap[classes]), float(rates.rows.sum()), most),
        listed,
    )
