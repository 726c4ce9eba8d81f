"""What weights are learned from labels, how metrics are judged, and which is taken."""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scattered import scattered
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipeline.blocks import logits, metric
from pipeline.blocks.curves import curves
from pipeline.blocks.logits import (
    fit_forests,
    fit_linear,
    fit_logits,
    fit_regressed,
    fold_of,
    mixed,
)
from pipeline.blocks.metric import (
    FEW_VALUES,
    FOLDS,
    LEARNED,
    LEARNING_ROWS,
    NARROW,
    SIZES,
    Judge,
    Modeled,
    Trial,
    Tried,
    choose_metric,
    compared,
    folds,
    joint_relevance,
    reached_losses,
    relevance,
    sizes,
    weights,
)
from pipeline.blocks.scaling import FeatureStatistics, Scaling
from pipeline.knn.lots import lots
from pipeline.knn.rows import as_rows
from pipeline.knn.threads import Threads

USEFUL = 2


def table(n: int, useless: int, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray]:
    """Two features that tell the classes apart, then useless ones; a fifth of the labels wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, USEFUL + useless))
    x[:, :USEFUL] += 1.5 * y[:, None]
    return x.astype(np.float32), y ^ (rng.random(n) < 0.2)


def test_columns_of_no_use_are_named_and_left_aside() -> None:
    x, y = table(1500, 20)
    chosen, by = choose_metric(x, y, 0)
    assert chosen.metric == "weighted"
    assert set(chosen.order()[:USEFUL]) == set(range(USEFUL))
    useless = [at for at, share in enumerate(chosen.relevance) if share <= chosen.chance]
    assert not set(useless) & set(range(USEFUL))
    assert len(useless) >= 19
    spread = by.apply(x).std(axis=0)
    assert spread[:USEFUL].min() > 3 * spread[USEFUL:].max()
    assert spread.min() > 0  # else rows that differ there alone were equal
    plain, _, weighted, _ = chosen.tried
    assert weighted.loss < plain.loss - 2 * plain.standard_error
    assert (weighted.behind, weighted.standard_error) == (0.0, 0.0)


def test_what_features_tell_together_is_told_among_the_useful(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1000, 20)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64) ^ (rng.random(1000) < 0.2)
    first = relevance(x, y, 0)[1]
    again = joint_relevance(x, y, first, 1)
    assert again.sum() == pytest.approx(1.0)
    assert again.min() == 0.0
    assert not again[first <= 0].any()
    assert again[:USEFUL].sum() > first[:USEFUL].sum() + 0.1
    several, by = choose_metric(x, y, 0, "weighted")
    spread = by.apply(x).std(axis=0)
    assert spread[:USEFUL].min() > spread[USEFUL:].max()
    monkeypatch.setattr(metric, "ROUNDS", 1)
    once, _ = choose_metric(x, y, 0, "weighted")
    assert several.relevance == once.relevance
    assert several.tried[2].loss < once.tried[2].loss - 0.02


def test_nothing_is_left_of_joint_relevance() -> None:
    x, y = table(400, 1)
    for share in (np.zeros(3), np.array([-0.2, 0.0, 1.0])):
        assert np.array_equal(joint_relevance(np.zeros_like(x), y, share, 0), share)


def test_normal_scores_are_taken_where_tails_hide_what_features_tell() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 6))
    y = (z[:, 0] + z[:, 1] - z[:, 2] > 0) ^ (rng.random(2000) < 0.2)
    x, y = np.exp(1.5 * z).astype(np.float32), y.astype(np.int64)
    chosen, by = choose_metric(x, y, 0)
    loss = {one.metric: one.loss for one in chosen.tried}
    assert loss["normal-scores"] < loss["as-scaled"] - 0.02
    assert loss["weighted"] < loss["normal-scores"]
    scores = curves(x)
    assert scores is not None
    assert isinstance(by, Modeled)
    assert by.curves is not None
    assert np.array_equal(by.apply(x), replace(by, curves=None).apply(scores.apply(x)))
    plain, _ = choose_metric(scores.apply(x), y, 0)  # as if they had been given
    assert plain.relevance == chosen.relevance
    assert chosen.metric == plain.metric == "weighted"
    # what tells by its tail alone stays as it is, and so does an embedding
    tail = (x[:, 0] > np.quantile(x[:, 0], 0.99)).astype(np.int64) | (rng.random(2000) < 0.05)
    for label, embedded in ((tail, False), (y, True)):
        chosen, _ = choose_metric(x, label, 0, embedded=embedded)
        assert "normal-scores" not in {one.metric for one in chosen.tried}


def test_features_of_equal_use_stay_as_scaled() -> None:
    rng = np.random.default_rng(3)
    place = rng.integers(0, 30, 1500)
    y = place % 2  # no linear function of the features, and no step in one
    x = (0.5 * rng.normal(size=(1500, 6)) + rng.normal(size=(30, 6))[place]).astype(np.float32)
    chosen, by = choose_metric(x, y, 0)
    assert chosen.metric == "as-scaled"
    assert by == Scaling()
    assert choose_metric(x, y, 0, "weighted")[0].metric == "weighted"


def test_where_no_feature_splits_there_are_no_weights_to_take() -> None:
    x, y = np.zeros((200, 3), np.float32), np.arange(200) % 2
    assert not relevance(x, y, 0).any()
    chosen, by = choose_metric(x, y, 0, "weighted")
    assert (chosen.metric, by) == ("as-scaled", Scaling())
    assert [one.metric for one in chosen.tried] == ["as-scaled"]


def test_directions_are_compared_where_lengths_tell_nothing() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1200)
    x = rng.normal(size=(1200, 8)) + 2.5 * np.eye(8)[y]
    x = (x * rng.lognormal(0, 1.5, (1200, 1))).astype(np.float32)
    x[:12] = 0
    chosen, by = choose_metric(x, y, 0)
    assert (chosen.metric, by) == ("cosine", Scaling(directions=True))
    assert chosen.no_direction == 0.01
    assert choose_metric(x, y, 0, angles=False)[0].metric != "cosine"
    unit = by.apply(x)
    assert np.square(unit, dtype=np.float64).sum(axis=1) == pytest.approx(1.0, abs=1e-6)
    assert np.array_equal(unit, as_rows(x, "cosine"))
    chosen, _ = choose_metric(unit[12:].astype(np.float16).astype(np.float32), y[12:], 0)
    assert "cosine" not in [one.metric for one in chosen.tried]  # rows as they are
    sign, _ = choose_metric(x[:, :1], y, 0)
    assert "cosine" not in [one.metric for one in sign.tried]


def test_embeddings_are_weighed_where_that_is_evident() -> None:
    x, y = table(1500, 62)
    chosen, by = choose_metric(x, y, 0, embedded=True)
    assert [one.metric for one in chosen.tried] == ["as-scaled", "cosine", "weighted"]
    assert chosen.metric == "weighted"
    assert not isinstance(by, Modeled)
    chosen, _ = choose_metric(x, y, 0, "cosine", embedded=True)  # nothing is learned for it
    assert [one.metric for one in chosen.tried] == ["as-scaled", "cosine"]
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(3000, 8))  # of a curved surface
    x = np.tanh(hidden @ rng.normal(size=(8, 64)) / 2) + 0.3 * np.sin(
        hidden @ rng.normal(size=(8, 64))
    )
    x = x.astype(np.float32)
    y = (hidden[:, 0] * hidden[:, 1] + hidden[:, 2] > 0) ^ (rng.random(3000) < 0.2)
    y = y.astype(np.int64)
    assert choose_metric(x, y, 0)[0].metric in LEARNED
    chosen, by = choose_metric(x, y, 0, embedded=True)
    assert [one.metric for one in chosen.tried] == ["as-scaled", "cosine"]
    assert (chosen.relevance, chosen.order()) == ([], [])
    assert by == Scaling()
    assert choose_metric(x, y, 0, "weighted", embedded=True)[0].metric == "weighted"


@given(st.integers(12, 60), st.integers(2, 4), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_losses_are_those_of_all_distances(n: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 40, (n, 2)).astype(np.float32)
    y = np.r_[np.arange(classes), rng.integers(0, classes, n - classes)]
    n_judged = n // 2
    halves = [(np.flatnonzero(np.arange(n_judged) % 2 == at), x) for at in (0, 1)]
    found = Judge(y, n_judged, sizes(n)).of_parts(halves).loss
    for row in range(n_judged):
        distance = np.square(x - x[row]).sum(axis=1)
        distance[row] = np.inf
        near = y[np.lexsort((lots(np.arange(n)), distance))]
        for at, k in enumerate(sizes(n)):
            votes = (near[:k] == y[row]).sum() + (y == y[row]).mean()
            assert found[row, at] == pytest.approx(-np.log(votes / (k + 1)))


def test_a_learned_metric_that_how_far_neighbors_are_makes_idle_is_not_taken() -> None:
    """Nearest to all rows are those of the class that lies together."""
    x, _, y = scattered(3000, 1.5, rates=(0.2, 0.2))
    chosen, by = choose_metric(x, y, 0)
    assert (chosen.metric, by) == ("as-scaled", Scaling())
    assert min(chosen.tried, key=lambda one: one.loss).metric == "model"
    assert chosen.by_reach > 0.005
    model, _ = choose_metric(x, y, 0, "model")
    assert (model.metric, model.by_reach) == ("model", 0.0)
    x[:, 0] = (y == 1) + np.random.default_rng(0).normal(0, 0.4, 3000)  # and weights tell more
    chosen, _ = choose_metric(x, y, 0)
    assert (chosen.metric in LEARNED, chosen.by_reach) == (True, 0.0)


def test_directions_that_how_far_neighbors_are_makes_idle_are_not_taken() -> None:
    x, _, y = scattered(3000, 1.3, rates=(0.2, 0.2), n_features=64)
    chosen, by = choose_metric(x, y, 0, embedded=True)
    assert (chosen.metric, by) == ("as-scaled", Scaling())
    assert min(chosen.tried, key=lambda one: one.loss).metric == "cosine"
    x, _, y = scattered(300, 1.5, 0, rates=(0.2, 0.2))  # so few that it is not sure
    chosen, by = choose_metric(x + np.float32(0.3), y, 0)
    assert (chosen.metric, by) == ("as-scaled", Scaling())
    assert min(chosen.tried, key=lambda one: one.loss).metric == "cosine"


@pytest.mark.parametrize("c", [2, 3])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_losses_by_reach_are_their_definition(c: int, seed: int) -> None:
    x, _, _ = scattered(80, 2.0)
    y = 2 * np.random.default_rng(seed).integers(0, c, 80)  # codes that no row has, too
    found = reached_losses(Judge(y, 40, (7, 9)).of(x), y, 7)
    shares, far = np.empty((40, c)), np.empty(40)
    for row in range(40):
        away = np.sqrt(np.square(x - x[row], dtype=np.float64).sum(axis=1))
        away[row] = np.inf
        near = np.argsort(away)[:7]
        shares[row] = [(sum(y[near] == 2 * a) + np.mean(y == 2 * a)) / 8 for a in range(c)]
        far[row] = np.log(away[near[-1]])
    far = (far - far.mean()) / far.std()

    def losses(free: NDArray[np.float64]) -> NDArray[np.float64]:
        z = free[0] * np.log(shares) + free[1] * far[:, None] * np.log(shares)
        z += free[2 : 2 + c] + far[:, None] * free[2 + c :]
        chance = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        return -np.log([chance[row, y[row] // 2] for row in range(40)])

    best = minimize(lambda free: losses(free).sum() + free @ free / 2, np.zeros(2 + 2 * c)).x
    np.testing.assert_allclose(found, losses(best), rtol=1e-3, atol=1e-3)


@given(st.integers(100, 24_000), st.integers(1, 10_000))
def test_a_sample_is_judged_no_farther_away_than_its_pool(n: int, more: int) -> None:
    found, every = sizes(n, n * more), sizes(n)
    assert found == every[: len(found)]
    assert all(k * more <= max(SIZES[-1], NARROW * more) for k in found)
    assert found == every or every[len(found)] > max(NARROW, SIZES[-1] / more)


@pytest.mark.parametrize("n", [100, 4000, 4001, 11_999, 12_000, 24_000])
def test_a_row_is_never_judged_by_what_was_learned_on_it(n: int) -> None:
    n_judged = min(n, metric.JUDGED_ROWS)
    judged = []
    for mine, learned in folds(n, n_judged):
        assert not np.intersect1d(mine, learned).size
        assert len(learned) >= min(LEARNING_ROWS, n * (FOLDS - 1) // FOLDS)
        judged.append(mine)
    assert np.array_equal(np.sort(np.concatenate(judged)), np.arange(n_judged))


def test_metrics_are_compared_row_by_row() -> None:
    best = np.random.default_rng(0).normal(1, 0.1, (400, 1))
    more = np.tile([[0.5], [-0.4]], (200, 1))
    rows, far = np.zeros((400, 5), np.int64), np.zeros((400, 5), np.float32)
    judged = {
        name: Trial(rows, far, loss)
        for name, loss in {"as-scaled": best + more, "weighted": best}.items()
    }
    near, least = compared(judged, (5,))
    assert least == Tried("weighted", pytest.approx(best.mean()), 0.0, 0.0, 5)
    assert near.behind == pytest.approx(0.05)
    assert near.standard_error == pytest.approx(0.45 / 20)


@given(st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_two_scalings_are_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(3, 2, (20, 3)).astype(np.float32)
    first, second = (
        Scaling(tuple(rng.normal(size=3)), tuple(rng.uniform(0.5, 2, 3) * rng.integers(0, 2, 3)))
        for _ in range(2)
    )
    both = first.then(second).apply(x)
    inside = np.array(first.factor) * np.array(second.factor) != 0  # constants may move
    apart = second.apply(first.apply(x))
    assert np.allclose(both[:, inside], apart[:, inside], atol=1e-5)
    assert (np.ptp(both[:, ~inside], axis=0) == 0).all()
    assert first.then(Scaling()) == first
    assert Scaling().then(first) == first


def test_nothing_is_printed_of_classes_of_few_rows(recwarn: pytest.WarningsRecorder) -> None:
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    relevance(x, np.arange(60) % 40, 0)
    assert recwarn.list == []


class _Otherwise:
    """A kernel of a release to come."""

    def __init__(self, only: int) -> None: ...


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("_splitter", "RandomSplitter", None),
        ("_tree", "DepthFirstTreeBuilder", _Otherwise),
    ],
)
def test_trees_are_the_same_where_scikit_learn_has_other_kernels(
    module: str, name: str, now: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = table(300, 5)
    usual = relevance(x, y, 3)
    kernels = importlib.import_module(f"sklearn.tree.{module}")
    theirs = vars(kernels).copy()
    theirs.pop(name)
    other = types.ModuleType(kernels.__name__)
    vars(other).update(theirs if now is None else {**theirs, name: now})
    monkeypatch.setitem(sys.modules, kernels.__name__, other)
    assert np.array_equal(relevance(x, y, 3), usual)


@pytest.mark.parametrize("n", [FEW_VALUES // 20, FEW_VALUES // 4])
def test_trees_are_those_of_a_forest_and_leave_the_filters_of_warnings_alone(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scikit-learn's forests reset them in each thread, and may not bring them back."""
    x, y = table(n, 8)
    leaf = max(metric.LEAF[0], int(metric.LEAF[1] * n))
    trees = ExtraTreesClassifier(metric.TREES, min_samples_leaf=leaf, random_state=3).fit(x, y)
    expected = [tree.tree_.compute_feature_importances(normalize=False) for tree in trees]
    reset: list[None] = []
    monkeypatch.setattr(warnings, "resetwarnings", lambda: reset.append(None))
    found = relevance(x, y, 3, Threads(2))[0]
    assert np.array_equal(found, np.mean(expected, axis=0) / np.mean(expected, axis=0).sum())
    assert reset == []


