"""How likely is the given label right, of two classes: `quality` in log odds, of counts alone.

A row of two classes is one number for each neighborhood size, and so the first pass needs no lists.
It weighs the log odds of the label shares after the noise is taken out, and says one byte of each
row, which travels; where one class lives closer together than the other, it weighs how far the
neighbors are, too. The second pass looks at the lists once more: it adds the neighbors' own
posteriors (one round of smoothing over the graph) and, wherever, how far they are. Weights are the
likeliest for the given labels of a sample, of which no row sees its own, by
``P(given 1) = F (1 - p1) + (1 - F) p0``. Bayes' rule then adds the row's own label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from pipeline.arrays import Float32, Float64, Floating, Int8, Int64, Integers, UInt8
from pipeline.blocks.logits import (
    LEAST_GAIN,
    LINEAR_GAIN,
    Forests,
    fit_linear,
    fit_some,
    fitted_beside,
    mixed,
)
from pipeline.decision.class_votes import BYTE
from pipeline.decision.quality import (
    BIAS_RIDGE,
    RIDGE,
    SHARPENED,
    SHRINK,
    SMOOTHED,
    Correction,
    Reach,
    correction,
    likeliest,
    mistaken_of,
    near_weights,
    reach_of,
    soft_log,
    surely_more,
)
from pipeline.decision.threshold import bounded, contradicted, vote_table
from pipeline.decision.votes import counts
from pipeline.decision.where import find_places, is_outside, place_of
from pipeline.decision.whose import Place, Whose, of_two
from pipeline.knn.rows import Rows, dense
from pipeline.knn.threads import ALONE, Threads
from pipeline.noise.rates import NoiseRates, trusted, unknown_mistakes

SIZES = (5, 10, 20, 35, 50, 100)
"""Neighborhood sizes whose counts are weighed."""
PLACED = (
    "By the estimated rates one class is mostly given the other label, but many of its labels "
    "stand in a place whose rows are like others, which have the other label, but for one feature: "
    "these are mistakes of the place, the rates are not known, and the plain vote decides."
)
TINY = 1e-12
"""Chance that no label is less likely than."""
SURE = 4.6
"""Log odds of trees are no larger: one in a hundred."""
LOST, IN_PLACES, OUTSIDE = 0.4, 0.25, 0.7
"""Rate from which a class is mostly given the other label, about; the part of its labels that
places of mistakes hold at least for these to explain it; and `outside` of `find_places`, by which a
class that lies apart is no place."""


@dataclass(frozen=True)
class Assumed:
    """The rates that label qualities take."""

    p0: float
    p1: float
    given: tuple[int, int]
    """Rows given 0, and 1."""

    def correction(self) -> Correction:
        """The same, as features and likelihoods use it."""
        matrix = np.array([[1.0 - self.p0, self.p0], [self.p1, 1.0 - self.p1]])
        return correction(matrix, np.array(self.given))


@dataclass(frozen=True)
class OddsWeights:
    """A fitted logistic function."""

    weight: tuple[float, ...]
    """By feature: sizes, and models; of the second pass also smoothing; where there is a `reach`,
    that, and that times smoothing, or times the mean of the others."""
    bias: float
    reach: Reach | None = None
    mistaken: float = 0.0
    """As of `quality.Weights`."""
    places: tuple[Place, ...] = ()
    """The same."""


@dataclass(frozen=True)
class WeighedVote:
    """The first pass as a vote: neighborhoods of several sizes, each with its weight, and trees;
    and how far neighbors are, where the weights have a `reach`."""

    sizes: tuple[int, ...]
    """Ascending."""
    assumed: Assumed
    weights: OddsWeights
    """Of the sizes, and of trees."""
    trees: str = ""
    """Digest of the trees that are heard; empty where none are."""

    def features(self, count: npt.NDArray[np.number], trees: Float32 | None = None) -> Float64:
        """(row, size) ``count_odds`` of counts (row, size); and (row,) ``tree_odds``, where trees
        are heard."""
        odds = count_odds(count, self.sizes, self.assumed.correction())
        return odds if trees is None else np.column_stack([odds, trees])

    def log_odds(self, features: Float64, reach: Float32 | None = None) -> Float64:
        """(row,) of class 1, by the ``features`` of rows; by ``reach_of`` (row,), if weights have a
        `reach`."""
        scale = self.weights.reach
        if scale is not None:
            assert reach is not None
            features = _beside(features, features.mean(axis=1), scale.scores(reach))
        return np.asarray(features @ np.asarray(self.weights.weight) + self.weights.bias)

    def chance(
        self, neighbor_label: Int8, distance: Floating, trees: Float32 | None = None
    ) -> Float64:
        """(row,) of class 1, by labels (row, rank) 0 or 1 of the neighbors, nearest first, their
        distances, and ``tree_odds`` (row,), where trees are heard.

        What is missing, -1, is taken to be as the others are.
        """
        ones = counts(neighbor_label, self.sizes)
        listed = ones + counts((neighbor_label == 0).astype(np.int8), self.sizes)
        count = ones * np.asarray(self.sizes) / listed
        return np.asarray(expit(self.log_odds(self.features(count, trees), reach_of(distance))))


def sizes_among(grid: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a grid whose counts are weighed, its longest among them."""
    return tuple(k for k in grid if k in SIZES or k == grid[-1])


