"""The order of the rows against all pairs, and how seldom it cries wolf."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators, pools

from pipeline.diagnostics.file_order import (
    DISTANCES,
    FileOrder,
    by_distance,
    file_order,
    mutual_pairs,
    random_share,
)

Features = npt.NDArray[np.floating]
Pairs = npt.NDArray[np.int64]


def table(x: Features) -> npt.NDArray[np.float32]:
    """(row, row) distances, those to itself infinite."""
    apart = np.sqrt(np.square(x[:, None].astype(np.float64) - x[None]).sum(axis=-1))
    np.fill_diagonal(apart, np.inf)
    return apart.astype(np.float32)


def pairs_of(x: Features, k: int = 3) -> Pairs:
    """Pairs from lists as a graph has them: ties are broken by row."""
    apart = table(x)
    order = np.argsort(apart, axis=1, kind="stable")[:, :k]
    return mutual_pairs(np.arange(len(x)), order, np.take_along_axis(apart, order, axis=1))


@given(pools())
@settings(deadline=None)  # the first call loads what is compiled
def test_pairs_are_those_of_all_distances(x: Features) -> None:
    apart, n = table(x), len(x)
    found = []
    for i in range(n):
        for j in range(i + 1, n):
            others = [np.delete(apart[row], [i, j]) for row in (i, j)]
            if all((apart[i, j] < other).all() and np.isfinite(apart[i, j]) for other in others):
                found.append([i, j])
    assert pairs_of(x).tolist() == found


@given(pools(), generators())
@settings(deadline=None)
def test_only_the_places_in_the_file_change_with_its_order(
    x: Features, rng: np.random.Generator
) -> None:
    place = rng.permutation(len(x))
    moved = np.empty_like(x)
    moved[place] = x
    there = {frozenset(pair) for pair in place[pairs_of(x)].tolist()}
    assert there == {frozenset(pair) for pair in pairs_of(moved).tolist()}
    assert by_distance(pairs_of(x[::-1])).tolist() == by_distance(pairs_of(x)).tolist()


@given(generators(), st.integers(2, 50), st.integers(0, 40))
def test_counts_and_chances_are_those_of_enumeration(
    rng: np.random.Generator, n: int, pairs: int
) -> None:
    drawn = np.array([np.sort(rng.permutation(n)[:2]) for _ in range(pairs)], int).reshape(-1, 2)
    counts, apart = by_distance(drawn), drawn[:, 1] - drawn[:, 0]
    assert len(counts) == DISTANCES
    within = 2 ** np.arange(DISTANCES)
    assert np.cumsum(counts).tolist() == [int((apart <= d).sum()) for d in within]
    every = np.array([j - i for i in range(n) for j in range(i + 1, n)])
    wanted = [float((every <= d).mean()) for d in within]
    assert random_share(within.astype(float), n).tolist() == pytest.approx(wanted)


def order_of(x: Features) -> FileOrder:
    found = file_order(by_distance(pairs_of(x)), len(x))
    assert found is not None
    return found


N = 240
KINDS: dict[str, Callable[[np.random.Generator], Features]] = {
    "normal": lambda rng: rng.normal(size=(N, 3)),
    "wide": lambda rng: rng.normal(size=(N, 40)),
    "grid": lambda rng: np.round(4 * rng.normal(size=(N, 2))),
    "clusters": lambda rng: rng.normal(size=(N, 3)) + 20 * rng.integers(0, 5, (N, 1)),
    "copies": lambda rng: rng.normal(size=(N // 2, 3))[rng.integers(0, N // 2, N)],
    "heavy": lambda rng: rng.standard_cauchy(size=(N, 2)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_rows_seldom_alarm(kind: str) -> None:
    rng = np.random.default_rng(1)
    p = np.array([order_of(rng.permutation(KINDS[kind](rng))).p_value for _ in range(80)])
    assert (p < 0.05).sum() <= 4


def test_a_large_file_of_independent_rows_is_in_no_order() -> None:
    """Half a million pairs that share no row: what is left of steps and of the finite file would
    show here."""
    n = 1_000_000
    for seed in range(20):
        places = np.random.default_rng(seed).permutation(n).reshape(-1, 2)
        found = file_order(by_distance(np.sort(places, axis=1)), n)
        assert found is not None
        assert not found.ordered
        assert found.p_value > 0.01


def test_drift_blocks_and_repeated_rows_are_seen() -> None:
    rng = np.random.default_rng(0)
    noise, place = rng.normal(size=(1000, 3)), np.arange(1000)[:, None]
    drift = order_of(noise + 2 * place / 1000)
    blocks = order_of(noise + 4 * rng.normal(size=(20, 3))[place[:, 0] // 50])
    repeated = order_of(np.repeat(noise[:500], 2, axis=0) + 0.01 * noise)
    sorted_rows = order_of(noise[np.argsort(noise[:, 0])])
    assert all(found.ordered for found in (drift, blocks, repeated, sorted_rows))
    assert blocks.within <= 64
    assert repeated.within == 1
    assert repeated.share > 0.9
    assert not order_of(rng.permutation(noise + 2 * place / 1000)).ordered


def test_nothing_is_said_without_pairs() -> None:
    assert file_order(by_distance(pairs_of(np.zeros((9, 2)))), 9) is None
    assert pairs_of(np.zeros((9, 2)), k=1).shape == (0, 2)
