"""The laws of the merge, on which the graph's independence of order rests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Candidates, candidate_lists, candidates, generators

from pipeline.knn.lists import (
    ABSENT,
    Neighbors,
    _order,
    empty,
    merge,
    rank_in_group,
    select,
)
from pipeline.knn.lots import lots

Drawn = tuple[npt.NDArray[np.int64], Neighbors, int]


def take(lists: Neighbors, which: npt.NDArray[np.intp]) -> Neighbors:
    return Neighbors(*(column[which] for column in lists))


def join(a: Neighbors, b: Neighbors) -> Neighbors:
    return Neighbors(*(np.concatenate(pair) for pair in zip(a, b, strict=True)))


def equal(a: Neighbors, b: Neighbors) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@given(candidate_lists())
@settings(max_examples=200, deadline=None)
def test_merge_is_brute_force(drawn: Drawn) -> None:
    home, lists, n_homes = drawn
    merged = merge(home, lists, n_homes)
    assert reference.as_lists(merged.row, merged.distance) == reference.merge(*drawn)


@given(candidate_lists(), generators())
@settings(max_examples=100, deadline=None)
def test_merge_commutes(drawn: Drawn, rng: np.random.Generator) -> None:
    home, lists, n_homes = drawn
    order = rng.permutation(len(home))
    assert equal(merge(home[order], take(lists, order), n_homes), merge(*drawn))


@given(candidate_lists(), st.integers(0, 15))
@settings(max_examples=100, deadline=None)
def test_merge_associates(drawn: Drawn, cut: int) -> None:
    home, lists, n_homes = drawn
    first, rest = np.arange(len(home))[:cut], np.arange(len(home))[cut:]
    partly = merge(home[first], take(lists, first), n_homes)
    homes = np.concatenate([np.arange(n_homes), home[rest]])
    assert equal(merge(homes, join(partly, take(lists, rest)), n_homes), merge(*drawn))


@given(candidate_lists(), st.integers(0, 15))
@settings(max_examples=100, deadline=None)
def test_merge_of_two_merges_is_the_merge(drawn: Drawn, cut: int) -> None:
    home, lists, n_homes = drawn
    halves = [np.arange(len(home))[:cut], np.arange(len(home))[cut:]]
    a, b = (merge(home[half], take(lists, half), n_homes) for half in halves)
    homes = np.concatenate([np.arange(n_homes)] * 2)
    assert equal(merge(homes, join(a, b), n_homes), merge(*drawn))


@given(candidate_lists())
@settings(max_examples=100, deadline=None)
def test_merge_is_idempotent(drawn: Drawn) -> None:
    merged, n_homes = merge(*drawn), drawn[2]
    twice = np.concatenate([np.arange(n_homes)] * 2)
    assert equal(merge(twice, join(merged, merged), n_homes), merged)


@given(candidate_lists())
@settings(max_examples=100, deadline=None)
def test_empty_lists_change_nothing(drawn: Drawn) -> None:
    merged, n_homes = merge(*drawn), drawn[2]
    twice = np.concatenate([np.arange(n_homes)] * 2)
    nothing = empty(n_homes, merged.row.shape[1])
    assert equal(merge(twice, join(nothing, merged), n_homes), merged)


@given(candidate_lists())
@settings(max_examples=100, deadline=None)
def test_labels_stay_with_their_rows(drawn: Drawn) -> None:
    _, lists, _ = drawn
    label = dict(zip(lists.row.ravel().tolist(), lists.label.ravel().tolist(), strict=True))
    label[ABSENT] = ABSENT
    merged = merge(*drawn)
    assert merged.label.ravel().tolist() == [label[row] for row in merged.row.ravel().tolist()]


@given(candidates(), st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_select_is_brute_force(offered: Candidates, k: int) -> None:
    group, row, distance = offered
    chosen, rank = select(*offered, k)
    columns = group[chosen], distance[chosen], row[chosen], rank
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert found == reference.select(*offered, k)


@given(candidates(), st.integers(1, 8), generators())
@settings(max_examples=100, deadline=None)
def test_select_does_not_depend_on_the_order_of_candidates(
    offered: Candidates, k: int, rng: np.random.Generator
) -> None:
    group, row, distance = offered
    order = rng.permutation(len(group))
    chosen, _ = select(*offered, k)
    again = order[select(group[order], row[order], distance[order], k)[0]]
    assert np.array_equal(group[again], group[chosen])
    assert np.array_equal(row[again], row[chosen])


def test_rows_at_one_distance_are_listed_by_lot() -> None:
    group, row = np.zeros(5, np.int64), np.array([9, 2, 7, 2, 4])
    chosen, rank = select(group, row, np.ones(5, np.float32), 3)
    every = np.unique(row)
    assert row[chosen].tolist() == every[np.argsort(lots(every))][:3].tolist()
    assert rank.tolist() == [0, 1, 2]


def test_home_without_lists_is_left_empty() -> None:
    merged = merge(np.empty(0, np.int64), empty(0, 3), 2)
    assert equal(merged, empty(2, 3))


@given(generators(), st.integers(0, 200), st.sampled_from([1, 9, 2**31]))
@settings(max_examples=100, deadline=None)
def test_order_is_lexsort(rng: np.random.Generator, n: int, n_groups: int) -> None:
    group, row = rng.integers(0, n_groups, n), rng.integers(0, 20, n)
    distance = rng.choice([0.0, 1e-45, 1e-30, 0.5, 7.25, 3e38, np.inf], n).astype(np.float32)
    assert np.array_equal(_order(group, row, distance), np.lexsort((lots(row), distance, group)))


def test_rank_counts_within_runs() -> None:
    assert rank_in_group(np.array([3, 3, 5, 7, 7, 7])).tolist() == [0, 1, 0, 0, 1, 2]
    assert rank_in_group(np.empty(0, np.int64)).tolist() == []
