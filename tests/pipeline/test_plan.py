"""The choice among ways to cut a pool."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators

from pipeline.merge import ABSENT
from pipeline.partition import Halo, in_halo, meet_share, nearest_blocks
from pipeline.plan import HALOS, Cut, Pairs, choose_cut, cuts, pair_index, row_cost
from pipeline.simulate import sheets


def cut(meet: float, cost: float) -> Cut:
    return Cut(np.zeros((2, 1), np.float32), Halo(0.0, 1), 1.0, meet, cost)


CUTS = st.lists(st.builds(cut, st.floats(0.5, 1.0), st.floats(1.0, 100.0)), min_size=1, max_size=12)


@given(CUTS, st.floats(0.5, 0.99), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_cut_is_enough_where_any_is(candidates: list[Cut], target: float, attempt: int) -> None:
    wanted = 1 - (1 - target) / 2 ** (attempt + 1)
    chosen = choose_cut(candidates, target, attempt)
    assert chosen.meet >= wanted or all(c.meet < wanted for c in candidates)


@given(CUTS, st.floats(0.5, 0.99), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_cut_costs_at_most_half_more_than_the_cheapest_that_is_enough(
    candidates: list[Cut], target: float, attempt: int
) -> None:
    wanted = 1 - (1 - target) / 2 ** (attempt + 1)
    enough = [c.cost for c in candidates if c.meet >= wanted]
    assert not enough or choose_cut(candidates, target, attempt).cost <= 1.5 * min(enough)


@given(CUTS, st.floats(0.5, 0.99))
@settings(max_examples=100, deadline=None)
def test_cut_that_keeps_most_together_is_taken_where_none_is_enough(
    candidates: list[Cut], target: float
) -> None:
    best = max(c.meet for c in candidates)
    chosen = choose_cut(candidates, target)
    assert best >= 1 - (1 - target) / 2 or chosen.meet == best


def test_cheapest_cut_is_taken_where_a_better_one_costs_too_much() -> None:
    assert choose_cut([cut(0.98, 2.0), cut(1.0, 9.0), cut(0.96, 1.0)], 0.95).cost == 2.0


def test_better_cut_is_taken_where_it_costs_little_more() -> None:
    assert choose_cut([cut(0.98, 2.0), cut(0.995, 2.9)], 0.95).meet == 0.995


def test_cheaper_of_two_equally_bad_cuts_is_taken() -> None:
    assert choose_cut([cut(0.5, 3.0), cut(0.5, 2.0)], 0.95).cost == 2.0


def test_each_attempt_asks_for_more() -> None:
    candidates = [cut(0.98, 1.0), cut(0.99, 2.0), cut(0.999, 4.0)]
    assert [choose_cut(candidates, 0.95, t).meet for t in range(3)] == [0.98, 0.99, 0.999]


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_rows_of_larger_blocks_cost_more(a: float, b: float) -> None:
    assert row_cost(min(a, b)) <= row_cost(max(a, b))


@given(generators(), st.integers(1, 9), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_pairs_are_the_first_k_neighbours_that_are_there(
    rng: np.random.Generator, n_anchors: int, k: int
) -> None:
    neighbor = rng.integers(ABSENT, 30, (7, 6))
    anchor, row = pair_index(neighbor, n_anchors, k)
    expected = [
        (i, r) for i in range(min(7, n_anchors)) for r in neighbor[i, 1 : k + 1].tolist() if r >= 0
    ]
    assert list(zip(anchor.tolist(), row.tolist(), strict=True)) == expected


@pytest.fixture(scope="module")
def case() -> tuple[np.ndarray, Pairs]:
    """Rows, and the pairs of 100 of them with their 10 nearest."""
    x = sheets(6000, 0)[0]
    near = reference.nearest(x[:100], x, 11)
    lists = np.array([[row for _, row in pairs] for pairs in near])
    anchor, row = pair_index(lists, 100, 10)
    return x, Pairs(x[anchor], x[row])


def test_every_halo_is_a_candidate(case: tuple[np.ndarray, Pairs]) -> None:
    x, pairs = case
    assert tuple(c.halo for c in cuts(x, 6000, 600, pairs, seed=0)) == HALOS


def test_cuts_predict_the_copies_and_meetings_of_their_halo(
    case: tuple[np.ndarray, Pairs],
) -> None:
    x, pairs = case
    for found in cuts(x, 6000, 600, pairs, seed=0):
        a, b = (nearest_blocks(rows, found.centroid) for rows in (pairs.anchor, pairs.neighbor))
        copies = in_halo(nearest_blocks(x, found.centroid)[1], found.halo).sum() / len(x)
        assert found.copies == pytest.approx(copies)
        assert found.meet == meet_share(a, b, found.halo)


def test_wider_halos_cost_more(case: tuple[np.ndarray, Pairs]) -> None:
    found = cuts(case[0], 6000, 600, case[1], seed=0)
    by_copies = sorted(found, key=lambda c: c.copies)
    assert [c.cost for c in by_copies] == sorted(c.cost for c in found)


def test_one_block_keeps_everything_together(case: tuple[np.ndarray, Pairs]) -> None:
    (only,) = cuts(case[0], 6000, 10_000, case[1], seed=0)
    assert (only.meet, only.copies, len(only.centroid)) == (1.0, 1.0, 1)


def test_core_that_waits_and_lists_that_travel_are_paid_for() -> None:
    x = np.repeat([[0.0], [3.0]], 500, axis=0).astype(np.float32)
    x += np.random.default_rng(0).random(x.shape, np.float32)
    pairs = Pairs(x[:10], x[1:11])
    (alone,) = cuts(x, 100_000, 200_000, pairs, seed=0)
    apart, *_, together = sorted(cuts(x, 100_000, 50_000, pairs, seed=0), key=lambda c: c.copies)
    assert apart.copies == 1.0 < 1.2 < together.copies
    assert alone.cost == pytest.approx(2 * row_cost(100_000), rel=0.01)
    assert apart.cost == pytest.approx(row_cost(50_000), rel=0.01)
    assert together.cost > together.copies * row_cost(50_000) + 1
