"""Walks over the graph of a block against exact search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.graph.walk import lay_out, nearest_in_block, walk
from pipeline.knn.distance import list_distance
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT
from pipeline.knn.recall import row_recall
from pipeline.simulate import sheets

Rows = npt.NDArray[np.float32]
Listed = npt.NDArray[np.int32]


def rows(n: int, seed: int, d: int = 5) -> Rows:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def graph(x: Rows, k: int) -> Listed:
    return nearest(x, x, k, exclude=np.arange(len(x)))[0].astype(np.int32)


@given(st.integers(2, 400), st.integers(1, 40), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_walks_through_all_rows_are_exact_search(n: int, k: int, seed: int) -> None:
    """Rows on a lattice, so that ties are many; each is listed by the one before."""
    rng = np.random.default_rng(seed)
    x, query = (rng.integers(0, 12, (size, 3)).astype(np.float32) for size in (n, 20))
    ring = ((np.arange(n)[:, None] + 1) % n).astype(np.int32)
    distance = walk(query, lay_out(x, ring), k, n)[1]
    assert np.array_equal(distance, nearest(query, x, k)[1])


def test_rows_and_distances_belong_together() -> None:
    x, query = rows(4000, 0), rows(300, 1)
    index, distance = walk(query, lay_out(x, graph(x, 12)), 12, 3)
    assert np.array_equal(distance, list_distance(query, x, index))
    assert (np.diff(distance, axis=1) >= 0).all()
    assert all(len(set(row)) == 12 for row in index.tolist())


def test_fewer_rows_met_than_wanted_are_absent() -> None:
    x, query = rows(3000, 0), rows(10, 1)
    index, distance = walk(query, lay_out(x, graph(x, 5)), 2900, 1)
    assert ((index == ABSENT) == np.isinf(distance)).all()
    assert (index[:, -1] == ABSENT).all()


@pytest.mark.parametrize("recall", [0.9, 0.99])
def test_walks_go_as_far_as_the_recall_takes(recall: float) -> None:
    x, query = sheets(20_000, 0)[0], sheets(2000, 0, first=40_960)[0]
    exact = nearest(query, x, 20)
    index, distance = nearest_in_block(query, x, 20, recall, graph(x, 20))
    assert row_recall(distance, exact[1]).mean() >= recall - 0.01
    assert not np.array_equal(index, exact[0])


def test_rows_that_no_list_names_are_found_by_exact_search_of_all() -> None:
    """Lists that lead nowhere: no walk reaches the recall, and all rows are searched."""
    x, query = rows(5000, 0), rows(300, 1)
    nowhere = np.full((len(x), 4), ABSENT, np.int32)
    found, exact = nearest_in_block(query, x, 5, 0.99, nowhere), nearest(query, x, 5)
    assert all(np.array_equal(a, b) for a, b in zip(found, exact, strict=True))


def test_far_features_lose_nothing() -> None:
    x, query = rows(6000, 0), rows(2000, 1)
    near = graph(x, 5)
    index, _ = nearest_in_block(query, x, 5, 0.99, near)
    far = np.float32(2.0**80)
    assert np.array_equal(nearest_in_block(query * far, x * far, 5, 0.99, near)[0], index)


@pytest.mark.parametrize("recall", [0.9, 1.0])
def test_recall_of_one_and_blocks_without_lists_are_searched_exactly(recall: float) -> None:
    x, query = rows(6000, 0), rows(2000, 1)
    listed = None if recall < 1 else graph(x, 5)
    found, exact = nearest_in_block(query, x, 5, recall, listed), nearest(query, x, 5)
    assert all(np.array_equal(a, b) for a, b in zip(found, exact, strict=True))
