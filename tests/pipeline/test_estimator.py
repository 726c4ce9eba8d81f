"""The scikit-learn estimator: its contract, and the same numbers as the kernels it stands on."""

from __future__ import annotations

import doctest
import re
import warnings
from contextlib import nullcontext
from typing import Any

import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given as given_values
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.study.pools import gao
from pipeline import cleaned, estimator
from pipeline.cleaned import CleanedClassifier
from pipeline.decision.soft import WAYS, kept, soft_labels
from pipeline.decision.suspects import by_models
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.knn.exact import nearest
from pipeline.noise.extrema import anchor_plan, crossfit
from pipeline.simulate import flip, sheets

Floats = npt.NDArray[np.float64]
MATRIX = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.1, 0.6]])


@parametrize_with_checks(
    [
        RobustKNeighborsClassifier(),
        RobustKNeighborsClassifier(5, metric="euclidean"),
        RobustKNeighborsClassifier(metric="cosine"),
        CleanedClassifier(LogisticRegression()),
        CleanedClassifier(
            DecisionTreeClassifier(random_state=0),
            how="drop",
            neighbors=RobustKNeighborsClassifier(metric="euclidean"),
        ),
    ]
)
def test_scikit_learns_checks(estimator, check) -> None:  # type: ignore[no-untyped-def]
    check(estimator)


def test_example_in_the_docstring() -> None:
    assert doctest.testmod(estimator).failed == doctest.testmod(cleaned).failed == 0


def test_any_classifier_learns_from_cleaned_labels() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1500)
    x = rng.normal(size=(1500, 3)) + 2.5 * y[:, None]
    given = np.where(rng.random(1500) < np.where(y == 1, 0.4, 0.05), 1 - y, y)
    tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
    plain = (tree.fit(x, given).predict(x) == y).mean()
    for how in ("auto", *WAYS):
        model = CleanedClassifier(tree, how=how).fit(x, given)
        assert (model.predict(x) == y).mean() > plain + 0.02, how
    assert (model.label_issues_ == model.neighbors_.label_issues_).all()
    steps = make_pipeline(StandardScaler(), LogisticRegression())
    weighed = CleanedClassifier(steps, how="weight").fit(x, given)
    weight = {"logisticregression__sample_weight": weighed.label_quality_}
    again = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, given, **weight)
    assert (weighed.predict_proba(x) == again.predict_proba(x)).all()
    with sklearn.config_context(enable_metadata_routing=True):  # by which no step is named
        CleanedClassifier(steps).fit(x, given)
        with pytest.raises(ValueError, match="Pipeline takes no sample_weight; give 'drop'"):
            CleanedClassifier(steps, how="weight").fit(x, given)
        asked = [one.set_fit_request(sample_weight=True) for one in (StandardScaler(), steps[-1])]
        CleanedClassifier(make_pipeline(*asked), how="weight").fit(x, given)
    nearest_few = KNeighborsClassifier()  # whose fit takes no weights
    assert CleanedClassifier(nearest_few).fit(x, given).predict_proba(x).shape == (1500, 2)
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight; give 'drop"):
        CleanedClassifier(nearest_few, how="weight").fit(x, given)
    judged_by = CleanedClassifier(LogisticRegression(), neighbors=KNeighborsClassifier())
    with pytest.raises(ValueError, match="need a RobustKNeighborsClassifier"):
        judged_by.fit(x, y)
    for no_classifier in (LinearRegression(), None, make_pipeline(LinearRegression())):
        with pytest.raises(ValueError, match="need a classifier"):
            CleanedClassifier(no_classifier).fit(x, given)
    with pytest.raises(ValueError, match="how='all': need 'auto', 'drop' or 'relabel'"):
        CleanedClassifier(tree, how="all").fit(x, given)
    three = np.where(np.isin(np.arange(1500), [3, 70]), 2, given)  # all of a class are suspect
    for how in WAYS:
        words = r"all labels \[2\] are suspect" if how in ("drop", "relabel") else None
        with nullcontext() if words is None else pytest.warns(UserWarning, match=words):
            model = CleanedClassifier(tree, how=how).fit(x, three)
        assert model.predict_proba(x).shape == (1500, 3)


