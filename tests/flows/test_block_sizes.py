"""The block sizes that a training tries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flows.engine.cluster import SHARED, Machine
from flows.steps.graph import partition
from flows.steps.graph.anchors import PAIR_BYTES, few_pairs
from flows.steps.graph.partition import DIVIDED, EXACT_BLOCK_ROWS, REGION_BLOCKS, Wanted
from flows.steps.queries.searching import BATCH_BYTES, BATCH_ROWS, batch_rows
from pipeline.blocks.cost import BLOCK_BYTES, BLOCK_ROWS
from pipeline.graph.resources import lists_bytes


def wish(**given: Any) -> dict[str, Any]:
    return {"attempt": 0, "exact": False, "block_rows": None, "k": 30, **given}


def block_sizes(wish: dict[str, Any], n_rows: int, n_features: int) -> list[int]:
    return partition.block_sizes(wanted(wish), wish["attempt"], n_rows, n_features)


def wanted(wish: dict[str, Any]) -> Wanted:
    machine = wish.get("machine", SHARED)
    return Wanted(wish["block_rows"], 0.95, wish["k"], wish["exact"], 0, machine)


def test_all_that_are_below_the_pool() -> None:
    assert block_sizes(wish(), 10**7, 32) == list(BLOCK_ROWS)
    assert block_sizes(wish(), BLOCK_ROWS[2], 32) == list(BLOCK_ROWS[:2])
    assert block_sizes(wish(), 100, 32) == [BLOCK_ROWS[0]]


def test_a_pool_that_fits_the_memory_of_a_machine_is_only_divided() -> None:
    large = wish(machine=Machine(4, lists_bytes(10**6, 64, 30)))
    assert wanted(large).regions(10**6, 64) == [1]
    assert block_sizes(large, 10**6, 64) == [10**6 // DIVIDED]
    assert block_sizes(large, 10**5, 64) == [BLOCK_ROWS[0]]
    for more in ({"block_rows": 300}, {"exact": True}, {"machine": SHARED}):
        assert wanted({**large, **more}).regions(10**5, 64) == []
    assert block_sizes({**large, "block_rows": 300}, 10**5, 64) == [300]
    assert block_sizes({**large, "exact": True}, 10**5, 64) == [EXACT_BLOCK_ROWS]


def test_a_larger_pool_is_as_few_regions_as_memory_allows() -> None:
    memory = lists_bytes(10**6, 64, 30)
    assert wanted(wish(machine=Machine(4, memory))).regions(10**6 + 1, 64) == [2, 3, 4]
    assert wanted(wish(machine=Machine(4, memory))).regions(10**7, 64) == [10, 13, 15, 20, 30]
    (size,) = block_sizes(wish(machine=Machine(4, memory)), 10**8, 64)
    assert size == 10**6 // REGION_BLOCKS


def test_several_machines_share_the_regions() -> None:
    memory = lists_bytes(10**6, 64, 30)
    assert wanted(wish(machine=Machine(4, memory, 3))).regions(10**6, 64) == [1, 2, 3]
    assert wanted(wish(machine=Machine(4, memory, 3))).regions(5000, 64) == [1]
    assert 12 in wanted(wish(machine=Machine(4, memory, 3))).regions(10**7, 64)
    assert block_sizes(wish(machine=Machine(4, memory, 3)), 10**6, 64) == [BLOCK_ROWS[0]]


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
