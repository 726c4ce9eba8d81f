"""What studies set ours beside, and whole pools in memory by the kernels that steps run block by
block."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pipeline.arrays import Float32, Float64, Int64, Integers
from pipeline.diagnostics.neighborhood import mean_distance
from pipeline.knn.exact import nearest
from pipeline.methods.partial_features import (
    Preprocessing,
    density_scaled,
    least_reach,
    smoothed,
    unit_rows,
)
from pipeline.methods.partial_labels import AdaptiveParams, Masks
from pipeline.methods.rknn import GRID, Labels, SizeSelection, best, fold_sums, gains, own_extremes
from pipeline.noise.annotator_matrices import (
    ROUNDS,
    STILL,
    Agreement,
    PriorMatrix,
    change,
    maximize,
    started,
)
from pipeline.noise.annotators import Expected, Judged, RowLabels, Skills, expect


def select(
    neighbor: Int64, label: Labels, fold: Integers, grid: tuple[int, ...] = GRID
) -> SizeSelection:
    """(k, k') by cross-validation from one graph.

    ``neighbor`` (n, K) int64, nearest first, self excluded, -1 where the list is short; ``label``
    (n,) int8; ``fold`` (n,) the left-out part of each row (the paper takes four). A left-out row is
    predicted from the first k neighbors outside its fold, with noise rates from the k' of the rows
    outside its fold. The paper does not say how a candidate is scored: here by accuracy on the
    given labels.
    """
    total = np.zeros((len(grid), len(grid)), np.int64)
    shortfall = 0
    for part in np.unique(fold):
        out = fold == part
        kept = (neighbor >= 0) & (fold[neighbor] != part)
        ones, sizes = fold_sums(label[neighbor], kept, grid)
        shortfall += int((sizes[:, -1] < grid[-1]).sum())
        ends = own_extremes(ones[~out], sizes[~out], label[~out])
        total += gains(ones[out], sizes[out], label[out], ends)
    return best(total / len(label), grid, shortfall)


def consensus_of(
    near: Int64,
    weight: Float64,
    labels: RowLabels,
    n_annotators: int,
    given: Float64,
    shares: Float64,
) -> tuple[Judged, Expected, Skills]:
    """All rounds over a pool in memory.

    ``near`` and ``weight`` are (row, rank), self excluded; ``given`` and ``shares`` the matrix
    (class, class) and shares (class,) of the labels given.
    """
    n, c = len(near), len(given)
    own = np.arange(n)
    first = PriorMatrix.of(Agreement.of(labels.start, labels.label, c), n, given)
    skills = started(first.matrix, n_annotators, shares)
    for _ in range(ROUNDS):
        _, sums = expect(own, near, weight, labels, skills)
        before, skills = skills, maximize(sums, first)
        if change(before, skills, sums.counts) < STILL:
            break
    judged, sums = expect(own, near, weight, labels, skills)
    return judged, sums, skills


def preprocess(train: Float32, test: Float32, how: Preprocessing) -> tuple[Float32, Float32]:
    """Training and test rows by one pipeline, in memory, with exact neighbors.

    All statistics are of the training rows; the neighbors of test rows are searched among the
    smoothed training rows. ValueError where there are too few training rows.
    """
    if len(train) <= max(how.n_smooth, how.n_density):
        raise ValueError(f"{len(train)} training rows: need more than {how.n_density}")
    center = None if how.cube_root else train.mean(axis=0, dtype=np.float64)
    own, others = unit_rows(train, center), np.arange(len(train))
    near = nearest(own, own, how.n_smooth, exclude=others)
    own = smoothed(own, own, *near, how.alpha)
    query = unit_rows(test, center)
    query = smoothed(query, own, *nearest(query, own, how.n_smooth), how.alpha)
    mean = mean_distance(nearest(own, own, how.n_density, exclude=others)[1])
    least = least_reach(mean)
    away = mean_distance(nearest(query, own, how.n_density)[1])
    return density_scaled(own, mean, least), density_scaled(query, away, least)


def most_voted(neighbor: Integers, mask: Masks, n_classes: int, sizes: Int64) -> Int64:
    """(query, size) int64: the class in most sets of the first k neighbors, for each k of ``sizes``
    (size,), ascending; ties: the lowest class. Plain kNN on candidate sets (Hüllermeier & Beringer
    2006)."""
    label: Int64 = _votes(np.ascontiguousarray(neighbor), mask, n_classes, sizes, np.inf)
    return label


def predict_aknn(
    neighbor: Integers,
    mask: Masks,
    n_classes: int,
    n: int,
    params: AdaptiveParams,
) -> Int64:
    """(query,) int64: A-kNN of Balsubramani et al. 2019 for many classes, on candidate sets.

    The neighborhood grows until the leading class's share exceeds 1/c by the margin (appendix B.2
    of Errandonea et al.); where it never does, the leading class of T neighbors is the answer.
    """
    sizes = np.array([params.most_neighbors], np.int64)
    margin = params.margin(n, n_classes)
    label: Int64 = _votes(np.ascontiguousarray(neighbor), mask, n_classes, sizes, margin)
    return label[:, 0]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _votes(neighbor: Integers, mask: Masks, n_classes: int, sizes: Int64, margin: float) -> Int64:
    """(query, size) leading class of the first neighbors, or of as many as exceed the margin."""
    label = np.empty((len(neighbor), len(sizes)), np.int64)
    count = np.empty(n_classes, np.int64)
    for q in range(len(neighbor)):
        count[:] = 0
        k, size, j, best, over = 0, 0, 0, 0, False
        while size < len(sizes):
            if over or j == neighbor.shape[1] or neighbor[q, j] < 0 or k == sizes[size]:
                label[q, size] = best
                size += 1
                continue
            place = neighbor[q, j]
            j += 1
            if not mask[place].any():
                continue
            k += 1
            for y in range(n_classes):
                count[y] += np.int64((mask[place, y >> 6] >> np.uint64(y & 63)) & np.uint64(1))
            best = int(np.argmax(count))
            over = count[best] / k - 1.0 / n_classes >= margin / math.sqrt(k)
    return label
