"""Maximum likelihood of a transition matrix, and of how label shares tell the clean classes.

The matrix starts from the held-out labels of the rows richest in each class. Where classes are of
few rows, rich is judged by the nearest few: a neighborhood larger than a quarter of the class
holds mostly others. Where labels are few, a diagonal leans towards the
others', which gives way to a few hundred informative rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment, minimize
from scipy.sparse import csr_array
from scipy.special import expit, logit, softmax

from pipeline.arrays import Bools, Float64, Floating, Int64, Integers
from pipeline.knn.threads import ALONE, Threads
from pipeline.noise.extrema import SIZES, held_out_classes

ALL_WORK = 30_000_000_000
"""Anchors times classes squared times the steps of a descent that are paid for: of many classes
there are fewer steps."""
SINGLE_WORK = 2_000_000
"""Anchors times classes squared from which on sums over anchors are of float32, in a half to a
quarter of the time."""
MANY_PLACES = 100
"""Classes for each label of a row from which on sums are over its labels alone."""
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
SURE, UNSURE = 12.0, 6.0
"""Totals of the weights that a fit is begun with."""
LEANING, LEAST_SINGULAR = (0.0, 0.2, 0.5), 0.1
"""Parts of the classes' own labels that a matrix of many classes to be inverted is given in turn,
until its least singular value is so large."""
FEW_CLASSES = 32
"""Classes whose matrix is inverted as it is: two of few that nearly coincide are not rare."""
PURE = 0.98
"""Mean sum of the squares of rows' chances from which on these are sure."""
BETTER = 0.8
"""Nats a class by which the loss of a fit begun with unsure chances has to be less than that of one
begun with sure ones, which up to there errs less."""
WORTH = 10.0
"""Nats by which a class has to make labels likelier, where without it there is another fit."""
LEAST_RATE = 1e-4
"""Of the matrix that a fit is begun with."""
FEWEST_STEPS, MOST_STEPS = 20, 150
"""Of a descent near the first index, and of that which follows it."""
MANY_STEPS, FIRST_STEPS = 50, 5
"""Steps from which on, if they are paid for, a fit is begun in both ways; and those near the first
index where they are not."""
LEAST_STEP = 3e-6
"""Part of the loss that a step has to take away for another to follow."""
FEWEST_LABELS = 25
"""Held-out labels of a class from which on it may be said to lie nowhere."""
FEWEST_GIVEN = 16
"""Anchors that have such a label, as expected by how common it is, at least: of fewer none may be
where its class lies."""
MOST_REFITS = 2
"""Times that the fit is done again without the classes that lie nowhere."""
LEAST_RIGHT = 0.1
"""Part of a label's rows that are of its class, at least, if there is one."""


def fit(
    neighbor: Int64,
    label: Integers,
    c: int,
    n_rows: int,
    coverage: int,
    threads: Threads = ALONE,
) -> tuple[Float64, Float64, Float64]:
    """Matrix (c, c), row = true class, chances of clean classes (m, c), and labels held out (m, c).

    Of m anchors, as in ``held_out_classes``; ``label`` in [0, c), each of which is there. A class
    that lies nowhere, as a label given at random does, is nobody's true class: its row is the
    identity's, its chances are 0.
    """
    kind = kind_of_sums(len(label), c)
    share, counts = held_out_classes(neighbor, label, c, n_rows, coverage, kind)
    every = np.arange(c)
    near = int(_sizes_at(np.full(1, n_rows / c), len(share))[0])
    first = first_matrix(share, counts, n_rows)
    anchors = Anchors(pieces_of(share, counts), counts, first, near, threads)
    del share  # of many classes the largest array there is
    best, rich = _without_lost(anchors, every), ~(are_mixtures(first, every) & shown(counts))
    if 2 <= rich.sum() < c:  # the others may have taken the rows of some
        fits = best, _without_lost(anchors, every[rich])
        best = max(fits, key=lambda fit: fit.likelihood(counts) - WORTH * len(fit.true))
    true = commonest(best.matrix, best.true)
    matrix, chances = np.eye(c), np.zeros((len(counts), c))
    matrix[true], chances[:, true] = best.matrix, best.clean
    return matrix, chances, counts


class Fit(NamedTuple):
    """The classes that lie anywhere."""

    true: Int64
    """(t,) codes."""
    matrix: Float64
    """(t, c) their rows of the matrix."""
    clean: Float64
    """(m, t) their chances."""

    def likelihood(self, counts: Float64) -> float:
        """The logarithm of that of the held-out labels."""
        return float((counts * np.log(np.maximum(self.clean @ self.matrix, 1e-9))).sum())


