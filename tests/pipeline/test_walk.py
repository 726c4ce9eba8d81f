"""Walks over the graph of a block against exact search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.graph.walk import (
    Network,
    efforts,
    links,
    met_by_effort,
    nearest_in_block,
    network_of,
    walk,
)
from pipeline.knn.distance import list_distance
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT, row_recall
from pipeline.simulate import sheets

Rows = npt.NDArray[np.float32]
Listed = npt.NDArray[np.int32]


def rows(n: int, seed: int, d: int = 5) -> Rows:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def graph(x: Rows, k: int) -> Listed:
    return nearest(x, x, k, exclude=np.arange(len(x)))[0].astype(np.int32)


def lay_out(x: Rows, listed: Listed) -> Network:
    return network_of(x, *links(x, listed))


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
def test_the_fewest_steps_that_own_rows_need_serve_others(recall: float) -> None:
    """Rows of a block, which has four in five of the pool's, stand for queries, each left out of
    its walk, against brute force; neighbors that are elsewhere do not count."""
    pool, query, k = sheets(25_000, 0)[0], sheets(2000, 0, first=40_960)[0], 20
    block = np.flatnonzero(np.arange(len(pool)) % 5)
    x, own = pool[block], np.arange(0, len(block), 100)
    network = lay_out(x, graph(x, k))
    index, true = nearest(pool[block[own]], pool, k, exclude=block[own])
    held = np.isin(index, block)
    steps = efforts(k)
    met = met_by_effort(x[own], network, true, held, own, steps, 1.0)
    for effort, found in zip(steps[:3], met, strict=False):
        listed, _ = walk(x[own], network, k, effort, np.argsort(network.order)[own])
        assert not (listed == own[:, None]).any()
        rows_met = [len(np.intersect1d(block[a], b)) for a, b in zip(listed, index, strict=True)]
        assert found == sum(rows_met)
    assert (np.diff(met) >= 0).all()
    enough = steps[int(np.argmax(met >= recall * held.sum()))]
    distance = nearest_in_block(query, x, network, k, enough)[1]
    assert row_recall(distance, nearest(query, x, k)[1]).mean() >= recall - 0.01


def test_steps_beyond_those_that_are_enough_are_not_tried() -> None:
    x, own = rows(5000, 0), np.arange(50)
    network, true = lay_out(x, graph(x, 5)), nearest(x[own], x, 5, exclude=own)[1]
    held = np.ones((50, 5), np.bool_)
    met = met_by_effort(x[own], network, true, held, own, efforts(5), 0.0)
    assert (met == met[0]).all()


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_a_query_finds_the_same_rows_in_whatever_company(seed: int) -> None:
    x, query = rows(4500, 0), rows(200, 1)
    network = lay_out(x, graph(x, 6))
    index, distance = nearest_in_block(query, x, network, 6, 4)
    some = np.random.default_rng(seed).permutation(200)[: 1 + seed % 30]
    found = nearest_in_block(query[some], x, network, 6, 4)
    assert np.array_equal(found[0], index[some])
    assert np.array_equal(found[1], distance[some])


def test_a_network_is_what_its_order_and_links_say() -> None:
    x = rows(5000, 0)
    laid = lay_out(x, graph(x, 6))
    again = network_of(x, laid.order.astype(np.int32), laid.link)
    for name, value in vars(laid).items():
        assert np.array_equal(value, getattr(again, name)), name


def test_rows_that_no_list_names_are_found_by_exact_search() -> None:
    """Lists that lead nowhere: every walk comes home with too little."""
    x, query = rows(5000, 0), rows(300, 1)
    nowhere = lay_out(x, np.full((len(x), 4), ABSENT, np.int32))
    found, exact = nearest_in_block(query, x, nowhere, 5, 8), nearest(query, x, 5)
    assert all(np.array_equal(a, b) for a, b in zip(found, exact, strict=True))


def test_far_features_lose_nothing() -> None:
    x, query = rows(6000, 0), rows(2000, 1)
    near = graph(x, 5)
    index, _ = nearest_in_block(query, x, lay_out(x, near), 5, 8)
    far = np.float32(2.0**80)
    again, _ = nearest_in_block(query * far, x * far, lay_out(x * far, near), 5, 8)
    assert np.array_equal(again, index)
