"""The chances of the clean classes, and that the given label is right, from neighbors' labels.

A row's clean class has a softmax of what its neighborhoods say. Its features are logarithms: of the
label shares with the noise taken out, one per neighborhood size, and of the neighbors' average
clean posterior (one round of smoothing over the graph). That counts by how far neighbors are, since
one class often lives closer together than the others. Weights are fitted by maximum likelihood of
the rows' given labels, ``P(given b) = Σ_a F_a T[a, b]`` with T the transition matrix (row = true
class). No row's features contain its own label, so the fit is held out, and the chances are
calibrated as far as labels tell. Bayes' rule then adds the row's own label.

Neighbors contradict a label where classes overlap, or where people err because classes are hard to
tell apart; labels look alike in both cases. Of the contradicted labels that the matrix leaves
unexplained, a part is taken for mistakes (`mistaken_of`), and qualities average both readings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.optimize import minimize
from scipy.special import softmax

from pipeline.arrays import Bools, Float32, Float64, Floating, Int32, Integers, UInt8, UInt16
from pipeline.blocks.logits import (
    LEAST_GAIN,
    Forests,
    fit_linear,
    fit_some,
    fitted_beside,
    mixed,
)
from pipeline.decision.class_votes import (
    BYTE,
    CANDIDATES,
    NONE,
    ClassVotes,
    class_votes,
    vote_sizes,
)
from pipeline.decision.whose import Place, Whose
from pipeline.knn.lists import nearness
from pipeline.knn.threads import ALONE, Threads, one_thread

FLOOR = 0.02
"""Share below which logarithms flatten: what looks impossible may be another kind of mistake. Where
not all classes are candidates it is less, so that the others together are not the likelier for
being many."""
SHRINK = 2.0
"""Labels, shared as in the whole pool, that are added to every count."""
BLUR = 0.05
"""Share of the transition matrix spread over all classes, as none is known exactly."""
RIDGE = 10.0
"""Penalty on squared departures of weights from equal ones."""
BIAS_RIDGE = 0.5
"""Penalty on squared biases."""
SMOOTHED = 60
"""Neighbors whose posteriors are averaged."""
REACHED = 5
"""Neighbor whose distance says how dense it is around a row."""
DENSEST = 0.05
"""Part of the typical distance that is added before logarithms, which are finite for equal rows."""
FAR = 4.0
"""Standard deviations at which the logarithm of a distance is cut."""
PIECE = 1024
"""Rows whose likelihood one thread adds up at once."""
KEPT = 4
"""Classes of a posterior that travel to the neighbors; the rest is one number."""
MISTAKEN, SHARPENED = 0.7, 4
"""Chance that contradicted labels are mistakes where the matrix explains none of them; and the
power to which chances are raised if each place has one class."""
REACH_GAIN, SURELY = 0.005, 3.0
"""Log likelihood a row that the reach of neighborhoods has to add to the vote, in nats and in
standard errors."""
FIT_ROWS = 20_000
"""Rows that weights are fitted on at most, about."""
MIX_ROWS = 5_000
"""Rows of these by which a linear model and trees are mixed."""


@dataclass(frozen=True)
class Correction:
    """The transition matrix as features and likelihoods use it."""

    matrix: Float64
    """(true class, given class), slightly blurred."""
    inverse: Float64
    prior: Float64
    """(class,) clean shares of the pool, as the given shares and the matrix have it."""
    elsewhere: Float64
    """(given class,) chance to be given it, on average over all other true classes; it stands for
    those that are no candidates, as the label's own class is one."""


@dataclass(frozen=True)
class Reach:
    """How distances to the neighbor ``REACHED`` are made standard scores."""

    typical: float = 1.0
    """Median distance in a sample."""
    center: float = 0.0
    spread: float = 1.0
    """Mean and standard deviation of its logarithm."""

    @classmethod
    def of(cls, reach: Float32) -> Reach:
        """By the distances of a sample of rows (row,)."""
        there = reach[reach > 0]
        typical = float(np.median(there)) if len(there) else 1.0
        log = cls(typical)._log(reach)
        return cls(typical, float(log.mean()), max(float(log.std()), 1e-9))

    def scores(self, reach: Float32) -> Float64:
        """(row,) standard scores of distances from `reach_of` (row,)."""
        return np.clip((self._log(reach) - self.center) / self.spread, -FAR, FAR)

    def _log(self, reach: Float32) -> Float64:
        return np.asarray(np.log(reach.astype(np.float64) / self.typical + DENSEST))


