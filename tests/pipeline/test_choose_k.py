"""The leave-one-out score: exact integer sums, additive, and least near the right k."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decision.choose_k import choose, squared_losses

GRID = (1, 4, 10, 31)


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_sums_against_a_loop_and_over_blocks(n: int, cut: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = rng.integers(0, np.array(GRID) + 1, (n, len(GRID)))
    label = rng.integers(0, 2, n).astype(np.int8)
    whole = squared_losses(count, label, GRID)
    for g, k in enumerate(GRID):
        loop = sum((Fraction(int(label[i])) - Fraction(int(count[i, g]), k)) ** 2 for i in range(n))
        assert Fraction(int(whole[g]), k * k) == loop
    parts = squared_losses(count[:cut], label[:cut], GRID) + squared_losses(
        count[cut:], label[cut:], GRID
    )
    np.testing.assert_array_equal(whole, parts)
    mixed = rng.permutation(n)
    np.testing.assert_array_equal(whole, squared_losses(count[mixed], label[mixed], GRID))
    flipped = squared_losses(np.array(GRID) - count, 1 - label, GRID)
    np.testing.assert_array_equal(whole, flipped)


def test_choice_and_ties() -> None:
    assert choose(np.array([40, 90]), 10, (2, 3)).k == 3
    found = choose(np.array([12, 90]), 10, (2, 3))
    assert found.k == 2
    assert found.score == pytest.approx((0.3, 1.0))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        squared_losses(np.zeros((3, 2), dtype=int), np.zeros(3, dtype=int), GRID)
    with pytest.raises(ValueError, match="more ones"):
        squared_losses(np.full((1, 1), 5), np.zeros(1, dtype=int), (4,))
    with pytest.raises(ValueError, match="nothing to choose"):
        choose(np.zeros(2, dtype=np.int64), 0, (1, 2))


def test_least_near_the_truth() -> None:
    """A slow wave on a line: too few neighbors are noisy, too many average over the wave."""
    rng = np.random.default_rng(6)
    n, grid = 4000, (2, 10, 60, 400, 1600)
    x = np.arange(n) / n
    eta = 0.5 + 0.3 * np.sin(12 * np.pi * x)
    label = (rng.random(n) < eta).astype(np.int8)
    sums = np.concatenate([[0], np.cumsum(label)])
    row = np.arange(n)
    counts, errors = [], []
    for k in grid:
        left = np.clip(row - k // 2, 0, n - k - 1)
        counts.append(sums[left + k + 1] - sums[left] - label)
        errors.append(float(((counts[-1] / k - eta) ** 2).mean()))
    found = choose(squared_losses(np.stack(counts, axis=1), label, grid), n, grid)
    assert found.k == grid[int(np.argmin(errors))]
    assert found.score[0] > found.score[2] < found.score[-1]
