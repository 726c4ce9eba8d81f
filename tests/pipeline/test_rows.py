"""Rows as the estimator takes them: sparse ones and cosines, beside dense rows and their twins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from strategies import generators, pools

from pipeline.knn.distance import pair_distance
from pipeline.knn.exact import nearest
from pipeline.knn.rows import as_rows, nearest_rows
from pipeline.knn.sparse import nearest_sparse, sparse_pair_distance

Rows = npt.NDArray[np.float32]


def thinned(x: Rows, rng: np.random.Generator, share: float) -> Rows:
    """The rows with a share of their values set to zero."""
    return np.where(rng.random(x.shape) < share, np.float32(0), x)


@given(pools(), generators(), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
@settings(max_examples=80, deadline=None)
def test_sparse_distances_are_the_dense_ones_bit_for_bit(
    x: Rows, rng: np.random.Generator, zeros: float
) -> None:
    x = thinned(np.tile(x, 3), rng, zeros)
    i, j = rng.integers(0, len(x), (2, 90))
    found = sparse_pair_distance(csr_array(x), csr_array(x), i, j)
    assert np.array_equal(found, pair_distance(x, x, i, j))


@given(pools(), generators(), st.sampled_from([0.0, 0.7, 0.95]), st.integers(1, 60), st.booleans())
@settings(max_examples=80, deadline=None)
def test_sparse_lists_are_the_dense_ones_bit_for_bit(
    x: Rows, rng: np.random.Generator, zeros: float, k: int, own: bool
) -> None:
    x = thinned(x, rng, zeros)
    exclude = np.arange(len(x)) if own else None
    index, distance = nearest_sparse(csr_array(x), csr_array(x), k, exclude=exclude)
    assert reference.as_lists(index, distance) == reference.nearest(x, x, k, exclude)
    dense = nearest(x, x, k, exclude=exclude)
    assert np.array_equal(index, dense[0])
    assert np.array_equal(distance, dense[1])


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e18])
def test_sparse_lists_of_any_size_in_several_tiles(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.knn.sparse._CELLS", 3000)
    rng = np.random.default_rng(0)
    x = thinned(rng.normal(size=(700, 30)).astype(np.float32), rng, 0.8) * np.float32(size)
    found = nearest_sparse(csr_matrix(x), csr_matrix(x), 9)
    for ours, dense in zip(found, nearest(x, x, 9), strict=True):
        assert np.array_equal(ours, dense)


def test_sparse_and_dense_rows_may_be_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.knn.rows._TILE_BYTES", 2000)
    rng = np.random.default_rng(0)
    x = thinned(rng.normal(size=(200, 12)).astype(np.float32), rng, 0.6)
    out = np.arange(200)
    wanted = nearest(x, x, 5, exclude=out)
    for query in (x, csr_array(x)):
        for rows in (x, csr_array(x)):
            found = nearest_rows(query, rows, 5, exclude=out)
            assert all(map(np.array_equal, found, wanted))


@given(pools(), generators())
@settings(max_examples=60, deadline=None)
def test_cosine_orders_as_angles_and_is_the_same_sparse(x: Rows, rng: np.random.Generator) -> None:
    x = thinned(x, rng, 0.4)
    unit = as_rows(x, "cosine")
    assert np.array_equal(as_rows(csr_array(x), "cosine").toarray(), unit)
    there = np.flatnonzero(np.abs(x).max(axis=1) > 0)
    wide = x[there].astype(np.float64) / np.abs(x[there]).max(axis=1, keepdims=True)
    cosine = (wide @ wide.T) / np.linalg.norm(wide, axis=1) / np.linalg.norm(wide, axis=1)[:, None]
    apart = reference.distances(unit[there], unit[there]).astype(np.float64)
    assert np.allclose(1 - apart**2 / 2, cosine, atol=1e-6)


def test_a_sparse_array_is_left_as_it_was_given() -> None:
    given = csr_array((np.float32([1, 2, 3]), np.array([4, 1, 1]), np.array([0, 3])), shape=(1, 5))
    assert as_rows(given, "cosine").toarray() == pytest.approx(
        np.array([[0, 5, 0, 0, 1, 0]]) / 26**0.5
    )
    assert given.data.tolist() == [1, 2, 3]


def test_a_row_of_zeros_is_orthogonal_to_all_others() -> None:
    x = np.float32([[3, 4], [0, 0], [0, 0]])
    for rows in (x, csr_array(x)):
        index, distance = nearest_rows(*[as_rows(rows, "cosine")] * 2, 3)
        assert index.tolist() == [[0, 2, 1], [2, 1, 0], [2, 1, 0]]
        assert distance.tolist() == [
            [0, *[np.float32(2**0.5)] * 2],
            *[[0, 0, np.float32(2**0.5)]] * 2,
        ]
