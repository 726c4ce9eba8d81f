"""Lists within a block, by either builder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import pools

from pipeline.graph.build import NeighborParams, build_lists
from pipeline.graph.resources import choose_builder
from pipeline.knn.exact import nearest
from pipeline.knn.lists import row_recall
from pipeline.knn.lots import lots
from pipeline.knn.threads import Threads
from pipeline.simulate import sheets

Rows = npt.NDArray[np.float32]


@given(pools(), st.integers(1, 70), st.sampled_from(["exact", "join"]))
@settings(max_examples=80, deadline=None)
def test_lists_of_small_blocks_are_brute_force(x: Rows, k: int, builder: str) -> None:
    index, distance, repaired = build_lists(x, NeighborParams(k=k, builder=builder))
    own = np.arange(len(x))
    assert reference.as_lists(index, distance) == reference.nearest(x, x, k, own)
    assert repaired == 0


def test_exact_lists_of_a_larger_block_are_brute_force() -> None:
    x = np.random.default_rng(0).integers(0, 9, (2100, 3)).astype(np.float32)
    index, distance, _ = build_lists(x, NeighborParams(k=3, builder="exact"))
    assert reference.as_lists(index, distance) == reference.nearest(x, x, 3, np.arange(2100))


def test_auto_searches_small_pools_exactly() -> None:
    assert choose_builder("auto", 20_000, 30) == "exact"
    assert choose_builder("auto", 25_000, 20) == "exact"
    assert choose_builder("auto", 20_000, 2000) == "exact"  # all are anchors, searched exactly
    assert choose_builder("auto", 20_001, 2000) == "join"
    assert choose_builder("auto", 10**6, 30) == "join"


@pytest.mark.parametrize("builder", ["exact", "join", "pynndescent"])
def test_named_builder_is_taken_at_any_size(builder: str) -> None:
    assert choose_builder(builder, 10, 1) == choose_builder(builder, 10**9, 99) == builder


class Built(NamedTuple):
    x: Rows
    index: npt.NDArray[np.int64]
    distance: Rows
    repaired: int
    again: npt.NDArray[np.int64]


@pytest.fixture(scope="module", params=["normal", "repeated"])
def built(request: pytest.FixtureRequest) -> Built:
    """Lists of 3,000 rows by local joins, built twice; `repeated`: 60 distinct rows, 50 times."""
    x = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    if request.param == "repeated":
        x = np.repeat(x[:60], 50, axis=0)
    params = NeighborParams(k=15, builder="join", seed=3)
    return Built(x, *build_lists(x, params), build_lists(x, params)[0])


def test_join_finds_nearly_all_neighbors(built: Built) -> None:
    exact = nearest(built.x, built.x, 15, exclude=np.arange(3000))[1]
    assert row_recall(built.distance, exact).mean() >= 0.95


def test_join_lists_are_full_and_without_self_or_repetition(built: Built) -> None:
    assert all(len({i, *row}) == 16 for i, row in enumerate(built.index.tolist()))
    assert built.index.min() >= 0


def test_join_distances_are_exact(built: Built) -> None:
    rows = np.arange(3000)
    exact = [reference.distances(built.x[[i]], built.x[built.index[i]])[0] for i in rows]
    assert np.array_equal(built.distance, np.stack(exact))


def test_join_lists_are_by_distance_and_lot(built: Built) -> None:
    order = np.lexsort((lots(built.index), built.distance), axis=1)
    assert (order == np.arange(15)).all()


def test_join_is_deterministic(built: Built) -> None:
    assert np.array_equal(built.index, built.again)


@pytest.mark.parametrize("kind", ["sheets", "gauss-40", "repeated"])
def test_threads_change_no_bit(kind: str) -> None:
    """By carvings and groups; by passes over long lists, with rows in bytes; with ties."""
    x = spread_out(20_000, 40) if kind == "gauss-40" else sheets(40_000, 1)[0]
    if kind == "repeated":
        x = np.repeat(x[:800], 50, axis=0)
    params = NeighborParams(10, recall=0.99 if kind == "sheets" else 0.8)
    alone = build_lists(x, params)
    for number in (2, 4, 16):
        shared = build_lists(x, params, Threads(number))
        assert all(np.array_equal(a, b) for a, b in zip(alone, shared, strict=True))


@pytest.mark.parametrize(
    ("kind", "recall"),
    [("sheets", 0.9), ("sheets", 0.999), ("gauss-24", 0.95), ("gauss-64", 0.95)],
)
def test_lists_are_refined_until_they_have_the_recall_wanted(kind: str, recall: float) -> None:
    """Of 64 independent features lists of usual length stall at .85."""
    dimensions = int(kind.partition("-")[2] or 0)
    x = spread_out(12_000, dimensions) if dimensions else sheets(12_000, 1)[0]
    _, distance, _ = build_lists(x, NeighborParams(20, "join", recall=recall))
    some = np.arange(0, len(x), 12)
    exact = nearest(x[some], x, 20, exclude=some)[1]
    assert row_recall(distance[some], exact).mean() >= recall - 0.01  # 100 rows were tried


def test_little_recall_wanted_still_gives_whole_lists() -> None:
    _, _, n_repaired = build_lists(spread_out(4000, 4), NeighborParams(30, recall=0.3))
    assert n_repaired < 40


@pytest.mark.parametrize("exponent", [-110, -80, -20, 63, 120])
def test_unit_of_features_does_not_matter(exponent: int) -> None:
    x = np.ldexp(spread_out(4000, 6), exponent)
    _, distance, n_repaired = build_lists(x, NeighborParams(10))
    some = np.arange(0, len(x), 10)
    exact = nearest(x[some], x, 10, exclude=some)[1]
    assert row_recall(distance[some], exact).mean() >= 0.98
    assert n_repaired < 40


def spread_out(n: int, d: int) -> Rows:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("builder", ["exact", "join"])
@pytest.mark.parametrize("values", ["repeated", "binary"])
def test_rows_at_one_distance_are_listed_wherever_they_stand(builder: str, values: str) -> None:
    """Of rows that only the order of the file tells apart, each half is listed as often."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))[rng.integers(0, 12, 6000)]
    if values == "binary":
        x = rng.integers(0, 2, (6000, 14))
    index, _, _ = build_lists(x.astype(np.float32), NeighborParams(20, builder))
    late = (index >= 3000).mean(axis=1)
    assert abs(late.mean() - 0.5) < 0.05
    assert late.std() < 0.2  # 0.11 of lists that are drawn
