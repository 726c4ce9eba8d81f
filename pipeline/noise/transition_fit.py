"""Maximum likelihood of a transition matrix, and of how label shares tell the clean classes.

The fit starts from a first matrix: the held-out labels of the rows that are richest in each class.
For classes of few rows, richness is judged by a row's nearest few neighbors, since a neighborhood
larger than a quarter of the class holds mostly others. Diagonal entries that are known from few
labels are drawn towards those of the other classes; a few hundred informative rows outweigh that.
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
"""Anchors times classes squared times steps of a descent at most: with many classes there are fewer
steps."""
SINGLE_WORK = 2_000_000
"""Anchors times classes squared from which on sums over anchors are of float32, which takes a
quarter to a half of the time."""
MANY_PLACES = 100
"""Classes per label of a row from which on sums run over its labels, not over all classes."""
PIECE = 1 << 11
"""Anchors that are summed together, by one thread."""

# Tuned on optdigits, landsat, usps and letter.
MIXING_PENALTY = 8.0
"""Penalty on squared departures of the mixing matrix from the inverse of a first matrix, the right
one if classes did not overlap."""
PURITY = 0.02
"""Reward per label for rows of one class alone: of two equal fits, the one with purer rows."""
DIAGONAL_SPREAD = 0.2
"""Prior standard deviation of the diagonal's entries."""
FIRST_SPREAD = 0.1
"""The same for the first matrix, in which few anchors may make an entry far too low."""
ANCHOR_SHARE = 0.3
"""First anchors of a class, as a share of the anchors that it has if classes are equally large."""
FIRST_PART = 0.25
"""Part of a class' rows that the neighborhoods of its first anchors hold at most."""
FIRST_SIZES = 18, 90
"""Rows that these neighborhoods hold at least, whatever that part, and at most."""
SURE, UNSURE = 12.0, 6.0
"""Sums of the weights of the sizes from which a fit may start: chances are sure or unsure."""
LEANING, LEAST_SINGULAR = (0.0, 0.2, 0.5), 0.1
"""Parts of the identity that are mixed in turn into a matrix of many classes before it is inverted,
until its least singular value is so large."""
FEW_CLASSES = 32
"""Classes up to which a matrix is inverted as it is: two that nearly coincide need not be rare."""
PURE = 0.98
"""Mean sum of the squares of rows' chances from which on these are sure."""
BETTER = 0.8
"""Nats per class by which a fit that starts from unsure chances has to be better than one that
starts from sure ones, which errs less otherwise."""
WORTH = 10.0
"""Nats by which a class has to make labels likelier to be kept where a fit does without it."""
LEAST_RATE = 1e-4
"""Least entry of the matrix from which a fit starts."""
FEWEST_STEPS, MOST_STEPS = 20, 150
"""Steps of a descent near the first index, and of the one that follows it, at least and at most."""
MANY_STEPS, FIRST_STEPS = 50, 5
"""Steps that are allowed from which on a fit starts in both ways; and steps near the first index
where fewer are."""
LEAST_STEP = 3e-6
"""Part of the loss that a step has to take away for another to follow."""
FEWEST_LABELS = 25
"""Held-out labels of a class that are needed to say that it lies nowhere."""
FEWEST_GIVEN = 16
"""Anchors expected to have such a label that are needed, too: of fewer, none may be where its class
lies."""
MOST_REFITS = 2
"""How often classes that lie nowhere are taken out and the others fitted again."""
LEAST_RIGHT = 0.1
"""Part of the rows with a label that have to be of its class, if there is one."""


def fit(
    neighbor: Int64,
    label: Integers,
    c: int,
    n_rows: int,
    coverage: int,
    threads: Threads = ALONE,
) -> tuple[Float64, Float64, Float64]:
    """Matrix (c, c), row = true class, chances of clean classes (m, c), and labels held out (m, c),
    of m anchors.

    Arguments are as in ``held_out_classes``, with every ``label`` of [0, c) there. A class that
    lies nowhere, as that of a label given at random, is nobody's true class: its row is that of the
    identity, and its chances are 0.
    """
    kind = kind_of_sums(len(label), c)
    share, counts = held_out_classes(neighbor, label, c, n_rows, coverage, kind)
    classes = np.arange(c)
    near = int(_sizes_at(np.full(1, n_rows / c), len(share))[0])
    first = first_matrix(share, counts, n_rows)
    anchors = Anchors(pieces_of(share, counts), counts, first, near, threads)
    del share  # of many classes the largest array there is
    best, rich = _without_lost(anchors, classes), ~(are_mixtures(first, classes) & shown(counts))
    if 2 <= rich.sum() < c:  # the others may have taken the rows of some
        fits = best, _without_lost(anchors, classes[rich])
        best = max(fits, key=lambda fit: fit.log_likelihood(counts) - WORTH * len(fit.true))
    true = commonest(best.matrix, best.true)
    matrix, chances = np.eye(c), np.zeros((len(counts), c))
    matrix[true], chances[:, true] = best.matrix, best.clean
    return matrix, chances, counts


