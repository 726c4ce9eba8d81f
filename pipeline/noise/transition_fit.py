"""Maximum likelihood of a transition matrix, and of how label shares tell the clean classes.

The matrix starts from the held-out labels of the rows richest in each class. Where classes are of
few rows, rich is judged by the nearest few: a neighborhood larger than a quarter of the class
holds mostly others. Where labels are few, a diagonal leans towards the
others', which gives way to a few hundred informative rows.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax

from pipeline.arrays import Bools, Float64, Floating, Int64
from pipeline.knn.threads import ALONE, Threads
from pipeline.noise.extrema import SIZES

ALL_WORK = 30_000_000_000
"""Anchors times classes squared times the steps of each of the two fits, at most: of many classes
there are fewer steps."""
SINGLE_WORK = 2_000_000
"""Anchors times classes squared from which on sums over anchors are of float32, in a half to a
quarter of the time."""
PIECE = 1 << 11
"""Anchors that are summed together, by one thread."""

# Tuned on optdigits, landsat, usps and letter.
MIXING_PENALTY = 8.0
"""Penalty on squared departures from "label shares times the inverse of a first matrix", the index
that would be right if classes did not overlap."""
PURITY = 0.02
"""Reward per label for rows of one class alone: of two fits alike, the one with purer rows."""
DIAGONAL_SPREAD = 0.2
"""Standard deviation, as expected before any label is seen, of the diagonal's entries."""
FIRST_SPREAD = 0.1
"""The same of the first matrix, which few anchors may show far too low."""
ANCHOR_SHARE = 0.3
"""Share of a class' expected rows that are its first anchors."""
FIRST_PART = 0.25
"""Part of a class' rows that the neighborhoods of its first anchors hold at most."""
FIRST_SIZES = 18, 90
"""Rows that these neighborhoods hold at least, before that, and at most."""
ITERATIONS = 150
LEAST_STEP = 3e-6
"""Part of the loss that a step has to take away for another to follow."""
FEWEST_LABELS = 25
"""Held-out labels of a class from which on it may be said to lie nowhere."""
MOST_REFITS = 2
"""Times that the fit is done again without the classes that lie nowhere."""
LEAST_RIGHT = 0.1
"""Part of a label's rows that are of its class, at least, if there is one."""


def fit(
    share: Floating, counts: Float64, n_rows: int, threads: Threads = ALONE
) -> tuple[Float64, Float64]:
    """Matrix (c, c), row = true class, and chances of clean classes (m, c).

    ``share`` is (g, m, c) float64, label shares of m anchors in g neighborhoods of ``SIZES`` rows;
    ``counts`` (m, c), held-out labels; ``n_rows`` the size of the pool. A class that lies nowhere,
    as a label given at random does, is nobody's true class: its row is the identity's, its chances
    are 0.
    """
    first, c = first_matrix(share, counts, n_rows), len(counts.T)
    true = np.arange(c)
    if len(counts) * c * c >= SINGLE_WORK:
        share = share.astype(np.float32)
    fitted, clean = _fit(share, counts, first, true, threads)
    for _ in range(MOST_REFITS):
        lost = nowhere(fitted, clean, counts, true)
        if not lost.any() or (~lost).sum() < 2:
            break
        true = true[~lost]
        fitted, clean = _fit(share, counts, first, true, threads)
    matrix, chances = np.eye(c), np.zeros((len(counts), c))
    matrix[true], chances[:, true] = fitted, clean
    return matrix, chances


def nowhere(matrix: Float64, clean: Float64, counts: Float64, true: Int64) -> Bools:
    """(t,) which of the ``true`` classes, the rows of ``matrix`` (t, c) and columns of ``clean``
    (m, t), are none: where they lie another label is commoner, and theirs is half as common
    elsewhere; or nearly all who have their label are of other classes.

    With such a class the fit is free to take any mixture of the others for it; without, its labels
    are their mistakes. Of few labels nothing is decided.
    """
    given, own = counts.sum(axis=0)[true], matrix[np.arange(len(true)), true]
    others = matrix[:, true].copy()
    np.fill_diagonal(others, 0.0)
    mixture = (own < matrix.max(axis=1)) & (own <= 2.0 * others.max(axis=0))
    scarce = counts.sum(axis=1) @ clean * own < LEAST_RIGHT * given
    mixture, scarce = mixture & (given >= FEWEST_LABELS), scarce & (given >= FEWEST_LABELS)
    return np.asarray(mixture if mixture.any() else scarce)  # a mixture has the rows of others


