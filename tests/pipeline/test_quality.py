"""Label qualities: every step equal to its definition row by row, calibrated, and free of order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scattered import scattered
from scipy.optimize import check_grad
from sklearn.metrics import f1_score

from pipeline.blocks import logits
from pipeline.blocks.logits import FOLDS, fit_linear, fit_some, fold_of
from pipeline.decision import quality
from pipeline.decision.class_votes import (
    CANDIDATES,
    LIKELIEST,
    NONE,
    ClassVotes,
    class_votes,
    vote_sizes,
)
from pipeline.decision.quality import (
    BIAS_RIDGE,
    DENSEST,
    FAR,
    FLOOR,
    KEPT,
    MISTAKEN,
    PIECE,
    RIDGE,
    SHARPENED,
    SHRINK,
    Chances,
    Correction,
    Reach,
    TopClasses,
    Weights,
    averaged,
    chances,
    correction,
    fit_weights,
    hear_models,
    label_quality,
    mistaken_of,
    model_chances,
    reach_of,
    smoothed_feature,
    top_classes,
    vote_features,
    with_own_label,
)
from pipeline.decision.suspects import (
    first_pass,
    fit_first,
    second_pass,
    smoothed_features,
    suspects_of,
    suspects_of_two,
)
from pipeline.knn.exact import nearest
from pipeline.knn.lists import WIDTH
from pipeline.knn.threads import Threads
from pipeline.noise.rates import given as known

SIZES = (3, 7, 15)


def matrix_of(c: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    return 0.7 * np.eye(c) + 0.3 * rng.dirichlet(np.ones(c), c)


def votes_of(c: int, n: int, rng: np.random.Generator) -> tuple[ClassVotes, npt.NDArray[np.int64]]:
    near, own = rng.integers(0, c, (n, SIZES[-1])), rng.integers(0, c, n)
    near = np.where(rng.random(near.shape) < 0.5, own[:, None], near)
    return class_votes(near, own, c, SIZES), near


def soft_log(share: float, c: int) -> float:
    floor = FLOOR if c <= CANDIDATES else FLOOR * CANDIDATES / c
    return float(np.log(0.5 * (share + np.sqrt(share**2 + floor**2)) + floor))


@given(st.sampled_from([2, 3, 9, 40]), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_each_step_is_its_definition(c: int, reaching: bool, smoothed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes, near = votes_of(c, 6, rng)
    by = correction(matrix_of(c, rng), rng.integers(1, 50, c))
    features = vote_features(votes, by)
    reach = rng.exponential(2.0, 6).astype(np.float32)
    scale = Reach(*rng.uniform(0.5, 2.0, 3).tolist())
    far = np.log(reach.astype(np.float64) / scale.typical + DENSEST) - scale.center
    far = np.clip(far / scale.spread, -FAR, FAR) * reaching
    weight, slope = rng.random(len(SIZES) + 1), rng.normal(size=(2, c))
    before = chances(
        *(features, replace(votes, reach=reach)),
        Weights(weight, slope, scale, smoothed) if reaching else Weights(weight[:-1], slope[:1]),
    )
    after = with_own_label(before, votes, by)
    said = top_classes(after, votes.code)
    for i in range(6):
        code = votes.code[i][votes.code[i] != NONE]
        z = np.empty(len(code))
        for p, b in enumerate(code):
            for g, k in enumerate(SIZES):
                clean = sum(by.inverse[a, b] for a in near[i, :k])
                share = (clean + SHRINK * by.prior[b]) / (k + SHRINK)
                assert features[i, p, g] == pytest.approx(soft_log(share, c), abs=1e-9)
            z[p] = features[i, p] @ weight[:-1] + slope[0, b]
            of_labels = features[i, p, -1] if smoothed else features[i, p].mean()
            z[p] += far[i] * (of_labels * weight[-1] + slope[1, b])
        floor = np.exp(
            soft_log(0.0, c) * (weight[:-1].sum() + far[i] * weight[-1])
            + slope.mean(axis=1) @ [1.0, far[i]]
        )
        total = np.exp(z).sum() + (c - len(code)) * floor
        np.testing.assert_allclose(before.chance[i, : len(code)], np.exp(z) / total)
        assert before.rest[i] == pytest.approx((c - len(code)) * floor / total)
        label = votes.code[i, votes.own[i]]
        joint = before.chance[i, : len(code)] * by.matrix[code, label]
        rest = before.rest[i] * np.delete(by.matrix[:, label], label).mean()
        np.testing.assert_allclose(after.chance[i, : len(code)], joint / (joint.sum() + rest))
        best = np.sort(after.chance[i, : len(code)])[::-1][:KEPT]
        np.testing.assert_allclose(said.chance[i, : len(best)], best, rtol=1e-6)
    own = label_quality(after, votes)
    np.testing.assert_allclose(own, after.chance[np.arange(6), votes.own])


def telling(
    n: int, c: int, times: int = 1
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64], Correction]:
    """Features that tell labels apart, neighbors' labels that tell little, and labels, a fifth of
    them wrong; classes follow each other on a line, so many times."""
    rng = np.random.default_rng(c)
    place = rng.integers(0, c * times, n)
    clean = place % c
    x = np.column_stack([place + 0.4 * rng.normal(size=n), rng.normal(size=n)]).astype(np.float32)
    label = np.where(rng.random(n) < 0.2, rng.integers(0, c, n), clean)
    near = np.where(rng.random((n, SIZES[-1])) < 0.3, clean[:, None], rng.integers(0, c, (n, 15)))
    by = correction(0.8 * np.eye(c) + 0.2 / c, np.bincount(label, minlength=c))
    return x, near, label, by


def votes_in(near: npt.NDArray[np.int64], label: npt.NDArray[np.int64], c: int) -> ClassVotes:
    return class_votes(near, label, c, vote_sizes(near.shape[1]))


def test_models_that_tell_more_are_heard_as_one_more_share() -> None:
    x, near, label, by = telling(900, 4)
    votes = votes_in(near, label, 4)
    first = fit_first(votes, by)
    heard, says, forests = hear_models(first, near, label, by, x)
    assert forests is not None
    hearing = class_votes(near, label, 4, vote_sizes(15), says)
    assert heard.trees == forests.digest
    raw = np.exp(forests.apply(x).astype(np.float64))
    chance = raw / raw.sum(axis=1, keepdims=True)
    assert hearing.trees is not None
    assert np.abs(hearing.trees - 255 * chance).max() <= 0.5 + 1e-4
    features = vote_features(hearing, by)
    assert np.array_equal(features[:, :, :-1], vote_features(votes, by))
    for row, place in ((0, 0), (17, 3)):
        share = hearing.trees[row, place] / 255
        assert features[row, place, -1] == pytest.approx(soft_log(share, 4))
    assert heard.weight[-1] > 0.5
    clean = np.rint(x[:, 0]).clip(0, 3)
    before, after = (
        (chances(vote_features(of, by), of, weights).chance.argmax(axis=1) == clean).mean()
        for of, weights in ((votes, first), (hearing, heard))
    )
    assert after > before + 0.1


linear_of_three = partial(fit_linear, n_classes=3)


def of_discriminants(x: npt.NDArray[np.float32], y: npt.NDArray[np.int64]) -> logits.Forests | None:
    return fit_linear(x, y, 4)  # of which there is no row


@pytest.mark.parametrize("fold", range(FOLDS))
@pytest.mark.parametrize(
    ("fit", "ridges", "shrunken"),
    [(fit_some, (), ()), (linear_of_three, (1.0,), ()), (of_discriminants, (), (0.3,))],
)
def test_models_of_a_row_have_not_seen_its_own_class(
    fit: Callable[..., logits.Forests | None],
    ridges: tuple[float, ...],
    shrunken: tuple[float, ...],
    fold: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logits, "RIDGES", ridges)  # the one of several is chosen by all
    monkeypatch.setattr(logits, "SHRUNKEN", shrunken)
    monkeypatch.setattr(logits, "_likeliest_factor", lambda *_: 1.0)  # and so is the factor
    x, _, label, _ = telling(900, 3)
    mine = fold_of(x) == fold
    one, other = fit(x, label), fit(x, np.where(mine, (label + 1) % 3, label))
    assert one is not None
    assert other is not None
    assert np.array_equal(*(model_chances(of, x[mine]) for of in (one, other)))
    assert not np.array_equal(*(model_chances(of, x[~mine]) for of in (one, other)))


@pytest.mark.parametrize(("c", "times"), [(3, 1), (3, 2), (CANDIDATES + 8, 2)])
def test_trees_are_heard_where_they_tell_more_than_a_linear_model(c: int, times: int) -> None:
    x, near, label, by = telling(3000, c, times)
    models = hear_models(fit_first(votes_in(near, label, c), by), near, label, by, x)[2]
    linear, trees = fit_linear(x, label, c), fit_some(x, label)
    assert models is not None
    assert linear is not None
    assert trees is not None
    part = float(models.slope[0, 0, 0] / linear.slope[0, 0, 0])
    assert 0.5 < part <= 1.0 if times == 1 else 0.0 <= part < (0.5 if c == 3 else 1.0)
    expected = part * linear.apply(x) + (1 - part) * trees.apply(x)
    assert np.allclose(models.apply(x), expected, atol=1e-5)


def test_rows_without_a_label_do_not_say_that_reach_tells_little() -> None:
    x, _, label = scattered(4000, 1.5, rates=(0.3, 0.1, 0.2), n_features=5)
    some = np.where(np.arange(4000) < 400, label, NONE)
    index, distance = nearest(x, x, 15, exclude=np.arange(4000))
    by = correction(np.eye(3), np.bincount(label))
    votes = class_votes(label[index], some, 3, SIZES, reach=reach_of(distance))
    assert fit_first(votes.take(slice(400)), by).reach is not None
    assert fit_first(votes, by).reach is not None


def test_models_that_tell_nothing_are_not_heard() -> None:
    rng = np.random.default_rng(0)
    x, near, label, by = telling(900, 3)
    first = fit_first(votes_in(near, label, 3), by)
    noise = rng.normal(size=x.shape).astype(np.float32)
    assert hear_models(first, near, label, by, noise) == (first, None, None)
    some = np.where(rng.random(900) < 0.3, NONE, label)
    _, says, forests = hear_models(fit_first(votes_in(near, some, 3), by), near, some, by, x)
    known = some != NONE
    alone = fit_linear(x[known], some[known], 3)
    assert forests is not None
    assert alone is not None
    part = forests.slope[0, 0, 0] / alone.slope[0, 0, 0]  # what is left is by trees
    assert np.allclose(forests.slope, part * alone.slope)
    assert says is not None
    assert len(says) == 900
    one = np.where(label > 0, NONE, label)
    assert hear_models(first, near, one, by, x)[2] is None


def test_of_many_classes_those_that_a_model_makes_likeliest_are_candidates() -> None:
    c = CANDIDATES + 8
    x, near, label, by = telling(3000, c)
    votes = votes_in(near, label, c)
    first = fit_first(votes, by)
    heard, says, models = hear_models(first, near, label, by, x)
    assert models is not None
    assert says is not None
    assert says.shape == (3000, c)
    hearing = class_votes(near, label, c, vote_sizes(15), says)
    assert hearing.trees is not None
    for row in range(50):
        best = set(np.argsort(-says[row].astype(int), kind="stable")[:LIKELIEST].tolist())
        code = hearing.code[row]
        assert best <= set(code.tolist())
        assert np.array_equal(hearing.trees[row][code != NONE], says[row][code[code != NONE]])
        assert code[hearing.own[row]] == label[row]
    clean = np.rint(x[:, 0]).clip(0, c - 1)
    right = []
    for of, weights in ((votes, first), (hearing, heard)):
        best_place = chances(vote_features(of, by), of, weights).chance.argmax(axis=1)
        right.append((of.code[np.arange(3000), best_place] == clean).mean())
    assert right[1] > right[0] + 0.05


@given(st.sampled_from([2, 5, 40]), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_smoothing_is_a_weighted_average(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes, _ = votes_of(c, 5, rng)
    code = np.argsort(rng.random((5, 12, c)), axis=2)[:, :, :KEPT].astype(np.int32)
    chance = rng.dirichlet(np.ones(code.shape[2] + 1), (5, 12))[:, :, :-1].astype(np.float32)
    distance = np.sort(rng.random((5, 12)), axis=1)
    distance[0, 7:] = np.inf
    found = smoothed_feature(votes.code, TopClasses(code, chance), distance, c)
    for i in range(5):
        there = np.isfinite(distance[i])
        weight = np.exp(-0.5 * (distance[i][there] / distance[i, 4] / WIDTH) ** 2) + 1e-3
        for p, b in enumerate(votes.code[i]):
            if b == NONE:
                continue
            mass = ((code[i][there] == b) * chance[i][there]).sum(axis=1)
            rest = (1.0 - chance[i][there].sum(axis=1)) / c
            average = weight @ (mass + rest) / weight.sum()
            assert found[i, p, 0] == pytest.approx(soft_log(average, c), abs=1e-6)


@pytest.mark.parametrize("reaching", [False, True])
@pytest.mark.parametrize("c", [3, 50])
def test_the_gradient_is_the_slope(monkeypatch: pytest.MonkeyPatch, c: int, reaching: bool) -> None:
    rng = np.random.default_rng(3)
    caught = []

    def catch(loss, free, *rest, **more):  # type: ignore[no-untyped-def]
        caught.append(loss)
        raise RuntimeError

    votes, _ = votes_of(c, 40, rng)
    by = correction(matrix_of(c, rng), np.ones(c, int))
    features = vote_features(votes, by)
    if reaching:
        votes = replace(votes, reach=rng.random(40).astype(np.float32))
    monkeypatch.setattr(quality, "minimize", catch)
    with pytest.raises(RuntimeError):
        fit_weights(features, votes, by, smoothed=reaching)
    weight, bias = 0.2 + rng.random(len(SIZES) + reaching), 0.1 * rng.normal(size=c + reaching * c)
    free = np.concatenate([weight, bias])
    off = check_grad(lambda v: caught[0](v)[0], lambda v: caught[0](v)[1], free)
    assert off < 1e-3 * float(np.linalg.norm(caught[0](free)[1]))
    if not reaching:
        start, some = np.repeat([1 / 3, 0.0], [3, c]), Weights(weight, bias[None])
        penalty = np.repeat([RIDGE, BIAS_RIDGE], [3, c]) @ (free - start) ** 2
        likely = quality._log_likelihood(features, votes, by, some).sum()
        assert caught[0](free)[0] == pytest.approx(penalty - likely)


def test_weights_have_the_same_bits_by_any_number_of_threads() -> None:
    rng = np.random.default_rng(4)
    votes, _ = votes_of(9, 2 * PIECE + 3, rng)
    by = correction(matrix_of(9, rng), np.ones(9, int))
    votes = replace(votes, reach=rng.random(len(votes.own)).astype(np.float32))
    of = vote_features(votes, by), votes, by
    alone = fit_weights(*of)
    assert all(fit_weights(*of, Threads(n)) == alone for n in (2, 5))


def test_of_many_classes_a_label_gains_nothing_by_being_a_candidate() -> None:
    """A row's own label is a candidate without a vote, as no other class is: it was believed, and
    hardly a mistake among sixty classes that overlap was found."""
    rng, c, n = np.random.default_rng(0), 60, 6000
    matrix = np.full((c, c), 0.15 / (c - 1))
    np.fill_diagonal(matrix, 0.85)
    three = (rng.integers(0, c, n)[:, None] + 7 * np.arange(3)) % c
    share = rng.dirichlet(np.full(3, 0.3), n)
    at = (rng.random((n, 33, 1)) > share.cumsum(axis=1)[:, None]).sum(axis=2).clip(0, 2)
    clean = np.take_along_axis(three, at, axis=1)
    moved = (clean + rng.integers(1, c, clean.shape)) % c
    label = np.where(rng.random(clean.shape) < 0.15, moved, clean)
    by = correction(matrix, np.bincount(label[:, 0], minlength=c))
    votes = class_votes(label[:, 1:], label[:, 0], c, vote_sizes(32))
    features = vote_features(votes, by)
    weights = fit_weights(features, votes, by)
    wrong, others = label[:, 0] != clean[:, 0], chances(features, votes, weights)
    flagged = label_quality(with_own_label(others, votes, by), votes) < 0.5
    assert (flagged & wrong).sum() > 0.8 * wrong.sum()
    assert (flagged & wrong).sum() > 0.8 * flagged.sum()


def clouds(n: int, c: int, seed: int, apart: float = 2.2):  # type: ignore[no-untyped-def]
    """Overlapping clouds: lists of 60 with distances, clean labels and given ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, n)
    angle = 2 * np.pi * y / c
    x = apart * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(size=(n, 2))
    index, distance = nearest(x.astype(np.float32), x.astype(np.float32), 60, exclude=np.arange(n))
    matrix = matrix_of(c, rng)
    given_label = (rng.random(n)[:, None] > np.cumsum(matrix[y], axis=1)).sum(axis=1)
    return index, distance, y, given_label.clip(0, c - 1), matrix


