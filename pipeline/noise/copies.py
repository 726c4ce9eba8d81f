"""Rows that copy others, and whether their labels were copied with them.

Copies of a row at distance 0 or nearly so are honest evidence as long as each got its label for
itself: then two of them disagree as often as mistakes make them. Where they disagree far less (the
labels were copied) or more than by chance (each row stands there with every label), they say
nothing of the mistakes, and only one row of each group counts. Rows that are near each other and
stand near each other in the file, as several measurements of one person or a stretch of a series,
are such a group, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.arrays import Bools, Floating, Int64, Integers
from pipeline.knn.lists import ABSENT
from pipeline.noise.rates import Support

EXACTLY = 0.1
"""Part of the rows that others equal from which on no other copies are looked for: those of a near
row make a gap, too."""
APART = 8.0
"""Gap after a group, in what gaps between neighbors are on average where rows lie evenly: chance
makes one in 3,000 as wide."""
FEWEST = 20
"""Groups below which nothing is said, unless half of the rows are in one."""
SURELY = 2.75
"""Standard errors by which labels agree too much, or too little."""
HARDLY = 0.1
"""Disagreement of copies, as a share of that with rows farther away, of labels that were copied but
for a few; where groups are too few for rates."""
OF_CHANCE = 0.9
"""Disagreement with rows beyond a group, as a share of that by chance, from which on the groups are
clusters with labels of their own."""
RUNS, OFTENER = (2, 4, 8, 16, 32, 64, 128, 256), 3.0
"""Rows apart in the file that may belong together, and times by which neighbors stand there oftener
than in a shuffled file where they do."""
NEAREST, AROUND, PURE = 20, 40, 0.75
"""Neighbors among which those that stand together are looked at; others that say how mixed classes
are there; and the part of the anchors that is too mixed."""
LOOKED_AT = 4096
"""Anchors, about, by which that is seen."""
SORTED = 0.5
"""Disagreement of one run with the next, as a share of that by chance, of a file that is sorted by
labels."""


@dataclass(frozen=True)
class Mates:
    """Rows that vouch for each other's labels, as copies of one row or those of one person."""

    apart: int = 0
    """How far apart in the pool they are at most; 0 where that makes none."""
    equal: bool = False
    """Whether equal rows are."""
    near: bool = False
    """Whether those are that lie together apart from all others, as of ``copies``."""
    groups: int = 0
    """How many groups the values of a column make of all rows; 0 where no column says it."""
    most: int = 0
    """Of them in the list of an anchor at most."""

    def __bool__(self) -> bool:
        return self.equal or self.differ

    @property
    def differ(self) -> bool:
        """Whether their features do, so that models learn of one what its mate's label is."""
        return self.apart > 0 or self.near or self.groups > 0

    def among(self, row: Int64, neighbor: Int64, distance: Floating) -> Bools:
        """(list, k) which of the neighbors in lists, with distances (list, k), are mates of the
        list's row (list,), where no column says it."""
        if self.near:
            there = np.where(np.isfinite(distance), distance, 0)
            reached = np.minimum(distance, there.max(axis=1, keepdims=True))
            group = copies(np.pad(reached, ((0, 0), (1, 0))))
            mate = np.arange(neighbor.shape[1]) < group[:, None]
        else:
            mate = distance == 0 if self.equal else np.abs(neighbor - row[:, None]) <= self.apart
        return np.asarray(mate & (neighbor != ABSENT))


NO_MATES = Mates()


def mates_last(mate: Bools) -> tuple[Int64, Bools]:
    """(list, k) order of lists with the mates at their end, and which of that order they are."""
    order = np.argsort(mate, axis=1, kind="stable")
    return order, np.take_along_axis(mate, order, axis=1)


def without_mates(mate: Bools, least: int = 0) -> Int64:
    """(list, any) places of the others in such lists: as many as every list has, or ``least``."""
    return mates_last(mate)[0][:, : max(least, mate.shape[1] - most_mates(mate))]


def most_mates(mate: Bools) -> int:
    """Mates in a list at most."""
    return int(mate.sum(axis=1).max())


