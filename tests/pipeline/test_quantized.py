"""Rows in bytes: what is near never looks far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators

from pipeline.knn.quantized import AXES, Quantized
from pipeline.knn.threads import ALONE, Threads


def apart(quantized: Quantized, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of pairs of rows in bytes that overflow."""
    step = (quantized.code[a] - quantized.code[b]).astype(np.int64)
    return (step**2).sum(axis=1)


def believed(quantized: Quantized, squared: np.ndarray) -> np.ndarray:
    a, b, c = quantized.believed.astype(np.float64)
    return a * squared + b * np.sqrt(squared) + c


@given(
    generators(),
    st.sampled_from([24, 50, 64, 65, 200]),
    st.sampled_from([0.01, 1.0, 300.0]),
    st.sampled_from(["gaussian", "integers", "tails"]),
)
@settings(max_examples=40, deadline=None)
def test_rows_within_a_distance_are_not_beyond_it_in_bytes(
    rng: np.random.Generator, n_features: int, scale: float, kind: str
) -> None:
    x = rng.normal(size=(800, n_features))
    if kind == "integers":
        x = np.rint(2 * x)
    if kind == "tails":
        x = rng.standard_t(2, size=x.shape)
    x = (scale * x).astype(np.float32)
    a, b = rng.integers(0, len(x), (2, 20_000))
    squared = ((x[a].astype(np.float64) - x[b]) ** 2).sum(axis=1)
    quantized = Quantized.of(x, float(np.sqrt(np.quantile(squared, 0.01))), ALONE)
    beyond = apart(quantized, a, b) > believed(quantized, squared)
    assert beyond.mean() < 0.005


@pytest.mark.parametrize("n_features", [100, 20_000])  # of which no square is made
def test_most_rows_that_are_too_far_are_seen_in_bytes(n_features: int) -> None:
    rng = np.random.default_rng(0)
    n_rows = min(3000, 10**7 // n_features)
    x = (rng.normal(size=(n_rows, 8)) @ rng.normal(size=(8, n_features))).astype(np.float32)
    a, b = rng.integers(0, len(x), (2, 50_000))
    dot = x.astype(np.float64) @ x.T
    squared = dot[a, a] + dot[b, b] - 2 * dot[a, b]
    limit = np.quantile(squared, 0.02)
    quantized = Quantized.of(x, float(np.sqrt(limit)), ALONE)
    kept = apart(quantized, a, b) <= believed(quantized, limit)
    assert kept[squared <= limit].all()
    assert kept.mean() < 0.04


def test_rows_of_few_features_or_that_coincide_have_no_bytes() -> None:
    x = np.random.default_rng(0).normal(size=(100, 30)).astype(np.float32)
    assert Quantized.of(x, 1.0, ALONE).code.shape == (100, AXES)
    assert Quantized.of(x[:, :23].copy(), 1.0, ALONE).code.shape == (100, 0)
    assert Quantized.of(x, 0.0, ALONE).code.shape == (100, 0)


@pytest.mark.parametrize("threads", [2, 5])
def test_bytes_are_the_same_on_any_number_of_threads(threads: int) -> None:
    x = np.random.default_rng(0).normal(size=(40_000, 70)).astype(np.float32)
    one, more = Quantized.of(x, 5.0, ALONE), Quantized.of(x, 5.0, Threads(threads))
    assert np.array_equal(one.code, more.code)
    assert np.array_equal(one.believed, more.believed)