def assumed(rates: NoiseRates, votes: Sequence[Int64]) -> Assumed:
    """The rates, as far as they are trusted; by the rest, the share of rows that the vote
    contradicts is wrong, and of both classes alike as far as ``NoiseRates.alike`` has it.

    ``votes`` holds for each size of a grid the (k + 1, 2) rows by ones among the k nearest and by
    given label, as from ``vote_table``.
    """
    given = votes[0].sum(axis=0)
    part = np.ones(2) if rates.method == "given" else trusted(rates.impurity) * (not rates.doubtful)
    zeros, ones = given.tolist()
    wrong, alike = contradicted(votes), rates.alike(ones / max(1, zeros + ones))
    unknown = unknown_mistakes(wrong, given)[[0, 1], [1, 0]]
    by_class = part * bounded(rates.p0, rates.p1) + (1.0 - part) * unknown
    p0, p1 = ((1.0 - alike) * by_class + alike * wrong).tolist()
    return Assumed(p0, p1, (zeros, ones))


def judged_by_places(
    rates: NoiseRates, count: Integers, grid: tuple[int, ...], given: Int8, x: Rows
) -> NoiseRates:
    """The rates; or that they are unknown (``in_place``), where by them a class is mostly given the
    other label, but where both classes are as often wrong, places of mistakes hold many of its
    labels.

    count, given, x : (row, grid), (row,) and (row, feature) of a sample
    """
    mostly = rates.method == "crossfit" and max(rates.p0, rates.p1) >= LOST
    of_class = given == (rates.p1 > rates.p0)
    if not mostly or rates.doubtful or not of_class.any():
        return rates
    doubted = replace(
        rates,
        p0_interval=(0.0, max(rates.p0_interval[1], 0.5)),
        p1_interval=(0.0, max(rates.p1_interval[1], 0.5)),
        in_place=True,
        support="unsupported",
        reason=PLACED,
    )
    votes = [vote_table(of_k, given, k) for of_k, k in zip(count.T, grid, strict=True)]
    sizes = sizes_among(grid)
    some = count[:, [grid.index(k) for k in sizes]]
    vote = weighed_vote(some, sizes, given, assumed(doubted, votes))
    chance, by = expit(vote.log_odds(vote.features(some))), vote.assumed.correction()
    features = dense(x)
    places = find_places(features, *of_two(chance), given.astype(np.int64), by.matrix, OUTSIDE)
    places = tuple(place for place in places if place.matrix)
    there = place_of(places, features) >= 0
    explained = there[of_class].mean() >= IN_PLACES and is_outside(places, features, of_class)
    return doubted if explained else rates


def count_odds(count: npt.NDArray[np.number], sizes: Sequence[int], by: Correction) -> Float64:
    """(row, size) log odds of class 1 by the label shares after the noise is taken out.

    ``count`` is (row, size), neighbors given 1 among the ``sizes`` nearest others.
    """
    ones, k = count.astype(np.float64), np.asarray(sizes, np.float64)
    zeros = k - ones
    share = [
        (zeros * by.inverse[0, a] + ones * by.inverse[1, a] + SHRINK * by.prior[a]) / (k + SHRINK)
        for a in (0, 1)
    ]
    return soft_log(share[1]) - soft_log(share[0])


def weighed_vote(
    count: Integers,
    sizes: tuple[int, ...],
    given: Integers,
    rates: Assumed,
    reach: Float32 | None = None,
) -> WeighedVote:
    """The vote of the likeliest weights for a sample of rows, by their counts (row, size) and given
    labels (row,); with their ``reach_of`` (row,), if that surely tells more of these."""
    by = rates.correction()
    odds = count_odds(count, sizes, by)
    vote = WeighedVote(sizes, rates, _weights(odds, given, rates))
    if reach is None:
        return vote
    reaching = replace(vote, weights=_weights(odds, given, rates, reach))
    gain = _log_likelihood(reaching.log_odds(odds, reach), given, by)
    gain -= _log_likelihood(vote.log_odds(odds), given, by)
    return reaching if surely_more(gain) else vote


