"""Qualities of a pool's given labels from its graph: votes, a round of smoothing, Bayes' rule.

Two passes over the rows, each over neighbors' lists: ``first_pass`` needs their labels, and
``second_pass`` what the first one says about them. Between the passes, weights are fitted on a
sample of rows. Rows of a block can be given in any order and in any portions. Of two classes it is
``odds`` that judges, whose first pass needs counts alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from pipeline.arrays import (
    AnyArray,
    Bools,
    Float32,
    Float64,
    Floating,
    Int32,
    Int64,
    Integers,
    UInt8,
)
from pipeline.blocks.logits import Forests, can_learn
from pipeline.decision import odds
from pipeline.decision.class_votes import ClassVotes, class_votes, vote_sizes
from pipeline.decision.odds import WeighedVote
from pipeline.decision.quality import (
    SMOOTHED,
    Chances,
    Correction,
    TopClasses,
    Weights,
    averaged,
    chances,
    fit_first,
    fit_weights,
    hear_models,
    label_quality,
    model_chances,
    reach_of,
    smoothed_feature,
    top_classes,
    vote_features,
    with_own_label,
)
from pipeline.decision.threshold import vote_table
from pipeline.decision.votes import counts, k_grid
from pipeline.decision.where import find_places, place_of, place_rates
from pipeline.decision.whose import Whose, of_two, wrong_rates
from pipeline.knn.rows import dense
from pipeline.knn.threads import ALONE, Threads
from pipeline.noise.copies import NO_MATES, Mates
from pipeline.noise.rates import NoiseRates

Rows = Integers | slice
PORTION = 4096
"""Rows whose neighbors are looked at together, in memory."""


@dataclass(frozen=True)
class Suspects:
    """What is said about some rows' given labels."""

    label_quality: Float64
    """(row,) chance that the given label is the clean one; NaN where there is none. Low is bad."""
    is_label_issue: Bools
    """(row,) whether a wrong label is likelier than not."""
    likely_class: Int32
    """(row,) the likeliest clean class, the given label among the evidence."""
    rates: Float64 | None = None
    """(group + 1, class) how often each of those who gave the labels, or each place, is wrong, the
    whole last; None where there are none."""


def first_pass(votes: ClassVotes, by: Correction, weights: Weights) -> TopClasses:
    """The likeliest classes of each row, for its neighbors."""
    before = chances(vote_features(votes, by), votes, weights)
    return top_classes(with_own_label(before, votes, by), votes.code)


def smoothed_features(
    votes: ClassVotes, by: Correction, neighbor: TopClasses, distance: Floating
) -> Float64:
    """(row, candidate, size + 1) features of the second pass, beside their ``reach_of``.

    ``neighbor`` holds (row, rank, ...) what the first pass says about each neighbor; ``distance``
    (row, rank).
    """
    average = smoothed_feature(votes.code, neighbor, distance, len(by.matrix))
    return np.concatenate([vote_features(votes, by), average], axis=2)


def second_pass(
    features: Float64,
    votes: ClassVotes,
    by: Correction,
    weights: Weights,
    whose: Whose | None = None,
) -> Suspects:
    """Qualities of the rows' given labels from their ``smoothed_features``; by how often those who
    gave them are wrong, where that is known."""
    before = chances(features, votes, weights)
    if whose is not None:
        before = replace(before, chance=whose.cleaned(before.chance, votes.code))
    after = with_own_label(before, votes, by, whose)
    return judge(averaged(before, after, weights.mistaken), votes)


def judge(after: Chances, votes: ClassVotes) -> Suspects:
    """Qualities, issues and likely classes from chances that include the row's own label."""
    quality = label_quality(after, votes)
    best = after.chance.argmax(axis=1)
    likely = votes.code[np.arange(len(best)), best]
    return Suspects(quality, quality < 0.5, likely)


def by_models(forests: Forests, x: Any, n_classes: int) -> AnyArray:
    """What models say of features (row, feature), dense or sparse: ``tree_odds`` of two classes,
    ``model_chances`` of more."""
    say = odds.tree_odds if n_classes == 2 else model_chances
    starts = range(0, max(1, x.shape[0]), PORTION)
    return np.concatenate([say(forests, dense(x[at : at + PORTION])) for at in starts])


def votes_among(
    index: Int64,
    label: Integers,
    n_classes: int,
    rows: Rows = slice(None),
    trees: UInt8 | None = None,
    reach: Float32 | None = None,
) -> ClassVotes:
    """The votes of some rows of a pool in memory, what models say of them, (row, class), and their
    ``reach_of``; ``index`` and ``label`` as in ``suspects_of``."""
    sizes = vote_sizes(index.shape[1])
    near = label[index[rows, : sizes[-1]]]
    return class_votes(near, label[rows], n_classes, sizes, trees, reach)