@given_values(
    st.integers(2, 5).flatmap(
        lambda c: st.tuples(
            st.just(c), st.lists(st.tuples(*[st.integers(0, c - 1)] * 2), min_size=1)
        )
    ),
    st.integers(0, 99),
)
def test_soft_labels_are_distributions(case: Any, seed: int) -> None:
    c, pairs = case
    given, likely = np.array(pairs).T
    rng = np.random.default_rng(seed)
    quality, matrix = rng.random(len(given)), rng.dirichlet(np.ones(c), c)
    chance = soft_labels(given, likely, quality, matrix)
    assert np.allclose(chance.sum(axis=1), 1.0)
    assert (chance >= 0.0).all()
    n = np.arange(len(given))
    assert np.allclose(chance[n, given], quality)
    other = given != likely
    assert np.allclose(chance[n, likely][other], 1.0 - quality[other])
    suspect = rng.random(len(given)) < 0.7
    left = kept(given, suspect, c)
    assert (left >= ~suspect).all()
    assert (np.unique(given[left]) == np.unique(given)).all()


def test_what_a_quality_leaves_is_shared_by_the_matrix_or_alike() -> None:
    given, quality = np.array([0, 2]), np.array([0.7, 0.4])
    matrix = np.array([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]])
    shared = soft_labels(given, given, quality, matrix)
    assert np.allclose(shared, [[0.7, 0.3, 0.0], [0.3, 0.3, 0.4]])


