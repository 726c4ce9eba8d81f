"""Where suspect labels are frequent, as bounds on few features that a person can read.

A shallow decision tree finds the segments on one half of a sample, and the other half says how many
labels are suspect in each: what is reported was not chosen for the rows it is counted on. Splits
are those of scikit-learn's `DecisionTreeClassifier(criterion="entropy")`, whose import would cost
every small training most of a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Float32, Float64, Int64, Integers
from pipeline.knn.lists import wilson

Bound = tuple[int, float | None, float | None]
"""(feature, low, high): low < value ≤ high; None where an end is open."""
MOST_ROWS, MOST_CELLS = 1 << 15, 1 << 22
"""Rows that are looked at, and rows times features."""
DEPTH = 3
"""Bounds of a segment at most, but for several on one feature."""
FEWEST = 25
"""Rows of a segment at least, in each half."""
SMALLEST = 0.01
"""Share of the rows in a segment at least."""
SHOWN = 3


@dataclass(frozen=True)
class Segment:
    """Rows among which suspects are more frequent than elsewhere."""

    bounds: tuple[Bound, ...]
    size: float
    """Share of the rows."""
    share: float
    """Of them with a suspect label."""
    interval: tuple[float, float]
    """95 % interval of the share."""
    elsewhere: float
    """Share of suspect labels among all other rows."""


def sample_rows(n_features: int) -> int:
    """Rows of a sample that are looked at."""
    return min(MOST_ROWS, max(1, MOST_CELLS // n_features))


def worst_segments(x: Float32, suspect: Bools, likely: Integers) -> tuple[Segment, ...]:
    """The segments of highest share, worst first; none where none is surely worse than the rest.

    A split counts where its likelihood ratio beats the best of so many splits by chance (twice the
    logarithm of rows times features); a segment is told where its 95 % interval lies above that of
    the other rows, and above what its classes are suspect everywhere.

    Parameters
    ----------
    x : (row, feature) finite, as a person knows them; rows in random order
    suspect : (row,) whether the label is suspect
    likely : (row,) code of the likely class
    """
    half = len(x) // 2
    grown, test = slice(0, half), slice(half, None)
    fewest = max(FEWEST, math.ceil(SMALLEST * half))
    if half < 2 * fewest or not 0 < suspect[grown].sum() < half:
        return ()
    of_class = np.bincount(likely, suspect) / np.maximum(np.bincount(likely), 1)
    expected = of_class[likely]
    segments = [
        segment
        for bounds in leaves(x[grown], suspect[grown], fewest, 2 * math.log(x[grown].size))
        if (segment := _tested(bounds, x[test], suspect[test], expected[test], fewest)) is not None
    ]
    return tuple(sorted(segments, key=lambda segment: -segment.share)[:SHOWN])


def inside(x: Float32, bounds: tuple[Bound, ...]) -> Bools:
    """(row,) which rows of `x`, (row, feature), keep all bounds."""
    keeps = np.ones(len(x), np.bool_)
    for feature, low, high in bounds:
        if low is not None:
            keeps &= x[:, feature] > np.float32(low)
        if high is not None:
            keeps &= x[:, feature] <= np.float32(high)
    return keeps


def leaves(
    x: Float32,
    suspect: Bools,
    fewest: int,
    least: float,
    within: tuple[Bound, ...] = (),
    depth: int = DEPTH,
) -> list[tuple[Bound, ...]]:
    """The bounds of each leaf of the tree on some rows, which lie `within` bounds; `least` is the
    likelihood ratio of a split."""
    ratio, feature, cut = best_split(x, suspect, fewest) if depth else (0.0, 0, 0.0)
    if ratio <= least:
        return [within]
    below = x[:, feature] <= cut
    return [
        leaf
        for here, ends in ((below, (None, cut)), (~below, (cut, None)))
        for leaf in leaves(
            *(x[here], suspect[here], fewest, least, narrowed(within, feature, ends), depth - 1)
        )
    ]


def narrowed(
    bounds: tuple[Bound, ...], feature: int, ends: tuple[float | None, float | None]
) -> tuple[Bound, ...]:
    """Bounds with another end of a feature in place of an older one; a new feature comes last."""
    known = {f: (low, high) for f, low, high in bounds}
    low, high = known.get(feature, (None, None))
    known[feature] = (low if ends[0] is None else ends[0], high if ends[1] is None else ends[1])
    return tuple((f, *span) for f, span in known.items())


def best_split(x: Float32, suspect: Bools, fewest: int) -> tuple[float, int, float]:
    """The likelihood ratio (twice the gain in log likelihood), feature and value of the split of
    rows into those at most the value and those above that tells most of `suspect`; of equal ones
    the first. The ratio is 0 where no split leaves `fewest` rows on both sides.

    x, suspect : (row, feature) float32 and (row,)
    """
    n, total, best = len(x), int(suspect.sum()), (0.0, 0, 0.0)
    below, logs = np.arange(1, n), _log_powers(n)
    roomy = (below >= fewest) & (n - below >= fewest)
    whole = logs[total] + logs[n - total] - logs[n]
    for feature in range(x.shape[1]):
        value, marked = _sorted(x[:, feature], suspect)
        cuts = np.flatnonzero(roomy & (value[:-1] < value[1:]))
        if not len(cuts):
            continue
        m, hits = below[cuts], np.cumsum(marked, dtype=np.int64)[cuts]
        low = logs[hits] + logs[m - hits] - logs[m]
        high = logs[total - hits] + logs[n - m - total + hits] - logs[n - m]
        ratio = 2 * (low + high) - 2 * whole
        top = int(np.argmax(ratio))
        if ratio[top] > best[0]:
            best = float(ratio[top]), feature, float(value[cuts[top]])
    return best


def _log_powers(n: int) -> Float64:
    """log m**m for all m up to n: `hits` of m alike rows have the greatest log likelihood
    log hits**hits + log (m - hits)**(m - hits) - log m**m."""
    m = np.arange(n + 1)
    return np.asarray(m * np.log(np.maximum(m, 1)))


def _sorted(value: Float32, mark: Bools) -> tuple[Float32, Int64]:
    """Values ascending with their marks, by one sort of whole numbers: the bits of a float order as
    floats do, those of negative ones the other way round; the mark is put below them."""
    bits = (value + np.float32(0)).view(np.int32)  # 0 for -0
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) << 1 | mark
    keys.sort()
    bits = (keys >> 1).astype(np.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(np.float32), keys & 1


def _tested(
    bounds: tuple[Bound, ...], x: Float32, suspect: Bools, expected: Float64, fewest: int
) -> Segment | None:
    """What rows that the tree has not seen say of a segment; None where it is not surely worse."""
    here = inside(x, bounds)
    n_here, n_there = int(here.sum()), int((~here).sum())
    if min(n_here, n_there) < fewest:
        return None
    share, elsewhere = float(suspect[here].mean()), float(suspect[~here].mean())
    interval = wilson(share, float(n_here))
    if interval[0] <= max(wilson(elsewhere, float(n_there))[1], expected[here].mean()):
        return None
    return Segment(bounds, n_here / len(x), share, interval, elsewhere)