@dataclass(frozen=True)
class Weights:
    """A fitted softmax: of the first pass by votes and models, of the second also by neighbors'
    posteriors; and by how far neighbors are."""

    weight: list[float]
    """(feature,) at least 0; with a reach one more, of any sign, for the reach times the mean
    feature, or the smoothed one."""
    bias: list[list[float]]
    """(1, class); with a reach (2, class), the second row for the reach."""
    reach: Reach | None = None
    smoothed: bool = False
    """Second pass: the last feature is that of the neighbors' posteriors."""
    mistaken: float = 0.0
    """Second pass: chance that labels which neighbors contradict are mistakes, whatever the matrix
    says."""
    trees: str = ""
    """First pass: digest of the models whose chances are among the features."""
    places: tuple[Place, ...] = ()
    """Second pass: where labels are wrong more often."""


@dataclass(frozen=True)
class Chances:
    """Chances of the clean class."""

    chance: Float64
    """(row, candidate)"""
    rest: Float64
    """(row,) of all classes that are no candidates."""


@dataclass(frozen=True)
class TopClasses:
    """The few likeliest classes of each row, for its neighbors to read."""

    code: Int32
    """(row, KEPT), -1 where there are fewer."""
    chance: Float32
    """(row, KEPT); what is missing from 1 belongs to all other classes alike."""


def correction(matrix: Float64, given_counts: Integers) -> Correction:
    """By a matrix (class, class), row = true class, in a pool of so many given labels (class,)."""
    c = len(matrix)
    blurred = (1.0 - BLUR) * matrix + BLUR / c
    inverse = np.asarray(np.linalg.pinv(blurred), np.float64)
    share = given_counts / max(1, int(given_counts.sum()))
    prior = np.clip(share @ inverse, 0.0, None)
    prior = np.asarray(prior / max(float(prior.sum()), 1e-12), np.float64)
    elsewhere = (blurred.sum(axis=0) - np.diag(blurred)) / max(1, c - 1)
    return Correction(blurred, inverse, prior, np.asarray(elsewhere, np.float64))


def mistaken_of(contradicted: float, wrong: float) -> float:
    """Chance that contradicted labels are mistakes, whatever the matrix says, by the shares of
    labels that neighbors contradict and that are wrong by the matrix."""
    return MISTAKEN * max(0.0, 1.0 - wrong / max(contradicted, 1e-12))


def vote_features(votes: ClassVotes, noise: Correction) -> Float64:
    """(row, candidate, size) logarithms of the label shares with the noise taken out; where votes
    have chances by models, those of these come last."""
    code = np.maximum(votes.code, 0)
    share = np.empty(votes.votes.shape)
    _clean_shares(share, votes.votes, votes.total, code, noise.inverse, noise.prior)
    if votes.trees is not None:
        share = np.concatenate([share, votes.trees[:, :, None] / BYTE], axis=2)
    return soft_log(share, len(noise.matrix))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _clean_shares(
    share: Float64, votes: UInt16, total: UInt16, code: Int32, inverse: Float64, prior: Float64
) -> None:
    """Fill in the candidates' shares with the noise taken out, shrunken to those of the pool."""
    n_rows, width, n_sizes = share.shape
    for i in range(n_rows):
        for b in range(width):
            share[i, b] = SHRINK * prior[code[i, b]]
        for p in range(width):
            if votes[i, p, n_sizes - 1] == 0:  # the largest holds the others
                continue
            for b in range(width):
                part = inverse[code[i, p], code[i, b]]
                for g in range(n_sizes):
                    share[i, b, g] += part * votes[i, p, g]
        for b in range(width):
            for g in range(n_sizes):
                share[i, b, g] /= total[i, g] + SHRINK


def model_chances(forests: Forests, x: Float32) -> UInt8:
    """(row, class) chances of the given label by models, in parts of ``BYTE``."""
    return np.asarray(np.rint(BYTE * softmax(forests.apply(x), axis=1)), np.uint8)


def fit_first(sample: ClassVotes, noise: Correction, threads: Threads = ALONE) -> Weights:
    """Weights of the first pass from a sample of rows; of their ``reach``, too, where that surely
    tells more of given labels."""
    features, plain = vote_features(sample, noise), replace(sample, reach=None)
    weights = fit_weights(features, plain, noise, threads)
    if sample.reach is None:
        return weights
    reaching = fit_weights(features, sample, noise, threads)
    gain = _log_likelihood(features, sample, noise, reaching)
    gain -= _log_likelihood(features, plain, noise, weights)
    return reaching if surely_more(gain[sample.own != NONE]) else weights