def clouds(n: int, seed: int) -> tuple[Floats, npt.NDArray[np.str_], npt.NDArray[np.str_]]:
    """Three clouds with true and given labels by name."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 2)) + 5.0 * np.array([[1, 0], [-0.5, 0.9], [-0.5, -0.9]])[y]
    given = (rng.random(n)[:, None] > MATRIX.cumsum(axis=1)[y]).sum(axis=1)
    names = np.array(["ant", "bee", "cat"])
    return x, names[y], names[given]


def test_rates_are_those_of_the_kernel() -> None:
    x, y, _ = sheets(1500, 0)
    given = flip(y, 0.3, 0.1, 0)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x, given)
    _, width = anchor_plan(*x.shape)
    index, _ = nearest(x, x, width - 1, exclude=np.arange(len(x)))
    lists = np.column_stack([np.arange(len(x)), index])
    rates = crossfit(lists, given[lists], len(x), x=x)
    assert model.noise_rates_ == (rates.p0, rates.p1)
    assert (model.support_, model.reason_) == (rates.support, rates.reason)
    assert model.transition_matrix_[0, 1] == rates.p0
    assert model.transition_matrix_[1, 0] == rates.p1


def test_minmax_counts_the_row_itself() -> None:
    x, y, _ = sheets(400, 0)
    given = flip(y, 0.3, 0.1, 0)
    model = RobustKNeighborsClassifier(7, noise="minmax").fit(x, given)
    index, _ = nearest(x, x, 6, exclude=np.arange(len(x)))
    eta = np.column_stack([given, given[index]]).mean(axis=1)
    assert model.noise_rates_ == (eta.min(), 1 - eta.max())
    assert model.threshold_ == pytest.approx((1 + eta.min() - (1 - eta.max())) / 2, abs=1e-15)


def test_asymmetric_noise_is_undone() -> None:
    x, y, _ = sheets(4000, 0)
    given = flip(y, 0.4, 0.1, 0)
    query, truth, _ = sheets(2000, 0, first=8192)
    model = RobustKNeighborsClassifier(n_neighbors=15).fit(x, given)
    plain = RobustKNeighborsClassifier(n_neighbors=15, noise=np.eye(2)).fit(x, given)
    ours, theirs = ((m.predict(query) == truth).mean() for m in (model, plain))
    assert ours > theirs + 0.01


@pytest.mark.parametrize(
    ("rate", "support"), [(0.45, "supported"), (0.6, "supported"), (0.7, "weak")]
)
def test_a_class_that_is_mostly_given_one_other_label_is_found(rate: float, support: str) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 5, 4000)
    x = 6.0 * np.eye(5)[clean] + rng.normal(size=(4000, 5))
    given = np.where((clean == 2) & (rng.random(4000) < rate), 3, clean)
    model = RobustKNeighborsClassifier().fit(x, given)
    assert model.transition_matrix_[2, 3] == pytest.approx(rate, abs=0.04)
    assert model.support_ == support
    suspect, wrong = model.label_quality_ < 0.5, given != clean
    assert (suspect == wrong).mean() > 0.99
    assert (model.predict(x) == clean).mean() > 0.99


def test_known_matrix_is_taken_at_its_word() -> None:
    x, y, _ = gao(600, 0)
    model = RobustKNeighborsClassifier(10, noise=[[0.7, 0.3], [0.1, 0.9]]).fit(x, y)
    assert model.noise_rates_ == (0.3, pytest.approx(0.1))
    assert model.threshold_ == pytest.approx(0.6)
    assert model.reason_ == "Given by the user."


@pytest.mark.parametrize("classes", [2, 4])
def test_a_small_k_predicts_and_qualities_look_farther(classes: int) -> None:
    rng = np.random.default_rng(classes)
    x = rng.normal(size=(800, 3)).astype(np.float32)
    clean = (x @ rng.normal(size=(3, classes))).argmax(axis=1)
    given = np.where(rng.random(800) < 0.25, rng.integers(0, classes, 800), clean)
    known = 0.75 * np.eye(classes) + 0.25 / classes
    for noise in ("crossfit", known):
        few, more = (RobustKNeighborsClassifier(k, noise=noise).fit(x, given) for k in (3, 30))
        assert few.n_neighbors_ == 3
        found = [average_precision_score(given != clean, -m.label_quality_) for m in (few, more)]
        assert abs(found[0] - found[1]) < 0.01
        chance = few.predict_proba(x)
        assert np.allclose(chance.sum(axis=1), 1.0)
        assert np.array_equal(few.classes_[chance.argmax(axis=1)], few.predict(x))


def test_so_few_rows_are_refused_as_by_the_commands() -> None:
    with pytest.raises(ValueError, match="a minimum of 6 is required"):
        RobustKNeighborsClassifier().fit(np.arange(5.0)[:, None], [0, 1, 0, 1, 0])


@pytest.mark.parametrize("classes", [2, 3])
def test_too_few_rows_to_know_the_rates_have_suspects_all_the_same(classes: int) -> None:
    x = np.repeat(10.0 * np.eye(classes), 12, axis=0)
    given = np.repeat(np.arange(classes), 12)
    given[0] = 1
    model = RobustKNeighborsClassifier().fit(x[:39], given[:39])
    assert np.flatnonzero(model.label_issues_).tolist() == [0]


def test_three_classes_by_name() -> None:
    x, y, given = clouds(3000, 0)
    model = RobustKNeighborsClassifier().fit(x, given)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert model.noise_rates_ is None
    assert model.threshold_ is None
    assert np.abs(model.transition_matrix_ - MATRIX).max() < 0.05
    assert (model.predict(x) == y).mean() > 0.97
    assert np.array_equal(model.classes_[model.predict_proba(x).argmax(axis=1)], model.predict(x))
    wrong = given != y
    assert model.label_quality_[wrong].mean() < 0.1 < 0.9 < model.label_quality_[~wrong].mean()
    assert model.label_issues_.tolist() == (model.label_quality_ < 0.5).tolist()
    assert model.label_issues_[wrong].mean() > 0.95 > 0.02 > model.label_issues_[~wrong].mean()
    assert (model.likely_label_ == y).mean() > 0.98
    assert len(np.unique(model.label_quality_)) > 2900
    low, high = model.transition_interval_[..., 0], model.transition_interval_[..., 1]
    assert ((low <= model.transition_matrix_) & (model.transition_matrix_ <= high)).all()
    assert len(model.class_support_) == 3


@pytest.mark.parametrize("classes", [2, 5])
def test_several_sizes_predict_unless_one_k_is_asked_for(classes: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4500, 4)).astype(np.float32)
    y = np.floor(1.5 * x[:, 0] + 0.5 * x[:, 1]).astype(int) % classes  # stripes
    given = np.where(rng.random(4500) < 0.3, rng.integers(0, classes, 4500), y)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x[:1500], given[:1500])
    assert model.weighed_vote_.taken
    query, truth = x[1500:], y[1500:]
    index, far = nearest(query, x[:1500], 100)
    (chance, predicted), (chance_of_one_k, one_k) = (
        model._vote(model._label[index], far, way, model._trees(query)) for way in (True, False)
    )
    assert np.array_equal(model.predict(query), predicted)
    assert np.array_equal(model.predict_proba(query), chance)
    assert (predicted == truth).mean() > (one_k == truth).mean() + 0.02
    one, other = (of[np.arange(3000), truth].clip(1e-3) for of in (chance, chance_of_one_k))
    assert np.log(one).mean() > np.log(other).mean()
    k = model.n_neighbors_
    for asked in ({"n_neighbors": k}, {"noise": model.transition_matrix_}):
        other = RobustKNeighborsClassifier(metric="euclidean", **asked).fit(x[:1500], given[:1500])
        assert other.weighed_vote_ is None
    other = RobustKNeighborsClassifier(k, metric="euclidean").fit(x[:1500], given[:1500])
    assert np.array_equal(other.predict(query), one_k)


@pytest.mark.parametrize("classes", [2, 4])
def test_new_rows_hear_the_models_of_all_folds(classes: int) -> None:
    """Each learned from two thirds of the training, and none from these rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 40)).astype(np.float32)
    y = (x @ rng.normal(size=(40, classes))).argmax(axis=1)
    given = np.where(rng.random(4000) < 0.3, rng.integers(0, classes, 4000), y)
    model = RobustKNeighborsClassifier().fit(x[:1000], given[:1000])
    query, truth = x[1000:], y[1000:]
    assert model._forests is not None
    index, far = nearest(model._rows(query), model._x, model._longest)
    trees = by_models(model._forests, query, classes)
    of_one = model._vote(model._label[index], far, True, trees)[0]
    alone, together = (
        np.log(chance[np.arange(3000), truth].clip(1e-3)).mean()
        for chance in (of_one, model.predict_proba(query))
    )
    assert together > alone + 0.01