class Anchors(NamedTuple):
    """What is known of the anchors, and begun with."""

    pieces: list[Piece]
    counts: Float64
    """(m, c) held-out labels."""
    first: Float64
    """(c, c) a first matrix."""
    near: int
    """Which of the sizes has neighborhoods that are a small part of a class."""
    threads: Threads

    @property
    def paid(self) -> int:
        """Steps of a descent that are."""
        return ALL_WORK // (len(self.counts) * len(self.first) ** 2)


def _without_lost(anchors: Anchors, true: Int64) -> Fit:
    """The fit of some classes, again without those that then lie nowhere."""
    fitted, clean = _fit(anchors, true)
    for _ in range(MOST_REFITS):
        lost = nowhere(fitted, clean, anchors.counts, true)
        if lost.sum() > 1:
            fitted, clean = renamed(fitted, clean, true, lost)
            lost = nowhere(fitted, clean, anchors.counts, true)
        if not lost.any() or (~lost).sum() < 2:
            break
        true = true[~lost]
        fitted, clean = _fit(anchors, true)
    return Fit(true, fitted, clean)


def nowhere(matrix: Float64, clean: Float64, counts: Float64, true: Int64) -> Bools:
    """(t,) which of the ``true`` classes, the rows of ``matrix`` (t, c) and columns of ``clean``
    (m, t), are none: where they lie another label is commoner, and theirs is half as common
    elsewhere; or nearly all who have their label are of other classes.

    With such a class the fit is free to take any mixture of the others for it; without, its labels
    are their mistakes. Of few labels nothing is decided.
    """
    given, own = counts.sum(axis=0)[true], matrix[np.arange(len(true)), true]
    mixture, enough = are_mixtures(matrix, true), shown(counts)[true]
    scarce = counts.sum(axis=1) @ clean * own < LEAST_RIGHT * given
    mixture, scarce = mixture & enough, scarce & enough
    return np.asarray(mixture if mixture.any() else scarce)  # a mixture has the rows of others


def shown(counts: Float64) -> Bools:
    """(class,) which have labels enough, and at anchors enough, to tell whether they lie
    anywhere."""
    given = counts.sum(axis=0)
    return np.asarray(
        (given >= FEWEST_LABELS) & (len(counts) * given >= FEWEST_GIVEN * given.sum())
    )


def are_mixtures(matrix: Float64, true: Int64) -> Bools:
    """(t,) classes where which lie another label is commoner, and theirs is half as common where
    others do."""
    own, others = matrix[np.arange(len(true)), true], matrix[:, true].copy()
    np.fill_diagonal(others, 0.0)
    return np.asarray((own < matrix.max(axis=1)) & (own <= 2.0 * others.max(axis=0)))


def renamed(matrix: Float64, clean: Float64, true: Int64, lost: Bools) -> tuple[Float64, Float64]:
    """The fit with the names of those classes exchanged among themselves that seem to be none, so
    that most rows are of the class whose label they have: a fit may explain the rows of one by the
    place of another, which then lies nowhere in its stead."""
    places = np.flatnonzero(lost)
    rows = clean.mean(axis=0)[places, None] * matrix[np.ix_(places, true[places])]
    _, name = linear_sum_assignment(rows + 1e-9 * np.eye(len(places)), maximize=True)
    order = np.arange(len(true))
    order[places[name]] = places
    return matrix[order], clean[:, order]


def commonest(matrix: Float64, true: Int64) -> Int64:
    """(t,) the ``true`` classes, but of two names of one class, of which the other lies nowhere,
    the one that its rows are given more often: twice as often as those of all other classes."""
    names = true.copy()
    for t, label in enumerate(matrix.argmax(axis=1)):
        others = np.delete(matrix[:, label], t)
        if label not in names and matrix[t, label] > 2.0 * others.max(initial=0.0):
            names[t] = label
    return names


