"""The order of the rows against all shuffles, and how seldom it cries wolf."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators, pools

from pipeline.arrays import added
from pipeline.blocks.sampling import in_sample
from pipeline.diagnostics.file_order import (
    DISTANCES,
    MOST_ROWS,
    RANKS,
    FileDistances,
    FileOrder,
    file_order,
    gaps,
    over_shuffles,
)
from pipeline.knn.lists import ABSENT
from pipeline.streams import Stream

Features = npt.NDArray[np.floating]
Lists = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def lists_of(x: Features, k: int = RANKS + 1) -> Lists:
    """Neighbors and distances as a graph has them: ties are broken by row."""
    apart = np.sqrt(np.square(x[:, None].astype(np.float64) - x[None]).sum(axis=-1))
    np.fill_diagonal(apart, np.inf)
    order = np.argsort(apart.astype(np.float32), axis=1, kind="stable")[:, :k]
    distance = np.take_along_axis(apart.astype(np.float32), order, axis=1)
    return np.where(np.isfinite(distance), order, ABSENT), distance


def edges_of(neighbor: npt.NDArray[np.int64], distance: npt.NDArray[np.float32]) -> list[list[int]]:
    """The neighbors that count, one by one."""
    fence = min(RANKS, neighbor.shape[1] - 1)
    return [
        [i, int(neighbor[i, rank])]
        for i in range(len(neighbor))
        for rank in range(fence)
        if distance[i, rank] < distance[i, fence]
    ]


def gaps_of(x: Features, k: int = RANKS + 1) -> FileDistances:
    return gaps(np.arange(len(x)), *lists_of(x, k), len(x))


@given(pools(), st.integers(1, 12))
@settings(deadline=None)  # the first call loads what is compiled
def test_gaps_are_those_of_all_neighbors_one_by_one(x: Features, k: int) -> None:
    found, edges = gaps_of(x, k), edges_of(*lists_of(x, k))
    apart = np.array([abs(i - j) for i, j in edges])
    wanted = [int((apart <= 2**place).sum()) for place in range(DISTANCES)]
    assert np.cumsum(found.counts).tolist() == wanted
    ends = np.array(edges, np.int64).ravel()
    assert found.squares == np.square(np.bincount(ends)).sum()
    assert found.mutual == sum([j, i] in edges for i, j in edges)


@given(pools(), generators())
@settings(deadline=None)
def test_a_shuffle_moves_rows_and_leaves_the_graph(x: Features, rng: np.random.Generator) -> None:
    found, moved = gaps_of(x), gaps_of(x[rng.permutation(len(x))])
    assert (found.squares, found.mutual) == (moved.squares, moved.mutual)
    assert sum(found.counts) == sum(moved.counts)
    assert gaps_of(x[::-1]) == found


@given(generators(), st.integers(4, 6), st.integers(1, 5))
@settings(deadline=None, max_examples=30)
def test_mean_and_variance_are_those_of_all_shuffles(
    rng: np.random.Generator, n: int, within: int
) -> None:
    within = min(within, n - 1)
    x = rng.normal(size=(n, 2))
    found, edges = gaps_of(x, 4), np.array(edges_of(*lists_of(x, 4)))
    place = np.array(list(permutations(range(n))))
    count = (np.abs(place[:, edges[:, 0]] - place[:, edges[:, 1]]) <= within).sum(axis=1)
    mean, variance = over_shuffles(found, within, n)
    assert mean == pytest.approx(count.mean())
    assert variance == pytest.approx(count.var(), abs=1e-9)


def test_blocks_add_up() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[30:] += 100
    neighbor, distance = lists_of(x)
    rows = np.arange(60)
    parts = [gaps(rows[p], neighbor[p], distance[p], 60) for p in (slice(30), slice(30, 60))]
    assert added(parts) == gaps(rows, neighbor, distance, 60)


def test_of_a_long_file_some_lists_are_looked_at() -> None:
    """A file so long that a third of these rows is drawn, against the same one by one."""
    x = np.random.default_rng(0).normal(size=(400, 2))
    n_rows = 3 * MOST_ROWS
    row = np.arange(400) * (n_rows // 400)
    neighbor, distance = lists_of(x)
    drawn = in_sample(row, n_rows, MOST_ROWS, 0, Stream.FILE_ORDER)
    assert 90 < drawn.sum() < 180
    edges = [[i, j] for i, j in edges_of(neighbor, distance) if drawn[i]]
    found = gaps(row, row[neighbor], distance, n_rows)
    assert sum(found.counts) == len(edges)
    assert found.squares == np.square(np.bincount(np.ravel(edges))).sum()
    assert found.mutual == sum([j, i] in edges for i, j in edges)


def order_of(x: Features) -> FileOrder:
    found = file_order(gaps_of(x), len(x))
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
    x = KINDS[kind](rng)
    found = [order_of(rng.permutation(x)) for _ in range(100)]
    assert sum(order.ordered for order in found) <= 4
    assert sum(order.p_value < 0.05 for order in found) <= 12


def test_a_long_file_of_independent_rows_is_in_no_order() -> None:
    """A million rows, each with ten neighbors anywhere: what steps of the distances or the ends of
    the file do would show here."""
    n = 1_000_000
    for seed in range(5):
        rng = np.random.default_rng(seed)
        neighbor = (np.arange(n)[:, None] + rng.integers(1, n, (n, 3))) % n
        distance = np.broadcast_to(np.arange(3, dtype=np.float32), (n, 3))
        found = file_order(gaps(np.arange(n), neighbor, distance, n), n)
        assert found is not None
        assert found.p_value > 0.01


def test_drift_blocks_and_repeated_rows_are_seen() -> None:
    rng = np.random.default_rng(0)
    noise, place = rng.normal(size=(1000, 3)), np.arange(1000)[:, None]
    drift = order_of(noise + place / 1000)
    blocks = order_of(noise + rng.normal(size=(20, 3))[place[:, 0] // 50])
    repeated = order_of(np.repeat(noise[:500], 2, axis=0) + 0.01 * noise)
    sorted_rows = order_of(noise[np.argsort(noise[:, 0])])
    assert all(found.ordered for found in (drift, blocks, repeated, sorted_rows))
    assert blocks.within <= 64
    assert repeated.within == 1
    assert repeated.p_value < 1e-99
    assert not order_of(rng.permutation(noise + place / 1000)).ordered


def test_nothing_is_said_without_neighbors() -> None:
    assert file_order(gaps_of(np.zeros((60, 2))), 60) is None
    assert file_order(gaps_of(np.zeros((60, 2)), 1), 60) is None
    assert file_order(FileDistances(), 1) is None