def test_a_tie_goes_to_the_rule() -> None:
    """An average that just meets the threshold is a 1, and the probabilities agree."""
    x = np.array([[0.0], [1.0]] * 20)
    y = np.array([0, 1, 1, 0] * 10)
    model = RobustKNeighborsClassifier(20, noise=np.eye(2)).fit(x, y)
    query = [[0.0], [1.0]]
    assert model.predict(query).tolist() == [1, 1]
    assert model.predict_proba(query).argmax(axis=1).tolist() == [1, 1]
    assert np.allclose(model.predict_proba(query), 0.5)


@pytest.mark.parametrize(
    ("n", "share", "rate", "seed"), [(800, 0.1, 0.1, 14), (2000, 0.03, 0.0, 2)]
)
def test_a_rare_class_does_not_pay(n: int, share: float, rate: float, seed: int) -> None:
    """No worse than the plain vote of as many neighbors, where classes overlap."""
    rng = np.random.default_rng(seed)
    clean = (rng.random(n + 6000) < share).astype(int)
    x = rng.normal(size=(n + 6000, 6))
    x[clean == 1, :3] += 1.2
    given = np.where(rng.random(n + 6000) < rate, 1 - clean, clean)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x[:n], given[:n])
    plain = RobustKNeighborsClassifier(model.n_neighbors_, noise=np.eye(2), metric="euclidean")
    plain.fit(x[:n], given[:n])
    right, before = (m.predict(x[n:]) == clean[n:] for m in (model, plain))
    gain = right.astype(float) - before
    assert gain.mean() >= -2 * gain.std() / np.sqrt(len(gain))


def test_mistakes_along_a_feature_are_no_class_mostly_given_the_other_label() -> None:
    """A class of 2 %, and mistakes up to .4 at one side; beside it, labels of which most are lost.
    Either looks like a large class that is mostly given the other label; the latter is one."""
    rng = np.random.default_rng(0)
    clean = (rng.random(5500) < 0.02).astype(int)
    x = rng.normal(size=(5500, 4))
    x[clean == 1, :2] += 1.2
    rate = 0.4 * np.argsort(np.argsort(x[:, 3])) / len(x)
    given = np.where(rng.random(5500) < rate, 1 - clean, clean)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x[:1500], given[:1500])
    assert model.noise_rates_[1] > 0.5
    assert model.threshold_ == 0.5
    assert np.mean(model.predict(x[1500:]) == clean[1500:]) > 0.97

    clean = (rng.random(5500) < 0.4).astype(int)
    x = rng.normal(size=(5500, 4))
    x[clean == 1, :2] += 2.5
    given = np.where(rng.random(5500) < 0.6, 0, clean)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x[:1500], given[:1500])
    assert model.noise_rates_[1] > 0.5
    assert model.threshold_ < 0.3
    assert np.mean(model.predict(x[1500:]) == clean[1500:]) > 0.9


def test_objectives_trade_one_class_for_the_other() -> None:
    """A class of 8 % amid the other: its rows are found the more, the more they are wanted."""
    rng = np.random.default_rng(2)
    clean = (rng.random(5000) < 0.08).astype(int)
    x = rng.normal(size=(5000, 4)) + 0.9 * clean[:, None]
    y = np.where(rng.random(5000) < 0.1, 1 - clean, clean)
    query, truth = x[3000:], clean[3000:]
    models = [
        RobustKNeighborsClassifier(objective=objective, metric="euclidean").fit(x[:3000], y[:3000])
        for objective in ("accuracy", "1:3", "balanced")
    ]
    right = [np.mean(model.predict(query) == truth) for model in models]
    found = [np.mean(model.predict(query[truth == 1])) for model in models]
    assert right[0] > right[1] > right[2]
    assert found[0] < found[1] < found[2]
    assert found[2] > 0.7
    assert all(model.weighed_vote_ is None for model in models[1:])
    np.testing.assert_array_equal(*(model.predict_proba(query).round(9) for model in models[1:]))
    with pytest.raises(ValueError, match="objective='1:3' is for two classes"):
        RobustKNeighborsClassifier(objective="1:3").fit(x, rng.integers(0, 3, 5000))


