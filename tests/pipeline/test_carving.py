"""Blocks carved into cells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import pools

from pipeline.graph.carving import carve
from pipeline.knn.threads import Threads

Rows = npt.NDArray[np.float32]


@given(pools(most_rows=700), st.integers(1, 200), st.integers(0, 2**33))
@settings(max_examples=80, deadline=None)
def test_cells_hold_every_row_once_and_none_too_many(x: Rows, most: int, seed: int) -> None:
    cells = carve(x, most, seed)
    assert sorted(cells.row.tolist()) == list(range(len(x)))
    sizes = np.diff(cells.start)
    assert cells.start[0] == 0
    assert cells.start[-1] == len(x)
    assert 1 <= sizes.min() <= sizes.max() <= most
    shared = carve(x, most, seed, Threads(3))
    assert np.array_equal(shared.row, cells.row)
    assert np.array_equal(shared.start, cells.start)


def test_same_seed_same_cells_and_another_seed_others() -> None:
    x = np.random.default_rng(0).normal(size=(3000, 7)).astype(np.float32)
    first, again, other = (carve(x, 100, seed) for seed in (5, 5, 6))
    assert np.array_equal(first.row, again.row)
    assert np.array_equal(first.start, again.start)
    assert not np.array_equal(first.row, other.row)


def test_rows_next_to_each_other_in_the_order_of_cells_are_near() -> None:
    x = np.random.default_rng(0).random((20_000, 3), dtype=np.float32)
    near = x[carve(x, 128, 0).row]
    apart, at_random = (np.linalg.norm(np.diff(rows, axis=0), axis=1).mean() for rows in (near, x))
    assert apart < at_random / 3
