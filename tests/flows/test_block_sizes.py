"""The block sizes that a training tries."""

from __future__ import annotations

from typing import Any

import pytest

from flows.steps.partition import EXACT_BLOCK_ROWS, block_sizes
from pipeline.plan import BLOCK_BYTES, BLOCK_ROWS


def wish(**given: Any) -> dict[str, Any]:
    return {"attempt": 0, "exact": False, "block_rows": None, "k": 30, **given}


def test_all_that_are_below_the_pool() -> None:
    assert block_sizes(wish(), 10**7, 32) == list(BLOCK_ROWS)
    assert block_sizes(wish(), BLOCK_ROWS[2], 32) == list(BLOCK_ROWS[:2])
    assert block_sizes(wish(), 100, 32) == [BLOCK_ROWS[0]]


@pytest.mark.parametrize("n_features", [1, 32, 256, 784, 3000, 10**6])
@pytest.mark.parametrize("k", [1, 30, 100, 1000])
def test_wide_rows_and_long_lists_make_smaller_blocks(n_features: int, k: int) -> None:
    sizes = block_sizes(wish(k=k), 10**7, n_features)
    assert all((4 * n_features + 12 * k) * size <= BLOCK_BYTES for size in sizes[1:])
    assert sizes == list(BLOCK_ROWS[: len(sizes)])


def test_later_attempts_may_use_larger_ones() -> None:
    assert block_sizes(wish(attempt=2), 10**7, 784)[1:] == [2 * BLOCK_ROWS[0], 4 * BLOCK_ROWS[0]]
    assert block_sizes(wish(attempt=1, block_rows=300), 10**7, 784) == [600]


def test_the_user_decides() -> None:
    assert block_sizes(wish(block_rows=300), 10**7, 32) == [300]
    assert block_sizes(wish(exact=True), 10**7, 32) == [EXACT_BLOCK_ROWS]
