"""Label qualities of two classes against their definitions, and their laws."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scattered import scattered
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.metrics import average_precision_score

from pipeline.blocks.logits import FOLDS, Forests, can_learn, fit_some, fold_of
from pipeline.decision import odds
from pipeline.decision.quality import (
    DENSEST,
    FLOOR,
    REACHED,
    SHRINK,
    SMOOTHED,
    Reach,
    correction,
    reach_of,
)
from pipeline.decision.suspects import Suspects, suspects_of, suspects_of_two
from pipeline.decision.threshold import vote_table
from pipeline.decision.votes import counts
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.knn.exact import nearest
from pipeline.knn.lists import WIDTH
from pipeline.noise.copies import Mates
from pipeline.noise.extrema import unknown
from pipeline.noise.rates import NoiseRates, Support
from pipeline.noise.rates import given as known

RATE = st.floats(0.0, 0.45)


def bent(share: float) -> float:
    return math.log(0.5 * (share + math.hypot(share, FLOOR)) + FLOOR)


def swapped(rates: NoiseRates) -> NoiseRates:
    return known(rates.p1, rates.p0)


def pool(n: int, seed: int, p0: float = 0.3, p1: float = 0.1) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    """Lists and distances of overlapping clouds, clean and given labels."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 2, n)
    x = (rng.normal(size=(n, 3)) * (1 + clean[:, None]) + 2.0 * clean[:, None]).astype(np.float32)
    label = np.where(rng.random(n) < np.where(clean == 1, p1, p0), 1 - clean, clean)
    return *nearest(x, x, 50, exclude=np.arange(n)), clean, label


def judged(n: int, seed: int) -> tuple[Suspects, Suspects, np.ndarray]:  # type: ignore[type-arg]
    """Qualities of a pool, and those after the classes exchange their names."""
    index, distance, clean, label = pool(n, seed)
    rates, rows = known(0.3, 0.1), np.arange(n)
    one, *_ = suspects_of_two(index, distance, label, rates, rows)
    other, *_ = suspects_of_two(index, distance, 1 - label, swapped(rates), rows)
    return one, other, label == clean


