"""Spatial blocks: centers, sizes, halos."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import generators, near_blocks

from pipeline.blocks.partition import (
    Halo,
    fit_centroids,
    fit_regions,
    in_halo,
    nearest_blocks,
    nearest_regions,
    share_probed,
    share_together,
    spread,
)
from pipeline.simulate import sheets

Rows = npt.NDArray[np.float32]
Near = tuple[npt.NDArray[np.int32], Rows]

EPS = st.sampled_from([0.0, 0.05, 0.2, 0.6, 9.0])


@given(generators(), st.integers(1, 12), st.integers(1, 8), st.sampled_from([0.0, 1e4]))
@settings(max_examples=80, deadline=None)
def test_nearest_blocks_are_brute_force(
    rng: np.random.Generator, n_blocks: int, width: int, offset: float
) -> None:
    x = (offset + rng.normal(size=(40, 3))).astype(np.float32)
    centroid = (offset + rng.normal(size=(n_blocks, 3))).astype(np.float32)
    block, distance = nearest_blocks(x, centroid, width)
    expected = reference.nearest(x, centroid, width)
    assert block.shape == (40, min(width, n_blocks))
    assert np.allclose(distance, [[d for d, _ in row] for row in expected], atol=1e-4)
    true = np.take_along_axis(reference.distances(x, centroid), block, axis=1)
    assert np.allclose(true, distance, atol=1e-4)


@given(generators(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_blocks_at_one_distance_are_in_order_where_all_are_listed(
    rng: np.random.Generator, n_blocks: int
) -> None:
    centroid = rng.integers(0, 3, (n_blocks, 2)).astype(np.float32)
    centroid = np.concatenate([centroid, 2 - centroid])  # the mean is exact: so are ties
    x = rng.integers(0, 3, (30, 2)).astype(np.float32)
    block, _ = nearest_blocks(x, centroid, len(centroid))
    assert block.tolist() == [
        [b for _, b in row] for row in reference.nearest(x, centroid, len(centroid))
    ]


def test_home_does_not_depend_on_how_many_blocks_are_asked_for() -> None:
    rng = np.random.default_rng(0)
    for n_blocks in range(4, 30):
        centroid = np.unique(rng.integers(-4, 5, (n_blocks, 2)), axis=0).astype(np.float32)
        rng.shuffle(centroid)
        x = rng.integers(-4, 5, (200, 2)).astype(np.float32)
        homes = [nearest_blocks(x, centroid, width)[0][:, 0].tolist() for width in (1, 2, 8)]
        assert homes[0] == homes[1] == homes[2]


def test_home_does_not_depend_on_the_other_rows_asked_for() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (4000, 34)).astype(np.float32)
    centroid = x[:40]
    whole = nearest_blocks(x, centroid, 8)[0][:, 0]
    alone = [nearest_blocks(x[i : i + 1], centroid, 8)[0][0, 0] for i in range(len(x))]
    assert whole.tolist() == alone


def clouds(kind: str, n: int = 12_000) -> Rows:
    rng = np.random.default_rng(0)
    x = {
        "uniform": lambda: rng.random((n, 5)),
        "clustered": lambda: rng.normal(size=(n, 5)) * rng.choice([0.01, 1, 30], (n, 1)),
        "far apart": lambda: rng.normal(size=(n, 4)) + 1000 * rng.integers(0, 3, (n, 1)),
        "offset": lambda: 1e4 + rng.normal(size=(n, 4)),
        "sheets": lambda: sheets(n, 0)[0],
        "line": lambda: rng.random((n, 1)),
        "heavy tails": lambda: rng.standard_cauchy((n, 4)) ** 3,
    }[kind]()
    return np.asarray(x, np.float32)


def sizes(x: Rows, centroid: Rows) -> npt.NDArray[np.int64]:
    return np.bincount(nearest_blocks(x, centroid, 1)[0][:, 0], minlength=len(centroid))


KINDS = ["uniform", "clustered", "far apart", "offset", "sheets", "line"]


@pytest.mark.parametrize(
    ("kind", "n_blocks"),
    [
        *((kind, 25) for kind in KINDS),
        *((kind, 7) for kind in KINDS),
        ("heavy tails", 25),
    ],
)
def test_no_block_is_much_larger_than_asked(kind: str, n_blocks: int) -> None:
    x = clouds(kind)
    assert sizes(x, fit_centroids(x, n_blocks, seed=0)).max() <= 2 * len(x) / n_blocks


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_about_as_many_blocks_as_asked_for(kind: str) -> None:
    assert 15 <= len(fit_centroids(clouds(kind), 25, seed=0)) <= 45


def test_rows_outside_the_sample_fall_into_even_blocks_too() -> None:
    x = clouds("uniform", 40_000)
    assert sizes(x, fit_centroids(x[:4000], 20, seed=0)).max() <= 2 * len(x) / 20


def test_centroids_are_deterministic() -> None:
    x = sheets(5000, 0)[0]
    assert np.array_equal(fit_centroids(x, 12, seed=1), fit_centroids(x, 12, seed=1))


def test_rows_that_coincide_are_one_block() -> None:
    assert len(fit_centroids(np.ones((500, 3), np.float32), 10, seed=0)) == 1


def test_rows_beside_many_that_coincide_are_divided_all_the_same() -> None:
    x = clouds("uniform", 8000)
    x[:4000] = x[0]
    size = np.sort(sizes(x, fit_centroids(x, 20, seed=0)))
    assert size[-1] >= 4000
    assert size[-2] <= 2 * len(x) / 20


@pytest.mark.parametrize("n_values", [2, 3, 5])
def test_few_distinct_rows_give_no_more_blocks_than_that_in_use(n_values: int) -> None:
    x = np.random.default_rng(0).integers(0, n_values, (3000, 1)).astype(np.float32)
    assert (sizes(x, fit_centroids(x, 30, seed=0)) > 0).sum() <= n_values


@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_center_needs_four_sampled_rows(n: int) -> None:
    assert len(fit_centroids(clouds("uniform")[:n], 50, seed=0)) == 1


@given(near_blocks(), EPS, st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_spread_is_brute_force(near: Near, eps: float, copies: int) -> None:
    block, distance = near
    row, to, home = spread(block, distance, Halo(eps, copies))
    expected = [
        (i, b, place == 0)
        for i, blocks in enumerate(reference.held(block, distance, eps, copies))
        for place, b in enumerate(blocks)
    ]
    assert list(zip(row.tolist(), to.tolist(), home.tolist(), strict=True)) == expected


@given(near_blocks(), generators(), st.integers(1, 4), EPS, st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_nearest_regions_are_brute_force(
    near: Near, rng: np.random.Generator, n_regions: int, eps: float, copies: int
) -> None:
    """Each once, as far as the nearest of its blocks; a row is held by no other."""
    block, distance = near
    region = rng.integers(0, n_regions, int(block.max(initial=0)) + 1).astype(np.int32)
    found, far = nearest_regions(block, distance, region)
    row, to, home = spread(found, far, Halo(eps, copies))
    expected = []
    for i, numbers in enumerate(block):
        first: dict[int, np.float32] = {}
        for number, one in zip(region[numbers].tolist(), distance[i], strict=True):
            first.setdefault(number, one)
        assert found[i, : len(first)].tolist() == list(first)
        assert far[i].tolist() == [*first.values(), *[np.inf] * (len(numbers) - len(first))]
        near_ones = list(first.items())[:copies]
        limit = np.float32(1.0 + eps) * distance[i, 0]
        expected += [
            (i, number, place == 0)
            for place, (number, one) in enumerate(near_ones)
            if place == 0 or one <= limit
        ]
    assert list(zip(row.tolist(), to.tolist(), home.tolist(), strict=True)) == expected


@given(near_blocks(), generators(), EPS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_pairs_that_share_a_block_share_its_region(
    near: Near, rng: np.random.Generator, eps: float, copies: int
) -> None:
    order = rng.permutation(len(near[0]))
    other = near[0][order], near[1][order]
    one = np.zeros(int(near[0].max(initial=0)) + 1, np.int32)
    own = np.arange(len(one), dtype=np.int32)
    a, b = nearest_regions(*near, own), nearest_regions(*other, own)
    assert (a[0] == near[0]).all()
    assert share_together(a, b, Halo(eps, copies)) == share_together(near, other, Halo(eps, copies))
    a, b = nearest_regions(*near, one), nearest_regions(*other, one)
    assert share_together(a, b, Halo(0.0, 1)) == 1.0


@pytest.mark.parametrize("n_regions", [1, 2, 5, 40])
def test_regions_are_near_blocks_of_about_as_many_rows(n_regions: int) -> None:
    x = sheets(6000, 0)[0]
    centroid = fit_centroids(x, 40, seed=0)
    home = nearest_blocks(x, centroid, 1)[0][:, 0]
    rows = np.bincount(home, minlength=len(centroid))
    region = fit_regions(centroid, rows, n_regions, seed=0)
    assert sorted(set(region.tolist())) == list(range(min(n_regions, len(centroid))))
    assert np.bincount(region[home]).max() <= len(x) / n_regions + 1.5 * rows.max()
    apart = np.linalg.norm(centroid[:, None] - centroid[None], axis=2)
    same = region[:, None] == region[None]
    assert n_regions == 1 or apart[same].mean() < apart[~same].mean()


def test_regions_of_equal_centers_are_equal_in_rows() -> None:
    region = fit_regions(np.zeros((6, 2), np.float32), np.full(6, 5), 3, seed=0)
    assert np.bincount(region).tolist() == [2, 2, 2]


@given(near_blocks(), EPS, EPS, st.integers(1, 8), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_halos_grow_with_eps_and_copies(
    near: Near, eps: float, other: float, copies: int, more: int
) -> None:
    smaller = in_halo(near[1], Halo(min(eps, other), copies))
    assert (smaller <= in_halo(near[1], Halo(max(eps, other), copies + more))).all()


@given(near_blocks(), EPS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_every_row_is_at_home_once(near: Near, eps: float, copies: int) -> None:
    row, _, home = spread(*near, Halo(eps, copies))
    assert row[home].tolist() == list(range(len(near[0])))


@given(near_blocks(), generators(), EPS, st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_meet_share_is_brute_force(
    near: Near, rng: np.random.Generator, eps: float, copies: int
) -> None:
    order = rng.permutation(len(near[0]))
    other = near[0][order], near[1][order]
    a, b = (reference.held(*pair, eps, copies) for pair in (near, other))
    expected = np.mean([bool(set(x) & set(y)) for x, y in zip(a, b, strict=True)])
    assert share_together(near, other, Halo(eps, copies)) == pytest.approx(expected)


@given(near_blocks(), generators(), st.integers(1, 8), EPS)
@settings(max_examples=60, deadline=None)
def test_rows_at_home_where_queries_look_are_brute_force(
    near: Near, rng: np.random.Generator, probed: int, eps: float
) -> None:
    home = near[0][rng.permutation(len(near[0])), 0]
    looked = reference.held(*near, eps, probed)
    expected = np.mean([b in blocks for b, blocks in zip(home.tolist(), looked, strict=True)])
    assert share_probed(near, home, Halo(eps, probed)) == pytest.approx(expected)


@given(near_blocks(), generators(), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_more_copies_keep_more_pairs_together(
    near: Near, rng: np.random.Generator, copies: int
) -> None:
    order = rng.permutation(len(near[0]))
    other = near[0][order], near[1][order]
    fewer, more = (share_together(near, other, Halo(0.2, c)) for c in (copies, copies + 1))
    assert fewer <= more


@given(near_blocks(), EPS, st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_a_row_always_meets_itself(near: Near, eps: float, copies: int) -> None:
    assert share_together(near, near, Halo(eps, copies)) == 1.0