class Fit(NamedTuple):
    """What was fitted of the classes that lie anywhere."""

    true: Int64
    """(t,) codes of these classes."""
    matrix: Float64
    """(t, c) their rows of the matrix."""
    clean: Float64
    """(m, t) their chances at the anchors."""

    def log_likelihood(self, counts: Float64) -> float:
        """That of the held-out labels (m, c)."""
        return float((counts * np.log(np.maximum(self.clean @ self.matrix, 1e-9))).sum())


class Anchors(NamedTuple):
    """The labels around the anchors, and what a fit starts from."""

    pieces: list[Piece]
    counts: Float64
    """(m, c) held-out labels."""
    first: Float64
    """(c, c) a first matrix."""
    near: int
    """Place of the size whose neighborhoods are a small part of a class."""
    threads: Threads

    @property
    def allowed_steps(self) -> int:
        """Steps of a descent that `ALL_WORK` pays for."""
        return ALL_WORK // (len(self.counts) * len(self.first) ** 2)


def _without_lost(anchors: Anchors, true: Int64) -> Fit:
    """The fit of some classes, repeated without those that then lie nowhere."""
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
    (m, t), lie nowhere: another label is commoner where they lie, and their own is at least half as
    common elsewhere; or nearly all rows with their label are of other classes.

    With such a class, the fit may take any mixture of others for it; without, its labels are
    mistakes of the others. Labels that are few decide nothing.
    """
    given, own = counts.sum(axis=0)[true], matrix[np.arange(len(true)), true]
    mixture, enough = are_mixtures(matrix, true), shown(counts)[true]
    scarce = counts.sum(axis=1) @ clean * own < LEAST_RIGHT * given
    mixture, scarce = mixture & enough, scarce & enough
    return np.asarray(mixture if mixture.any() else scarce)  # a mixture has the rows of others


def shown(counts: Float64) -> Bools:
    """(class,) whether a class has labels enough, at anchors enough, to tell where it lies."""
    given = counts.sum(axis=0)
    return np.asarray(
        (given >= FEWEST_LABELS) & (len(counts) * given >= FEWEST_GIVEN * given.sum())
    )


def are_mixtures(matrix: Float64, true: Int64) -> Bools:
    """(t,) whether another label is commoner where a class lies, and its own is at least half as
    common where another class does."""
    own, others = matrix[np.arange(len(true)), true], matrix[:, true].copy()
    np.fill_diagonal(others, 0.0)
    return np.asarray((own < matrix.max(axis=1)) & (own <= 2.0 * others.max(axis=0)))


def renamed(matrix: Float64, clean: Float64, true: Int64, lost: Bools) -> tuple[Float64, Float64]:
    """Matrix and chances with the names of the ``lost`` classes exchanged among each other, so that
    as many rows as possible are of the class whose label they have: a fit may put one class in the
    place of another, which then seems to lie nowhere in its stead."""
    places = np.flatnonzero(lost)
    rows = clean.mean(axis=0)[places, None] * matrix[np.ix_(places, true[places])]
    _, name = linear_sum_assignment(rows + 1e-9 * np.eye(len(places)), maximize=True)
    order = np.arange(len(true))
    order[places[name]] = places
    return matrix[order], clean[:, order]


def commonest(matrix: Float64, true: Int64) -> Int64:
    """(t,) the ``true`` classes, each renamed by its commonest label where that is of no other true
    class, and at least twice as common there as where any other class lies."""
    names = true.copy()
    for t, label in enumerate(matrix.argmax(axis=1)):
        others = np.delete(matrix[:, label], t)
        if label not in names and matrix[t, label] > 2.0 * others.max(initial=0.0):
            names[t] = label
    return names


class Piece(NamedTuple):
    """Some anchors, whose sums one thread adds up in the type of ``share``."""

    share: Floating
    """(g, row, c) shares of given labels in their neighborhoods."""
    at: tuple[Int64, Int64]
    """(n,), (n,) rows and classes that have held-out labels, by row."""
    labels: Floating
    """(n,) how many labels these are."""
    pure: Floating
    """(row, 1) reward for being of one class."""

    @property
    def is_sparse(self) -> bool:
        """Whether rows have labels of so few classes that sums run over these alone."""
        return bool(self.share[0].size > MANY_PLACES * len(self.labels))

    def chances(self, clean: Floating, matrix: Floating) -> Floating:
        """(n,) of the labels, by chances (row, t) of clean classes and the matrix (t, c)."""
        row, label = self.at
        if not self.is_sparse:
            return np.asarray((clean @ matrix)[self.at])
        of_label = np.ascontiguousarray(matrix.T)
        return np.asarray(np.einsum("nt,nt->n", clean[row], of_label[label]))

    def placed(self, values: Floating) -> Any:
        """(row, c) the values (n,) of the labels, and 0 for others."""
        shape = self.share.shape[1:]
        if self.is_sparse:
            return csr_array((values, self.at), shape)
        placed = np.zeros(shape, values.dtype)
        placed[self.at] = values
        return placed


def kind_of_sums(m: int, c: int) -> Any:
    """Type of floats in which sums over m anchors and c classes are made."""
    return np.float64 if m * c * c < SINGLE_WORK else np.float32


def pieces_of(share: Floating, counts: Float64) -> list[Piece]:
    """All anchors, piece by piece."""
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

    One descent starts from sure chances, and from the matrix that held-out labels make by them.
    Unless its chances stay sure, another starts from the first matrix and unsure chances; with many
    classes it is slow to make chances sure, and takes rows for the mixtures that their labels are.
    Where few steps are allowed there is only the second: the other would stay where it started, and
    take overlap for mistakes.
    """
    if anchors.allowed_steps < MANY_STEPS:
        return _descended(anchors, true, anchors.first[true], UNSURE)[1:]
    sure, matrix, clean = _descended(anchors, true, _by_likeliest(anchors, true), SURE)
    if (clean**2).sum(axis=1).mean() < PURE:
        unsure, *other = _descended(anchors, true, anchors.first[true], UNSURE)
        if unsure < sure - BETTER * len(true):
            matrix, clean = other
    return matrix, clean


