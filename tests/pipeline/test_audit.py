"""Recall and the honesty of its interval."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators

from pipeline.knn.lists import row_recall, summarize


@given(generators(), st.integers(1, 12), st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_row_recall_is_brute_force(rng: np.random.Generator, n: int, k: int) -> None:
    exact = np.sort(rng.integers(0, 6, (n, k)), axis=1).astype(np.float32)
    listed = np.sort(exact + rng.integers(0, 2, (n, k)), axis=1).astype(np.float32)
    listed[rng.random((n, k)) < 0.1] = np.inf
    a, b = ([[(float(d), 0) for d in row] for row in rows] for rows in (listed, exact))
    assert row_recall(listed, exact).tolist() == reference.recall(a, b)


def test_which_row_of_several_at_one_distance_is_listed_makes_no_difference() -> None:
    exact = np.array([[1.0, 2.0, 2.0]], np.float32)
    assert row_recall(exact.copy(), exact).tolist() == [1.0]


def test_places_left_empty_are_misses() -> None:
    exact = np.array([[1.0, 2.0, 2.0]], np.float32)
    assert row_recall(np.array([[1.0, np.inf, np.inf]], np.float32), exact).tolist() == [1 / 3]


def test_short_lists_that_hold_all_there_is_are_complete() -> None:
    exact = np.array([[1.0, np.inf]], np.float32)
    assert row_recall(exact.copy(), exact).tolist() == [1.0]


RECALLS = st.lists(st.integers(0, 30), min_size=1, max_size=200)


@given(RECALLS)
@settings(max_examples=200, deadline=None)
def test_interval_is_about_the_mean_within_zero_and_one(hits: list[int]) -> None:
    recall = summarize(np.array(hits) / 30)
    low, high = recall.interval
    assert 0 <= low <= recall.value + 1e-12
    assert recall.value - 1e-12 <= high <= 1


@given(RECALLS)
@settings(max_examples=60, deadline=None)
def test_value_is_the_mean_of_so_many_rows(hits: list[int]) -> None:
    recall = summarize(np.array(hits) / 30)
    assert recall.value == pytest.approx(np.mean(hits) / 30)
    assert recall.n_rows == len(hits)


@pytest.mark.parametrize(("n", "spread"), [(40, 20.0), (400, 20.0), (400, 2.0)])
def test_interval_covers_the_truth(n: int, spread: float) -> None:
    """The neighbors of a row miss together: recalls vary more than their number of places says."""
    rng, truth = np.random.default_rng(0), 0.95
    covered = 0
    for _ in range(400):
        level = rng.beta(truth * spread, (1 - truth) * spread, size=n)
        low, high = summarize(rng.binomial(30, level) / 30).interval
        covered += low <= truth <= high
    assert covered >= 0.92 * 400


@pytest.mark.parametrize("n", [1, 20, 400])
def test_perfect_recall_has_wilsons_interval(n: int) -> None:
    assert summarize(np.ones(n)).interval == pytest.approx((1 / (1 + 1.959964**2 / n), 1.0))


@pytest.mark.parametrize("n", [1, 20, 400])
def test_no_recall_has_wilsons_interval(n: int) -> None:
    z2 = 1.959964**2 / n
    assert summarize(np.zeros(n)).interval == pytest.approx((0.0, z2 / (1 + z2)))


def test_more_rows_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    recalls = rng.beta(20, 1, size=4000)
    widths = [np.diff(summarize(recalls[:n]).interval)[0] for n in (40, 400, 4000)]
    assert widths == sorted(widths, reverse=True)


def test_interval_holds_a_recall_of_one_exactly() -> None:
    assert all(summarize(np.ones(n)).interval[1] == 1.0 for n in range(1, 100))


def test_equal_recalls_do_not_make_the_interval_a_point() -> None:
    low, high = summarize(np.full(100, 0.9)).interval
    assert high - low > 0.01