@pytest.mark.parametrize("c", [2, 4])
def test_qualities_are_calibrated_and_nearly_continuous(c: int) -> None:
    index, distance, y, label, matrix = clouds(3000, c, c)
    by = correction(matrix, np.bincount(label, minlength=c))
    votes = class_votes(label[index], label, c, (4, 8, 16, 32), reach=reach_of(distance))
    first = first_pass(votes, by, fit_first(votes, by))
    neighbor = TopClasses(first.code[index], first.chance[index])
    features = smoothed_features(votes, by, neighbor, distance)
    fitted = fit_weights(features, votes, by, smoothed=True)
    assert 0.0 <= fitted.mistaken < MISTAKEN
    weights = replace(fitted, mistaken=0.0)  # mistakes depend on the class alone
    found = second_pass(features, votes, by, weights)
    right = label == y
    for low in (0.0, 0.25, 0.5, 0.75):
        some = (found.label_quality >= low) & (found.label_quality < low + 0.25)
        error = np.sqrt(0.25 / some.sum())
        gap = found.label_quality[some].mean() - right[some].mean()
        assert abs(gap) < 0.05 + 2.5 * error
    assert len(np.unique(found.label_quality)) > 2900
    assert found.is_label_issue.tolist() == (found.label_quality < 0.5).tolist()
    assert (found.likely_class == y).mean() > (label == y).mean()
    half = np.arange(1500, 3000)
    part = second_pass(features[half], votes.take(half), by, weights)
    np.testing.assert_allclose(part.label_quality, found.label_quality[half], rtol=1e-12)


