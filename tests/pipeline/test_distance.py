"""One exact distance a pair, and exact search where float32 arithmetic is hardest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import generators, pools

from pipeline.knn import exact as search
from pipeline.knn.distance import list_distance, pair_distance
from pipeline.knn.exact import kth_distance_bound, nearest
from pipeline.knn.lists import ABSENT
from pipeline.knn.threads import Threads

Rows = npt.NDArray[np.float32]


def spread_out(kind: str, n: int = 400, d: int = 3, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    x = {
        "normal": lambda: rng.normal(size=(n, d)),
        "grid": lambda: rng.integers(0, 3, (n, d)),
        "one feature": lambda: rng.integers(0, 50, (n, 1)),
        "one value": lambda: np.ones((n, d)),
        "offset": lambda: 1e4 + rng.normal(size=(n, d)),
        "offset grid": lambda: 1e4 + rng.integers(0, 3, (n, d)) / 1024,
        "heavy tails": lambda: rng.standard_cauchy((n, d)) ** 3,
        "outlier": lambda: np.concatenate([rng.normal(size=(n - 1, d)), np.full((1, d), 1e9)]),
    }[kind]()
    return x.astype(np.float32)


KINDS = [
    "normal",
    "grid",
    "one feature",
    "one value",
    "offset",
    "offset grid",
    "heavy tails",
    "outlier",
]


@given(pools(), generators())
@settings(max_examples=80, deadline=None)
def test_pair_distance_is_the_definition(x: Rows, rng: np.random.Generator) -> None:
    i, j = rng.integers(0, len(x), (2, 90))
    assert np.array_equal(pair_distance(x, x, i, j), reference.distances(x, x)[i, j])


@given(pools(), generators(), st.integers(1, 40))
@settings(max_examples=80, deadline=None)
def test_pair_distance_is_the_same_in_any_batch(
    x: Rows, rng: np.random.Generator, size: int
) -> None:
    i, j = rng.integers(0, len(x), (2, 90))
    batches = [pair_distance(x, x, i[a : a + size], j[a : a + size]) for a in range(0, 90, size)]
    assert np.array_equal(np.concatenate(batches), pair_distance(x, x, i, j))


def test_pair_distance_takes_rows_that_are_not_contiguous() -> None:
    x = spread_out("normal", 20, 6)
    i, j = np.arange(20), np.arange(20)[::-1]
    packed = np.ascontiguousarray(x[:, ::2])
    assert np.array_equal(
        pair_distance(x[:, ::2], x[:, ::2], i, j), pair_distance(packed, packed, i, j)
    )


def test_no_pairs_have_no_distances() -> None:
    x, none = spread_out("normal", 5), np.empty(0, np.int64)
    assert pair_distance(x, x, none, none).shape == (0,)


@given(pools(), generators(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_list_distance_is_inf_where_absent_and_exact_elsewhere(
    x: Rows, rng: np.random.Generator, k: int
) -> None:
    index = rng.integers(ABSENT, len(x), (len(x), k))
    exact = np.take_along_axis(reference.distances(x, x), np.maximum(index, 0), axis=1)
    assert np.array_equal(list_distance(x, x, index), np.where(index == ABSENT, np.inf, exact))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 17])
def test_search_is_brute_force_on(kind: str, k: int) -> None:
    x, own = spread_out(kind), np.arange(400)
    found = reference.as_lists(*nearest(x, x, k, exclude=own))
    assert found == reference.nearest(x, x, k, own)


@pytest.mark.parametrize("kind", KINDS)
def test_search_guided_by_a_sample_is_brute_force_on(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles of 48 rows: the limit is then guessed from 48 of 400 rows."""
    monkeypatch.setattr(search, "_X_ROWS", 48)
    monkeypatch.setattr(search, "_QUERY_ROWS", 31)
    x = spread_out(kind)
    assert search._Tiles(x).sample(5).share < 1
    assert reference.as_lists(*nearest(x, x, 5)) == reference.nearest(x, x, 5)