@dataclass(frozen=True)
class OneEach:
    """Lists of one anchor of each group of copies, without its copies."""

    anchor: NDArray[np.intp]
    """Places of these anchors."""
    neighbor: Int64
    label: Integers
    exact: bool
    """Whether all copies are at distance 0."""
    share: float
    """Distinct rows over rows."""
    disagree: float
    """Chance that two copies are given different labels."""
    error: float
    """Its standard error."""
    opposed: bool = False
    """Whether they differ more often than independent labels of any rates do."""
    run: int = 0
    """Rows apart in the file at most, where that makes the groups."""
    every: tuple[Int64, Integers] | None = None
    """Where it does, the lists of all anchors, (anchor, K) rows and labels, without such rows."""

    @property
    def enough(self) -> bool:
        """Whether there are anchors and neighbors to read rates on."""
        return len(self.anchor) >= 20 and self.neighbor.shape[1] >= 10

    @property
    def too_few(self) -> str:
        return f"{len(self.anchor):,} distinct rows are too few to tell noise from truth."

    @property
    def at_most(self) -> Support:
        """The best verdict: groups that are not copies to the last bit may be cut wrongly."""
        return "supported" if self.exact else "weak"

    def copied(self, expected: float) -> bool:
        """Whether labels are not each row's own, given the chance by the rates of distinct rows
        that two labels of one clean class differ."""
        return (
            not self.enough or self.opposed or self.disagree + SURELY * self.error < 0.5 * expected
        )

    def left_out(self, support: Sequence[Support]) -> bool:
        """Whether such rows are left out of each other's lists, given the verdicts on the rates of
        distinct ones: where most are read off nothing, all labels may be right."""
        are_read = 2 * list(support).count("unsupported") < len(support)
        return self.run > 0 or (are_read and not self.opposed)

    def reason(self, then: str, support: Sequence[Support]) -> str:
        """A sentence on it before another one, as of ``left_out``."""
        what = "copies of others" if self.exact else "copies of others or close to being so"
        alike = f"{1.0 - self.share:.0%} of the rows are {what}"
        if self.run:
            alike = f"Rows at most {self.run} apart in the source are near each other"
        how = "less" if self.opposed else "more"
        helps = ""
        if self.left_out(support):
            helps = "Such rows are left out of each other's neighbors"
            if not self.run:
                helps += "; where one class was copied more often than another, or suspects are "
                helps += "still too few, keep one of each group, and train again"
            helps += ". "
        elif not self.opposed:
            helps = (
                "Suspects are too few, as rows of a group vouch for each other's labels: keep one "
                "of each group, and train again. "
            )
        return (
            f"{alike}, and their labels agree {how} often than labels given row by row would: one "
            f"row of each group counts. {helps}{then}"
        )


def of_one_value(own: Int64, group: Int64) -> Bools:
    """(list, k) which neighbors belong together with the list's row, by numbers of the groups of
    rows (list,) and neighbors (list, k); negative ones are alone."""
    return np.asarray((own[:, None] == group) & (group >= 0))


