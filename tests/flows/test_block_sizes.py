"""The block sizes that a training tries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flows.steps.graph import partition
from flows.steps.graph.anchors import PAIR_BYTES, few_pairs
from flows.steps.graph.partition import EXACT_BLOCK_ROWS, TOGETHER, Wanted
from flows.steps.queries.searching import BATCH_BYTES, BATCH_ROWS, batch_rows
from pipeline.blocks.cost import BLOCK_BYTES, BLOCK_ROWS
from pipeline.graph.build import lists_bytes


def wish(**given: Any) -> dict[str, Any]:
    return {"attempt": 0, "exact": False, "block_rows": None, "k": 30, **given}


def block_sizes(wish: dict[str, Any], n_rows: int, n_features: int) -> list[int]:
    memory = wish.get("memory", 0)
    wanted = Wanted(wish["block_rows"], 0.95, wish["k"], wish["exact"], 0, memory)
    return partition.block_sizes(wanted, wish["attempt"], n_rows, n_features)


def test_all_that_are_below_the_pool() -> None:
    assert block_sizes(wish(), 10**7, 32) == list(BLOCK_ROWS)
    assert block_sizes(wish(), BLOCK_ROWS[2], 32) == list(BLOCK_ROWS[:2])
    assert block_sizes(wish(), 100, 32) == [BLOCK_ROWS[0]]


def test_a_pool_that_fits_the_memory_of_a_part_is_only_divided() -> None:
    needed = lists_bytes(10**6, 64, 30)
    assert block_sizes(wish(memory=needed), 10**6, 64) == [10**6 // TOGETHER]
    assert block_sizes(wish(memory=needed - 1), 10**6, 64) == list(BLOCK_ROWS)
    assert block_sizes(wish(memory=needed), 10**5, 64) == [BLOCK_ROWS[0]]
    assert block_sizes(wish(memory=needed, block_rows=300), 10**5, 64) == [300]
    assert block_sizes(wish(memory=needed, exact=True), 10**5, 64) == [EXACT_BLOCK_ROWS]


@pytest.mark.parametrize("n_features", [1, 32, 256, 784, 3000, 10**6])
@pytest.mark.parametrize("k", [1, 30, 100, 1000])
def test_wide_rows_and_long_lists_make_smaller_blocks(n_features: int, k: int) -> None:
    sizes = block_sizes(wish(k=k), 10**7, n_features)
    most = max(BLOCK_BYTES // (4 * n_features + 12 * k), 2 * k)
    assert all(size <= most for size in sizes)
    assert sizes == list(BLOCK_ROWS[: len(sizes)]) or sizes == [most]
    (exact,) = block_sizes(wish(k=k, exact=True), 10**7, n_features)
    assert exact == min(EXACT_BLOCK_ROWS, most)


def test_later_attempts_may_use_larger_ones() -> None:
    assert block_sizes(wish(attempt=2), 10**7, 784)[1:] == [2 * BLOCK_ROWS[0], 4 * BLOCK_ROWS[0]]
    first, *more = block_sizes(wish(attempt=2), 10**7, 20_000)
    assert more == [2 * first, 4 * first]
    assert block_sizes(wish(attempt=1, block_rows=300), 10**7, 784) == [600]


def test_pairs_of_wide_rows_are_fewer() -> None:
    """Each anchor keeps some, so that they stay as independent as they can be."""
    anchor, row = np.repeat(np.arange(500), 50), np.arange(25_000)
    same = few_pairs(anchor, row, 784)
    assert same[0] is anchor
    assert same[1] is row
    few_anchor, few_row = few_pairs(anchor, row, 20_000)
    assert len(few_row) == PAIR_BYTES // (8 * 20_000)
    assert (anchor[few_row] == few_anchor).all()
    assert (np.diff(few_row) > 0).all()
    assert len(np.unique(few_anchor)) > 450


@pytest.mark.parametrize("n_features", [1, 32, 784, 20_000, 1 << 16])
def test_batches_of_wide_queries_are_smaller(n_features: int) -> None:
    rows = batch_rows(n_features)
    assert 1 <= rows <= BATCH_ROWS
    assert 4 * n_features * rows <= BATCH_BYTES
    assert rows == BATCH_ROWS or 4 * n_features * (rows + 1) > BATCH_BYTES


def test_the_user_decides() -> None:
    assert block_sizes(wish(block_rows=300), 10**7, 32) == [300]
    assert block_sizes(wish(exact=True), 10**7, 32) == [EXACT_BLOCK_ROWS]
