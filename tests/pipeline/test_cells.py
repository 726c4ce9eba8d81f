"""Search by cells against exact search, and how many cells are scanned."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.audit import row_recall
from pipeline.cells import cells_enough, divide, nearest_in_block, search
from pipeline.distance import list_distance
from pipeline.merge import ABSENT
from pipeline.search import nearest
from pipeline.simulate import sheets

Rows = npt.NDArray[np.float32]


def rows(n: int, seed: int, d: int = 5) -> Rows:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@given(st.integers(1, 1500), st.integers(1, 40), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_all_cells_are_exact_search(n: int, k: int, seed: int) -> None:
    """Rows on a lattice, so that ties are many; their distances are exact in float32."""
    rng = np.random.default_rng(seed)
    x, query = (rng.integers(0, 12, (size, 3)).astype(np.float32) for size in (n, 20))
    cells = divide(x, seed)
    distance = search(query, cells, k, len(cells.centroid))[1]
    assert np.array_equal(distance, nearest(query, x, k)[1])


def test_rows_and_distances_belong_together() -> None:
    x, query = rows(4000, 0), rows(300, 1)
    index, distance = search(query, divide(x, 0), 12, 3)
    assert np.array_equal(distance, list_distance(query, x, index))
    assert (np.diff(distance, axis=1) >= 0).all()
    assert all(len(set(row)) == 12 for row in index.tolist())


def test_fewer_rows_scanned_than_wanted_are_absent() -> None:
    x, query = rows(3000, 0), rows(10, 1)
    index, distance = search(query, divide(x, 0), 2900, 1)
    assert ((index == ABSENT) == np.isinf(distance)).all()
    assert (index[:, -1] == ABSENT).all()


def test_every_row_is_in_one_cell() -> None:
    x = rows(5000, 0)
    cells = divide(x, 0)
    assert np.array_equal(np.sort(cells.row), np.arange(5000))
    assert np.array_equal(cells.x, x[cells.row])
    assert cells.start[-1] == 5000
    for first, last in zip(cells.start[:-1], cells.start[1:], strict=True):
        assert (np.diff(cells.radius[first:last]) >= 0).all()


@pytest.mark.parametrize("recall", [0.9, 0.99])
def test_as_many_cells_as_the_recall_takes(recall: float) -> None:
    x, query = sheets(20_000, 0)[0], sheets(2000, 0, first=40_960)[0]
    cells = divide(x, 0)
    n_cells = cells_enough(query, cells, 20, recall)
    found = row_recall(search(query, cells, 20, n_cells)[1], nearest(query, x, 20)[1]).mean()
    assert n_cells < len(cells.centroid)
    assert found >= recall - 0.01


def test_far_features_fall_back_to_exact_search() -> None:
    x, query = rows(6000, 0) * np.float32(1e25), rows(2000, 1) * np.float32(1e25)
    with np.errstate(all="ignore"):
        index, _ = nearest_in_block(query, x, 5, 0.99)
        assert np.array_equal(index[:50], nearest(query[:50], x, 5)[0])


def test_recall_of_one_is_exact_search() -> None:
    x, query = rows(6000, 0), rows(2000, 1)
    found, exact = nearest_in_block(query, x, 5, 1.0), nearest(query, x, 5)
    assert all(np.array_equal(a, b) for a, b in zip(found, exact, strict=True))
