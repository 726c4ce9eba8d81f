"""The choice among ways to cut a pool."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators

from pipeline.blocks.cost import (
    HALOS,
    Cut,
    Pairs,
    choose_cut,
    cuts,
    pair_index,
    recall_wanted,
    row_cost,
    whole_cost,
)
from pipeline.blocks.partition import Halo, in_halo, nearest_blocks, share_together
from pipeline.knn.lists import ABSENT
from pipeline.simulate import sheets


def cut(ceiling: float, cost: float) -> Cut:
    return Cut(np.zeros((2, 1), np.float32), np.arange(2), Halo(0.0, 1), 1.0, ceiling, cost)


CUTS = st.lists(st.builds(cut, st.floats(0.5, 1.0), st.floats(1.0, 100.0)), min_size=1, max_size=12)


def most_missed(target: float, attempt: int) -> float:
    return 0.7 * (1 - target) / 2**attempt


@given(CUTS, st.floats(0.5, 0.99), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_cut_is_the_cheapest_of_those_that_are_enough(
    candidates: list[Cut], target: float, attempt: int
) -> None:
    chosen = choose_cut(candidates, target, attempt)
    enough = [c for c in candidates if 1 - c.ceiling <= most_missed(target, attempt)]
    least = min((whole_cost(c, target, attempt) for c in enough), default=None)
    assert least is None or (
        1 - chosen.ceiling <= most_missed(target, attempt)
        and whole_cost(chosen, target, attempt) == least
    )


@given(CUTS, st.floats(0.5, 0.99))
@settings(max_examples=100, deadline=None)
def test_cut_that_keeps_most_together_is_taken_where_none_is_enough(
    candidates: list[Cut], target: float
) -> None:
    best = max(c.ceiling for c in candidates)
    assert 1 - best <= most_missed(target, 0) or choose_cut(candidates, target).ceiling == best


@given(st.floats(0.5, 0.999), st.floats(0.0, 1.0), st.integers(0, 4))
def test_lists_make_up_for_what_the_cut_misses(target: float, share: float, attempt: int) -> None:
    ceiling = 1 - share * most_missed(target, attempt)
    wanted = recall_wanted(target, ceiling, attempt)
    assert target <= wanted * ceiling <= 1
    assert 1 - wanted * ceiling == pytest.approx(0.9 * (1 - target) / 2**attempt)


def test_better_cut_is_taken_where_lists_get_cheaper_by_it() -> None:
    loose, tight = cut(0.97, 2.0), cut(1.0, 2.1)
    assert choose_cut([loose, tight], 0.95) is tight
    assert choose_cut([loose, cut(1.0, 9.0)], 0.95) is loose


def test_cheaper_of_two_equally_bad_cuts_is_taken() -> None:
    assert choose_cut([cut(0.5, 3.0), cut(0.5, 2.0)], 0.95).cost == 2.0


def test_each_attempt_asks_for_more() -> None:
    candidates = [cut(0.97, 1.0), cut(0.985, 4.0), cut(0.999, 16.0)]
    assert [choose_cut(candidates, 0.95, t).ceiling for t in range(3)] == [0.97, 0.985, 0.999]


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_rows_of_larger_blocks_cost_more(a: float, b: float) -> None:
    assert row_cost(min(a, b)) <= row_cost(max(a, b))


@given(generators(), st.integers(1, 9), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_pairs_are_the_first_k_neighbors_that_are_there(
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
        assert found.ceiling == share_together(a, b, found.halo)


def test_wider_halos_cost_more(case: tuple[np.ndarray, Pairs]) -> None:
    found = cuts(case[0], 6000, 600, case[1], seed=0)
    for a, b in product(found, found):
        if a.halo.eps <= b.halo.eps and a.halo.copies <= b.halo.copies:
            assert a.copies <= b.copies
            assert a.cost <= 1.02 * b.cost


def test_one_block_keeps_everything_together(case: tuple[np.ndarray, Pairs]) -> None:
    (only,) = cuts(case[0], 6000, 10_000, case[1], seed=0)
    assert (only.ceiling, only.copies, len(only.centroid)) == (1.0, 1.0, 1)


def test_fewer_regions_keep_more_together_of_fewer_copies(case: tuple[np.ndarray, Pairs]) -> None:
    halos = [Halo(0.1, 4)]
    found = cuts(case[0], 6000, 100, case[1], 0, halos, n_regions=(1, 3, 12), at_once=1)
    assert [int(c.region.max()) + 1 for c in found] == [1, 3, 12]
    assert (found[0].ceiling, found[0].copies) == (1.0, 1.0)
    for fewer, more in pairwise(found):
        assert fewer.ceiling >= more.ceiling
        assert fewer.copies <= more.copies
        assert (fewer.centroid == more.centroid).all()
    (blocks,) = cuts(case[0], 6000, 100, case[1], 0, halos, at_once=1)
    assert blocks.copies >= found[-1].copies


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