def one_of_value(neighbor: Int64, label: Integers, group: Int64) -> OneEach:
    """The first anchor of each group, its list without rows of that group, as long as nine lists of
    ten are then; the others are left out.

    ``neighbor``, ``label`` and ``group`` are (anchor, K), column 0 the anchor itself.
    """
    order = np.argsort(neighbor[:, 0], kind="stable")
    _, first = np.unique(group[order, 0], return_index=True)
    first = order[np.union1d(first, np.flatnonzero(group[order, 0] < 0))]
    alike = of_one_value(group[first, 0], group[first, 1:])
    length = (~alike).sum(axis=1)
    width = int(np.sort(length)[len(length) // 10])
    column = np.argsort(alike, axis=1, kind="stable")[length >= width, :width] + 1
    anchor = first[length >= width]
    column = np.column_stack([np.zeros(len(anchor), np.int64), column])
    near = np.take_along_axis(neighbor[anchor], column, axis=1)
    given = np.take_along_axis(label[anchor], column, axis=1)
    return OneEach(anchor, near, given, exact=True, share=1.0, disagree=0.0, error=0.0)


def copies(distance: Floating) -> Int64:
    """(anchor,) how many of the nearest rows, of the first half of a list, are a group with the
    anchor, apart from all others.

    Among evenly spread rows of d dimensions ``d r log(distance[r + 1] / distance[r])`` is
    exponential of mean 1 for each rank r (Renyi 1953); d is that of the list's other half (Levina
    & Bickel 2004). ``distance`` is (anchor, K), nearest first, column 0 the anchor itself.
    """
    widths = np.empty(len(distance), np.int64)
    _measure(np.ascontiguousarray(distance), widths)
    return widths


@njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _measure(distance: Floating, widths: Int64) -> None:
    """The same, in place. A gap that even without its logarithm is no wider than another has
    none taken."""
    half = distance.shape[1] // 2
    for one in range(len(distance)):
        own, widest, width = distance[one], 0.0, 0
        for rank in range(1, half + 1):
            near, far = np.float64(own[rank]), np.float64(own[rank + 1])
            if near < far and rank * (far - near) > widest * near:
                gap = rank * (np.log(far) - np.log(near))
                if gap > widest:
                    widest, width = gap, rank
        if own[half + 1] == 0:
            widths[one] = half + 1
            continue
        beyond, last = 0.0, np.log(np.float64(own[-1]))
        for rank in range(half + 1, len(own)):
            beyond += last - np.log(np.float64(own[rank]))
        mean = beyond / (len(own) - half - 1)
        dimension = 1.0 if np.isnan(mean) else (50.0 if mean == 0 else 1.0 / mean)
        widths[one] = width if widest * dimension > APART else 0


def groups_of(
    neighbor: Int64, label: Integers, distance: Floating | None, n_classes: int, n_rows: int
) -> Iterator[OneEach]:
    """``one_of_each``, then ``one_of_run``, as far as there are such groups; none without
    distances."""
    if distance is not None:
        copied = one_of_each(neighbor, label, distance, n_classes)
        for one in (copied, one_of_run(neighbor, label, distance, n_rows)):
            if one is not None:
                yield one


def one_of_run(neighbor: Int64, label: Integers, distance: Floating, n_rows: int) -> OneEach | None:
    """One anchor of each run of the file as long as neighbors surely stand together, the rows that
    near in the file left out of its list; None where these disagree about as often as others do,
    what lies beyond them says nothing, or the file is sorted by labels.

    How often they disagree is seen among the nearest of each anchor, where the others agree most:
    elsewhere rows that follow each other differ as they cross to another class.

    ``neighbor``, ``label`` and ``distance`` are (anchor, K), column 0 the anchor itself.
    """
    order = np.argsort(neighbor[:, 0], kind="stable")
    few = order[:: len(order) // LOOKED_AT + 1]
    apart = np.abs(neighbor[few, 1 : (neighbor.shape[1] + 1) // 2] - neighbor[few, :1])
    oftener = (
        run for run in RUNS if ((2 * apart > run) & (apart <= run)).mean() > OFTENER * run / n_rows
    )
    run = max(oftener, default=0)
    if not run:
        return None
    mate = Mates(run).among(neighbor[:, 0], neighbor[:, 1:], distance[:, 1:])
    others = without_mates(mate) + 1
    if others.shape[1] < 9:  # fewer are not `enough`
        return None
    column = np.column_stack([np.zeros(len(neighbor), np.int64), others])
    every = np.take_along_axis(neighbor, column, axis=1)
    given = np.take_along_axis(label, column, axis=1)
    anchor = order[np.unique(neighbor[order, 0] // run, return_index=True)[1]]
    own, near, beyond = label[few, :1], label[few, 1 : NEAREST + 1], given[few, 1 : AROUND + 1]
    alike = (beyond[:, :, None] == beyond[:, None, :]).mean(axis=(1, 2))
    mates, pure = apart[:, :NEAREST] <= run, alike >= np.quantile(alike, PURE)
    some, among = pure & mates.any(axis=1), mates.sum(axis=1)
    if some.sum() < FEWEST:
        return None
    disagree = float((((near != own) & mates).sum(axis=1)[some] / among[some]).mean())
    away, rows = (beyond != own)[pure].mean(), np.bincount(label[:, 0], minlength=label.max() + 1)
    share = rows / len(label)
    groups = len(np.unique(neighbor[few, 0][pure] // run))
    at_most = away + SURELY * _standard_error(away, groups)
    unrelated = 1.0 - share[beyond[pure]].mean()  # what these say if it is nothing
    chance, follow = 1.0 - share @ share, (label[anchor[1:], 0] != label[anchor[:-1], 0]).mean()
    if disagree >= 0.5 * away or follow < SORTED * chance:
        return None
    if max(away / OF_CHANCE, at_most) >= unrelated:
        return None
    one = OneEach(
        *(anchor, every[anchor], given[anchor], False, 1.0 / run, disagree),
        error=_standard_error(disagree, float(some.sum())),
        run=run,
        every=(every, given),
    )
    return one if one.enough else None


def _standard_error(share: float, n: float) -> float:
    """Of a share of n, about, as if two more were one of each kind."""
    smooth = (share * n + 1.0) / (n + 2.0)
    return float(np.sqrt(smooth * (1.0 - smooth) / n))


def one_of_each(
    neighbor: Int64, label: Integers, distance: Floating, n_classes: int
) -> OneEach | None:
    """One anchor of each group, its copies left out of its list; None where there are hardly any
    groups, or copies disagree about as often as rows farther away do. A group that is not at
    distance 0 may be a cluster: None, too, where it says nothing of the rows beyond it, or too few
    groups are there to tell.

    ``neighbor``, ``label`` and ``distance`` are (anchor, K), column 0 the anchor itself.
    """
    half = distance.shape[1] // 2
    equal = (distance[:, 1 : half + 2] == 0).sum(axis=1)
    m = equal if (equal > 0).mean() >= EXACTLY else copies(distance)
    weight = np.where(m > 0, 1.0 / (1.0 + m), 0.0)
    groups = float(weight.sum())
    if groups == 0 or (groups < FEWEST and (m > 0).mean() < 0.5):
        return None
    other = label[:, 1 : half + 2] != label[:, :1]
    rank = np.arange(half + 1)
    disagree = float(weight @ ((other & (rank < m[:, None])).sum(axis=1) / np.maximum(m, 1)))
    disagree /= groups
    away = float(weight @ (label[:, half + 1 :] != label[:, :1]).mean(axis=1)) / groups
    error = _standard_error(disagree, groups)
    opposed = disagree - SURELY * error > 1.0 - 1.0 / n_classes
    buried = 2 * int((m > half).sum()) > len(m)
    if not (opposed or buried) and disagree >= 0.5 * away:
        return None
    exact = not ((distance[:, 1 : half + 2] > 0) & (rank < m[:, None])).any()
    share = np.unique(label[:, 0], return_counts=True)[1] / len(label)
    if not exact and away >= OF_CHANCE * (1.0 - share @ share):
        return None
    order = np.argsort(neighbor[:, 0], kind="stable")
    place = np.searchsorted(neighbor[order, 0], neighbor[:, 1 : half + 2])
    listed = neighbor[order, 0][np.minimum(place, len(m) - 1)] == neighbor[:, 1 : half + 2]
    earlier = listed & (rank < m[:, None]) & (neighbor[:, 1 : half + 2] < neighbor[:, :1])
    first = ~earlier.any(axis=1) & (m <= half)
    anchor = np.flatnonzero(first)
    left = m[anchor]
    width = distance.shape[1] - int(left.max(initial=0))
    column = np.concatenate(
        [np.zeros((len(anchor), 1), np.int64), 1 + left[:, None] + np.arange(width - 1)], axis=1
    )
    sample = OneEach(
        anchor,
        np.take_along_axis(neighbor[anchor], column, axis=1),
        np.take_along_axis(label[anchor], column, axis=1),
        exact,
        float(np.mean(1.0 / (1.0 + m))),
        disagree,
        error,
        opposed,
    )
    alike = opposed or disagree <= HARDLY * away  # few groups, and no rates to compare with
    return sample if sample.enough or (exact and alike) else None