class Piece(NamedTuple):
    """Some anchors, whose sums are of the type of ``share``."""

    share: Floating
    """(g, row, c) shares of given labels in their neighborhoods."""
    at: tuple[Int64, Int64]
    """(n,), (n,) rows and classes of labels that are held out, by row."""
    labels: Floating
    """(n,) how many labels these are."""
    pure: Floating
    """(row, 1) reward for being of one class."""

    @property
    def few(self) -> bool:
        """Whether so few of the classes have a label of a row that only these are worked on."""
        return bool(self.share[0].size > MANY_PLACES * len(self.labels))

    def chances(self, clean: Floating, matrix: Floating) -> Floating:
        """(n,) of the labels, by chances (row, t) of clean classes and the matrix (t, c)."""
        row, label = self.at
        if not self.few:
            return np.asarray((clean @ matrix)[self.at])
        of_label = np.ascontiguousarray(matrix.T)
        return np.asarray(np.einsum("nt,nt->n", clean[row], of_label[label]))

    def placed(self, values: Floating) -> Any:
        """(row, c) the values (n,) of the labels, and 0 for others."""
        shape = self.share.shape[1:]
        if self.few:
            return csr_array((values, self.at), shape)
        placed = np.zeros(shape, values.dtype)
        placed[self.at] = values
        return placed


def kind_of_sums(m: int, c: int) -> Any:
    """Type of what is summed over so many anchors and classes."""
    return np.float64 if m * c * c < SINGLE_WORK else np.float32


def pieces_of(share: Floating, counts: Float64) -> list[Piece]:
    """All anchors."""
    m, c = counts.shape
    kind = kind_of_sums(m, c)
    pure, pieces = PURITY * counts.sum(axis=1, keepdims=True), []
    for rows in (slice(start, start + PIECE) for start in range(0, m, PIECE)):
        row, label = np.nonzero(counts[rows])
        labels = counts[rows][row, label].astype(kind)
        here = np.ascontiguousarray(share[:, rows], kind)
        pieces.append(Piece(here, (row, label), labels, pure[rows].astype(kind)))
    return pieces


def _fit(anchors: Anchors, true: Int64) -> tuple[Float64, Float64]:
    """Rows of the matrix (t, c), and chances (m, t), of the ``true`` classes.

    Begun with chances that are sure, and what the labels say by them; and, unless chances stay so,
    with the first matrix and chances that are not, from which steps are slow to reach sure ones of
    many classes: it takes rows for the mixtures that their labels are. Where steps are few, only
    so: the first descent stays where it began, and takes overlap for mistakes.
    """
    if anchors.paid < MANY_STEPS:
        return _descended(anchors, true, anchors.first[true], UNSURE)[1:]
    sure, matrix, clean = _descended(anchors, true, _by_likeliest(anchors, true), SURE)
    if (clean**2).sum(axis=1).mean() < PURE:
        unsure, *other = _descended(anchors, true, anchors.first[true], UNSURE)
        if unsure < sure - BETTER * len(true):
            matrix, clean = other
    return matrix, clean


def _inverse(matrix: Float64, true: Int64) -> Float64:
    """(c, t) what makes shares of given labels chances of classes, by the rows (t, c) of ``true``
    ones; these lean to the classes' own labels where some of many are nearly mixtures of others, as
    those of rare classes are."""
    even, own = 0.05 / matrix.shape[1], np.eye(matrix.shape[1])[true]
    parts = LEANING if len(true) > FEW_CLASSES else LEANING[:1]
    for part in parts:
        leaning = 0.95 * ((1.0 - part) * matrix + part * own) + even
        if part == parts[-1] or np.linalg.svd(leaning, compute_uv=False)[-1] >= LEAST_SINGULAR:
            break
    return np.asarray(np.linalg.pinv(leaning))


def _by_likeliest(anchors: Anchors, true: Int64) -> Float64:
    """(t, c) held-out labels of the rows of which each class is the likeliest."""
    inverse, c = _inverse(anchors.first[true], true), len(anchors.first)
    labels = np.full((len(true), c), 0.5 / c)
    chances = (piece.share[anchors.near] @ inverse for piece in anchors.pieces)
    likeliest = np.concatenate([chance.argmax(axis=1) for chance in chances])
    np.add.at(labels, likeliest, anchors.counts)
    matrix = np.maximum(labels / labels.sum(axis=1, keepdims=True), LEAST_RATE)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _descended(
    anchors: Anchors, true: Int64, begin: Float64, total: float
) -> tuple[float, Float64, Float64]:
    """The loss, matrix and chances at the end of a descent from a matrix (t, c) and weights of the
    g sizes that add up to a total. Free parameters: logits of the matrix, a mixing matrix, weights
    of the sizes, biases."""
    pieces, threads = anchors.pieces, anchors.threads
    g, c, t = len(pieces[0].share), len(anchors.first), len(true)
    target = _inverse(begin, true)
    target -= target.mean(axis=1, keepdims=True)
    logits = np.log(begin).ravel()
    free = np.concatenate([logits, target.ravel(), np.full(g, total / g), np.zeros(t)])
    most = min(MOST_STEPS, max(FEWEST_STEPS, anchors.paid))
    first = most if anchors.paid >= MANY_STEPS else FIRST_STEPS
    for times, steps in ((1000.0, first), (1.0, most)):
        limit = {"maxiter": steps, "maxfun": 2 * steps, "ftol": LEAST_STEP}
        data = (pieces, target, times * MIXING_PENALTY, true, threads)
        done = minimize(loss, free, data, "L-BFGS-B", True, options=limit)
        free = done.x
    of_matrix, mixing, weight, bias = _split(np.asarray(free), (t, c), g)
    clean = [_clean(piece.share, mixing, weight, bias)[1] for piece in pieces]
    return float(done.fun), softmax(of_matrix, axis=1), np.concatenate(clean)