def surely_more(gain: Float64) -> bool:
    """Whether the likelihood that reach adds, (row,) in nats, is worth having."""
    surely = SURELY * gain.std() / np.sqrt(max(1, len(gain)))
    return bool(len(gain) and gain.mean() >= max(REACH_GAIN, surely))


def hear_models(
    weights: Weights,
    near: Integers,
    own: Integers,
    noise: Correction,
    x: Float32,
    threads: Threads = ALONE,
    reach: Float32 | None = None,
) -> tuple[Weights, UInt8 | None, Forests | None]:
    """Weights of the first pass with models of the features beside the votes, the models' chances
    (row, class), and the models; the weights given, and None, where models tell nothing more of
    the given labels.

    Models learn the given labels. What the votes take for the likelier class would hold something
    of the row's own label, which is too much where classes are many. A linear model comes first;
    trees are added where they tell more.

    near, own, x, reach : (row, rank), (row,), (row, feature) and (row,) labels of the neighbors and
        of the row itself, features, and ``reach_of``, of a sample of rows
    """
    c, sizes = len(noise.matrix), vote_sizes(near.shape[1])
    reach = None if weights.reach is None else reach
    votes = class_votes(near, own, c, sizes, reach=reach)
    labeled = np.flatnonzero(votes.own != NONE)
    learned = x[labeled], np.asarray(own[labeled], np.int64)
    with fitted_beside(lambda: fit_some(*learned, threads), threads) as fitted:
        linear = fit_linear(*learned, c, threads)
    if linear is None:
        return weights, None, None
    trees = fitted()
    models = linear if trees is None else _with_trees(linear, trees, votes, noise, x, threads)
    chance = model_chances(models, x)
    with_models = class_votes(near, own, c, sizes, chance, reach)
    features = vote_features(with_models, noise)
    heard = fit_weights(features, with_models, noise, threads)
    gain = _log_likelihood(features, with_models, noise, heard)
    gain -= _log_likelihood(vote_features(votes, noise), votes, noise, weights)
    if gain.sum() < LEAST_GAIN * len(labeled):
        return weights, None, None
    return replace(heard, trees=models.digest), chance, models


def _with_trees(
    linear: Forests,
    trees: Forests,
    votes: ClassVotes,
    noise: Correction,
    x: Float32,
    threads: Threads,
) -> Forests:
    """A linear model mixed with trees as makes given labels likeliest; the linear model alone where
    trees tell nothing more of them."""
    votes, x = votes.take(slice(MIX_ROWS)), x[:MIX_ROWS]
    of_linear, of_trees = (
        np.take_along_axis(model_chances(model, x), np.maximum(votes.code, 0), axis=1)
        for model in (linear, trees)
    )
    alone = vote_features(replace(votes, trees=of_linear), noise)
    tree_log = soft_log(of_trees[:, :, None] / BYTE, len(noise.matrix))
    both = np.concatenate([alone, tree_log], axis=2)
    by_one, by_both = (fit_weights(f, votes, noise, threads) for f in (alone, both))
    gain = _log_likelihood(both, votes, noise, by_both)
    gain -= _log_likelihood(alone, votes, noise, by_one)
    few = gain.sum() < LEAST_GAIN * len(x)
    return linear if few else mixed((linear, trees), by_both.weight[both.shape[2] - 2 :][:2])


def reach_of(distance: Floating) -> Float32:
    """(row,) distance to the neighbor ``REACHED``, or to the last one there is.

    ``distance`` is (row, rank), ascending, inf in empty places.
    """
    listed = np.isfinite(distance[:, :REACHED]).sum(axis=1)
    last = np.take_along_axis(distance, np.maximum(listed - 1, 0)[:, None], axis=1)[:, 0]
    return np.where(listed > 0, last, 0.0).astype(np.float32)


def near_weights(distance: Floating) -> Float64:
    """(row, rank) weights of neighbors, which add up to 1 in a row; near ones weigh more.

    ``distance`` is (row, rank), inf where a list is short.
    """
    weight = nearness(distance)
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    return weight


