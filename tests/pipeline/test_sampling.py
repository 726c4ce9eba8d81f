"""Uniform samples of a stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import chunk_sizes

from pipeline.blocks.sampling import RowSample, row_hash

SEEDS = st.integers(0, 2**31)


def sampled(n: int, size: int, seed: int = 0, sizes: list[int] | None = None) -> RowSample:
    """Of rows 0 to n, whose one feature is their number, in chunks of some sizes."""
    sample, x = RowSample(size, seed, 1), np.arange(n, dtype=np.float32)[:, None]
    first = 0
    for chunk in np.split(x, np.cumsum(sizes or [])):
        sample.see(first, chunk)
        first += len(chunk)
    return sample


@given(chunk_sizes(), st.integers(1, 50), SEEDS)
@settings(max_examples=100, deadline=None)
def test_sample_does_not_depend_on_chunks(sizes: list[int], size: int, seed: int) -> None:
    n = sum(sizes) + 3
    assert np.array_equal(sampled(n, size, seed, sizes).row, sampled(n, size, seed).row)


@given(st.integers(1, 200), st.integers(1, 50), SEEDS)
@settings(max_examples=60, deadline=None)
def test_sample_is_the_rows_of_lowest_hash(n: int, size: int, seed: int) -> None:
    by_hash = sorted(range(n), key=lambda row: int(row_hash(np.array([row]), seed, 1)[0]))
    assert sampled(n, size, seed).row.tolist() == by_hash[:size]


@given(chunk_sizes(), st.integers(1, 50), SEEDS)
@settings(max_examples=60, deadline=None)
def test_features_stay_with_their_rows(sizes: list[int], size: int, seed: int) -> None:
    sample = sampled(sum(sizes), size, seed, sizes)
    assert np.array_equal(sample.x[:, 0], sample.row)


@given(st.integers(1, 200), st.integers(1, 30), st.integers(0, 30), SEEDS)
@settings(max_examples=60, deadline=None)
def test_larger_sample_begins_with_the_smaller(n: int, size: int, more: int, seed: int) -> None:
    assert np.array_equal(sampled(n, size + more, seed).row[:size], sampled(n, size, seed).row)


def test_sample_of_more_rows_than_there_are_is_all_of_them() -> None:
    assert sorted(sampled(7, 50).row.tolist()) == list(range(7))


def test_chunk_of_no_rows_changes_nothing() -> None:
    sample = sampled(40, 9)
    before = sample.row.tolist()
    sample.see(40, np.empty((0, 1), np.float32))
    assert sample.row.tolist() == before


def test_every_row_is_drawn_equally_often() -> None:
    """20 of 100 rows, 2,000 times: each about 400 times, deviation 18."""
    drawn = np.concatenate([sampled(100, 20, seed).row for seed in range(2000)])
    assert np.abs(np.bincount(drawn, minlength=100) - 400).max() < 90


@pytest.mark.parametrize("first_row", [0, 10**9, 2**40])
def test_hashes_are_uniform(first_row: int) -> None:
    hashed = row_hash(first_row + np.arange(100_000), 0, 1).astype(np.float64) / 2**64
    share, _ = np.histogram(hashed, 20, (0, 1))
    assert np.abs(share / 5000 - 1).max() < 0.06


@pytest.mark.parametrize(("seed", "stream"), [(0, 2), (1, 1)])
def test_other_seeds_and_streams_are_independent(seed: int, stream: int) -> None:
    row = np.arange(100_000)
    a, b = row_hash(row, 0, 1).astype(np.float64), row_hash(row, seed, stream).astype(np.float64)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.01


def test_no_two_rows_have_one_hash() -> None:
    assert len(np.unique(row_hash(np.arange(100_000), 3, 1))) == 100_000


@given(chunk_sizes(), st.integers(1, 50), SEEDS)
@example([1, 1, 9, 40, 40, 40, 40], 1, 34)  # no row was below seven in 174
@settings(max_examples=60, deadline=None)
def test_samples_of_parts_merge_to_that_of_all(sizes: list[int], size: int, seed: int) -> None:
    n = sum(sizes) + 3
    merged, first = RowSample(size, seed, 1), 0
    for chunk in np.split(np.arange(n, dtype=np.float32)[:, None], np.cumsum(sizes)):
        part = RowSample(size, seed, 1, n)
        part.see(first, chunk)
        merged.merge(part)
        first += len(chunk)
    assert np.array_equal(merged.row, sampled(n, size, seed).row)
    assert np.array_equal(merged.x[:, 0], merged.row)


def test_a_part_keeps_about_its_share() -> None:
    part = RowSample(1000, 0, 1, 100_000)
    part.see(0, np.zeros((50_000, 1), np.float32))
    assert 480 < len(part.row) < 720
