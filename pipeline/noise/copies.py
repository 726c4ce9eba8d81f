"""Rows that copy others, and whether their labels were copied with them.

Copies of a row, at distance 0 or nearly so, are honest evidence if each got a label of its own:
then two of them disagree as often as mistakes make them. If they disagree far less, their labels
were copied; if more than by chance, each row stands there once with every label. Either way they
say nothing of the mistakes, and one row of each group counts. Rows that are near each other and
stand near each other in the file, as several measurements of one person or a stretch of a series
do, are such a group, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from pipeline.arrays import Bools, Float32, Floating, Int32, Int64, Integers
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT
from pipeline.knn.threads import ALONE, Threads
from pipeline.noise.rates import Support

EXACTLY = 0.1
"""Part of the rows that equal others, from which on rows that are merely near are no copies."""
RADII = 40
"""Distances tried, within which near rows may be copies."""
BEYOND = 10
"""Neighbors just beyond a group with whose labels those within are compared."""
FEWEST = 20
"""Groups below which nothing is said, unless half of the rows are in one."""
SURELY = 2.75
"""Standard errors by which labels agree too much, or too little."""
HARDLY = 0.1
"""Disagreement of copies, as a share of that with rows just beyond, below which labels were copied
but for a few, whatever the rates."""
OF_CHANCE = 0.9
"""Disagreement with rows beyond a group, as a share of that by chance, from which on the groups are
clusters with labels of their own."""
RUNS, OFTENER = (2, 4, 8, 16, 32, 64, 128, 256), 3.0
"""How far apart in the file rows may belong together; and how many times as many neighbors as in a
shuffled file have to stand so near each other."""
NEAREST, AROUND, PURE = 20, 40, 0.75
"""Nearest neighbors among which mates are compared with the anchor; other neighbors that say how
mixed classes are there; and the part of the anchors around which they are too mixed."""
LOOKED_AT = 4096
"""Anchors, about, that are enough to look at."""
LISTS, LISTED = 1000, 100
"""Rows of a sample whose neighbors tell whether copies share labels, and neighbors of each."""
FEWEST_LEFT = 100
"""Rows of a sample that have to be left without copies."""
SORTED = 0.5
"""Disagreement of a run with the next, as a share of that by chance, below which the file is sorted
by labels."""


@dataclass(frozen=True)
class Mates:
    """Rows that vouch for each other's labels, as copies of one row or those of one person."""

    apart: int = 0
    """How far apart in the pool mates stand at most; 0 where that does not make them."""
    near: float | None = None
    """Distance within which mates lie, 0 where they are equal; None where it does not make them."""
    groups: int = 0
    """How many groups of mates a column makes of all rows; 0 where no column does."""
    most: int = 0
    """Mates in the list of one anchor at most."""

    def __bool__(self) -> bool:
        return self.near == 0 or self.differ

    @property
    def differ(self) -> bool:
        """Whether mates differ in their features, so that models learn of one the other's label."""
        return self.apart > 0 or bool(self.near) or self.groups > 0

    def among(self, row: Int64, neighbor: Int64, distance: Floating) -> Bools:
        """(list, k) which neighbors, at distances (list, k), are mates of the list's row (list,),
        unless a column makes the groups."""
        if self.near is not None:
            mate = distance <= self.near
        else:
            mate = np.abs(neighbor - row[:, None]) <= self.apart
        return np.asarray(mate & (neighbor != ABSENT))


NO_MATES = Mates()


def mates_last(mate: Bools) -> tuple[Int64, Bools]:
    """(list, k) order of lists with the mates at their end, and which of that order they are."""
    order = np.argsort(mate, axis=1, kind="stable")
    return order, np.take_along_axis(mate, order, axis=1)


def without_mates(mate: Bools, least: int = 0) -> Int64:
    """(list, any) places in lists of neighbors that are no mates: as many as every list has, or
    ``least``."""
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
    """(anchor, any) rows and their labels, the anchor itself first."""
    exact: bool
    """Whether groups are known, or all copies are at distance 0."""
    share: float
    """Distinct rows over rows."""
    disagree: float
    """Chance that two copies are given different labels."""
    error: float
    """Standard error of ``disagree``."""
    away: float = 0.0
    """Chance that a row and those just beyond its copies are."""
    near: float | None = None
    """The distance within which copies lie, where that makes the groups."""
    opposed: bool = False
    """Whether labels of copies differ more often than independent ones of any rates do."""
    run: int = 0
    """How far apart in the file rows of a group stand at most, where that makes the groups."""
    every: tuple[Int64, Integers] | None = None
    """In that case (anchor, K) rows and labels of the lists of all anchors, without such rows."""

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
        """Whether labels in groups are not each row's own; ``expected`` is the chance, by the rates
        of distinct rows, that two labels of one clean class differ."""
        surely = self.disagree + SURELY * self.error < 0.5 * expected
        return not self.enough or self.opposed or self.alike or surely

    @property
    def alike(self) -> bool:
        """Whether labels were copied, whatever the rates."""
        return self.disagree + SURELY * self.error < HARDLY * self.away

    def left_out(self, support: Sequence[Support]) -> bool:
        """Whether rows of a group are left out of each other's lists, given the verdicts on the
        rates of distinct rows. Where most rates are unsupported all labels may be right, unless
        those of copies are alike and those just beyond differ."""
        are_read = 2 * list(support).count("unsupported") < len(support)
        return self.run > 0 or ((are_read or self.alike) and not self.opposed)

    def reason(self, then: str, support: Sequence[Support]) -> str:
        """What the groups are, and what is done about them, before another reason; ``support`` as
        of ``left_out``."""
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
    """(list, k) which neighbors are of the same group as the list's row, by the groups of rows
    (list,) and neighbors (list, k); those of negative numbers are alone."""
    return np.asarray((own[:, None] == group) & (group >= 0))