def _split(
    free: Float64, shape: tuple[int, int], g: int
) -> tuple[Float64, Float64, Float64, Float64]:
    """The free parameters as (t, c), (c, t), (g,) and (t,)."""
    t, c = shape
    of_matrix, mixing, weight, bias = np.split(free, [t * c, 2 * t * c, 2 * t * c + g])
    return of_matrix.reshape(t, c), mixing.reshape(c, t), weight, bias


def loss(
    free: Float64,
    pieces: list[Piece],
    target: Float64,
    mixing_penalty: float,
    true: Int64,
    threads: Threads = ALONE,
) -> tuple[float, Float64]:
    """Negative log likelihood of the held-out labels, penalized, with its gradient."""
    t, share = len(true), pieces[0].share
    of_matrix, mixing, weight, bias = _split(free, (t, len(target)), len(share))
    matrix = softmax(of_matrix, axis=1)
    by = [values.astype(share.dtype) for values in (matrix, mixing, weight, bias)]
    sums: list[list[Float64]] = [[] for _ in pieces]

    def do(one: int, _: int) -> None:
        sums[one] = _summed(pieces[one], *by)

    threads.over(len(pieces), do, piece=1)
    value, d_matrix, d_mixing, d_weight, d_bias = (
        np.sum(of_pieces, axis=0) for of_pieces in zip(*sums, strict=True)
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
    piece: Piece, matrix: Floating, mixing: Floating, weight: Floating, bias: Floating
) -> list[Float64]:
    """What some anchors add to the loss, and to its derivatives by the matrix itself, the mixing,
    the weights and the biases."""
    mixed, clean = _clean(piece.share, mixing, weight, bias)
    chance = np.maximum(piece.chances(clean, matrix), 1e-9)
    d_chance = piece.placed(-piece.labels / chance)
    pure = piece.pure * clean
    value = -(piece.labels @ np.log(chance)) - np.vdot(pure, clean)
    d_index = _softmax_gradient(clean, d_chance @ matrix.T - 2.0 * pure)
    d_weight = piece.share.reshape(len(weight), -1) @ (d_index @ mixing.T).ravel()
    sums = value, (d_chance.T @ clean).T, mixed.T @ d_index, d_weight, d_index.sum(axis=0)
    return [np.asarray(one, np.float64) for one in sums]


def _clean(
    share: Floating, mixing: Floating, weight: Floating, bias: Floating
) -> tuple[Floating, Floating]:
    """(m, c) label shares of all sizes together, and (m, t) chances of clean classes by them."""
    mixed = (weight @ share.reshape(len(weight), -1)).reshape(share.shape[1:])
    return mixed, softmax(mixed @ mixing + bias, axis=1)


def _softmax_gradient(of: Floating, gradient: Floating) -> Floating:
    return np.asarray(of * (gradient - np.einsum("mt,mt->m", of, gradient)[:, None]))


def first_matrix(share: Floating, counts: Float64, n_rows: int) -> Float64:
    """Held-out labels of the rows richest in each class; (c, c), every entry positive.

    Diagonals below the average, that of the log odds, are lifted towards it as far as their
    binomial variance outweighs ``FIRST_SPREAD``.
    """
    _, m, c = share.shape
    fewest = int(np.ceil(20.0 * m / counts.sum()))  # as many as hold out 20 labels
    rows = min(m, max(fewest, int(ANCHOR_SHARE * m / c)))
    at = _sizes_at(n_rows * share[-1].mean(axis=0, dtype=np.float64), len(share))
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


def _sizes_at(rows: Float64, g: int) -> Int64:
    """(class,) which of the first g sizes is a small part of a class of so many rows."""
    most = np.clip(FIRST_PART * rows, *FIRST_SIZES)
    return np.asarray(np.maximum((np.array(SIZES[:g])[:, None] <= most).sum(axis=0) - 1, 0))
