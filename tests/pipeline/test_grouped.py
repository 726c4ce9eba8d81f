"""Search by groups finds what comparing every pair finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators, pools

from pipeline.knn import grouped
from pipeline.knn.distance import rank_lists
from pipeline.knn.exact import nearest
from pipeline.knn.grouped import nearest_by_groups

Rows = npt.NDArray[np.float32]
MakeRows = Callable[[np.random.Generator, int], Rows]


def every_pair(query: Rows, x: Rows, k: int) -> tuple[npt.NDArray[np.int64], Rows]:
    every = np.arange(len(x))
    return rank_lists(query, x, np.broadcast_to(every, (len(query), len(x))), every, k)


def same(query: Rows, x: Rows, k: int) -> None:
    found, expected = nearest_by_groups(query, x, k), every_pair(query, x, k)
    assert np.array_equal(found[0], expected[0])
    assert found[1].tobytes() == expected[1].tobytes()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups however few the queries, and however little they leave out."""
    for name, value in (("_QUERIES", 0), ("_EXACT", 0), ("_PRODUCT", 0), ("_TRIED", 8)):
        monkeypatch.setattr(grouped, name, value)


@pytest.mark.usefixtures("always")
@given(pools(150), generators(), st.integers(1, 8))
@settings(max_examples=200, deadline=None)
def test_groups_change_no_bit(x: Rows, rng: np.random.Generator, k: int) -> None:
    near = x[rng.integers(0, len(x), 40)]
    moved = near + x.std(axis=0) * rng.normal(size=near.shape).astype(np.float32)
    same(np.concatenate([near, moved.astype(np.float32)]), x, k)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-22, 1.0, 1e17, 1e20, 3e38])
def test_scales_at_the_ends_of_float32(scale: float) -> None:
    rng = np.random.default_rng(0)
    x, query = (
        (scale * np.clip(rng.normal(size=(n, 6)), -1, 1)).astype(np.float32) for n in (300, 400)
    )
    same(query, x, 5)


def clusters(rng: np.random.Generator, n: int) -> Rows:
    center = 4 * np.random.default_rng(1).normal(size=(40, 24))
    return (center[rng.integers(0, 40, n)] + rng.normal(size=(n, 24)) / 4).astype(np.float32)


def cloud(rng: np.random.Generator, n: int) -> Rows:
    return rng.normal(size=(n, 24)).astype(np.float32)


@pytest.mark.parametrize(("make", "by_groups"), [(clusters, True), (cloud, False)])
@pytest.mark.parametrize("n_rows", [400, 1200])
def test_groups_are_left_where_they_leave_out_little(
    make: MakeRows, by_groups: bool, n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x, query = make(rng, n_rows), make(rng, 5000)
    searched: list[int] = []

    def spy(query: Rows, x: Rows, k: int) -> tuple[npt.NDArray[np.int64], Rows]:
        searched.append(len(query))
        return nearest(query, x, k)

    monkeypatch.setattr(grouped, "nearest", spy)
    same(query, x, 3)
    assert (len(query) - grouped._TRIED not in searched) == by_groups
