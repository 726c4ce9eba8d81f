"""The laws of the merge, on which the graph's independence of order rests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import candidate_lists

from pipeline.merge import Neighbours, _order, merge, rank_in_group

Drawn = tuple[npt.NDArray[np.int64], Neighbours, int]


def take(lists: Neighbours, which: npt.NDArray[np.intp]) -> Neighbours:
    return Neighbours(*(column[which] for column in lists))


def join(a: Neighbours, b: Neighbours) -> Neighbours:
    return Neighbours(*(np.concatenate(pair) for pair in zip(a, b, strict=True)))


def equal(a: Neighbours, b: Neighbours) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@given(candidate_lists())
@settings(max_examples=200, deadline=None)
def test_merge_is_brute_force(drawn: Drawn) -> None:
    home, lists, n_homes = drawn
    merged = merge(home, lists, n_homes)
    assert reference.as_lists(merged.row, merged.distance) == reference.merge(*drawn)


@given(candidate_lists(), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_merge_commutes(drawn: Drawn, seed: int) -> None:
    home, lists, n_homes = drawn
    order = np.random.default_rng(seed).permutation(len(home))
    assert equal(merge(home[order], take(lists, order), n_homes), merge(*drawn))


@given(candidate_lists(), st.integers(0, 15))
@settings(max_examples=100, deadline=None)
def test_merge_associates(drawn: Drawn, cut: int) -> None:
    home, lists, n_homes = drawn
    first, rest = np.arange(len(home))[:cut], np.arange(len(home))[cut:]
    partly = merge(home[first], take(lists, first), n_homes)
    homes = np.concatenate([np.arange(n_homes), home[rest]])
    assert equal(merge(homes, join(partly, take(lists, rest)), n_homes), merge(*drawn))


@given(candidate_lists())
@settings(max_examples=100, deadline=None)
def test_merge_is_idempotent(drawn: Drawn) -> None:
    merged, n_homes = merge(*drawn), drawn[2]
    twice = np.concatenate([np.arange(n_homes)] * 2)
    assert equal(merge(twice, join(merged, merged), n_homes), merged)


@given(st.integers(0, 2**32 - 1), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_order_is_lexsort(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    group, row = rng.integers(0, 9, n), rng.integers(0, 20, n)
    distance = rng.choice([0.0, 0.5, 1e-30, 7.25, 3e38], n).astype(np.float32)
    assert np.array_equal(_order(group, row, distance), np.lexsort((row, distance, group)))


def test_rank_counts_within_runs() -> None:
    assert rank_in_group(np.array([3, 3, 5, 7, 7, 7])).tolist() == [0, 1, 0, 0, 1, 2]
    assert rank_in_group(np.empty(0, np.int64)).tolist() == []