def test_few_rows_keep_the_plain_vote() -> None:
    x, y, _ = gao(30, 0)
    model = RobustKNeighborsClassifier(5).fit(x, y)
    assert model.support_ == "unsupported"
    assert "too few" in model.reason_
    assert model.threshold_ == 0.5


def wide_indices(x: Floats) -> csr_array:
    """Sparse rows as text counts often come: 64-bit indices."""
    rows = csr_array(x)
    return csr_array(
        (rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), x.shape
    )


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("n", [400, 2000])
def test_sparse_rows_give_what_dense_ones_do(metric: str, n: int) -> None:
    x, y, given = clouds(n, 0)
    x = np.column_stack([np.maximum(x, 0), np.maximum(-x, 0), np.zeros((n, 30)), np.ones(n)])
    dense, sparse = (
        RobustKNeighborsClassifier(metric=metric, builder="exact").fit(kind(x), given)
        for kind in (np.asarray, wide_indices)
    )
    for name in ("transition_matrix_", "label_quality_", "label_issues_", "likely_label_"):
        assert np.array_equal(getattr(dense, name), getattr(sparse, name))
    assert (dense.support_, dense.n_neighbors_) == (sparse.support_, sparse.n_neighbors_)
    chances = dense.predict_proba(x)
    for model in (dense, sparse):
        for kind in (np.asarray, csr_array, wide_indices):
            assert np.array_equal(model.predict_proba(kind(x)), chances)
    assert (sparse.predict(csr_array(x)) == y).mean() > 0.97


@pytest.mark.parametrize("metric", ["auto", "seuclidean", "weighted", "model"])
def test_new_rows_may_be_sparse_where_training_had_dense_ones(metric: str) -> None:
    x, _, given = clouds(300, 0)
    x[:, 0] *= 100
    model = RobustKNeighborsClassifier(metric=metric).fit(x, given)
    assert np.array_equal(model.predict_proba(csr_array(x)), model.predict_proba(x))


FITTED = ("label_quality_", "label_issues_", "likely_label_", "transition_matrix_")


@pytest.mark.parametrize("k", ["auto", 7])
@pytest.mark.parametrize("has_self", [False, True])
@pytest.mark.parametrize("length", [100, 600])
def test_a_graph_gives_what_the_search_gives(k: int | str, has_self: bool, length: int) -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 900)
    x = (1000 * (rng.normal(size=(900, 4)) + 2.5 * y[:, None])).round()  # sums are exact
    given = np.where(rng.random(900) < 0.2, (y + 1) % 3, y)
    if has_self:
        graph = KNeighborsTransformer(n_neighbors=length).fit_transform(x)
    else:  # as cleanlab's Datalab has it
        graph = NearestNeighbors(n_neighbors=length).fit(x).kneighbors_graph(mode="distance")
    own = RobustKNeighborsClassifier(k, metric="euclidean").fit(x, given)
    for one in (graph, graph.tocoo(), csr_array(graph).sorted_indices()):
        model = RobustKNeighborsClassifier(k).fit(x, given, knn_graph=one)
        assert (model.n_neighbors_, model.support_) == (own.n_neighbors_, own.support_)
        for name in FITTED:
            np.testing.assert_array_equal(getattr(model, name), getattr(own, name))
        np.testing.assert_array_equal(model.predict_proba(x), own.predict_proba(x))