def one_of_value(neighbor: Int64, label: Integers, group: Int64) -> OneEach:
    """The first anchor of each group, with the rows of that group left out of its list. Lists are
    as long as nine in ten then allow; anchors with a shorter one are left out.

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
    lists = _with_columns(neighbor[anchor], label[anchor], column)
    return OneEach(anchor, *lists, exact=True, share=1.0, disagree=0.0, error=0.0)


def _with_columns(neighbor: Int64, label: Integers, column: Int64) -> tuple[Int64, Integers]:
    """Rows and labels of the anchors themselves, and of these columns (anchor, any) after them."""
    column = np.column_stack([np.zeros(len(column), np.int64), column])
    near = np.take_along_axis(neighbor, column, axis=1)
    return near, np.take_along_axis(label, column, axis=1)


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
    """One anchor of each run of the file, with rows that stand so near in the file left out of its
    list; a run is as long as neighbors surely stand together. None where these disagree about as
    often as others do, what lies beyond them says nothing, or the file is sorted by labels.

    How often they disagree is counted around the anchors whose other neighbors agree most:
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
    every, given = _with_columns(neighbor, label, others)
    anchor = order[np.unique(neighbor[order, 0] // run, return_index=True)[1]]
    own, near, beyond = label[few, :1], label[few, 1 : NEAREST + 1], given[few, 1 : AROUND + 1]
    purity = (beyond[:, :, None] == beyond[:, None, :]).mean(axis=(1, 2))
    mate, pure = apart[:, :NEAREST] <= run, purity >= np.quantile(purity, PURE)
    compared, n_mates = pure & mate.any(axis=1), mate.sum(axis=1)
    if compared.sum() < FEWEST:
        return None
    n_differ = ((near != own) & mate).sum(axis=1)
    disagree = float((n_differ[compared] / n_mates[compared]).mean())
    away = (beyond != own)[pure].mean()
    share = np.bincount(label[:, 0], minlength=int(label.max()) + 1) / len(label)
    n_runs = len(np.unique(neighbor[few, 0][pure] // run))
    at_most = away + SURELY * _standard_error(away, n_runs)
    unrelated = 1.0 - share[beyond[pure]].mean()  # what `away` is if these say nothing
    chance, follow = 1.0 - share @ share, (label[anchor[1:], 0] != label[anchor[:-1], 0]).mean()
    if disagree >= 0.5 * away or follow < SORTED * chance:
        return None
    if max(away / OF_CHANCE, at_most) >= unrelated:
        return None
    error, lists = _standard_error(disagree, float(compared.sum())), (every[anchor], given[anchor])
    one = OneEach(anchor, *lists, False, 1.0 / run, disagree, error, run=run, every=(every, given))
    return one if one.enough else None


def _standard_error(share: float, n: float) -> float:
    """Of a share of n, about, as if two more were one of each kind."""
    smooth = (share * n + 1.0) / (n + 2.0)
    return float(np.sqrt(smooth * (1.0 - smooth) / n))


def one_of_each(
    neighbor: Int64, label: Integers, distance: Floating, n_classes: int
) -> OneEach | None:
    """One anchor of each group, its copies left out of its list; None where there are hardly any
    groups, or copies disagree about as often as the rows just beyond do. A group that is not at
    distance 0 may be a cluster: None, too, where it says nothing of the rows beyond it, or too few
    groups are there to tell.

    ``neighbor``, ``label`` and ``distance`` are (anchor, K), column 0 the anchor itself.
    """
    half, within = distance.shape[1] // 2, radius(neighbor[:, 0], label, distance)
    n_copies = (distance[:, 1 : half + 2] <= within).sum(axis=1)
    copied = np.flatnonzero(n_copies)
    groups, disagree, away = _contrast(n_copies[copied], _differing(label[copied]))
    if groups == 0 or (groups < FEWEST and 2 * len(copied) < len(neighbor)):
        return None
    error = _standard_error(disagree, groups)
    opposed = disagree - SURELY * error > 1.0 - 1.0 / n_classes
    buried = 2 * int((n_copies > half).sum()) > len(neighbor)
    if not (opposed or buried) and disagree >= 0.5 * away:
        return None
    exact, shares = within == 0, np.unique(label[:, 0], return_counts=True)[1] / len(label)
    if not exact and away >= OF_CHANCE * (1.0 - shares @ shares):
        return None
    near, copy = neighbor[copied, 1 : half + 2], np.arange(half + 1) < n_copies[copied, None]
    listed = np.sort(neighbor[:, 0])
    place = np.minimum(np.searchsorted(listed, near), len(neighbor) - 1)
    earlier = (listed[place] == near) & copy & (near < neighbor[copied, :1])
    first = n_copies <= half
    first[copied] &= ~earlier.any(axis=1)
    anchor = np.flatnonzero(first)
    left_out = n_copies[anchor]
    width = distance.shape[1] - int(left_out.max(initial=0))
    column = 1 + left_out[:, None] + np.arange(width - 1)
    lists = _with_columns(neighbor[anchor], label[anchor], column)
    share = float(np.mean(1.0 / (1.0 + n_copies)))
    distinct = OneEach(anchor, *lists, exact, share, disagree, error, away, within, opposed)
    alike = opposed or disagree <= HARDLY * away  # few groups, and no rates to compare with
    return distinct if distinct.enough or (exact and alike) else None


def one_of_copies(x: Float32, y: Integers, threads: Threads = ALONE) -> Int64:
    """Rows of a sample (row, feature) but those that copy an earlier one, exactly or nearly, where
    copies share labels: a metric would be learned, and judged, by them. All rows where few would be
    left."""
    rows, width = np.arange(len(x)), min(LISTED, len(x) // 4)
    few = rows[:LISTS]
    index, distance = nearest(x[few], x, width, exclude=few, threads=threads)
    lists = np.column_stack([few, index])
    distinct = one_of_each(lists, y[lists], np.pad(distance, ((0, 0), (1, 0))), int(y.max()) + 1)
    if distinct is None or distinct.opposed or not distinct.alike:
        return rows
    index, distance = nearest(x, x, width, exclude=rows, threads=threads)
    earlier = (index < rows[:, None]) & Mates(near=distinct.near).among(rows, index, distance)
    alone = np.flatnonzero(~earlier.any(axis=1))
    return alone if len(alone) >= FEWEST_LEFT else rows


def radius(row: Int64, label: Integers, distance: Floating) -> float:
    """The distance within which rows most likely share labels; -1 for none.

    0 where many rows are equal, else the one by which the labels within it agree most surely more
    often than the next of the same lists do. ``row`` is (list,), ``label`` and ``distance``
    (list, K) as of ``one_of_each``.
    """
    half = distance.shape[1] // 2
    if (distance[:, 1] == 0).mean() >= EXACTLY:
        return 0.0
    few = np.argsort(row, kind="stable")[:: len(row) // LOOKED_AT + 1]
    near, differing = distance[few, 1 : half + 2], _differing(label[few])
    positive = near[np.isfinite(near) & (near > 0)]
    best, likeliest = 0.0, -1.0
    if not len(positive):
        return likeliest
    farthest = min(np.median(near[:, -1]), positive.max())
    for within in np.geomspace(positive.min(), farthest, RADII, dtype=np.float32):
        m = (near <= within).sum(axis=1)
        copied = np.flatnonzero((m > 0) & (m <= half))
        groups, *shares = _contrast(m[copied], differing[copied])
        inside, beyond = ((share * groups + 0.5) / (groups + 1.0) for share in shares)
        if groups < FEWEST or inside >= beyond:
            continue
        gain = len(copied) * float(rel_entr([inside, 1.0 - inside], [beyond, 1.0 - beyond]).sum())
        if gain > best:
            best, likeliest = gain, float(within)
    return likeliest


def _differing(label: Integers) -> Int32:
    """(list, K) how many rows up to each rank have another label than the list's row."""
    return np.cumsum(label != label[:, :1], axis=1, dtype=np.int32)


def _contrast(m: Int64, differing: Int32) -> tuple[float, float, float]:
    """How many groups rows make with their ``m`` nearest, (list,) above 0; how often labels of
    these differ from the row's, and how often those of the next ones do, each group counted once.
    """
    row, weight = np.arange(len(m)), 1.0 / (1.0 + m)
    groups = float(weight.sum())
    if not groups:
        return 0.0, 0.0, 0.0
    inside, last = differing[row, m], np.minimum(m + BEYOND, differing.shape[1] - 1)
    beyond = (differing[row, last] - inside) / np.maximum(last - m, 1)
    return groups, float(weight @ (inside / m)) / groups, float(weight @ beyond) / groups
