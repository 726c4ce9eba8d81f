"""The two noise rates from neighbors' given labels: ``minmax`` (the paper's) and ``crossfit``.

``minmax`` is steps 1 and 2 of Algorithm 2 of Reeve & Kaban 2019. Its minimum over many noisy
averages lies far below the truth, because the row that looks lowest is the one with the luckiest
noise. ``crossfit`` removes that bias: some labels near each anchor are held out, the other labels
around it say which anchors are purest, and the rates are read on the labels held out of these.
Nothing is drawn at random, so the same lists give the same rates to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.arrays import Float64, Floating, Int8, Int64, Integers
from pipeline.blocks.sampling import MOST_ANCHORS
from pipeline.knn.threads import ALONE, Threads, one_thread
from pipeline.noise.asymptotes import (
    Asymptotes,
    HeldOutLabels,
    fewest_rows,
    fit_asymptotes,
    fit_index,
    read_plateau,
)
from pipeline.noise.cores import NEIGHBORS, blends, clustering, in_core, near_anchors
from pipeline.noise.rates import (
    ALLOWED,
    FEW,
    FEWEST_ROWS,
    HIDDEN,
    MINGLED,
    TOO_FEW,
    NoiseRates,
    Support,
    known_to,
    too_few,
    verdict,
)
from pipeline.noise.regions import RegionTest, at_most_weak, region_test

Plateau = tuple[float, float, int]
"""(rate, standard error, rows averaged)."""
SIZES = (8, 18, 40, 90, 200, 450, 1000, 2000)
"""Neighborhood sizes by which anchors may be ordered, each about 2.2 times the one before."""

# How `crossfit` reads the rates; tuned on optdigits, landsat, usps and letter alone.
Z = 6.0
"""Standard errors by which plateaus are compared, so that one of few rows seldom wins; many, as the
best of many plateaus is taken."""
CURVE_FLOOR = 0.004
"""Error of the shape of the fitted curve, beside its standard error."""
RESOLUTION = 0.15
"""The c of an error of c / sqrt(e) (1 + 60 / e), with e = rows of the class times (1 - p0 - p1)**2,
to which the rates of so many rows are blurred."""
OF_EACH_CLASS = 10
"""Anchors of each class, at least: with fewer, some class has none and seems to lie nowhere."""
COVERAGE = 100
"""Labels held out per anchor at most; fewer where fewer already cover the pool once."""


def minmax(eta_corr: Float64, k: int, n_rows: int = FEWEST_ROWS) -> NoiseRates:
    """Algorithm 2, steps 1 and 2: rates by the least and greatest average of k given labels.

    ``eta_corr`` is (row,) float64 of ``n_rows`` rows, each row's own label among its k; minima and
    maxima of blocks, concatenated, give the same answer. The intervals only say on which side of
    the extremes the true rates lie; they are not calibrated. ValueError if empty, not finite or
    outside [0, 1].
    """
    if eta_corr.size == 0 or not bool(np.all((eta_corr >= 0) & (eta_corr <= 1))):
        raise ValueError("eta_corr: need at least one average in [0, 1]; check labels are 0 or 1")
    p0, p1 = float(eta_corr.min()), 1.0 - float(eta_corr.max())
    support: Support = "weak"
    reason = "Plain extremes of noisy averages: both rates are biased towards 0; use crossfit."
    if n_rows < FEWEST_ROWS:
        support, reason = "unsupported", too_few(n_rows)
    return NoiseRates(p0, p1, (p0, 1.0 - p1), (p1, 1.0 - p0), "minmax", k, support, reason)


def crossfit(
    neighbor: Int64,
    label: Int8,
    n_rows: int,
    x: Floating | None = None,
    coverage: int = COVERAGE,
    threads: Threads = ALONE,
) -> NoiseRates:
    """Noise rates from anchors' neighbor lists, the same bits in whatever order anchors come; each
    row counts (``transition_matrix`` counts copies once).

    ``neighbor`` is (anchor, K) int64 row ids, nearest first, column 0 the anchor itself; ``label``
    (anchor, K) int8 in {0, 1}, the given labels of those rows; ``n_rows`` the size of the pool.
    The labels in the first few columns are held out; averages over the columns after them order the
    anchors. ``x`` is (anchor, feature), the anchors themselves: with it, the assumption that
    mistakes depend on the class alone is tested (``region_test``), and the verdict is at most
    ``weak`` where it fails. ``coverage`` is the most labels held out per anchor. ValueError on
    shapes that differ, fewer than 20 anchors, K < 10 or other labels.
    """
    if neighbor.shape != label.shape or neighbor.ndim != 2:
        raise ValueError(f"neighbor {neighbor.shape} and label {label.shape}: shapes must agree")
    if neighbor.shape[0] < 20 or neighbor.shape[1] < 10:
        raise ValueError(f"lists {neighbor.shape}: need at least 20 anchors and 10 columns")
    if label.min() < 0 or label.max() > 1:
        raise ValueError(f"labels {label.min()} to {label.max()}: only 0 and 1 are labels here")
    in_order = bool((np.diff(neighbor[:, 0]) >= 0).all())  # then nothing is copied
    order = slice(None) if in_order else np.argsort(neighbor[:, 0], kind="stable")
    exchanged = 2 * int(label.sum(dtype=np.int64)) > label.size  # the rarer label is 1 in all fits,
    rarer = 1 - label if exchanged else label  # so that exchanging the classes changes nothing else
    sample, features, sizes = held_out(neighbor[order], rarer[order], n_rows, coverage)
    if label.min() == label.max():
        why = "Every label is the same, so nothing tells noise from truth."
        return unknown(float(label[0, 0]), 1.0 - float(label[0, 0]), why)
    with one_thread():  # else the number of threads decides the last bits
        index = fit_index(features, sample)
        curve = fit_asymptotes(index, sample, n_rows)
    scores = np.concatenate([index[:, None], features], axis=1)
    lows = [read_plateau(column, sample, Z) for column in scores.T]
    highs = [read_plateau(-column, sample.flipped(), Z) for column in scores.T]
    sides = [
        _side((curve.lower, curve.lower_se), lows, 1.0 - curve.clean),
        _side((1.0 - curve.upper, curve.upper_se), highs, curve.clean),
    ]
    if exchanged:
        sides, lows, highs = sides[::-1], highs, lows
    ranges = honest_range(lows[1:], highs[1:], sizes)
    rates = _judge(sides, ranges, n_rows)
    if x is not None:
        n_first = n_held_out(neighbor.shape, n_rows, coverage)
        tests = _regions(x[order], rarer[order], n_first, curve, sample, threads)
        rates = at_most_weak(rates, tests[::-1] if exchanged else tests)
    return rates


def held_out(
    neighbor: Int64, label: Int8, n_rows: int, coverage: int
) -> tuple[HeldOutLabels, Float64, list[int]]:
    """Held-out labels of each anchor, its (anchor, g) averages without them, and the g sizes."""
    n_first, sizes = _plan(neighbor.shape, n_rows, coverage)
    edges = n_first + np.array([0, *sizes[:-1]])
    others = label[:, : n_first + sizes[-1]]
    sums = np.cumsum(np.add.reduceat(others, edges, axis=1, dtype=np.int64), axis=1)
    mean = float(label[:, n_first:].mean())
    averages = (sums + 2.0 * mean) / (np.array(sizes) + 2.0)
    weight = _weights(neighbor[:, :n_first])
    ones = (weight * label[:, :n_first]).sum(axis=1)
    return HeldOutLabels(ones, weight.sum(axis=1)), averages, sizes


def held_out_classes(
    neighbor: Int64, label: Integers, n_classes: int, n_rows: int, coverage: int, kind: Any
) -> tuple[Floating, Float64]:
    """The same of each class against all others: averages (g, anchor, class), floats of this
    ``kind``, and counts (anchor, class) of held-out labels; ``label`` is (anchor, K) in
    [0, n_classes)."""
    n_first, sizes = _plan(neighbor.shape, n_rows, coverage)
    share = np.zeros((len(sizes), len(label), n_classes), kind)
    start, anchor = n_first, np.arange(len(label))[:, None]
    for g, size in enumerate(sizes):
        np.add.at(share[g], (anchor, label[:, start : n_first + size]), 1.0)
        if g:
            share[g] += share[g - 1]
        start = n_first + size
    mean = np.bincount(label[:, n_first:].ravel(), None, n_classes) / label[:, n_first:].size
    share += (2.0 * mean).astype(kind)
    share /= (np.array(sizes)[:, None, None] + 2.0).astype(kind)
    weight, near = _weights(neighbor[:, :n_first]), label[:, :n_first]
    counts = [(weight * (near == b)).sum(axis=1) for b in range(n_classes)]
    return share, np.stack(counts, axis=1)


def n_held_out(shape: tuple[int, ...], n_rows: int, coverage: int) -> int:
    """Labels held out per anchor, of lists (anchor, K) of a pool of ``n_rows``."""
    return _plan(shape, n_rows, coverage)[0]


def _plan(shape: tuple[int, ...], n_rows: int, coverage: int) -> tuple[int, list[int]]:
    """Labels held out per anchor, and the sizes of the neighborhoods after them."""
    n_anchors, width = shape
    n_first = int(np.clip(round(n_rows / n_anchors), 1, min(coverage, max(1, width // 4))))
    limit = min(width - n_first, max(20, n_rows // 4))
    return n_first, [k for k in SIZES if k <= limit]


def _weights(neighbor: Int64) -> Float64:
    """(anchor, column) for each row listed, one over the number of anchors that hold it out."""
    _, where, count = np.unique(neighbor, return_inverse=True, return_counts=True)
    return np.asarray((1.0 / count)[where].reshape(neighbor.shape))


def _regions(
    x: Floating,
    label: Int8,
    n_first: int,
    curve: Asymptotes,
    sample: HeldOutLabels,
    threads: Threads,
) -> tuple[RegionTest | None, RegionTest | None]:
    """The test of class 0, whose wrong labels are 1, and of class 1; the ``n_first`` columns of
    ``label`` are held out."""
    near, middle = near_anchors(x, threads), 0.5 * (curve.lower + curve.upper)
    tests = []
    for side, even, chance, labels in (
        (0, middle, 1.0 - curve.clean, sample),
        (1, 1.0 - middle, curve.clean, sample.flipped()),
    ):
        wrong = label != side
        core = in_core(wrong[:, n_first : n_first + NEIGHBORS], even, near)
        test = region_test(x, chance, labels.ones, labels.trials, core)
        if test is not None and blends(chance):
            test = replace(test, disagree=False, silent=True)
        elif test is not None:
            test = test.or_clustered(*clustering(wrong[:, 0], core, near))
        tests.append(test)
    return tests[0], tests[1]


def honest_range(
    lows: list[Plateau], highs: list[Plateau], sizes: list[int]
) -> dict[str, list[float]]:
    """For each k, the row itself included, the least and greatest share of held-out 1s among its
    purest rows, with standard errors."""
    return {
        "k": [float(k + 1) for k in sizes],
        "v_min": [v[0] for v in lows],
        "v_min_se": [v[1] for v in lows],
        "v_max": [1.0 - v[0] for v in highs],
        "v_max_se": [v[1] for v in highs],
    }


def _side(
    fitted: tuple[float, float], plateaus: list[Plateau], chance: Float64
) -> dict[str, float]:
    """One rate: the curve's asymptote and the best plateau, weighed by their variances; ``chance``
    (anchor,) of the class whose rate it is."""
    plateau, plateau_se, rows = min(plateaus, key=lambda v: v[0] + Z * v[1])
    curve = 1.0 / (fitted[1] ** 2 + CURVE_FLOOR**2)
    flat = 1.0 / (2.0 * plateau_se**2 + 1e-12)
    return {
        "rate": (curve * fitted[0] + flat * plateau) / (curve + flat),
        "variance": 1.0 / (curve + flat),
        "fitted": fitted[0],
        "fitted_se": fitted[1],
        "plateau": plateau,
        "plateau_se": plateau_se,
        "plateau_rows": float(rows),
        "plateau_steps": rows / fewest_rows(len(chance)),
        "class_share": float(chance.mean()),
        "impurity": 1.0 - float((chance**2).sum() / max(chance.sum(), 1e-12)),
    }


def unknown(p0: float, p1: float, reason: str) -> NoiseRates:
    """Where nothing is known of the rates."""
    whole = (0.0, 1.0)
    return NoiseRates(p0, p1, whole, whole, "crossfit", 1, "unsupported", reason)


def _judge(
    sides: list[dict[str, float]], ranges: dict[str, list[float]], n_rows: int
) -> NoiseRates:
    """Intervals and the verdict, for which their half-widths are compared with 1 - p0 - p1."""
    p0, p1 = (float(np.clip(side["rate"], 0.0, 1.0)) for side in sides)
    gap = max(1.0 - p0 - p1, 0.02)
    halves = []
    for side in sides:
        side["informative_rows"] = informative = max(1.0, n_rows * side["class_share"]) * gap**2
        blur = RESOLUTION / np.sqrt(informative) * (1.0 + TOO_FEW / informative)
        apart = 0.5 * (side["fitted"] - side["plateau"])
        slope = 0.5 * gap * side["impurity"] ** 2
        errors = (CURVE_FLOOR / 2, np.sqrt(side["variance"]), blur, apart, slope)
        halves.append(1.96 * float(np.linalg.norm(errors)))
    width = np.array(ranges["v_max"]) - np.array(ranges["v_min"])
    error = np.hypot(ranges["v_max_se"], ranges["v_min_se"])
    k = int(ranges["k"][int(np.argmax(width - Z * error))])
    diagnostics: dict[str, Any] = {"range": ranges, "p0": sides[0], "p1": sides[1]}
    diagnostics["relative_error"] = max(halves) / gap
    support, why = verdict(gap, halves, sides)
    intervals = []
    for p, half, side in zip((p0, p1), halves, sides, strict=True):
        impurity, part = side["impurity"], min(1.0, FEW / side["informative_rows"])
        low = p - half - part * ALLOWED[support] * (MINGLED * impurity + p * (1.0 - gap))
        high = p + half + HIDDEN * impurity * (1.0 - impurity)
        intervals.append((max(0.0, low), min(1.0, high)))
    reason = f"{why}: {known_to(gap, halves, sides, intervals)}."
    (of_p0, of_p1), standard = intervals, (halves[0] / 1.96, halves[1] / 1.96)
    return NoiseRates(p0, p1, of_p0, of_p1, "crossfit", k, support, reason, diagnostics, standard)


def anchor_plan(n_rows: int, n_features: int, n_classes: int = 2) -> tuple[int, int]:
    """(anchors, list length) of the exact search that feeds ``crossfit`` and ``transition_matrix``.

    Up to `MOST_ANCHORS` rows, all are anchors; of more rows, as many as are compared with all in
    4e8 pairs (one second at 2.5 ns a pair of 32 features), but at least 1,500, and `OF_EACH_CLASS`.
    Lists hold neighborhoods of 450 besides the labels held out: with those of 2,000 rates are no
    better.
    """
    if n_rows <= MOST_ANCHORS:
        return n_rows, min(n_rows, 460)
    pairs = 4e8 / max(1.0, n_features / 128)
    anchors = min(MOST_ANCHORS, max(1500, OF_EACH_CLASS * n_classes, int(pairs / n_rows)))
    return anchors, 460 + min(COVERAGE, n_rows // anchors)