def test_graphs_of_any_lengths_and_what_is_no_graph() -> None:
    x, y = np.arange(12.0)[:, None], np.arange(12) // 6
    radius = NearestNeighbors(radius=2.5).fit(x).radius_neighbors_graph(mode="distance")
    assert RobustKNeighborsClassifier().fit(x, y, knn_graph=radius).n_neighbors_ <= 2
    wrong = radius.copy()
    wrong.data[3] = -1
    for graph, k, words in (
        (radius.toarray(), 1, "knn_graph is ndarray: need a sparse matrix (12, 12) of distances"),
        (radius[:5], 1, "knn_graph is sparse (5, 12): need"),
        (wrong, 1, "knn_graph: negative or infinite distances"),
        (radius, 3, "knn_graph: row 0 has 2 neighbors besides itself: need 3"),
        (radius * 0, 13, "n_neighbors=13"),
        (csr_array((12, 12)), "auto", "row 0 has 0 neighbors besides itself: need 1"),
        (NearestNeighbors().fit(x).kneighbors_graph(), 2, "all entries are 1; make it with mode="),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            RobustKNeighborsClassifier(k).fit(x, y, knn_graph=graph)


@pytest.mark.parametrize("classes", [2, 4])
def test_qualities_know_whose_labels_they_are(classes: int) -> None:
    rng = np.random.default_rng(classes)
    y, who = rng.integers(0, classes, 1500), rng.choice([*"abc"], 1500)
    x = rng.normal(size=(1500, 3)) + 2.0 * rng.normal(size=(classes, 3))[y]
    wrong = rng.random(1500) < np.where(who == "b", 0.4, 0.03)
    given = np.where(wrong, (y + rng.integers(1, classes, 1500)) % classes, y)
    plain = RobustKNeighborsClassifier().fit(x, given)
    model = RobustKNeighborsClassifier().fit(x, given, groups=who)
    assert (plain.groups_, plain.group_rates_) == (None, None)
    assert model.groups_.tolist() == [*"abc"]
    assert model.group_rates_.shape == (3, classes)
    assert model.group_rates_[1].min() > 0.25 > 0.15 > model.group_rates_[[0, 2]].max()
    known, unknown = (average_precision_score(wrong, -m.label_quality_) for m in (model, plain))
    assert known > unknown + 0.02
    np.testing.assert_array_equal(model.predict_proba(x), plain.predict_proba(x))
    judge = CleanedClassifier(LogisticRegression()).fit(x, given, groups=who).neighbors_
    np.testing.assert_array_equal(judge.label_quality_, model.label_quality_)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(x, given, groups=who[1:])
    for unnamed in ([*who[:3], None, *who[4:]], np.where(np.arange(1500) == 3, np.nan, 1.0)):
        with pytest.raises(ValueError, match=r"groups: the value of row 3 \(from 0\) is missing"):
            model.fit(x, given, groups=unnamed)
    mixed = np.array([1, "a"], object)[y % 2]
    for option in ("groups", "together"):
        with pytest.raises(ValueError, match=f"{option}: int and str have no order; give values"):
            model.fit(x, given, **{option: mixed})


def test_cosine_does_not_see_lengths() -> None:
    x, y, given = clouds(1500, 1)
    longer = x * np.random.default_rng(0).choice([0.25, 1.0, 64.0], len(x))[:, None]
    models = [RobustKNeighborsClassifier(metric="cosine").fit(rows, given) for rows in (x, longer)]
    assert np.array_equal(models[0].label_quality_, models[1].label_quality_)
    assert (models[1].predict(x) == y).mean() > 0.97


@pytest.mark.parametrize("builder", ["exact", "join"])
def test_threads_change_nothing(builder: str) -> None:
    x, y, _ = gao(2500, 0)
    models = [
        RobustKNeighborsClassifier(builder=builder, n_jobs=jobs).fit(x, y) for jobs in (None, 3)
    ]
    one, three = ((model.label_quality_, model.predict_proba(x)) for model in models)
    assert all(np.array_equal(a, b) for a, b in zip(one, three, strict=True))


def test_rows_count_alike() -> None:
    x, y, _ = gao(100, 0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weight'"):
        RobustKNeighborsClassifier().fit(x, y, sample_weight=np.ones(100))  # type: ignore[call-arg]


def test_useless_features_are_weighed_down() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2600)
    wide = rng.normal(size=(2600, 22))
    wide[:, :2] += 2.0 * y[:, None]
    given, new, truth = y[:600] ^ (rng.random(600) < 0.2), wide[600:], y[600:]
    wide = wide[:600]
    models = {
        metric: RobustKNeighborsClassifier(metric=metric).fit(wide, given)
        for metric in ("euclidean", "auto")
    }
    plain, learned = ((model.predict(new) == truth).mean() for model in models.values())
    assert models["auto"].metric_ == "weighted"
    assert learned > plain + 0.01
    chosen = models["auto"].metric_choice_
    assert min(chosen.relevance[:2]) > chosen.chance
    same = RobustKNeighborsClassifier(metric="weighted").fit(wide, given)
    assert np.array_equal(same.label_quality_, models["auto"].label_quality_)
    with pytest.raises(ValueError, match="needs dense X of at least 100 rows"):
        RobustKNeighborsClassifier(metric="weighted").fit(csr_array(wide), given)


def test_features_of_different_scales_are_standardized() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2400)
    x = rng.normal(size=(2400, 6)) + y[:, None]
    given, truth = y[:600] ^ (rng.random(600) < 0.2), y[600:]
    mixed = x * 10.0 ** np.arange(6) + 1e4
    models = {
        metric: RobustKNeighborsClassifier(metric=metric).fit(mixed[:600], given)
        for metric in ("euclidean", "seuclidean", "auto")
    }
    right = {name: (one.predict(mixed[600:]) == truth).mean() for name, one in models.items()}
    assert right["seuclidean"] > right["euclidean"] + 0.05
    assert models["auto"].metric_ in ("seuclidean", "weighted", "model")
    assert right["auto"] > right["euclidean"] + 0.05
    scores = (mixed - mixed[:600].mean(axis=0)) / mixed[:600].std(axis=0)
    by_scores = RobustKNeighborsClassifier(10, metric="euclidean").fit(scores[:600], given)
    by_itself = RobustKNeighborsClassifier(10, metric="seuclidean").fit(mixed[:600], given)
    same = by_scores.predict(scores[600:]) == by_itself.predict(mixed[600:])
    assert same.mean() > 0.99  # float32 may order two neighbors otherwise
    few = RobustKNeighborsClassifier().fit(mixed[:60], given[:60])
    assert (few.metric_, few.metric_choice_) == ("seuclidean", None)
    assert RobustKNeighborsClassifier().fit(x[:600], given).metric_ != "seuclidean"
    with pytest.raises(ValueError, match="needs dense X; give metric='euclidean'"):
        RobustKNeighborsClassifier(metric="seuclidean").fit(csr_array(mixed[:600]), given)
    graph = NearestNeighbors(n_neighbors=20).fit(x[:600]).kneighbors_graph(mode="distance")
    with pytest.raises(ValueError, match="knn_graph has its own"):
        RobustKNeighborsClassifier(metric="seuclidean").fit(mixed[:600], given, knn_graph=graph)


