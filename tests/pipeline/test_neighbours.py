"""Lists within a block, by either builder."""

from __future__ import annotations

import numpy as np
import pytest
import reference

from pipeline.neighbours import NeighbourParams, build_lists, choose_builder
from pipeline.simulate import sheets


def test_exact_lists_are_brute_force() -> None:
    x = np.random.default_rng(0).integers(0, 4, (300, 3)).astype(np.float32)
    index, distance, repaired = build_lists(x, NeighbourParams(k=12, builder="exact"))
    assert reference.as_lists(index, distance) == reference.nearest(x, x, 12, np.arange(300))
    assert repaired == 0


@pytest.fixture(scope="module")
def blocks() -> dict[str, np.ndarray]:
    x = sheets(3000, 0)[0]
    return {"sheets": x, "duplicates": np.repeat(x[:60], 50, axis=0)}


@pytest.mark.parametrize("name", ["sheets", "duplicates"])
def test_pynndescent_lists_are_canonical_and_nearly_exact(
    blocks: dict[str, np.ndarray], name: str
) -> None:
    x = blocks[name]
    index, distance, _ = build_lists(x, NeighbourParams(k=15, builder="pynndescent"))
    exact = reference.nearest(x, x, 15, np.arange(len(x)))
    rows = np.arange(len(x))[:, None]
    assert (index >= 0).all()
    assert (index != rows).all()
    assert all(len(set(row)) == 15 for row in index.tolist())
    assert np.array_equal(distance, np.take_along_axis(reference.distances(x, x), index, axis=1))
    assert (np.lexsort((index, distance), axis=1) == np.arange(15)).all()
    limit = np.array([near[-1][0] for near in exact])
    assert (distance <= limit[:, None]).mean() > 0.98


def test_pynndescent_is_deterministic(blocks: dict[str, np.ndarray]) -> None:
    params = NeighbourParams(k=15, builder="pynndescent", seed=3)
    first, again = (build_lists(blocks["sheets"], params)[0] for _ in range(2))
    assert np.array_equal(first, again)


def test_block_of_fewer_rows_than_neighbours_has_short_lists() -> None:
    x = np.arange(5, dtype=np.float32)[:, None]
    index, distance, _ = build_lists(x, NeighbourParams(k=8))
    assert reference.as_lists(index, distance) == reference.nearest(x, x, 8, np.arange(5))


def test_auto_searches_small_pools_exactly() -> None:
    assert choose_builder("auto", 20_000, 30) == "exact"
    assert choose_builder("auto", 10**6, 30) == "pynndescent"
    assert choose_builder("exact", 10**6, 30) == "exact"
