"""Lists refined by the neighbours of neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators, pools

from pipeline.distance import rank_lists
from pipeline.merge import ABSENT
from pipeline.refine import refine, spatial_order

Rows = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]


@st.composite
def rough(draw: st.DrawFn) -> tuple[Rows, Int32]:
    """Rows on a grid, where float32 makes no error, and any lists of them."""
    rng = draw(generators())
    n, k = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    x = rng.integers(0, 9, (n, draw(st.integers(1, 4)))).astype(np.float32)
    index = np.full((n, k), ABSENT, np.int32)
    for i in range(n):
        chosen = rng.permutation(n)[: rng.integers(0, k + 1)]
        index[i, rng.permutation(k)[: len(chosen)]] = chosen
    return x, index


@given(rough(), st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_refined_lists_are_the_nearest_of_the_neighbours_neighbours(
    given: tuple[Rows, Int32], width: int
) -> None:
    x, index = given
    found = refine(x, index, width)
    table = reference.distances(x, x)
    for i, candidates in enumerate(reference.near_of_near(index)):
        listed = [c for c in found[i].tolist() if c != ABSENT]
        assert found[i].tolist() == listed + [ABSENT] * (width - len(listed))
        assert len(set(listed)) == len(listed)
        assert set(listed) <= candidates
        assert table[i, listed].tolist() == sorted(table[i, sorted(candidates)])[:width]


@given(rough(), st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_no_place_of_a_list_gets_farther(given: tuple[Rows, Int32], more: int) -> None:
    x, index = given
    before = _distances(x, index)
    after = _distances(x, refine(x, index, index.shape[1] + more))
    assert (after[:, : before.shape[1]] <= before).all()


def _distances(x: Rows, index: Int32) -> Rows:
    own = np.arange(len(x))[:, None]
    listed = np.where(index == own, ABSENT, index)
    table = np.pad(reference.distances(x, x), ((0, 0), (0, 1)), constant_values=np.inf)
    return np.sort(np.take_along_axis(table, listed.astype(np.int64), axis=1), axis=1)


@given(pools(), st.integers(1, 8), generators())
@settings(max_examples=100, deadline=None)
def test_ranked_lists_are_by_distance_and_row(x: Rows, k: int, rng: np.random.Generator) -> None:
    place = np.stack([rng.permutation(np.r_[np.arange(len(x)), ABSENT, ABSENT]) for _ in range(9)])
    query, row = x[rng.integers(0, len(x), 9)], rng.permutation(1000)[: len(x)]
    index, distance = rank_lists(query, x, place, row, k)
    table = reference.distances(query, x)
    exact = [sorted((float(d), int(r)) for d, r in zip(far, row, strict=True)) for far in table]
    assert reference.as_lists(index, distance) == [lists[:k] for lists in exact]
    assert np.isinf(distance[index == ABSENT]).all()


@given(pools(most_rows=700))
@settings(max_examples=50, deadline=None)
def test_spatial_order_holds_every_row_once(x: Rows) -> None:
    assert sorted(spatial_order(x).tolist()) == list(range(len(x)))


def test_rows_near_in_spatial_order_are_near() -> None:
    x = np.random.default_rng(0).random((20_000, 3), dtype=np.float32)
    near = x[spatial_order(x)]
    apart, at_random = (np.linalg.norm(np.diff(rows, axis=0), axis=1).mean() for rows in (near, x))
    assert apart < at_random / 3