@given(st.integers(2, 6), st.floats(0.0, MISTAKEN), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_both_readings_of_contradicted_labels_are_averaged(
    c: int, mistaken: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    drawn, told = rng.dirichlet(np.ones(c + 1), 5), rng.dirichlet(np.ones(c + 1), 5)
    before, after = (Chances(one[:, :c], one[:, c]) for one in (drawn, told))
    both = averaged(before, after, mistaken)
    for row in range(5):
        powers = [float(one) ** SHARPENED for one in drawn[row]]
        for at in range(c):
            expected = (1.0 - mistaken) * told[row, at] + mistaken * powers[at] / sum(powers)
            assert both.chance[row, at] == pytest.approx(expected, abs=1e-12)
    assert both.chance.sum(axis=1) + both.rest == pytest.approx(np.ones(5))


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_what_the_matrix_explains_is_not_said_to_be_mistaken(share: float, wrong: float) -> None:
    assert 0.0 <= mistaken_of(share, wrong) <= MISTAKEN
    assert share < 1e-9 or mistaken_of(share, share) == 0.0
    assert mistaken_of(share, min(wrong, share)) >= mistaken_of(share, wrong)
    assert mistaken_of(share, 0.0) == MISTAKEN


@pytest.mark.parametrize("c", [2, 4])
def test_mistakes_where_classes_meet_are_found(c: int, monkeypatch: pytest.MonkeyPatch) -> None:
    index, distance, y, _, _ = clouds(3000, c, c, apart=0.5 * c)
    around = np.stack([(y[index[:, :30]] == a).mean(axis=1) for a in range(c)], axis=1)
    around[np.arange(len(y)), y] = -1.0
    wrong = np.random.default_rng(0).random(len(y)) < 2.0 * around.max(axis=1)
    label = np.where(wrong, around.argmax(axis=1), y)
    rows, counts = np.arange(len(y)), np.bincount(label, minlength=c)

    def flagged() -> npt.NDArray[np.bool_]:
        if c == 2:
            rates = known(0.02, 0.02)
            return suspects_of_two(index, distance, label, rates, rows)[0].is_label_issue
        by = correction(0.98 * np.eye(c) + 0.02 / c, counts)
        return suspects_of(index, distance, label, by, rows)[0].is_label_issue

    found = f1_score(wrong, flagged())
    monkeypatch.setattr(quality, "MISTAKEN", 0.0)
    assert found > f1_score(wrong, flagged()) + 0.1


def test_a_missing_label_has_no_quality_and_no_vote() -> None:
    votes = class_votes(np.array([[0, 1, 1, 255]]), np.array([255]), 3, (4,))
    by = correction(np.eye(3), np.ones(3, int))
    after = with_own_label(Chances(np.array([[0.2, 0.5, 0.3]]), np.zeros(1)), votes, by)
    np.testing.assert_allclose(after.chance, [[0.2, 0.5, 0.3]])
    assert np.isnan(label_quality(after, votes)).all()
    assert votes.total[0, 0] == 3


def test_memory_does_not_grow_with_classes() -> None:
    rng = np.random.default_rng(0)
    votes, _ = votes_of(1000, 20, rng)
    by = correction(np.eye(1000), np.ones(1000, int))
    assert vote_features(votes, by).shape[1] <= CANDIDATES
