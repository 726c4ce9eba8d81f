"""Counts, recall, scaling, sampling: each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.audit import row_recall, summarise
from pipeline.regression import counts, extremes_with_self, k_grid
from pipeline.sampling import RowSample, row_hash
from pipeline.scale import FeatureStatistics


@given(st.integers(0, 9999), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_counts_are_sums_and_grow_with_k(seed: int, k: int) -> None:
    label = np.random.default_rng(seed).integers(0, 2, (9, k)).astype(np.int8)
    grid = k_grid(k)
    count = counts(label, grid)
    assert count.tolist() == [[sum(row[:g]) for g in grid] for row in label.tolist()]
    assert (np.diff(count, axis=1) >= 0).all()
    assert grid[-1] == k


def test_algorithm_2_counts_the_row_itself_first() -> None:
    label = np.array([[1, 0, 1], [0, 0, 1]], np.int8)
    given_label = np.array([0, 1], np.int8)
    assert extremes_with_self(given_label, label, (1, 2, 4)).tolist() == [[0, 1, 2], [1, 1, 2]]


def test_recall_counts_by_distance() -> None:
    exact = np.array([[1.0, 2.0, 2.0]], np.float32)
    assert row_recall(np.array([[1.0, 2.0, 2.0]], np.float32), exact).tolist() == [1.0]
    assert row_recall(np.array([[1.0, 2.0, 3.0]], np.float32), exact).tolist() == [2 / 3]
    assert row_recall(np.array([[1.0, np.inf, np.inf]], np.float32), exact).tolist() == [1 / 3]


def test_recall_interval_covers() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        level = rng.beta(30, 2, size=400)  # rows differ: their neighbours miss together
        interval = summarise(rng.binomial(30, level) / 30).interval
        covered += interval[0] <= 30 / 32 <= interval[1]
    assert covered >= 0.93 * 300


def test_perfect_recall_has_an_honest_interval() -> None:
    recall = summarise(np.ones(400))
    assert recall.value == 1.0
    assert recall.interval[0] == pytest.approx(1 / (1 + 1.96**2 / 400), abs=1e-4)


@given(st.integers(0, 9999), st.lists(st.integers(1, 40), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_statistics_do_not_depend_on_chunks(seed: int, sizes: list[int]) -> None:
    x = (np.random.default_rng(seed).normal(size=(sum(sizes), 3)) * 50 + 1000).astype(np.float32)
    statistics = FeatureStatistics(3)
    for chunk in np.split(x, np.cumsum(sizes)[:-1]):
        statistics.see(chunk)
    told = statistics.summary()
    assert np.allclose(told["mean"], x.mean(axis=0, dtype=np.float64))
    assert np.allclose(told["standard_deviation"], x.std(axis=0, dtype=np.float64))
    assert np.array_equal(told["minimum"], x.min(axis=0))
    assert np.array_equal(told["maximum"], x.max(axis=0))


def test_scalings_do_what_they_say() -> None:
    x = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32) * [1, 100, 0]
    statistics = FeatureStatistics(3)
    statistics.see(x.astype(np.float32))
    ranged = statistics.scaling("range").apply(x.astype(np.float32))
    standard = statistics.scaling("standard").apply(x.astype(np.float32))
    assert ranged[:, :2].min(axis=0).tolist() == [-1.0, -1.0]
    assert ranged[:, :2].max(axis=0).tolist() == [1.0, 1.0]
    assert np.allclose(standard[:, :2].std(axis=0), 1.0, atol=1e-5)
    assert (ranged[:, 2] == 0).all()
    assert statistics.scaling("none").apply(x) is x


@given(st.lists(st.integers(1, 90), min_size=1, max_size=9), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_sample_does_not_depend_on_chunks(sizes: list[int], size: int) -> None:
    x = np.arange(sum(sizes), dtype=np.float32)[:, None]
    whole, pieces = RowSample(size, 5, 1), RowSample(size, 5, 1)
    whole.see(0, x)
    for start, length in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        pieces.see(int(start), x[start : start + length])
    assert np.array_equal(whole.row, pieces.row)
    assert np.array_equal(whole.x[:, 0], whole.row)
    assert np.array_equal(whole.row, np.argsort(row_hash(np.arange(len(x)), 5, 1))[:size])


def test_hashes_are_uniform_and_streams_independent() -> None:
    row = np.arange(100_000)
    first, second = (row_hash(row, 0, stream).astype(np.float64) / 2**64 for stream in (1, 2))
    share, _ = np.histogram(first, 20, (0, 1))
    assert abs(share / 5000 - 1).max() < 0.06
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.01
