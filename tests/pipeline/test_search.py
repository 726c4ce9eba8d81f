"""Exact search against every distance computed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import pools

from pipeline.knn import exact as search
from pipeline.knn.distance import list_distance, pair_distance, rank_lists
from pipeline.knn.exact import kth_distance_bound, nearest
from pipeline.knn.lists import ABSENT

Rows = npt.NDArray[np.float32]


@given(x=pools(), k=st.integers(1, 70))
@settings(max_examples=150, deadline=None)
def test_nearest_is_brute_force(x: Rows, k: int) -> None:
    assert reference.as_lists(*nearest(x, x, k)) == reference.nearest(x, x, k)


@given(x=pools(), k=st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_excluded_row_is_no_neighbor(x: Rows, k: int) -> None:
    own = np.arange(len(x))
    found = reference.as_lists(*nearest(x, x, k, exclude=own))
    assert found == reference.nearest(x, x, k, own)


@given(x=pools(most_rows=200), k=st.integers(1, 9), tile=st.integers(3, 40))
@settings(max_examples=100, deadline=None)
def test_tiles_and_sample_do_not_show(x: Rows, k: int, tile: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_X_ROWS", tile)
        patch.setattr(search, "_QUERY_ROWS", 7)
        found = nearest(x, x, k, exclude=np.arange(len(x)))
    assert reference.as_lists(*found) == reference.nearest(x, x, k, np.arange(len(x)))


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-22, 1.0, 1e17, 1e20, 3e38])
def test_products_find_what_every_pair_shows_at_the_ends_of_float32(scale: float) -> None:
    rng = np.random.default_rng(0)
    x, query = (
        (scale * np.clip(rng.normal(size=(n, 6)), -1, 1)).astype(np.float32) for n in (300, 400)
    )
    every = np.arange(len(x))
    pairs = rank_lists(query, x, np.broadcast_to(every, (len(query), len(x))), every, 5)
    for found, expected in zip(nearest(query, x, 5), pairs, strict=True):
        assert found.tobytes() == expected.tobytes()


@given(x=pools(), k=st.integers(1, 9), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_bound_leaves_out_nothing_within_it(x: Rows, k: int, seed: int) -> None:
    bound = np.random.default_rng(seed).choice(reference.distances(x, x).ravel(), len(x))
    found = reference.as_lists(*nearest(x, x, k, bound=bound))
    for near, listed, limit in zip(reference.nearest(x, x, k), found, bound, strict=True):
        within = [pair for pair in near if pair[0] <= limit]
        assert listed[: len(within)] == within


def test_sample_too_low_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows sorted so that the evenly spread sample sees nothing of a query's neighborhood."""
    monkeypatch.setattr(search, "_X_ROWS", 64)
    x = np.concatenate([np.zeros((60, 2)), 100 + np.random.default_rng(0).random((2000, 2))])
    x = x.astype(np.float32)
    found = nearest(x[:50], x, 70)
    assert reference.as_lists(*found) == reference.nearest(x[:50], x, 70)


def test_no_rows_give_empty_lists() -> None:
    index, far = nearest(np.zeros((3, 2), np.float32), np.empty((0, 2), np.float32), 4)
    assert (index == ABSENT).all()
    assert np.isinf(far).all()


@given(x=pools(), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_pair_distance_does_not_depend_on_the_batch(x: Rows, seed: int) -> None:
    i, j = np.arange(len(x)), np.random.default_rng(seed).permutation(len(x))
    whole = pair_distance(x, x, i, j)
    assert whole.tolist() == [pair_distance(x, x, i[p : p + 1], j[p : p + 1])[0] for p in i]
    assert whole.tolist() == pair_distance(x, x, j, i).tolist()
    assert whole.tolist() == list_distance(x, x, j[:, None])[:, 0].tolist()
    assert whole.tolist() == reference.distances(x, x)[i, j].tolist()


def test_absent_places_are_infinitely_far() -> None:
    x = np.zeros((2, 3), np.float32)
    assert list_distance(x, x, np.array([[0, ABSENT], [ABSENT, 1]])).tolist() == [
        [0.0, np.inf],
        [np.inf, 0.0],
    ]


def test_bound_from_a_sample_holds() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8000, 6)).astype(np.float32)
    query, sample = x[:400], x[rng.permutation(8000)[:2000]]
    for k in (5, 50, 500):
        true = nearest(query, x, k)[1][:, -1]
        assert (kth_distance_bound(query, sample, k, 8000) >= true).all()


def test_bound_from_too_small_a_sample_is_none() -> None:
    x = np.zeros((10, 2), np.float32)
    assert np.isinf(kth_distance_bound(x, x[:3], 9, 10)).all()