@given(RATE, RATE, st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_each_step_is_its_definition(p0: float, p1: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = odds.Assumed(p0, p1, (60, 40))
    by, sizes = rates.correction(), (5, 10)
    count = np.sort(rng.integers(0, 6, (4, 2)), axis=1)
    label = rng.integers(0, 2, 4).astype(np.int8)
    vote = odds.WeighedVote(sizes, rates, odds.OddsWeights((0.7, 0.6), 0.1))
    told = vote.features(count)
    chance = odds.first_pass(vote.log_odds(vote.features(count)), label, by)
    for i in range(4):
        for j, k in enumerate(sizes):
            votes = np.array([k - count[i, j], count[i, j]])
            share = (votes @ by.inverse + SHRINK * by.prior) / (k + SHRINK)
            assert told[i, j] == pytest.approx(bent(share[1]) - bent(share[0]), abs=1e-9)
        before = 1.0 / (1.0 + math.exp(-(0.7 * told[i, 0] + 0.6 * told[i, 1] + 0.1)))
        cells = np.array([1.0 - before, before]) * by.matrix[:, label[i]]
        assert abs(chance[i] - 255 * cells[1] / cells.sum()) <= 0.5 + 1e-6


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_what_is_missing_votes_like_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = odds.Assumed(0.2, 0.1, (60, 40))
    vote = odds.WeighedVote((4, 8), rates, odds.OddsWeights((0.7, 0.6), 0.1))
    whole = rng.integers(0, 2, (6, 8)).astype(np.int8)
    short = whole.copy()
    short[:, 4:] = -1
    count = np.stack([whole[:, :4].sum(axis=1), whole.sum(axis=1)], axis=1)
    far = np.sort(rng.random((6, 8)), axis=1).astype(np.float32)
    says, alike = vote.chance(whole, far), {"rtol": 0, "atol": 1e-12}
    assert np.allclose(says, expit(vote.log_odds(vote.features(count))), **alike)
    twice = np.concatenate([whole[:, :4], whole[:, :4]], axis=1)
    assert np.allclose(vote.chance(short, far), vote.chance(twice, far), **alike)


@given(st.integers(0, 2**32 - 1), st.integers(1, 70))
@settings(max_examples=30, deadline=None)
def test_smoothing_is_a_weighted_average(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    chance = rng.integers(0, 256, (3, width)).astype(np.uint8)
    distance = np.sort(rng.random((3, width)), axis=1).astype(np.float32)
    distance[1, width // 2 :] = np.inf
    distance[2] = np.inf
    around, reach = odds.smoothed_odds(chance, distance), reach_of(distance)
    for i, (bytes_, far) in enumerate(zip(chance, distance, strict=True)):
        there = [j for j in range(min(width, SMOOTHED)) if np.isfinite(far[j])]
        scale = float(far[min(4, min(width, SMOOTHED) - 1)])
        scale = max(scale, 1e-12) if math.isfinite(scale) else 1.0
        weight = [math.exp(-0.5 * (float(far[j]) / scale / WIDTH) ** 2) + 1e-3 for j in there]
        share = sum(w * bytes_[j] / 255 for w, j in zip(weight, there, strict=True))
        share /= sum(weight) or 1.0
        assert around[i] == pytest.approx(bent(share) - bent(1.0 - share), abs=1e-4)
        assert reach[i] == (far[there[:REACHED]][-1] if there else 0.0)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_how_far_neighbors_are_is_weighed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scale = Reach(typical=0.5, center=0.1, spread=0.7)
    weights = odds.OddsWeights((0.7, 0.6, 0.3, -0.2), 0.1, scale)
    vote = odds.WeighedVote((4, 8), odds.Assumed(0.2, 0.1, (60, 40)), weights)
    near = rng.integers(0, 2, (5, 8)).astype(np.int8)
    far = np.sort(rng.random((5, 8)), axis=1).astype(np.float32)
    count = np.stack([near[:, :4].sum(axis=1), near.sum(axis=1)], axis=1)
    for (small, large), one, chance in zip(
        vote.features(count), far, vote.chance(near, far), strict=True
    ):
        away = (math.log(float(one[REACHED - 1]) / 0.5 + DENSEST) - 0.1) / 0.7
        says = 0.7 * small + 0.6 * large + 0.1
        says += away * (0.3 - 0.2 * (small + large) / 2)
        assert chance == pytest.approx(1.0 / (1.0 + math.exp(-says)), abs=1e-6)


@pytest.mark.parametrize("wide", [1.0, 1.5])
def test_a_class_that_is_scattered_is_told_by_how_far_its_neighbors_are(wide: float) -> None:
    """Nearest to all rows are those of the class that lies together, which labels alone mislead."""
    x, _, label = scattered(3000, wide)
    index, distance = nearest(x, x, 50, exclude=np.arange(3000))
    count, rates = counts(label[index], (10, 50)), odds.Assumed(0.3, 0.1, (1500, 1500))
    reach = reach_of(distance)
    vote, alone = (odds.weighed_vote(count, (10, 50), label, rates, far) for far in (reach, None))
    assert (vote == alone) == (wide == 1.0)
    if wide > 1.0:
        new, truth, _ = scattered(3000, wide, 4)
        near, far = nearest(new, x, 50)
        said = label[near].astype(np.int8), far
        right, before = (((of.chance(*said) >= 0.5) == truth).mean() for of in (vote, alone))
        assert right > before + 0.08


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("reaches", [True, False])
def test_distances_that_new_rows_have_not_are_not_weighed(reaches: bool, c: int) -> None:
    x, _, label = scattered(1000, 1.5, rates=(0.3, 0.1, 0.2)[:c])
    index, distance = nearest(x, x, 50, exclude=np.arange(1000))
    pool = index, distance, label

    def reach(**how: Any) -> Reach | None:
        rows = np.arange(1000), None
        if c == 2:
            return suspects_of_two(*pool, known(0.3, 0.1), *rows, **how)[1].weights.reach
        by = correction(np.eye(3), np.bincount(label))
        return suspects_of(*pool, by, *rows, **how)[1].reach

    assert (reach(reaches=reaches) is not None) == reaches
    assert reach(mates=Mates(near=0.0)) is None


@pytest.mark.parametrize("rates", [(0.2, 0.2), (0.1, 0.3), (0.3, 0.1)])
def test_a_rare_class_that_is_scattered_is_predicted_though_rates_are_unknown(
    rates: tuple[float, float],
) -> None:
    """Nearest to its rows are those of the other class: no vote of one k finds it, no rate is
    supported, and still the given labels tell."""
    rng = np.random.default_rng(5)
    clean = (rng.random(4000) < 0.03).astype(np.int64)
    x = rng.normal(size=(4000, 20)) * np.where(clean == 1, 2.5, 1.0)[:, None]
    label = clean ^ (rng.random(4000) < np.take(rates, clean))
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x[:2000], label[:2000])
    assert model.support_ == "unsupported"
    right = model.predict(x[2000:]) == clean[2000:]
    assert right.mean() > 0.99 > (clean == 0).mean()


def test_the_slope_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    features, label = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    by = odds.Assumed(0.2, 0.1, (25, 25)).correction()
    loss = odds.loss_of(features, label, by, np.array([0.3, 0.3, 0.0]))
    free = np.array([0.5, -0.2, 0.8, 0.1])
    slope = approx_fprime(free, lambda at: loss(at)[0], 1e-7)
    np.testing.assert_allclose(loss(free)[1], slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("impurity", [None, (0.0, 0.3)])
def test_rates_count_as_far_as_they_are_trusted(impurity: tuple[float, float] | None) -> None:
    rng = np.random.default_rng(1)
    count, label = rng.integers(0, 6, 400), (rng.random(400) < 0.3).astype(np.int64)
    wrong = np.clip(((count >= 2.5) != label).mean(), 0.05, 0.45)
    intervals = (0.1, 0.3), (0.2, 0.4)
    sides = {} if impurity is None else {f"p{i}": {"impurity": impurity[i]} for i in (0, 1)}
    rates = NoiseRates(0.2, 0.3, *intervals, "crossfit", 9, "weak", "", sides)
    found = odds.assumed(rates, [vote_table(count, label, 5)])
    part = [0.5 + 0.5 * math.exp(-6.0 * of_class) for of_class in impurity or (1.0, 1.0)]
    share = label.mean()  # half of the unknown mistakes are labels drawn from all
    drawn = min(wrong / (2 * share * (1 - share)), 0.9)
    zero, one = (0.5 * (wrong + drawn * s) for s in (share, 1 - share))
    assert found.p0 == pytest.approx(part[0] * 0.2 + (1 - part[0]) * zero)
    assert found.p1 == pytest.approx(part[1] * 0.3 + (1 - part[1]) * one)
    assert found.given == ((label == 0).sum(), (label == 1).sum())
    taken = odds.assumed(known(0.2, 0.3), [vote_table(count, label, 5)])
    assert (taken.p0, taken.p1) == (0.2, 0.3)


@pytest.mark.parametrize(
    ("rates", "impurity", "share", "support", "alike"),
    [
        ((0.08, 0.6), (0.08, 0.5), 0.2, "weak", 0.5),
        ((0.6, 0.08), (0.5, 0.08), 0.8, "weak", 0.5),  # the same, exchanged
        ((0.12, 0.6), (0.0, 0.0), 0.1, "unsupported", 1.0),
        ((0.12, 0.6), (0.0, 0.0), 0.22, "weak", 0.5),
        ((0.12, 0.6), (0.0, 0.0), 0.1, "supported", 0.0),
        ((0.12, 0.6), (0.0, 0.0), 0.24, "weak", 0.0),  # labels of both classes are many
        ((0.02, 0.6), (0.1, 0.9), 0.1, "weak", 0.0),  # unlabeled rows of class 1
    ],
)
def test_mistakes_around_the_frequent_class_are_taken_for_alike_where_one_is_rare(
    rates: tuple[float, float],
    impurity: tuple[float, float],
    share: float,
    support: Support,
    alike: float,
) -> None:
    sides = {f"p{i}": {"impurity": impurity[i]} for i in (0, 1)}
    found = NoiseRates(*rates, (0.0, 1.0), (0.0, 1.0), "crossfit", 9, support, "", sides)
    assert found.alike(share) == pytest.approx(alike)
    assert known(*rates).alike(share) == 0.0
    ones = round(1000 * share)
    votes = np.array([[1000 - ones, ones], [0, 0], [0, 0]])  # no neighbor is given 1
    taken = odds.assumed(found, [votes])
    if alike == 1.0:
        assert (taken.p0, taken.p1) == (share, share)
    else:
        assert (taken.p0 < taken.p1) is (rates[0] < rates[1])


def test_mistakes_near_a_rare_class_do_not_pass_for_its_rows() -> None:
    """Of a quarter of the rows four labels in ten are wrong, and few are of the rare class."""
    rng = np.random.default_rng(1)
    near = rng.random(2000) < 0.25
    clean = (near & (rng.random(2000) < 0.15)).astype(np.int64)
    x = rng.normal(size=(2000, 4)) + 4.0 * near[:, None]
    wrong = rng.random(2000) < np.where(near, 0.4, 0.1)
    label = np.where(wrong, 1 - clean, clean)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x, label)
    assert average_precision_score(wrong, -model.label_quality_) > 0.78
    assert model.label_issues_[~wrong].mean() < 0.02


@pytest.mark.parametrize("in_place", [True, False])
def test_mistakes_of_a_place_are_no_class_of_which_most_labels_are_lost(in_place: bool) -> None:
    """Four labels in ten of a third of the rows are wrong; or six in ten of a class are missing."""
    rng = np.random.default_rng(2)
    n, rare, apart = 3000, *((0.04, 1.0) if in_place else (0.3, 4.0))
    clean = (rng.random(n) < rare).astype(np.int64)
    x = np.column_stack([rng.normal(size=(n, 3)) + apart * clean[:, None], 4 * rng.random(n)])
    wrong = rng.random(n) < (0.4 * (x[:, 3] > 2.8) if in_place else 0.6 * clean)
    label = np.where(wrong, 1 - clean, clean)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x, label)
    assert model.noise_rates_ is not None
    assert model.noise_rates_[1] > 0.4
    assert (model.support_ == "unsupported" and "place" in model.reason_) is in_place
    assert (model.predict(x) == clean).mean() > 0.93
    assert average_precision_score(wrong, -model.label_quality_) > (0.45 if in_place else 0.9)


def test_a_class_that_is_a_place_is_corrected_by_its_rates() -> None:
    """One column decides the class, and half of its labels are lost."""
    rng = np.random.default_rng(3)
    x = rng.random((3000, 5))
    clean = (x[:, 0] > 0.75).astype(np.int64)
    wrong = rng.random(3000) < np.where(clean == 1, 0.5, 0.02)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x, np.where(wrong, 1 - clean, clean))
    assert "place" not in model.reason_
    assert (model.predict(x) == clean).mean() > 0.95
    assert average_precision_score(wrong, -model.label_quality_) > 0.9


def test_a_class_that_no_row_of_a_sample_has_stands_in_no_place() -> None:
    rates, label = unknown(0.0, 1.0, "Every label is the same."), np.zeros(500, np.int8)
    x = np.random.default_rng(0).random((500, 3)).astype(np.float32)
    with warnings.catch_warnings(action="error"):
        counted = np.zeros((500, 1), np.int64)
        assert odds.judged_by_places(rates, counted, (5,), label, x) is rates


def test_names_of_the_classes_do_not_matter() -> None:
    one, other, _ = judged(600, 3)
    np.testing.assert_allclose(one.label_quality, other.label_quality, atol=0.02)
    assert (one.is_label_issue == other.is_label_issue).mean() > 0.99


def test_qualities_are_calibrated_and_nearly_continuous() -> None:
    found, _, right = judged(3000, 0)
    quality = found.label_quality
    tenth = np.minimum((10 * quality).astype(int), 9)
    assert np.abs(np.bincount(tenth, quality - right)).sum() < 0.03 * len(quality)
    assert len(np.unique(quality)) > 2900
    assert found.is_label_issue.tolist() == (quality < 0.5).tolist()


def test_rows_at_one_place_are_judged() -> None:
    index = (np.arange(60)[:, None] + np.arange(1, 11)) % 60
    label = np.arange(60) % 2
    found, *_ = suspects_of_two(index, np.zeros((60, 10)), label, known(0.1, 0.1), np.arange(60))
    assert np.isfinite(found.label_quality).all()


def blurred(n: int, no_use: int, *, linear: bool = False) -> tuple[Any, ...]:
    """Features, some of no use; clean and given labels, counts, and the vote of these."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2 + no_use)).astype(np.float32)
    one, other = x[:, 0], x[:, 1]
    clean = ((x @ rng.normal(size=2 + no_use) if linear else one * other) > 0).astype(np.int8)
    label = np.where(rng.random(n) < np.where(clean == 1, 0.1, 0.3), 1 - clean, clean)
    label = label.astype(np.int8)
    index = nearest(x, x, 20, exclude=np.arange(n))[0]
    sizes, rates = (5, 20), odds.Assumed(0.3, 0.1, tuple(np.bincount(label).tolist()))
    count = counts(label[index], sizes)
    return x, clean, label, count, odds.weighed_vote(count, sizes, label, rates)


def test_trees_tell_rows_apart_that_neighbors_do_not() -> None:
    x, clean, label, count, vote = blurred(2000, 20)
    both, features, forests = odds.hear_models(vote, count, label, x)
    assert forests is not None
    assert both.trees == forests.digest
    trees = odds.tree_odds(forests, x)
    assert np.abs(trees).max() <= odds.SURE
    assert np.array_equal(features, both.features(count, trees))
    right, alone = (
        ((of.log_odds(of.features(count, beside)) >= 0) == clean).mean()
        for of, beside in ((both, trees), (vote, None))
    )
    assert right > alone + 0.05


def test_a_linear_function_is_heard_with_trees_where_it_tells_more() -> None:
    x, clean, label, count, vote = blurred(1500, 20, linear=True)
    both, features, forests = odds.hear_models(vote, count, label, x)
    assert forests is not None
    assert forests.slope.any()
    trees = forests._replace(slope=0.0 * forests.slope)
    right, alone = (((odds.tree_odds(of, x) >= 0) == clean).mean() for of in (forests, trees))
    assert right > alone + 0.05
    assert ((both.log_odds(features) >= 0) == clean).mean() > 0.85
    x, _, label, count, vote = blurred(1500, 20)
    kept = odds.hear_models(vote, count, label, x)[2]
    assert kept is not None
    assert not kept.slope.any()


@pytest.mark.parametrize("fold", range(FOLDS))
def test_trees_of_a_row_have_not_seen_its_own_label(
    fold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _, label, count, vote = blurred(1000, 5)
    mine = fold_of(x) == fold
    other = np.where(mine & (np.arange(1000) % 5 == 0), 1 - label, label)
    kept: list[Sequence[Forests]] = []  # twice; the parts in which they are mixed all choose
    mixing = odds.mixed
    monkeypatch.setattr(odds, "mixed", lambda *of: kept.append(of[0]) or mixing(*of))
    for labels in (label, other):
        assert odds.hear_models(vote, count, labels, x)[2] is not None
    grown = [[model for model in of if model.value.any()] for of in kept[1::2]]
    for one, after in zip(*grown, strict=True):
        assert one.digest != after.digest
        assert np.array_equal(*(odds.tree_odds(of, x[mine]) for of in (one, after)))
        assert not np.array_equal(*(odds.tree_odds(of, x[~mine]) for of in (one, after)))


def test_trees_are_of_what_the_vote_takes_for_likely_and_of_the_labels_mixed() -> None:
    x, _, label, count, vote = blurred(1000, 5)
    likely = vote.log_odds(vote.features(count)) + odds.own_odds(label, vote.assumed.correction())
    parts = [fit_some(x, of) for of in ((likely >= 0).astype(np.int64), label.astype(np.int64))]
    forests = odds.hear_models(vote, count, label, x)[2]
    assert forests is not None
    each = np.column_stack([part.apply(x) for part in parts if part is not None])
    weight, off, *_ = np.linalg.lstsq(each, forests.apply(x)[:, 0], rcond=None)
    assert weight.sum() == pytest.approx(1.0, abs=1e-4)
    assert weight.min() > 0.1
    assert off[0] < 1e-4


@pytest.mark.parametrize("wrong", [0.04, 0.5])
def test_trees_learn_no_labels_whose_mistakes_a_place_shares(wrong: float) -> None:
    """Of a fifth of the rows, of classes that hardly overlap: trees that learned labels there would
    call wrong ones right."""
    rng = np.random.default_rng(4)
    clean = rng.integers(0, 2, 3000).astype(np.int8)
    x = rng.normal(size=(3000, 4)).astype(np.float32)
    x[:, 0] += 3 * clean
    rate = np.where(x[:, 1] > 0.84, wrong, 0.04)
    label = np.where(rng.random(3000) < rate, 1 - clean, clean).astype(np.int8)
    near = nearest(x, x, 20, exclude=np.arange(3000))[0]
    assumed = odds.Assumed(0.1, 0.1, tuple(np.bincount(label).tolist()))
    count = counts(label[near], (5, 20))
    vote = odds.weighed_vote(count, (5, 20), label, assumed)
    learned = [odds.hear_models(vote, count, label, x, alone=alone)[0] for alone in (True, False)]
    assert (learned[0] == learned[1]) == (wrong > 0.04)


def test_trees_that_tell_nothing_are_not_heard() -> None:
    rng = np.random.default_rng(0)
    x, label = rng.normal(size=(4000, 3)).astype(np.float32), rng.integers(0, 2, 4000)
    rates = odds.Assumed(0.2, 0.2, (2000, 2000))
    vote = odds.weighed_vote(rng.binomial(5, 0.5, (4000, 1)), (5,), label, rates)
    kept, _, forests = odds.hear_models(vote, rng.binomial(5, 0.5, (4000, 1)), label, x)
    assert (kept, forests) == (vote, None)
    assert odds.hear_models(vote, np.full((30, 1), 2), np.zeros(30, int), x[:30])[2] is None
    assert [can_learn(n) for n in (2048, 2049)] == [True, False]