def hear_models(
    vote: WeighedVote,
    count: Integers,
    given: Integers,
    x: Float32,
    threads: Threads = ALONE,
    alone: bool = True,
    reach: Float32 | None = None,
) -> tuple[WeighedVote, Float64, Forests | None]:
    """The vote that hears boosted trees and a linear function, too, its features, and these models;
    the vote as it was, and None, where they tell nothing more of the given labels. They are mixed
    as they make those likeliest beside the vote.

    They learn from the features what the vote without them and the given labels take for the
    likelier class, which lacks most mistakes; those of a row have not seen what is said of it.
    Trees learn the given labels, too, which repeat none of the vote's errors, where rows are
    ``alone``, so that none has another's label for a reason, and no place shares mistakes.

    count, given, x, reach : (row, size), (row,), (row, feature) and (row,) of the vote's sample
    """
    odds, by = vote.features(count), vote.assumed.correction()
    says, label = vote.log_odds(odds, reach), given.astype(np.int64)
    reached = None if vote.weights.reach is None else reach
    likely = (says + own_odds(given, by) >= 0).astype(np.int64)
    with fitted_beside(lambda: fit_linear(x, likely, 2, threads), threads) as fitted:
        trees = fit_some(x, likely, threads)
    linear = fitted()

    def hearing(*models: Forests | None) -> tuple[WeighedVote, Float64, Forests | None]:
        there = [one for one in models if one is not None]
        features = np.column_stack([odds, *(tree_odds(model, x) for model in there)])
        weight = _weights(features, given, vote.assumed, reached).weight
        parts = weight[odds.shape[1] :][: len(there)]
        if not any(parts):
            return vote, odds, None
        mix = mixed(there, parts)
        features = np.column_stack([odds, tree_odds(mix, x)])
        weights = _weights(features, given, vote.assumed, reached)
        return replace(vote, weights=weights, trees=mix.digest), features, mix

    heard, features, mix = hearing(trees, linear)
    gain = _log_likelihood(heard.log_odds(features, reach), given, by)
    gain -= _log_likelihood(says, given, by)
    if mix is None or gain.mean() < (LINEAR_GAIN if trees is None else LEAST_GAIN):
        return vote, odds, None
    if alone:
        with fitted_beside(lambda: fit_some(x, label, threads), threads) as of_labels:
            places = find_places(x, *of_two(expit(says)), label, by.matrix)
        if not places:
            return hearing(trees, of_labels(), linear)
    return heard, features, mix


def tree_odds(forests: Forests, x: Float32) -> Float32:
    """(row,) log odds of class 1 by trees, no surer than counts are."""
    return np.asarray(np.clip(forests.apply(x)[:, 0], -SURE, SURE))


def first_pass(log_odds: Float64, given: Integers, by: Correction) -> UInt8:
    """(row,) chance of class 1, the row's own label among the evidence, in parts of ``BYTE``.

    ``log_odds`` (row,) are those of a ``WeighedVote``, of which no row's own label is part.
    """
    return np.asarray(np.rint(BYTE * expit(log_odds + own_odds(given, by))), np.uint8)


def smoothed_odds(chance: UInt8, distance: Floating) -> Float32:
    """(row,) log odds of class 1 by the neighbors' average posterior, near ones first.

    ``chance`` is (row, rank) what the first pass says of the neighbors, any number in empty places;
    ``distance`` (row, rank), ascending, inf in empty places.
    """
    near = distance[:, :SMOOTHED]
    average = (near_weights(near) * chance[:, :SMOOTHED]).sum(axis=1) / BYTE
    return (soft_log(average) - soft_log(1.0 - average)).astype(np.float32)


def fit_second(
    odds: Float64, smoothed: Float32, reach: Float32, given: Integers, by: Correction
) -> OddsWeights:
    """Weights of the second pass from a sample of rows: ``features``, ``smoothed_odds``,
    ``reach_of`` and given labels."""
    sizes, scale = odds.shape[1], Reach.of(reach)
    start = np.concatenate([np.full(sizes, 0.5 / sizes), [0.5, 0.0, 0.0]])
    features = _features(odds, smoothed, reach, scale)
    weight, bias = _fit(features, given, by, start, sizes + 1)
    one = expit(features @ np.asarray(weight) + bias)
    contradicted = float(((one >= 0.5) != given).mean())
    wrong = float((one * by.matrix[1, 0] + (1.0 - one) * by.matrix[0, 1]).mean())
    return OddsWeights(weight, bias, scale, mistaken_of(contradicted, wrong))


