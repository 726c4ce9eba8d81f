"""Statistics of a stream, and the scalings made of them."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from strategies import chunk_sizes, generators, pools

from pipeline.blocks.scaling import FeatureStatistics, Scaling, spreads
from pipeline.knn.moments import extent, moved, squares

Rows = npt.NDArray[np.float32]

LARGE = 2.0**127
"""About as large as float32 gets."""


def seen(x: Rows, sizes: list[int] | None = None) -> FeatureStatistics:
    statistics = FeatureStatistics(x.shape[1])
    for chunk in np.split(x, np.cumsum(sizes or [])):
        if len(chunk):
            statistics.see(chunk)
    return statistics


@given(pools(), chunk_sizes())
@settings(max_examples=100, deadline=None)
def test_statistics_do_not_depend_on_chunks(x: Rows, sizes: list[int]) -> None:
    told, wide = seen(x, sizes).summary(), x.astype(np.float64)
    assert np.array_equal(told["minimum"], wide.min(axis=0))
    assert np.array_equal(told["maximum"], wide.max(axis=0))
    noise = 1e-12 * np.abs(wide).max(axis=0)
    assert (np.abs(told["mean"] - wide.mean(axis=0)) <= noise).all()
    assert (np.abs(told["standard_deviation"] - wide.std(axis=0)) <= noise).all()


@given(pools(), generators())
@settings(max_examples=100, deadline=None)
def test_loops_over_features_are_what_arrays_make(x: Rows, rng: np.random.Generator) -> None:
    """To the last bit, row after row, of any layout."""
    wide, (offset, factor) = x.astype(np.float64), rng.normal(size=(2, x.shape[1]))
    low, high, mean = extent(x)
    assert np.array_equal([low, high], [wide.min(axis=0), wide.max(axis=0)])
    assert np.array_equal(mean, wide.cumsum(axis=0)[-1] / len(x))
    assert np.array_equal(squares(x, mean), np.square(wide - mean).cumsum(axis=0)[-1])
    for laid in (x, np.asfortranarray(x)):
        assert np.array_equal(
            moved(laid, offset, factor), ((wide - offset) * factor).astype(np.float32)
        )


@given(
    st.floats(-LARGE, LARGE, width=32),
    chunk_sizes(),
    st.sampled_from(["range", "standard"]),
)
@settings(max_examples=100, deadline=None)
def test_constants_become_zero_in_any_chunks(value: float, sizes: list[int], scale: str) -> None:
    x = np.full((sum(sizes), 1), value, np.float32)
    assert (seen(x, sizes).scaling(scale).apply(x) == 0).all()


@given(arrays.arrays(np.float32, (7, 2), elements=st.floats(-LARGE, LARGE, width=32)))
@settings(max_examples=200, deadline=None)
def test_range_is_minus_one_to_one(x: Rows) -> None:
    scaled = seen(x).scaling("range").apply(x)
    varies = np.ptp(x.astype(np.float64), axis=0) > 0
    assert scaled.min(axis=0).tolist() == [-1.0 if v else 0.0 for v in varies]
    assert scaled.max(axis=0).tolist() == [1.0 if v else 0.0 for v in varies]


@given(generators(), st.integers(-9, 9), st.sampled_from([0.0, 1.0]))
@settings(max_examples=60, deadline=None)
def test_standard_has_mean_zero_and_deviation_one(
    rng: np.random.Generator, exponent: int, offset: float
) -> None:
    x = ((offset + rng.normal(size=(200, 3))) * 10.0**exponent).astype(np.float32)
    scaled = seen(x).scaling("standard").apply(x).astype(np.float64)
    assert np.allclose(scaled.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(scaled.std(axis=0), 1, atol=1e-6)


@pytest.mark.parametrize("scale", ["range", "standard"])
def test_scaling_keeps_the_order_of_values(scale: str) -> None:
    x = np.sort(np.random.default_rng(0).standard_cauchy((300, 1)), axis=0).astype(np.float32)
    assert (np.diff(seen(x).scaling(scale).apply(x), axis=0) >= 0).all()


def test_no_scaling_leaves_rows_as_they_are() -> None:
    x = np.ones((3, 2), np.float32)
    assert seen(x).scaling("none").apply(x) is x


def test_scaling_is_rounded_once() -> None:
    x = np.array([[16777217.0]], np.float64).astype(np.float32) + np.float32(2)
    scaled = Scaling((16777216.0,), (1 / 3,)).apply(x)
    assert scaled.dtype == np.float32
    assert scaled[0, 0] == np.float32((float(x[0, 0]) - 16777216.0) / 3)


def test_columns_apart_are_told_from_counts_and_tails() -> None:
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(2000, 3))
    tailed = plain.copy()
    tailed[:3, 1] = 1e6
    pixels = np.where(rng.random((2000, 3)) < (0.9, 0.01, 0.2), 255.0, 0.0)
    gaps = np.where(rng.random(plain.shape) < 0.2, np.nan, plain)
    for x in (plain, tailed, pixels, gaps, plain[:, :1], np.zeros((9, 2)), plain[:0]):
        assert not spreads(x).apart
    units = plain * (1.0, 0.01, 3.0)
    wide = spreads(1e5 * np.c_[units, np.zeros(2000)])
    assert wide.apart
    assert (wide.narrow, wide.wide) == (1, 2)
    low, high = re.findall(r"over ([0-9,]+)", wide.described("abcd"))
    assert 3000 < int(low.rstrip(",").replace(",", "")) < int(high.replace(",", "")) / 100


def test_columns_that_are_kept_stay_as_they_are() -> None:
    x = np.random.default_rng(0).normal(5, (1, 10, 100), (50, 3)).astype(np.float32)
    kept = np.array([False, True, False])
    scaled = seen(x).scaling("standard", kept).apply(x)
    assert np.array_equal(scaled[:, 1], x[:, 1])
    assert np.array_equal(scaled[:, ~kept], seen(x).scaling("standard").apply(x)[:, ~kept])