def smoothed_feature(
    code: Int32, neighbor: TopClasses, distance: Floating, n_classes: int
) -> Float64:
    """(row, candidate, 1) logarithm of the neighbors' average posterior of each candidate.

    ``code`` is (row, candidate); ``neighbor`` holds (row, rank, KEPT) codes and chances of the
    neighbors, nearest first; ``distance`` is (row, rank), inf where a list is short. Near neighbors
    weigh more.
    """
    weight = near_weights(distance[:, :SMOOTHED])
    n_rows, width = code.shape
    average, left = np.zeros((n_rows, width)), np.empty(weight.shape)
    codes, chance = neighbor.code[:, :SMOOTHED], neighbor.chance[:, :SMOOTHED]
    _add_chances(average, left, code, codes, chance, weight, n_classes)
    rest = (weight * left).sum(axis=1)
    return soft_log(average + rest[:, None] / n_classes, n_classes)[:, :, None]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _add_chances(
    average: Float64,
    left: Float64,
    code: Int32,
    near: Int32,
    chance: Float32,
    weight: Float64,
    n_classes: int,
) -> None:
    """Weighted chances of each row's candidates, and what each neighbor leaves to other classes."""
    place = np.full(n_classes, NONE, np.int32)
    for i in range(len(code)):
        for p in range(code.shape[1]):
            if code[i, p] != NONE:
                place[code[i, p]] = p
        for rank in range(near.shape[1]):
            listed = 0.0
            for j in range(near.shape[2]):
                value = np.float64(chance[i, rank, j])
                listed += value
                label = near[i, rank, j]
                if label != NONE and place[label] != NONE:
                    average[i, place[label]] += weight[i, rank] * value
            left[i, rank] = max(1.0 - listed, 0.0)
        for p in range(code.shape[1]):
            if code[i, p] != NONE:
                place[code[i, p]] = NONE