def test_verbose_tells_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    x, y, _ = gao(300, 0)
    RobustKNeighborsClassifier(5, verbose=True).fit(x, y).predict(x)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("[RobustKNeighborsClassifier] ") for line in lines)
    assert [line.split("] ")[1].split(" ...")[0] for line in lines] == [
        *("metric, on 300 rows", "neighbors of 300 rows", "noise, with k = 5", "suspect labels"),
        "neighbors of 300 new rows",
    ]
    RobustKNeighborsClassifier(5).fit(x, y)
    assert capsys.readouterr().out == ""


def test_sparse_rows_are_searched_exactly() -> None:
    x, y, _ = gao(100, 0)
    with pytest.raises(ValueError, match="builder='join' with sparse X: need 'auto' or 'exact'"):
        RobustKNeighborsClassifier(builder="join").fit(csr_array(x), y)


def test_the_same_lists_give_the_same_answer_by_joins() -> None:
    x, y, _ = sheets(3000, 0)
    models = [RobustKNeighborsClassifier(8, builder="join").fit(x, y) for _ in range(2)]
    assert np.array_equal(models[0].label_quality_, models[1].label_quality_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 0}, "a number from 1 to 599"),
        ({"n_neighbors": 600}, "a number from 1 to 599"),
        ({"n_neighbors": "many"}, "'auto' or a number"),
        ({"metric": "manhattan"}, "'euclidean' or 'cosine'"),
        ({"builder": "tree"}, "'auto', 'join', 'pynndescent', 'exact'"),
        ({"noise": "plain"}, "'crossfit' or 'minmax'"),
        ({"objective": "recall"}, "objective='recall': need accuracy, balanced, or two costs"),
        ({"noise": [[1, 0]]}, r"\(2, 2\) matrix"),
        ({"noise": [[np.nan, 1], [0, 1]]}, r"\(2, 2\) matrix"),
        ({"noise": {"a": 0.1}}, r"\(2, 2\) matrix"),
        ({"random_state": None}, "random_state=None: need a number from 0 to 4294967295"),
        ({"noise": [[0.5, 0.4], [0, 1]]}, "distributions"),
        ({"noise": [[0.2, 0.8], [0.9, 0.1]]}, "p0 \\+ p1 < 1"),
    ],
)
def test_senseless_parameters_are_refused(options: dict[str, object], message: str) -> None:
    x, y, _ = gao(600, 0)
    with pytest.raises(ValueError, match=message):
        RobustKNeighborsClassifier(**options).fit(x, y)