def odds_around(odds: Float64, smoothed: Float32, reach: Float32, weights: OddsWeights) -> Float64:
    """(row,) log odds of class 1 by all that is around the rows, their own labels left out."""
    assert weights.reach is not None
    features = _features(odds, smoothed, reach, weights.reach)
    return np.asarray(features @ np.asarray(weights.weight) + weights.bias, np.float64)


def without_mistakes(around: Float64, whose: Whose) -> Float64:
    """(row,) the log odds ``around`` rows without what mistakes make them where classes are told
    apart."""
    apart, after = whose.apart(), around.copy()
    chance = whose.take(apart).cleaned(*of_two(expit(around[apart])))
    after[apart] = logit(chance[:, 1])
    return after


def second_pass(around: Float64, given: Integers, own: Float64, weights: OddsWeights) -> Float64:
    """(row,) chance that the given label, itself among the evidence, is the clean one; low is bad.

    around, own : (row,) ``odds_around``, and what the own label adds to them (``own_odds``)
    """
    side = np.where(given == 1, 1.0, -1.0)
    after, alone = expit(side * (around + own)), expit(side * SHARPENED * around)
    return np.asarray((1.0 - weights.mistaken) * after + weights.mistaken * alone, np.float64)


def _features(odds: Float64, smoothed: Float32, reach: Float32, scale: Reach) -> Float64:
    return _beside(np.column_stack([odds, smoothed]), smoothed, scale.scores(reach))


def _beside(features: Float64, of_labels: Floating, far: Float64) -> Float64:
    """Features with how far neighbors are, and with that times what labels say."""
    return np.column_stack([features, far, far * of_labels])


def own_odds(given: Integers, by: Correction, whose: Whose | None = None) -> Float64:
    """(row,) what the row's own label adds to the log odds of class 1; by how often those who gave
    the labels are wrong, where that is known."""
    label = given.astype(np.int64)
    if whose is None:
        return np.asarray(np.log(by.matrix[1] / by.matrix[0])[label], np.float64)
    likely = whose.likelihood(of_two(label)[1], label, by.matrix)
    return np.asarray(np.log(likely[:, 1] / likely[:, 0]), np.float64)


def _weights(
    odds: Float64, given: Integers, rates: Assumed, reach: Float32 | None = None
) -> OddsWeights:
    """Weights of log odds (row, column), about their mean, and of the reach (row,) if it counts."""
    n = odds.shape[1]
    start, scale = np.full(n, 1.0 / n), None
    if reach is not None:
        scale = Reach.of(reach)
        start = np.append(start, [0.0, 0.0])
        odds = _beside(odds, odds.mean(axis=1), scale.scores(reach))
    return OddsWeights(*_fit(odds, given, rates.correction(), start, n), scale)


def _fit(
    features: Float64, given: Integers, by: Correction, start: Float64, rising: int
) -> tuple[tuple[float, ...], float]:
    """The likeliest weights near ``start``, the first ``rising`` at least 0; and a bias."""
    best = likeliest(loss_of(features, given, by, start), np.append(start, 0.0), rising)
    *weight, bias = best.tolist()
    return tuple(weight), bias


def _log_likelihood(log_odds: Float64, given: Integers, by: Correction) -> Float64:
    """(row,) of the given labels, by the log odds of class 1."""
    label = given.astype(np.int64)
    return np.log(_likelihood(expit(log_odds), by.matrix[1][label], by.matrix[0][label]))


def _likelihood(chance: Float64, one: Float64, zero: Float64) -> Float64:
    """(row,) of the given labels, whose likelihoods are `one` where the true class is 1 and `zero`
    where it is 0, by the chance of class 1."""
    return np.asarray(np.maximum(chance * one + (1.0 - chance) * zero, TINY))


def loss_of(
    features: Float64, given: Integers, by: Correction, start: Float64
) -> Callable[[Float64], tuple[float, Float64]]:
    """The penalized negative log likelihood of weights and bias, with its slope."""
    label = given.astype(np.int64)
    one, zero = by.matrix[1][label], by.matrix[0][label]

    def loss(free: Float64) -> tuple[float, Float64]:
        weight, bias = free[:-1], free[-1]
        f = expit(features @ weight + bias)
        p = _likelihood(f, one, zero)
        away = weight - start
        value = -np.log(p).sum() + RIDGE * away @ away + 0.5 * BIAS_RIDGE * bias * bias
        slope = f * (1.0 - f) * (zero - one) / p
        d_weight = slope @ features + 2.0 * RIDGE * away
        return float(value), np.append(d_weight, slope.sum() + BIAS_RIDGE * bias)

    return loss