def _fit(
    share: Floating, counts: Float64, first: Float64, true: Int64, threads: Threads
) -> tuple[Float64, Float64]:
    """Rows of the matrix (t, c), and chances (m, t), of the ``true`` classes. Free parameters:
    logits of the matrix, a mixing matrix, weights of the g sizes, biases."""
    (g, _, c), t = share.shape, len(true)
    target = np.linalg.pinv(0.95 * first[true] + 0.05 / c)
    target -= target.mean(axis=1, keepdims=True)
    logits = np.log(first[true]).ravel()
    free = np.concatenate([logits, target.ravel(), np.full(g, 6.0 / g), np.zeros(t)])
    steps = min(ITERATIONS, ALL_WORK // (share.shape[1] * c * c))
    limit = {"maxiter": steps, "maxfun": 2 * steps, "ftol": LEAST_STEP}
    for times in (1000.0, 1.0):
        data = (share, counts, target, times * MIXING_PENALTY, true, threads)
        free = minimize(loss, free, data, "L-BFGS-B", True, options=limit).x
    of_matrix, mixing, weight, bias = _split(np.asarray(free), (t, c), g)
    clean = softmax(np.tensordot(weight, share, 1) @ mixing + bias, axis=1)
    return softmax(of_matrix, axis=1), clean


def _split(
    free: Float64, shape: tuple[int, int], g: int
) -> tuple[Float64, Float64, Float64, Float64]:
    """The free parameters as (t, c), (c, t), (g,) and (t,)."""
    t, c = shape
    of_matrix, mixing, weight, bias = np.split(free, [t * c, 2 * t * c, 2 * t * c + g])
    return of_matrix.reshape(t, c), mixing.reshape(c, t), weight, bias


def loss(
    free: Float64,
    share: Floating,
    counts: Float64,
    target: Float64,
    mixing_penalty: float,
    true: Int64,
    threads: Threads = ALONE,
) -> tuple[float, Float64]:
    """Negative log likelihood of the held-out labels, penalized, with its gradient."""
    (g, m, c), t = share.shape, len(true)
    of_matrix, mixing, weight, bias = _split(free, (t, c), g)
    matrix = softmax(of_matrix, axis=1)
    by = [values.astype(share.dtype) for values in (matrix, mixing, weight, bias)]
    sums: dict[int, list[Float64]] = {}

    def do(start: int, stop: int) -> None:
        sums[start] = _summed(share[:, start:stop], counts[start:stop], *by)

    threads.over(m, do, PIECE)
    value, d_matrix, d_mixing, d_weight, d_bias = (
        np.sum(of_pieces, axis=0) for of_pieces in zip(*map(sums.get, sorted(sums)), strict=True)
    )
    away, own = mixing - target, matrix[np.arange(t), true]
    apart = own - own.mean()
    value += 1e-2 * float(weight @ weight) + mixing_penalty * float((away**2).sum())
    value += 0.5 * float(apart @ apart) / DIAGONAL_SPREAD**2
    d_matrix[np.arange(t), true] += apart / DIAGONAL_SPREAD**2
    d_mixing += 2.0 * mixing_penalty * away
    d_weight += 2e-2 * weight
    d_free = _softmax_gradient(matrix, d_matrix).ravel()
    return float(value), np.concatenate([d_free, d_mixing.ravel(), d_weight, d_bias])


def _summed(
    share: Floating,
    counts: Float64,
    matrix: Floating,
    mixing: Floating,
    weight: Floating,
    bias: Floating,
) -> list[Float64]:
    """What some anchors add to the loss and to its derivatives, by the matrix itself, the mixing,
    the weights and the biases."""
    counts = counts.astype(share.dtype)
    pure = PURITY * counts.sum(axis=1, keepdims=True)
    mixed = np.tensordot(weight, share, 1)
    clean = softmax(mixed @ mixing + bias, axis=1)
    chance = np.clip(clean @ matrix, 1e-9, None)
    value = -(counts * np.log(chance)).sum() - (pure * clean**2).sum()
    d_chance = -counts / chance
    d_index = _softmax_gradient(clean, d_chance @ matrix.T - 2.0 * pure * clean)
    d_weight = np.tensordot(share, d_index @ mixing.T, 2)
    sums = value, clean.T @ d_chance, mixed.T @ d_index, d_weight, d_index.sum(axis=0)
    return [np.asarray(one, np.float64) for one in sums]


def _softmax_gradient(of: Floating, gradient: Floating) -> Floating:
    return np.asarray(of * (gradient - (of * gradient).sum(axis=1, keepdims=True)))


def first_matrix(share: Floating, counts: Float64, n_rows: int) -> Float64:
    """Held-out labels of the rows richest in each class; (c, c), every entry positive.

    Diagonals below the average, that of the log odds, are lifted towards it as far as their
    binomial variance outweighs ``FIRST_SPREAD``.
    """
    _, m, c = share.shape
    fewest = int(np.ceil(20.0 * m / counts.sum()))  # as many as hold out 20 labels
    rows = min(m, max(fewest, int(ANCHOR_SHARE * m / c)))
    of_class = n_rows * share[-1].mean(axis=0)
    most = np.clip(FIRST_PART * of_class, *FIRST_SIZES)
    sizes = np.array(SIZES[: len(share)])
    at = np.maximum((sizes[:, None] <= most).sum(axis=0) - 1, 0)
    richness = share[at, :, np.arange(c)].T
    anchors = np.argsort(-richness, axis=0, kind="stable")[:rows]
    labels: Float64 = counts[anchors].sum(axis=0) + 0.5 / c
    matrix: Float64 = labels / labels.sum(axis=1, keepdims=True)
    kept = np.diag(matrix)
    chance = kept * (1.0 - kept) / labels.sum(axis=1)
    lift = np.maximum(expit(logit(kept).mean()) - kept, 0.0)
    lifted = kept + chance / (chance + FIRST_SPREAD**2) * lift
    matrix *= ((1.0 - lifted) / (1.0 - kept))[:, None]
    np.fill_diagonal(matrix, lifted)
    return matrix