@given(pools(), st.integers(1, 60), st.integers(1, 60), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_search_depends_on_neither_tiles_nor_threads(
    x: Rows, query_rows: int, x_rows: int, k: int
) -> None:
    whole = nearest(x, x, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_QUERY_ROWS", query_rows)
        patch.setattr(search, "_X_ROWS", x_rows)
        tiled, shared = nearest(x, x, k), nearest(x, x, k, threads=Threads(3))
    for found in (tiled, shared):
        assert all(np.array_equal(a, b) for a, b in zip(whole, found, strict=True))


@given(pools(), generators(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_a_query_gets_the_same_list_alone(x: Rows, rng: np.random.Generator, k: int) -> None:
    index, distance = nearest(x, x, k)
    i = int(rng.integers(len(x)))
    alone = nearest(x[i : i + 1], x, k)
    assert np.array_equal(alone[0][0], index[i])
    assert np.array_equal(alone[1][0], distance[i])


@given(pools(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_longer_lists_begin_with_the_shorter_ones(x: Rows, k: int) -> None:
    shorter, longer = nearest(x, x, k)[0], nearest(x, x, k + 7)[0]
    assert np.array_equal(longer[:, :k], shorter)


@given(pools(), generators(), st.integers(1, 9))
@settings(max_examples=80, deadline=None)
def test_true_kth_distance_as_bound_changes_nothing(
    x: Rows, rng: np.random.Generator, k: int
) -> None:
    """The bound is inclusive, ties at it too; queries without a bound are searched as well."""
    index, distance = nearest(x, x, k)
    bound = np.where(rng.random(len(x)) < 0.3, np.float32(np.inf), distance[:, -1])
    again = nearest(x, x, k, bound=bound)
    assert np.array_equal(again[0], index)
    assert np.array_equal(again[1], distance)


@given(pools(), generators(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_absent_excludes_nothing(x: Rows, rng: np.random.Generator, k: int) -> None:
    exclude = np.where(rng.random(len(x)) < 0.5, np.arange(len(x)), ABSENT)
    found = reference.as_lists(*nearest(x, x, k, exclude=exclude))
    assert found == reference.nearest(x, x, k, exclude)


def test_more_neighbors_than_rows_are_absent_and_infinitely_far() -> None:
    x = spread_out("normal", 6)
    index, distance = nearest(x, x, 9, exclude=np.arange(6))
    assert (index[:, 5:] == ABSENT).all()
    assert np.isinf(distance[:, 5:]).all()


def test_no_queries_give_no_lists() -> None:
    assert nearest(np.empty((0, 3), np.float32), spread_out("normal"), 4)[0].shape == (0, 4)


@pytest.mark.parametrize("scale", [1e-18, 1e-15, 1e-12, 1e12, 1e15])
@pytest.mark.parametrize("kind", ["normal", "grid"])
def test_scale_of_the_features_does_not_matter(kind: str, scale: float) -> None:
    x = (spread_out(kind, 120) * np.float64(scale)).astype(np.float32)
    assert reference.as_lists(*nearest(x, x, 7)) == reference.nearest(x, x, 7)


@pytest.mark.parametrize("scale", [1e-22, 1e20])
def test_any_finite_features_are_searched_exactly(scale: float) -> None:
    x = (spread_out("normal", 120) * np.float64(scale)).astype(np.float32)
    with np.errstate(all="ignore"):
        assert reference.as_lists(*nearest(x, x, 7)) == reference.nearest(x, x, 7)


@given(
    n=st.integers(50, 400),
    share=st.floats(0.05, 1.0),
    k=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
)
@example(n=200, share=1.0, k=60, seed=0)
@settings(max_examples=60, deadline=None)
def test_bound_from_a_sample_holds_k_rows(n: int, share: float, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    sample = x[rng.permutation(n)[: max(1, int(share * n))]]
    bound = kth_distance_bound(x[:20], sample, min(k, n), n)
    assert (nearest(x[:20], x, min(k, n))[1][:, -1] <= bound).all()


def test_bound_from_all_rows_is_the_distance_itself() -> None:
    x = spread_out("normal")
    assert np.array_equal(kth_distance_bound(x, x, 9, 400), nearest(x, x, 9)[1][:, -1])
