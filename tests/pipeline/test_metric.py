"""What weights are learned from labels, how metrics are judged, and which is taken."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.blocks import metric
from pipeline.blocks.metric import (
    FOLDS,
    LEARNING_ROWS,
    Tried,
    choose_metric,
    compared,
    folds,
    label_losses,
    relevance,
    sizes,
    weights,
)
from pipeline.blocks.scaling import Scaling
from pipeline.knn.rows import as_rows

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
    useless = chosen.useless()
    assert not set(useless) & set(range(USEFUL))
    assert len(useless) >= 19
    spread = by.apply(x).std(axis=0)
    assert spread[:USEFUL].min() > 3 * spread[USEFUL:].max()
    assert spread.min() > 0  # else rows that differ there alone were equal
    plain, _, weighted = chosen.tried
    assert weighted.loss < plain.loss - 2 * plain.standard_error
    assert (weighted.behind, weighted.standard_error) == (0.0, 0.0)


def test_features_of_equal_use_stay_as_scaled() -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 1500)
    x = (rng.normal(size=(1500, 6)) + y[:, None]).astype(np.float32)
    chosen, by = choose_metric(x, y, 0)
    assert chosen.metric == "as-scaled"
    assert by == Scaling()
    assert choose_metric(x, y, 0, "weighted")[0].metric == "weighted"


def test_where_no_feature_splits_there_are_no_weights_to_take() -> None:
    x, y = np.zeros((200, 3), np.float32), np.arange(200) % 2
    assert not relevance(x, y, 0).any()
    chosen, by = choose_metric(x, y, 0, "weighted")
    assert (chosen.metric, by) == ("as-scaled", Scaling())
    assert [one.metric for one in chosen.tried] == ["as-scaled", "cosine"]


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


def test_embeddings_are_weighed_only_as_asked() -> None:
    x, y = table(600, 20)
    chosen, _ = choose_metric(x, y, 0, weigh=False)
    assert [one.metric for one in chosen.tried] == ["as-scaled", "cosine"]
    assert (chosen.relevance, chosen.order(), chosen.useless()) == ([], [], [])
    assert choose_metric(x, y, 0, "weighted", weigh=False)[0].metric == "weighted"


@given(st.integers(12, 60), st.integers(2, 4), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_losses_are_those_of_all_distances(n: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 40, (n, 2)).astype(np.float32)
    y = np.r_[np.arange(classes), rng.integers(0, classes, n - classes)]
    judged = np.sort(rng.permutation(n)[: n // 2])
    found = label_losses(x, y, judged)
    for place, row in enumerate(judged):
        distance = np.square(x - x[row]).sum(axis=1)
        distance[row] = np.inf
        near = y[np.lexsort((np.arange(n), distance))]
        for at, k in enumerate(sizes(n)):
            votes = (near[:k] == y[row]).sum() + (y == y[row]).mean()
            assert found[place, at] == pytest.approx(-np.log(votes / (k + 1)))


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
    near, least = compared({"as-scaled": best + more, "weighted": best}, (5,))
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


def test_weights_are_standard_scores_times_roots_of_relevance() -> None:
    x = table(300, 1)[0] * np.array([1, 100, 0], np.float32)
    spread = weights(x, np.array([0.25, 0.75, 0.0])).apply(x).std(axis=0)
    assert spread == pytest.approx([0.5, 0.75**0.5, 0.0], abs=1e-6)