def _inverse(matrix: Float64, true: Int64) -> Float64:
    """(c, t) pseudoinverse of the rows (t, c) of the ``true`` classes, which makes chances of label
    shares. With many classes, where some rows are nearly mixtures of others, as those of rare
    classes are, rows are first leant to the classes' own labels."""
    even, own = 0.05 / matrix.shape[1], np.eye(matrix.shape[1])[true]
    parts = LEANING if len(true) > FEW_CLASSES else LEANING[:1]
    for part in parts:
        leaning = 0.95 * ((1.0 - part) * matrix + part * own) + even
        if part == parts[-1] or np.linalg.svd(leaning, compute_uv=False)[-1] >= LEAST_SINGULAR:
            break
    return np.asarray(np.linalg.pinv(leaning))


def _by_likeliest(anchors: Anchors, true: Int64) -> Float64:
    """(t, c) shares of held-out labels of the rows whose likeliest class each is."""
    inverse, c = _inverse(anchors.first[true], true), len(anchors.first)
    labels = np.full((len(true), c), 0.5 / c)
    chances = (piece.share[anchors.near] @ inverse for piece in anchors.pieces)
    likeliest = np.concatenate([chance.argmax(axis=1) for chance in chances])
    np.add.at(labels, likeliest, anchors.counts)
    matrix = np.maximum(labels / labels.sum(axis=1, keepdims=True), LEAST_RATE)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _descended(
    anchors: Anchors, true: Int64, start: Float64, total: float
) -> tuple[float, Float64, Float64]:
    """The loss, matrix and chances at the end of a descent from a matrix ``start`` (t, c) and equal
    weights of the g sizes that add up to a ``total``. Free parameters: logits of the matrix, a
    mixing matrix, weights of the sizes, biases."""
    pieces, threads = anchors.pieces, anchors.threads
    g, c, t = len(pieces[0].share), len(anchors.first), len(true)
    target = _inverse(start, true)
    target -= target.mean(axis=1, keepdims=True)
    logits = np.log(start).ravel()
    free = np.concatenate([logits, target.ravel(), np.full(g, total / g), np.zeros(t)])
    most = min(MOST_STEPS, max(FEWEST_STEPS, anchors.allowed_steps))
    first = most if anchors.allowed_steps >= MANY_STEPS else FIRST_STEPS
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
    parameters = [values.astype(share.dtype) for values in (matrix, mixing, weight, bias)]
    sums: list[list[Float64]] = [[] for _ in pieces]

    def do(one: int, _: int) -> None:
        sums[one] = _summed(pieces[one], *parameters)

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