def fit_weights(
    features: Float64,
    votes: ClassVotes,
    noise: Correction,
    threads: Threads = ALONE,
    smoothed: bool = False,
) -> Weights:
    """The weights by which given labels of some rows (a random sample of a pool) are likeliest, by
    features (row, candidate, feature), and by their ``reach``, if votes have one. Rows without a
    label teach nothing.

    smoothed : whether the last feature is that of the neighbors' posteriors, which tells most
    """
    c, rows = len(noise.matrix), np.flatnonzero(votes.own != NONE)[:FIT_ROWS]
    scale = None if votes.reach is None else Reach.of(votes.reach)
    some = votes.take(rows)
    terms = _terms(features[rows], some, c, scale, smoothed)
    n, n_features, n_terms = features.shape[2], terms.shared.shape[2], len(terms.own.T)
    own = some.code[np.arange(len(rows)), some.own]
    start = np.zeros(n_features)
    start[:n] = [0.5 / (n - 1)] * (n - 1) + [0.5] if smoothed else 1.0 / n
    before = np.concatenate([start, np.zeros(n_terms * c)])
    ridge = np.repeat([RIDGE, BIAS_RIDGE, RIDGE], [n_features, c, (n_terms - 1) * c])
    pieces = -(-len(rows) // PIECE)

    def loss(free: Float64) -> tuple[float, Float64]:
        weight, bias = free[:n_features], free[n_features:].reshape(n_terms, c)
        value, slope = np.zeros(pieces), np.zeros((pieces, len(free)))

        def add(a: int, b: int) -> None:
            at, piece = a // PIECE, _Terms._make(term[a:b] for term in terms)
            d_weight, d_bias = np.split(slope[at], [n_features])
            labels, slopes = own[a:b], (d_weight, d_bias.reshape(n_terms, c))
            value[at] = _add_loss(
                *piece, labels, noise.matrix, noise.elsewhere, weight, bias, *slopes
            )

        threads.over(len(rows), add, PIECE)
        away = free - before
        return float(value.sum() + ridge @ away**2), slope.sum(axis=0) + 2.0 * ridge * away

    rising = n_features if scale is None else n_features - 1
    best = likeliest(loss, before, rising)
    weight, bias = np.split(best, [n_features])
    bias = bias.reshape(n_terms, c)
    fitted = Weights(weight.tolist(), bias.tolist(), scale, smoothed)
    if not smoothed or not len(rows):
        return fitted
    f, _ = _softmax(terms, weight, bias)
    contradicted = float((f.argmax(axis=1) != some.own).mean())
    right = (f * np.diag(noise.matrix)[terms.slot]).sum(axis=1) / f.sum(axis=1)
    return replace(fitted, mistaken=mistaken_of(contradicted, 1.0 - float(right.mean())))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _add_loss(
    shared: Float64,
    own: Float64,
    floor: Float64,
    there: Bools,
    slot: Int32,
    outside: Float64,
    label: Int32,
    matrix: Float64,
    elsewhere: Float64,
    weight: Float64,
    bias: Float64,
    d_weight: Float64,
    d_bias: Float64,
) -> float:
    """The negative log likelihood of some rows' own labels, whose slopes are added to ``d_weight``
    and ``d_bias``."""
    n_rows, width, n_features = shared.shape
    n_terms, n_classes = bias.shape
    chance, value = np.empty(width), 0.0
    mean, d_mean = np.empty(n_terms), np.zeros(n_terms)
    for t in range(n_terms):
        mean[t] = bias[t].mean()
    for i in range(n_rows):
        top = -np.inf
        for p in range(width):
            if there[i, p]:
                z = 0.0
                for g in range(n_features):
                    z += shared[i, p, g] * weight[g]
                for t in range(n_terms):
                    z += own[i, t] * bias[t, slot[i, p]]
                chance[p], top = z, max(top, z)
        z = 0.0
        for g in range(n_features):
            z += floor[i, g] * weight[g]
        for t in range(n_terms):
            z += own[i, t] * mean[t]
        rest = outside[i] * np.exp(min(z - top, 500.0))
        total, likelihood = rest, rest * elsewhere[label[i]]
        for p in range(width):
            if there[i, p]:
                chance[p] = np.exp(chance[p] - top)
                total += chance[p]
                likelihood += chance[p] * matrix[slot[i, p], label[i]]
        likelihood = max(likelihood / total, 1e-12)
        value -= np.log(likelihood)
        rest *= (1.0 - elsewhere[label[i]] / likelihood) / total
        for g in range(n_features):
            d_weight[g] += rest * floor[i, g]
        for t in range(n_terms):
            d_mean[t] += rest * own[i, t]
        for p in range(width):
            if there[i, p]:
                slope = chance[p] / total * (1.0 - matrix[slot[i, p], label[i]] / likelihood)
                for g in range(n_features):
                    d_weight[g] += slope * shared[i, p, g]
                for t in range(n_terms):
                    d_bias[t, slot[i, p]] += slope * own[i, t]
    for t in range(n_terms):
        d_bias[t] += d_mean[t] / n_classes
    return value


def likeliest(
    loss: Callable[[Float64], tuple[float, Float64]], start: Float64, rising: int
) -> Float64:
    """The numbers at which a loss, which comes with its slope, is least, sought from ``start``; the
    first ``rising`` of them are at least 0."""
    bounds = [(0.0 if i < rising else None, None) for i in range(len(start))]
    with one_thread():  # the number of threads decides the last bits
        best = minimize(loss, start, (), "L-BFGS-B", True, bounds=bounds, options={"maxiter": 100})
    return np.asarray(best.x, np.float64)


def chances(features: Float64, votes: ClassVotes, weights: Weights) -> Chances:
    """Chances of the clean class from the neighbors alone, without the row's own label, by features
    (row, candidate, feature) of the votes; by their ``reach`` if the weights were fitted with one.
    """
    weight, bias = np.array(weights.weight), np.array(weights.bias)
    terms = _terms(features, votes, bias.shape[1], weights.reach, weights.smoothed)
    return Chances(*_softmax(terms, weight, bias))


def among_candidates(chances: Chances) -> Float64:
    """(row, candidate) chances given that one of the candidates is the clean class."""
    return np.asarray(chances.chance / np.maximum(1.0 - chances.rest, 1e-12)[:, None])


def with_own_label(
    chances: Chances, votes: ClassVotes, noise: Correction, whose: Whose | None = None
) -> Chances:
    """Chances with the row's own given label as evidence, by Bayes' rule; by how often those who
    gave the labels are wrong, if that is known."""
    joint = _joint(chances, votes, noise, whose)
    total = joint.chance.sum(axis=1) + joint.rest
    return Chances(joint.chance / total[:, None], joint.rest / total)


def _joint(
    chances: Chances, votes: ClassVotes, noise: Correction, whose: Whose | None = None
) -> Chances:
    """Joint chances of the clean class and the row's own given label."""
    row, labeled, code = np.arange(len(votes.own)), votes.own != NONE, np.maximum(votes.code, 0)
    label = np.maximum(votes.code[row, np.maximum(votes.own, 0)], 0)
    likelihood = noise.matrix[code, label[:, None]]
    if whose is not None:
        likelihood = whose.likelihood(code, label, noise.matrix)
    likelihood = np.where(labeled[:, None], likelihood, 1.0)
    rest = chances.rest * np.where(labeled, noise.elsewhere[label], 1.0)
    return Chances(chances.chance * likelihood, rest)


def _log_likelihood(
    features: Float64, votes: ClassVotes, noise: Correction, weights: Weights
) -> Float64:
    """(row,) of the given labels, by ``vote_features`` and weights of the first pass."""
    joint = _joint(chances(features, votes, weights), votes, noise)
    return np.asarray(np.log(joint.chance.sum(axis=1) + joint.rest))


def averaged(before: Chances, after: Chances, mistaken: float) -> Chances:
    """Chances ``after`` the row's own label, averaged with those if each place has one class, which
    the chances ``before`` that label tell; the latter count by ``mistaken``, the chance that
    contradicted labels are mistakes."""
    sharp, rest = before.chance**SHARPENED, before.rest**SHARPENED
    part = mistaken / (sharp.sum(axis=1) + rest)
    chance = (1.0 - mistaken) * after.chance + part[:, None] * sharp
    return Chances(chance, (1.0 - mistaken) * after.rest + part * rest)


def label_quality(after: Chances, votes: ClassVotes) -> Float64:
    """(row,) chance that the given label is the clean one; NaN where there is none. Low is bad.

    ``after`` includes the row's own label. A quality below ½ is a label issue: another class, or
    the others together, are likelier.
    """
    row = np.arange(len(votes.own))
    quality = after.chance[row, np.maximum(votes.own, 0)]
    return np.asarray(np.where(votes.own == NONE, np.nan, quality))


def top_classes(after: Chances, code: Int32) -> TopClasses:
    """The ``KEPT`` likeliest classes of each row, likeliest first."""
    chance = np.where(code == NONE, -1.0, after.chance)
    best = np.argsort(-chance, axis=1, kind="stable")[:, :KEPT]
    kept = np.maximum(np.take_along_axis(chance, best, axis=1), 0.0).astype(np.float32)
    return TopClasses(np.take_along_axis(code, best, axis=1), kept)


def soft_log(share: Float64, n_classes: int = 2) -> Float64:
    """Logarithm of a share, softly bounded below by that of a floor."""
    floor = FLOOR * min(1.0, CANDIDATES / n_classes)
    bent = 0.5 * (share + np.sqrt(share * share + floor * floor))
    return np.asarray(np.log(bent + floor))


class _Terms(NamedTuple):
    """What the softmax weighs, of some rows."""

    shared: Float64
    """(row, candidate, feature) with one weight for all classes."""
    own: Float64
    """(row, term) with a weight for each class: 1, and with a reach how far neighbors are."""
    floor: Float64
    """(row, feature) `shared` of the classes that are no candidates."""
    there: Bools
    slot: Int32
    """(row, candidate) whether there is one, and its class, or any."""
    outside: Float64
    """(row,) number of classes that are no candidates."""


def _terms(
    features: Float64, votes: ClassVotes, n_classes: int, scale: Reach | None, smoothed: bool
) -> _Terms:
    there, slot = votes.code != NONE, np.maximum(votes.code, 0)
    outside = np.asarray(n_classes - there.sum(axis=1), np.float64)
    floor = np.full((len(features), features.shape[2]), soft_log(np.zeros(1), n_classes))
    one = np.ones((len(features), 1))
    if scale is None or votes.reach is None:
        return _Terms(np.ascontiguousarray(features), one, floor, there, slot, outside)
    far = scale.scores(votes.reach)[:, None]
    of_labels = features[:, :, -1:] if smoothed else features.mean(axis=2, keepdims=True)
    shared = np.concatenate([features, of_labels * far[:, :, None]], axis=2)
    floor = np.hstack([floor, floor[:, -1:] * far])
    return _Terms(shared, np.hstack([one, far]), floor, there, slot, outside)


def _softmax(terms: _Terms, weight: Float64, bias: Float64) -> tuple[Float64, Float64]:
    """Chances of the candidates, and of all other classes, whose features are the floor's and
    whose biases are the mean: the row's own label, always a candidate, gains nothing by being
    one."""
    z = terms.shared @ weight
    for term, slopes in zip(terms.own.T, bias, strict=True):
        z += term[:, None] * slopes[terms.slot]
    z = np.where(terms.there, z, -np.inf)
    top = z.max(axis=1, keepdims=True)
    raw = np.exp(z - top)
    others = terms.floor @ weight + terms.own @ bias.mean(axis=1)
    rest = terms.outside * np.exp(np.minimum(others - top[:, 0], 500.0))
    total = raw.sum(axis=1) + rest
    return raw / total[:, None], rest / total