def suspects_of(
    index: Int64,
    distance: Floating,
    label: Integers,
    by: Correction,
    sample: Int64,
    x: Any = None,
    threads: Threads = ALONE,
    group: Int64 | None = None,
    mates: Mates = NO_MATES,
    reaches: bool = True,
) -> tuple[Suspects, Weights, Forests | None]:
    """Both passes over a pool in memory, the weights of the first, and models, that are heard,
    where features ``x`` (row, feature), dense or sparse, are given; ``group`` (row,): whose labels
    they are, where that is known; where it is not, the places of ``x`` count where they are wrong
    more often. ``mates``: rows that share labels, which models would learn. ``reaches`` says
    whether distances are those that new rows will have: if so they may vote.

    ``index`` and ``distance`` are (row, rank), nearest first, self excluded, all ranks there;
    ``label`` (row,) codes; ``sample`` the rows, drawn at random, that weights are fitted on.
    """
    n, c, forests = len(index), len(by.matrix), None
    learns = x is not None and can_learn(x.shape[1]) and not mates.differ
    reach, trees = reach_of(distance), None
    may_reach = reach[sample] if reaches and not mates else None
    first = fit_first(votes_among(index, label, c, sample, reach=may_reach), by, threads)
    if learns:
        heard = label[index[sample]], label[sample], by, dense(x[sample])
        first, _, forests = hear_models(first, *heard, threads, may_reach)
        trees = None if forests is None else by_models(forests, x, c)
    votes = votes_among(index, label, c, trees=trees, reach=reach)
    portions = [slice(at, at + PORTION) for at in range(0, n, PORTION)]
    parts = [first_pass(votes.take(rows), by, first) for rows in portions]
    code = np.concatenate([part.code for part in parts])
    chance = np.concatenate([part.chance for part in parts])

    def features(rows: Rows) -> Float64:
        near = index[rows, :SMOOTHED]
        return smoothed_features(
            votes.take(rows), by, TopClasses(code[near], chance[near]), distance[rows]
        )

    few = np.array_split(sample, -(-len(sample) // PORTION))
    sampled, drawn = np.concatenate([features(rows) for rows in few]), votes.take(sample)
    second = fit_weights(sampled, drawn, by, threads, smoothed=True)
    whose = None
    if group is not None or learns:
        before = chances(sampled, drawn, second).chance
        known = before, drawn.code, label
        whose = _whose(*known, sample, by.matrix, x, group)

    def judged_of(rows: slice) -> Suspects:
        there = None if whose is None else whose.take(rows)
        return second_pass(features(rows), votes.take(rows), by, second, there)

    judged = [judged_of(rows) for rows in portions]
    suspects = Suspects(
        np.concatenate([part.label_quality for part in judged]),
        np.concatenate([part.is_label_issue for part in judged]),
        np.concatenate([part.likely_class for part in judged]),
        None if whose is None else whose.rates,
    )
    return suspects, first, forests


def _whose(
    chance: Float64,
    code: Int32,
    label: Integers,
    sample: Int64,
    matrix: Float64,
    x: Any,
    group: Int64 | None,
) -> Whose | None:
    """By chances and codes of a sample's rows, and labels of all; the places of ``x`` where groups
    are not known; None where there are none."""
    known = chance, code, label[sample]
    if group is not None:
        rates = wrong_rates(*known, group[sample], matrix, int(group.max()) + 1)
        return Whose(group, rates)
    places = find_places(dense(x[sample]), *known, matrix)
    if not places:
        return None
    parts = [place_of(places, dense(x[at : at + PORTION])) for at in range(0, len(label), PORTION)]
    return Whose(np.concatenate(parts), place_rates(places, matrix), places)


def suspects_of_two(
    index: Int64,
    distance: Floating,
    label: Integers,
    rates: NoiseRates,
    sample: Int64,
    x: Any = None,
    threads: Threads = ALONE,
    group: Int64 | None = None,
    mates: Mates = NO_MATES,
    reaches: bool = True,
) -> tuple[Suspects, WeighedVote, Forests | None]:
    """The same of two classes, whose ``label`` (row,) is 0 or 1, by their noise rates."""
    given, grid = label.astype(np.int8), k_grid(index.shape[1])
    count, sizes = counts(given[index], grid), odds.sizes_among(grid)
    votes = [vote_table(of_k, given, k) for of_k, k in zip(count.T, grid, strict=True)]
    rates_taken = odds.assumed(rates, votes)
    by, count = rates_taken.correction(), count[:, [grid.index(k) for k in sizes]]
    reach = reach_of(distance)
    counted = count[sample], sizes, given[sample], rates_taken
    first = odds.weighed_vote(*counted, reach[sample] if reaches and not mates else None)
    forests, trees = None, None
    learns = x is not None and can_learn(x.shape[1])
    if learns:
        heard = first, count[sample], given[sample], dense(x[sample])
        first, _, forests = odds.hear_models(*heard, threads, not mates, reach[sample])
        trees = None if forests is None else by_models(forests, x, 2)
    evidence = first.features(count, trees)
    chance = odds.first_pass(first.log_odds(evidence, reach), given, by)
    around = np.concatenate(
        [
            odds.smoothed_odds(chance[index[at : at + PORTION]], distance[at : at + PORTION])
            for at in range(0, len(index), PORTION)
        ]
    )
    second = odds.fit_second(evidence[sample], around[sample], reach[sample], given[sample], by)
    says = odds.odds_around(evidence, around, reach, second)
    whose = None
    if group is not None or (learns and not mates.differ):
        whose = _whose(*of_two(expit(says[sample])), label, sample, by.matrix, x, group)
    if whose is not None:
        says = odds.without_mistakes(says, whose)
    own = odds.own_odds(given, by, whose)
    quality = odds.second_pass(says, given, own, second)
    issue = quality < 0.5
    likely = np.where(issue, 1 - given, given).astype(np.int32)
    of_whose = None if whose is None else whose.rates
    return Suspects(quality, issue, likely, of_whose), first, forests
