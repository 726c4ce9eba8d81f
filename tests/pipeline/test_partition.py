"""Cutting a pool: sizes, halos, and the choice among cuts."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.partition import (
    Halo,
    fit_centroids,
    in_halo,
    meet_share,
    nearest_blocks,
    spread,
)
from pipeline.plan import HALOS, Cut, Pairs, choose_cut, cuts, pair_index
from pipeline.simulate import sheets


@given(st.integers(0, 9999), st.integers(1, 12), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_nearest_blocks_are_brute_force(seed: int, n_blocks: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    x, centroid = rng.normal(size=(40, 3)), rng.normal(size=(n_blocks, 3))
    x, centroid = x.astype(np.float32), centroid.astype(np.float32)
    block, distance = nearest_blocks(x, centroid, width)
    expected = reference.nearest(x, centroid, width)
    assert [[b for _, b in row] for row in expected] == block.tolist()
    assert np.allclose(distance, [[d for d, _ in row] for row in expected], atol=1e-5)


@pytest.mark.parametrize("kind", ["uniform", "clustered", "sheets", "line"])
def test_no_block_is_much_larger_than_asked(kind: str) -> None:
    rng = np.random.default_rng(0)
    x = {
        "uniform": lambda: rng.random((20_000, 5)),
        "clustered": lambda: rng.normal(size=(20_000, 5)) * rng.choice([0.01, 1, 30], (20_000, 1)),
        "sheets": lambda: sheets(20_000, 0)[0],
        "line": lambda: rng.random((20_000, 1)),
    }[kind]().astype(np.float32)
    centroid = fit_centroids(x, 25, seed=0)
    size = np.bincount(nearest_blocks(x, centroid, 1)[0][:, 0], minlength=len(centroid))
    assert 15 <= len(centroid) <= 45
    assert size.max() <= 2.2 * len(x) / 25


def test_centroids_are_deterministic() -> None:
    x = sheets(5000, 0)[0]
    assert np.array_equal(fit_centroids(x, 12, seed=1), fit_centroids(x, 12, seed=1))


def test_rows_that_coincide_are_one_block() -> None:
    assert len(fit_centroids(np.ones((500, 3), np.float32), 10, seed=0)) == 1


def test_home_is_always_held_and_halos_only_grow() -> None:
    distance = np.sort(np.random.default_rng(0).random((200, 5)), axis=1).astype(np.float32)
    before = in_halo(distance, Halo(0.0, 1))
    assert before.sum(axis=1).tolist() == [1] * 200
    for halo in (Halo(0.1, 2), Halo(0.4, 2), Halo(0.4, 3), Halo(9.0, 5)):
        held = in_halo(distance, halo)
        assert (held >= before).all()
        before = held


def test_spread_names_every_copy_once() -> None:
    block = np.array([[2, 0], [1, 2]], np.int32)
    distance = np.array([[1.0, 1.1], [1.0, 3.0]], np.float32)
    row, to, home = spread(block, distance, Halo(0.2, 2))
    assert row.tolist() == [0, 0, 1]
    assert to.tolist() == [2, 0, 1]
    assert home.tolist() == [True, False, True]


def test_meet_share_is_brute_force() -> None:
    rng = np.random.default_rng(0)
    centroid = rng.normal(size=(9, 2)).astype(np.float32)
    a, b = (nearest_blocks(rng.normal(size=(300, 2)).astype("f4"), centroid) for _ in range(2))
    for halo in HALOS:
        held = [
            [set(np.array(row)[inside]) for row, inside in zip(*pair, strict=True)]
            for pair in ((a[0], in_halo(a[1], halo)), (b[0], in_halo(b[1], halo)))
        ]
        expected = np.mean([bool(x & y) for x, y in zip(*held, strict=True)])
        assert meet_share(a, b, halo) == pytest.approx(expected)


def cut(meet: float, cost: float) -> Cut:
    return Cut(np.zeros((2, 1), np.float32), Halo(0.0, 1), 1.0, meet, cost)


def test_cheapest_cut_with_a_margin_is_chosen() -> None:
    cheap, better, dear = cut(0.96, 1.0), cut(0.98, 2.0), cut(1.0, 9.0)
    assert choose_cut([cheap, better, dear], 0.95) is better
    assert choose_cut([cheap, better, cut(0.995, 2.9)], 0.95).meet == 0.995
    assert choose_cut([cheap], 0.95) is cheap


def test_each_attempt_asks_for_more() -> None:
    candidates = [cut(0.98, 1.0), cut(0.99, 2.0), cut(0.999, 4.0)]
    assert [choose_cut(candidates, 0.95, t).meet for t in range(3)] == [0.98, 0.99, 0.999]


def test_cuts_predict_what_they_keep_together() -> None:
    x = sheets(6000, 0)[0]
    near = reference.nearest(x[:100], x, 11)
    lists = np.array([[row for _, row in pairs] for pairs in near])
    anchor, row = pair_index(lists, 100, 10)
    found = cuts(x, 6000, 600, Pairs(x[anchor], x[row]), seed=0)
    single, widest = found[0], max(found, key=lambda c: c.copies)
    assert single.copies == 1.0
    assert 0.5 < single.meet <= widest.meet <= 1.0
    assert len(anchor) == 1000
    assert not (lists[anchor, 0] == row).any()