@pytest.mark.parametrize("exponent", [-100, -30, 40])
def test_units_do_not_matter_to_relevance(exponent: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    y = (x[:, 1] > 0).astype(np.int64)
    assert (relevance(np.ldexp(x, exponent), y, 0) == relevance(x, y, 0)).all()


def test_weights_are_standard_scores_times_roots_of_relevance() -> None:
    x = table(300, 1)[0] * np.array([1, 100, 0], np.float32)
    statistics = FeatureStatistics(x.shape[1])
    statistics.see(x)
    spread = weights(statistics, np.array([0.25, 0.75, 0.0])).apply(x).std(axis=0)
    assert spread == pytest.approx([0.5, 0.75**0.5, 0.0], abs=1e-6)


def steps(n: int, seed: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray]:
    """Classes by how many of nine features are positive, each as a step."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 9))
    y = ((x > 0).sum(axis=1) > 4).astype(np.int64)
    return x.astype(np.float32), y ^ (rng.random(n) < 0.1)


@pytest.mark.parametrize("classes", [2, 4])
def test_logits_are_those_of_trees_that_saw_the_other_folds(classes: int) -> None:
    x, y = steps(1200)
    y = y + 2 * (x[:, 2] > 0) if classes == 4 else y
    forests = fit_forests(x, y, 0)
    assert forests is not None
    found, fold = forests.apply(x), fold_of(x)
    assert found.shape == (1200, classes if classes > 2 else 1)
    for one in range(logits.FOLDS):
        twin = HistGradientBoostingClassifier(
            learning_rate=logits.RATE,
            max_iter=logits.rounds(classes),
            max_leaf_nodes=logits.LEAVES,
            max_depth=logits.DEPTH,
            min_samples_leaf=logits.LEAF,
            early_stopping=False,
            random_state=0,
        ).fit(x[fold != one], y[fold != one])
        chance = np.log(twin.predict_proba(x[fold == one]))
        raw = chance - chance.mean(axis=1, keepdims=True)
        expected = raw if classes > 2 else raw[:, 1:] - raw[:, :1]
        assert np.allclose(found[fold == one], expected, atol=1e-5)
    assert np.array_equal(np.vstack([forests.apply(row[None]) for row in x[:50]]), found[:50])


def discriminant(part: float) -> LinearDiscriminantAnalysis:
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=part)


class OfAgreeing(ClassifierMixin, BaseEstimator):
    """A discriminant of the rows whose labels the most shrunken one of all rows does not
    contradict."""

    def __init__(self, part: float) -> None:
        self.part = part

    def fit(self, x: np.ndarray, y: np.ndarray) -> OfAgreeing:
        agrees = discriminant(logits.SHRUNKEN[-1]).fit(x, y).predict(x) == y
        self.model_ = discriminant(self.part).fit(x[agrees], y[agrees])
        return self

    def predict_log_proba(self, x: np.ndarray) -> np.ndarray:
        return self.model_.predict_log_proba(x)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("narrow", [100, 0])
def test_a_linear_function_is_the_one_that_saw_the_other_folds(
    classes: int, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logits, "NARROW", narrow)
    monkeypatch.setattr(logits, "REGRESSED_VALUES", 0)
    x, y = steps(900)
    y = y + (x[:, 2] > 0) if classes == 3 else y
    x[:, 3] = 7.0
    x[:, 4] *= 1000
    linear = fit_linear(x, y, classes)
    assert linear is not None
    found, fold, held_out = linear.apply(x), fold_of(x), []
    regressions = [LogisticRegression(C=ridge, tol=1e-6) for ridge in logits.RIDGES]
    of_shares = [discriminant(part) for part in logits.SHRUNKEN]
    discriminants = of_shares if classes > 2 or not narrow else []
    discriminants += [] if narrow else [OfAgreeing(part) for part in logits.SHRUNKEN]
    for model in discriminants + (regressions if narrow else []):
        expected = np.empty((900, classes))
        for one in range(logits.FOLDS):
            twin = make_pipeline(StandardScaler(), model)
            twin.fit(x[fold != one].astype(np.float64), y[fold != one])
            expected[fold == one] = twin.predict_log_proba(x[fold == one].astype(np.float64))
        expected -= expected.mean(axis=1, keepdims=True)
        by_factor = [
            (log_loss(y, softmax(factor * expected, axis=1)), factor * expected)
            for factor in ([1.0] if model in regressions else np.geomspace(1 / 8, 1, 300).tolist())
        ]
        held_out.append(min(by_factor, key=lambda one: one[0]))
    best = min(held_out, key=lambda one: one[0])[1]
    assert np.allclose(found, best if classes == 3 else best[:, 1:] - best[:, :1], atol=0.02)
    assert np.array_equal(np.vstack([linear.apply(row[None]) for row in x[:50]]), found[:50])


def test_no_trees_where_a_class_is_missing_or_classes_are_too_many() -> None:
    x, _ = steps(300)
    assert fit_forests(x, np.zeros(300, np.int64), 0) is None
    assert fit_forests(x, (np.arange(300) == 7).astype(np.int64), 0) is None
    assert fit_linear(x, np.zeros(300, np.int64), 2) is None
    rare = fit_linear(x, np.where(np.arange(300) == 7, 2, np.arange(300) % 2), 4)
    assert rare is not None
    assert softmax(rare.apply(x), axis=1)[:, 2:].mean() < 0.05  # of one row, and of none
    assert fit_forests(x, np.arange(300) % (logits.MOST_FORESTS + 1), 0) is None


def test_equal_rows_are_in_one_fold() -> None:
    x = np.round(np.random.default_rng(0).normal(size=(3000, 3))).astype(np.float32)
    _, same = np.unique(x, axis=0, return_inverse=True)
    for one in range(same.max() + 1):
        assert len(np.unique(fold_of(x[same == one]))) == 1  # 0 and -0 too
    spread = np.bincount(fold_of(np.random.default_rng(1).normal(size=(3000, 3))))
    assert spread.min() > 900


def test_logits_are_taken_where_trees_tell_more() -> None:
    x, y = steps(2000)
    chosen, by = choose_metric(x, y, 0)
    assert chosen.metric == "model"
    assert by.apply(x).shape == (2000, 10)
    weighted, model = chosen.tried[-2:]
    assert model.loss < weighted.loss - 2 * weighted.standard_error
    asked, weights_alone = choose_metric(x, y, 0, "weighted")
    assert [one.metric for one in asked.tried] == ["as-scaled", "cosine", "weighted"]
    assert np.array_equal(weights_alone.apply(x), by.apply(x)[:, :-1])


def test_threads_choose_what_one_does() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(9_000, 6)).astype(np.float32)
    y = ((x[:, 0] * x[:, 1] > 0) ^ (rng.random(len(x)) < 0.2)).astype(np.int8)
    one, alone = choose_metric(x, y, 0)
    for number in (2, 5):
        choice, scaling = choose_metric(x, y, 0, threads=Threads(number))
        assert choice == one
        assert np.array_equal(scaling.apply(x), alone.apply(x))


def test_trees_of_many_features_are_fitted_on_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = steps(600)
    monkeypatch.setattr(logits, "FITTED_VALUES", 9 * 200)
    _, by = choose_metric(x, y, 0, "model")
    monkeypatch.undo()
    expected = fit_logits(x[:200], y[:200], 0)
    assert expected is not None
    assert np.array_equal(by.apply(x)[:, -1:], expected.apply(x))


def test_logits_of_two_classes_are_of_trees_and_of_what_a_linear_function_tells_more() -> None:
    x, y = steps(1200)
    by, trees = fit_logits(x, y, 0), fit_forests(x, y, 0)
    assert by is not None
    assert trees is not None
    assert not by.slope.any()  # the steps are what trees see
    assert np.allclose(by.apply(x), trees.apply(x) * by.spread)
    rng = np.random.default_rng(0)
    chance = expit(x @ rng.normal(size=9) * 3)
    given = (rng.random(1200) < chance).astype(np.int64)
    by, trees, linear = fit_logits(x, given, 0), fit_forests(x, given, 0), fit_linear(x, given, 2)
    assert by is not None
    assert trees is not None
    assert linear is not None
    found, parts = by.apply(x)[:, 0], np.column_stack([trees.apply(x), linear.apply(x)])
    weight, *_ = np.linalg.lstsq(parts, found, rcond=None)
    assert np.allclose(parts @ weight, found, atol=1e-4)
    assert weight[1] > weight[0] >= -1e-6
    assert found.var() == pytest.approx(1.0, abs=1e-3)
    errors = [abs(np.tanh(one / 2) - (2 * chance - 1)).mean() for one in parts.T]
    assert errors[1] < errors[0]


@pytest.mark.parametrize("classes", [2, 3])
def test_new_rows_are_judged_by_the_models_of_all_folds(classes: int) -> None:
    x, y = steps(900)
    y = y + (x[:, 2] > 0) * (classes - 2)
    trees, linear = fit_forests(x, y, 0), fit_linear(x, y, classes)
    assert trees is not None
    assert linear is not None
    for forests in (trees, linear, mixed((linear, trees), (0.3, 0.7))):
        each = []
        for fold in range(logits.FOLDS):
            alone = {
                name: np.stack([getattr(forests, name)[fold]] * logits.FOLDS)
                for name in ("root", "start", "slope")
            }
            each.append(forests._replace(**alone).apply(x))
        found = forests.for_new_rows().apply(x)
        assert np.allclose(found, np.mean(each, axis=0), atol=1e-5)
        assert np.array_equal(found[:7], forests.for_new_rows().apply(x[:7]))


def test_models_that_say_the_contrary_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they may of rows that they have not seen, where these are few: no weight is left."""
    x, _ = steps(900)
    given = (x.sum(axis=1) > 0).astype(np.int64)
    trees, linear = fit_forests(x, given, 0), fit_linear(x, given, 2)
    assert trees is not None
    assert linear is not None
    trees = trees._replace(value=-trees.value, start=-trees.start)
    linear = linear._replace(slope=-linear.slope, start=-linear.start)
    monkeypatch.setattr(logits, "fit_forests", lambda *_: trees)
    monkeypatch.setattr(logits, "fit_linear", lambda *_: linear)
    by = fit_logits(x, given, 0)
    assert by is not None
    assert np.allclose(by.apply(x), trees.apply(x) * by.spread)


def test_logits_of_many_classes_are_of_a_linear_function() -> None:
    x, y = steps(1200)
    y = y + (x[:, 2] > 0)
    by, linear = fit_logits(x, y, 0), fit_regressed(x, y, 3)
    assert by is not None
    assert linear is not None
    assert np.allclose(by.apply(x), linear.apply(x) * by.spread)
    assert by.apply(x).var(axis=0).sum() == pytest.approx(1.0, abs=1e-3)


def test_logits_of_more_classes_than_columns_are_as_far_apart() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 40, 2000)
    x = (rng.normal(size=(40, 6))[y] + 0.3 * rng.normal(size=(2000, 6))).astype(np.float32)
    by, linear = fit_logits(x, y, 0), fit_linear(x, y, 40)
    assert by is not None
    assert linear is not None
    found, expected = by.apply(x), linear.apply(x)
    assert found.shape == (2000, logits.MOST_COLUMNS)
    assert np.abs(found.sum(axis=1)).max() < 1e-4
    of_few, of_many = (pdist(one[:60].astype(np.float64)) for one in (found, expected))
    assert np.allclose(of_few / of_few.mean(), of_many / of_many.mean(), rtol=0.02)