def test_what_many_classes_or_a_graph_rule_out_is_refused() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    with pytest.raises(ValueError, match="tell no classes apart"):
        RobustKNeighborsClassifier(noise=np.full((3, 3), 1 / 3)).fit(x, y)
    same = np.where(np.arange(300)[:, None] < 30, 5.0, x)  # equal rows are in one part
    with pytest.raises(ValueError, match="a model needs several classes in each part"):
        RobustKNeighborsClassifier(metric="model").fit(same, np.arange(300) < 30)
    graph = NearestNeighbors(n_neighbors=20).fit(x).kneighbors_graph(mode="distance")
    with pytest.raises(ValueError, match="knn_graph has its own"):
        RobustKNeighborsClassifier(metric="weighted").fit(x, y, knn_graph=graph)


def test_digits_that_are_lost_are_told() -> None:
    x, y, _ = gao(600, 0)
    far = x + 1e9 * (np.arange(x.shape[1]) == 1)
    names = [f"x{place}" for place in range(x.shape[1])]
    for given in (far, far.tolist(), pd.DataFrame(far), pl.DataFrame(far, names)):
        with pytest.warns(UserWarning, match=r"the first of them column 1 \(from 0\); subtract"):
            RobustKNeighborsClassifier(5, metric="euclidean").fit(given, y)
    with pytest.warns(UserWarning, match=r"column 0 \(from 0\); multiply it before"):
        RobustKNeighborsClassifier(5, metric="euclidean").fit(x.astype(float) * 1e-60, y)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_missing_label_is_named(missing: object) -> None:
    x, y, _ = gao(600, 0)
    labels = np.array(["no", "yes"], object)[y]
    labels[7] = missing
    for model in (RobustKNeighborsClassifier(), CleanedClassifier(LogisticRegression())):
        for given in (labels, pd.Series(labels, dtype="string")):
            with pytest.raises(ValueError, match=r"the label of row 7 \(from 0\) is missing"):
                model.fit(x, given)


def test_labels_that_numpy_takes_for_others_are_missing() -> None:
    x, y, _ = gao(600, 0)
    days = y.astype("datetime64[D]")
    days[7] = np.datetime64("NaT")
    text = [float("nan") if row == 7 else "ab"[label] for row, label in enumerate(y.tolist())]
    hidden = np.ma.masked_array(y, np.arange(len(y)) == 7)
    for given in (days, text, hidden, np.array([text], object).T):
        with pytest.raises(ValueError, match=r"the label of row 7 \(from 0\) is missing"):
            RobustKNeighborsClassifier().fit(x, given)


def test_weights_alone_flag_more_of_what_is_often_wrong_in_a_region() -> None:
    """What the report of a training with logits says."""
    x, y = make_classification(3000, 20, n_informative=6, class_sep=1.2, flip_y=0, random_state=5)
    region = x[:, 0] > np.quantile(x[:, 0], 0.85)
    wrong = np.random.default_rng(3).random(3000) < np.where(region, 0.4, 0.05)
    found = {
        metric: RobustKNeighborsClassifier(metric=metric).fit(x, y ^ wrong).label_issues_
        for metric in ("weighted", "model")
    }
    weighted, model = (found[metric][region & wrong].mean() for metric in ("weighted", "model"))
    assert weighted > model + 0.1
    assert model > 0.7


@pytest.mark.parametrize(
    "model", [RobustKNeighborsClassifier(), CleanedClassifier(LogisticRegression())]
)
def test_masked_features_are_refused(model: Any) -> None:
    x = np.ma.array(np.random.default_rng(0).normal(size=(60, 2)), mask=False)
    y = (x[:, 0] > 0).astype(int)
    model.fit(x, y)
    x[7, 1] = np.ma.masked
    with pytest.raises(ValueError, match=r"row 7 .* is masked"):
        model.fit(x, y)
    with pytest.raises(ValueError, match=r"row 7 .* is masked"):
        model.predict(x)
    with pytest.raises(ValueError, match="one class, 0: "):
        RobustKNeighborsClassifier().fit(x.filled(0), np.zeros(60, int))


def test_labels_that_a_linear_function_tells_for_sure_are_fitted_without_a_warning() -> None:
    x = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert RobustKNeighborsClassifier().fit(x, y).score(x, y) > 0.95


@pytest.mark.parametrize(
    "model", [RobustKNeighborsClassifier(5), CleanedClassifier(LogisticRegression(), how="drop")]
)
def test_frames_of_dask_are_read_as_those_of_pandas(model: Any) -> None:
    x, y = make_classification(80, 4, random_state=0)
    frame = pd.DataFrame(x, columns=list("abcd"))
    want = model.fit(frame, y).predict(frame)
    lazy = dd.from_pandas(frame, npartitions=2)
    np.testing.assert_array_equal(model.fit(lazy, y).predict(lazy), want)
    assert list(model.feature_names_in_) == list("abcd")
