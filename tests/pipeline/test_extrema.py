"""Noise rates: Algorithm 2 exactly, and what the cross-fitted rates must obey."""

from __future__ import annotations

import dataclasses
import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from strategies import generators

from pipeline.knn.exact import nearest
from pipeline.noise.asymptotes import HeldOutLabels, _loss, fit_asymptotes, read_plateau
from pipeline.noise.copies import (
    BEYOND,
    FEWEST,
    RADII,
    Mates,
    one_of_copies,
    one_of_run,
    radius,
)
from pipeline.noise.extrema import (
    anchor_plan,
    crossfit,
    held_out,
    held_out_classes,
    minmax,
)
from pipeline.noise.rates import NoiseRates, known_to, worth
from pipeline.noise.rates import given as given_rates
from pipeline.noise.transition import mates_in, transition_matrix

RATES = [(0.2, 0.1), (0.1, 0.3), (0.4, 0.4), (0.0, 0.3)]


def lists(x: NDArray[np.float64], width: int) -> NDArray[np.int64]:
    """Brute force: (row, width) nearest rows, the row itself first, ties by id."""
    distance = ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, -1.0)
    return np.argsort(distance, axis=1, kind="stable")[:, :width]


def noisy(y: NDArray[np.int8], p0: float, p1: float, seed: int) -> NDArray[np.int8]:
    """Labels flipped at random, each class at its rate."""
    flip = np.random.default_rng([seed, 11]).random(len(y)) < np.where(y == 1, p1, p0)
    return np.where(flip, 1 - y, y).astype(np.int8)


def once(near: NDArray[np.int64], label: NDArray[np.int8], n_rows: int, **more: Any) -> NoiseRates:
    """The rates with copies counted once."""
    rates = transition_matrix(near, label, n_rows, 2, **more).rates
    assert rates is not None
    return rates


def two_clouds(n: int, seed: int, apart: float = 4.0) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Lists of 300 and clean labels of two round clouds in the plane."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(np.int8)
    return lists(rng.normal(size=(n, 2)) + apart * y[:, None], 300), y


@pytest.fixture(scope="module")
def clouds() -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    return two_clouds(2000, 1)


def test_minmax_is_algorithm_2() -> None:
    """By hand: rows 0..3 on a line, k = 3, each row among its own neighbors."""
    label = np.array([0, 0, 1, 1])
    near = [[0, 1, 2], [1, 0, 2], [2, 1, 3], [3, 2, 1]]
    eta = np.array([label[row].mean() for row in near])
    rates = minmax(eta, 3)
    assert rates.p0 == pytest.approx(1 / 3)
    assert rates.p1 == pytest.approx(1 / 3)
    assert (rates.method, rates.rate_k) == ("minmax", 3)


@given(arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1)), st.integers(1, 59))
def test_minmax_of_blocks_extremes(eta: NDArray[np.float64], cut: int) -> None:
    """Extremes of the blocks' extremes are the extremes; exchanging the classes swaps the rates."""
    blocks = [b for b in (eta[:cut], eta[cut:]) if b.size]
    ends = np.array([f(b) for b in blocks for f in (np.min, np.max)])
    whole, parts, swapped = minmax(eta, 5), minmax(ends, 5), minmax(1.0 - eta, 5)
    assert (whole.p0, whole.p1) == (parts.p0, parts.p1)
    assert swapped.p0 == pytest.approx(whole.p1)
    assert swapped.p1 == pytest.approx(whole.p0)


def test_extremes_of_few_rows_support_nothing() -> None:
    eta = np.linspace(0, 1, 30)
    assert minmax(eta, 5).support == minmax(eta, 5, 40).support == "weak"
    few = minmax(eta, 5, 39)
    assert few.support == "unsupported"
    assert "crossfit" not in few.reason


@pytest.mark.parametrize("bad", [[], [0.5, 1.5], [np.nan]])
def test_minmax_refuses(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="eta_corr"):
        minmax(np.array(bad), 5)


@pytest.mark.parametrize(("p0", "p1"), RATES)
def test_crossfit_finds_the_rates(
    clouds: tuple[NDArray[np.int64], NDArray[np.int8]], p0: float, p1: float
) -> None:
    near, y = clouds
    label = noisy(y, p0, p1, 5)
    rates = crossfit(near, label[near], len(y))
    for side, rate, interval in (
        (0, rates.p0, rates.p0_interval),
        (1, rates.p1, rates.p1_interval),
    ):
        truth = float((label[y == side] != side).mean())
        assert abs(rate - truth) < 0.03
        assert interval[0] <= truth <= interval[1]
    assert minmax(label[near[:, :30]].mean(axis=1), 30).p0 <= rates.p0
    json.dumps(dataclasses.asdict(rates), allow_nan=False)


def test_order_of_anchors_changes_nothing(
    clouds: tuple[NDArray[np.int64], NDArray[np.int8]],
) -> None:
    near, y = clouds
    label = noisy(y, 0.2, 0.1, 3)
    mixed = near[np.random.default_rng(0).permutation(len(near))]
    assert crossfit(mixed, label[mixed], len(y)) == crossfit(near, label[near], len(y))


@settings(max_examples=5, deadline=None)
@example(153, 0.09375, 0.2821740988496878)
@given(st.integers(0, 1000), st.floats(0.05, 0.35), st.floats(0.05, 0.35))
def test_exchanging_classes_swaps_rates(seed: int, p0: float, p1: float) -> None:
    near, y = two_clouds(900, seed)
    label = noisy(y, p0, p1, seed)
    one, other = crossfit(near, label[near], 900), crossfit(near, 1 - label[near], 900)
    assert (other.p0, other.p1) == (one.p1, one.p0)
    assert other.p0_interval == pytest.approx(one.p1_interval, abs=1e-12)
    assert other.support == one.support


def test_sampled_anchors_agree(clouds: tuple[NDArray[np.int64], NDArray[np.int8]]) -> None:
    """A fifth of the rows as anchors: five held-out labels each instead of one."""
    near, y = clouds
    label = noisy(y, 0.2, 0.1, 4)
    some = near[::5]
    held, _, _ = held_out(some, label[some], len(y), 100)
    assert held.trials.sum() == pytest.approx(len(np.unique(some[:, :5])))
    rates = crossfit(some, label[some], len(y))
    assert abs(rates.p0 - float(label[y == 0].mean())) < 0.03


def test_held_out_labels_stay_out() -> None:
    """Changing an anchor's held-out label leaves its scores, which are smoothed averages."""
    near, y = two_clouds(400, 2)
    label = y[near]
    held, features, sizes = held_out(near, label, 400, 100)
    flipped = label.copy()
    flipped[:, 0] = 1 - flipped[:, 0]
    np.testing.assert_array_equal(held_out(near, flipped, 400, 100)[1], features)
    for column, k in enumerate(sizes):
        brute = (label[:, 1 : k + 1].sum(axis=1) + 2 * label[:, 1:].mean()) / (k + 2)
        np.testing.assert_allclose(features[:, column], brute)
    np.testing.assert_array_equal(held.ones, y)


def test_a_label_counts_once_however_many_rows_hold_it_out() -> None:
    """Copies of one row share their held-out neighbors; the weights count distinct labels."""
    near, y = two_clouds(400, 6)
    some = np.concatenate([near[:60], np.tile(near[7], (40, 1))])
    held, _, _ = held_out(some, y[some], 400, 100)
    ids = np.unique(some[:, :4])
    assert held.trials.sum() == pytest.approx(len(ids))
    assert held.ones.sum() == pytest.approx(float(y[ids].sum()))


def test_rare_class_at_heavy_noise_is_not_supported() -> None:
    """One row in fifty, nowhere dense: no neighborhood is pure, and the verdict says so."""
    rng = np.random.default_rng(8)
    y = (rng.random(2500) < 0.02).astype(np.int8)
    near = lists(rng.normal(size=(2500, 3)), 300)
    label = noisy(y, 0.4, 0.4, 8)
    rates = crossfit(near, label[near], 2500)
    assert rates.support == "unsupported"
    assert "pure" in rates.reason


def test_blended_classes_are_not_called_supported() -> None:
    """eta(x) = x on a line: the extremes are reached at single points only."""
    rng = np.random.default_rng(9)
    x = rng.random((2500, 1))
    label = noisy((rng.random(2500) < x[:, 0]).astype(np.int8), 0.1, 0.2, 9)
    near = lists(x, 300)
    assert crossfit(near, label[near], 2500).support != "supported"


def copied(
    times: int, jitter: float, seed: int, n: int = 500
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int8], NDArray[np.float32]]:
    """Lists of 400 with distances, the clean labels and the rows: two clouds, each row repeated."""
    rng = np.random.default_rng([seed, times])
    y = np.arange(n) % 2
    x = np.repeat(rng.normal(size=(n, 5)) + 6.0 * y[:, None] * np.eye(5)[0], times, axis=0)
    x = (x + jitter * rng.normal(size=x.shape)).astype(np.float32)
    rows = np.arange(len(x))
    near, distance = nearest(x, x, 399, exclude=rows)
    near = np.column_stack([rows, near])
    return near, np.pad(distance, ((0, 0), (1, 0))), np.repeat(y, times).astype(np.int8), x


@pytest.mark.parametrize("jitter", [0.0, 0.02, 0.05])
def test_copied_labels_count_once(jitter: float) -> None:
    """26 % of 500 labels are wrong, each copied 12 times with its row: copies do not vote for one
    another, and the verdict is that of 500 rows."""
    near, distance, y, _ = copied(12, jitter, 0)
    given = np.repeat(noisy(y[::12], 0.26, 0.26, 1), 12)
    assert crossfit(near, given[near], len(y)).p0 < 0.03  # what copies make of it
    rates = once(near, given[near], len(y), distance=distance)
    assert rates.support != "supported"
    assert "92% of the rows are copies" in rates.reason
    assert "keep one of each group, and train again" in rates.reason
    for rate, (low, high) in ((rates.p0, rates.p0_interval), (rates.p1, rates.p1_interval)):
        assert low < 0.26 < high
        assert 0.05 < rate < 0.4


@pytest.mark.parametrize("jitter", [0.0, 0.02])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.26])
def test_copies_with_labels_of_their_own_all_count(jitter: float, rate: float) -> None:
    near, distance, y, _ = copied(4, jitter, 2)
    given = noisy(y, rate, rate, 3)
    rates = once(near, given[near], len(y), distance=distance)
    assert rates == crossfit(near, given[near], len(y))


@pytest.mark.parametrize("order", ["by person", "shuffled", "by label"])
@pytest.mark.parametrize("own", [False, True])
def test_labels_of_one_person_count_once(order: str, own: bool) -> None:
    """200 persons of 20 rows, near each other; 15 % of the persons' labels are wrong, or of the
    rows' own. Where persons stand together in the file, labels that they share are one opinion."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(200), 20)
    of_person = rng.normal(size=(200, 12)) + 1.25 * rng.choice([-1, 1], 12) * (
        np.arange(200) % 2 * 2 - 1
    ).reshape(-1, 1)
    x = (of_person[person] + 0.5 * rng.normal(size=(4000, 12))).astype(np.float32)
    y = (person % 2).astype(np.int8)
    given = noisy(y, 0.15, 0.15, 1) if own else noisy(y[::20], 0.15, 0.15, 1)[person]
    orders = {"by person": np.arange(4000), "shuffled": rng.permutation(4000)}
    at = orders.get(order, np.argsort(given, kind="stable"))
    x, y, given = x[at], y[at], given[at]
    near, distance = nearest(x, x, 399, exclude=np.arange(4000))
    near, distance = np.column_stack([np.arange(4000), near]), np.pad(distance, ((0, 0), (1, 0)))
    rates, by_row = (once(near, given[near], 4000, distance=d) for d in (distance, None))
    if own or order != "by person":
        assert rates == by_row
        return
    assert by_row.p0_interval[1] < 0.1
    assert rates.support != "supported"
    assert "Rows at most 16 apart in the source" in rates.reason
    for true, (low, high) in enumerate((rates.p0_interval, rates.p1_interval)):
        assert low < (given != y)[y == true].mean() < high


@pytest.mark.parametrize("stretch", [1, 30, 80])
def test_labels_of_a_stretch_of_a_series_count_once(stretch: int) -> None:
    """Rows that change slowly, as a sensor's; 15 % of the labels are wrong, row by row or in whole
    stretches, which vouch for each other."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 3))
    for i in range(1, 4000):
        x[i] = 0.95 * x[i - 1] + np.sqrt(1 - 0.95**2) * x[i]
    x, y = x.astype(np.float32), (x[:, 0] > 0).astype(np.int8)
    given = np.where(np.repeat(rng.random(4000) < 0.15, stretch)[:4000], 1 - y, y).astype(np.int8)
    near, distance = nearest(x, x, 399, exclude=np.arange(4000))
    near, distance = np.column_stack([np.arange(4000), near]), np.pad(distance, ((0, 0), (1, 0)))
    rates, by_row = (once(near, given[near], 4000, distance=d) for d in (distance, None))
    if stretch == 1:
        assert rates == by_row
        return
    assert "Rows at most 16 apart in the source" in rates.reason
    assert rates.support != "supported"
    for true, rate in enumerate((rates.p0, rates.p1)):
        wrong = (given != y)[y == true].mean()
        assert abs(rate - wrong) < 0.08 < wrong - (by_row.p0, by_row.p1)[true]


def test_lists_of_nobody_but_those_nearby_say_nothing() -> None:
    row = np.arange(4000)[:, None]
    near = np.concatenate([row, np.sort((row + np.arange(1, 100)) % 4000)], axis=1)
    with warnings.catch_warnings(action="error"):
        assert one_of_run(near, near // 50 % 2, near.astype(np.float32), 4000) is None


def test_every_row_there_with_both_labels_is_not_supported() -> None:
    near, distance, y, _ = copied(2, 0.0, 4, n=800)
    given = np.where(np.arange(len(y)) % 2, 1 - y, y).astype(np.int8)
    assert crossfit(near, given[near], len(y)).support != "unsupported"
    rates = once(near, given[near], len(y), distance=distance)
    assert rates.support == "unsupported"
    assert "agree less often" in rates.reason
    assert "train again" not in rates.reason  # a row of either label is no better


def test_ten_rows_repeated_are_no_evidence() -> None:
    near, distance, y, x = copied(400, 0.0, 5, n=10)
    rates = once(near, y[near], len(y), x=x, distance=distance)
    assert (rates.support, rates.p0_interval) == ("unsupported", (0.0, 1.0))


@pytest.mark.parametrize(("n_clusters", "size", "rate"), [(60, 60, 0.0), (12, 150, 0.2)])
def test_clusters_apart_are_no_copies(n_clusters: int, size: int, rate: float) -> None:
    """Each of one class, chance which: labels agree inside, and what is beyond says nothing."""
    rng = np.random.default_rng(n_clusters)
    cluster = np.repeat(np.arange(n_clusters), size)
    center = 40.0 * rng.normal(size=(n_clusters, 5))
    x = (center[cluster] + rng.normal(size=(len(cluster), 5))).astype(np.float32)
    given = noisy((cluster % 2).astype(np.int8), rate, rate, 1)
    near, distance = nearest(x, x, 399, exclude=np.arange(len(x)))
    near = np.column_stack([np.arange(len(x)), near])
    distance = np.pad(distance, ((0, 0), (1, 0)))
    rates = once(near, given[near], len(x), distance=distance)
    assert rates == crossfit(near, given[near], len(x))


def test_a_class_may_be_that_of_neighbors_alone() -> None:
    """Anchors are a sample: a rare class need not be among them."""
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(200), 20)
    x = (3.0 * rng.normal(size=(200, 4))[person] + rng.normal(size=(4000, 4))).astype(np.float32)
    y = np.where(person < 150, person % 2, 2)
    rows = np.arange(3000)
    near, distance = nearest(x[rows], x, 199, exclude=rows)
    near = np.column_stack([rows, near])
    one = one_of_run(near, y[near], np.pad(distance, ((0, 0), (1, 0))), 4000)
    assert one is None or one.run > 0
    assert (y[near] == 2).any()


def test_copies_are_left_out_in_whatever_order_anchors_come() -> None:
    near, distance, y, _ = copied(6, 0.02, 6)
    given = np.repeat(noisy(y[::6], 0.2, 0.2, 7), 6)
    mixed = np.random.default_rng(8).permutation(len(near))
    there = once(near, given[near], len(y), distance=distance)
    assert there == once(near[mixed], given[near[mixed]], len(y), distance=distance[mixed])


def radius_of(
    row: NDArray[np.int64], label: NDArray[np.int8], distance: NDArray[np.float32]
) -> float:
    """Brute force: the distance within which rows most likely share labels, list by list."""
    half, n = distance.shape[1] // 2, len(label)
    if sum(own[1] == 0 for own in distance) >= 0.1 * n:
        return 0.0
    there = [d for own in distance for d in own[1 : half + 2] if 0 < d < np.inf]
    if not there:
        return -1.0
    best, likeliest = 0.0, -1.0
    far = min(np.median(distance[:, half + 1]), max(there))
    for within in np.geomspace(min(there), far, RADII, dtype=np.float32):
        rows, groups, sums = 0, 0.0, np.zeros(2)
        for own, labels in zip(distance, label, strict=True):
            m = sum(d <= within for d in own[1 : half + 2])
            if 0 < m <= half:
                unlike = labels[1:] != labels[0]
                rows, groups = rows + 1, groups + 1 / (1 + m)
                sums += np.array([unlike[:m].mean(), unlike[m : m + BEYOND].mean()]) / (1 + m)
        inside, beyond = (sums + 0.5) / (groups + 1)
        if groups >= FEWEST and inside < beyond:
            gain = inside * np.log(inside / beyond)
            gain += (1 - inside) * np.log((1 - inside) / (1 - beyond))
            if rows * gain > best:
                best, likeliest = rows * gain, float(within)
    return likeliest


@given(rng=generators(), shared=st.booleans(), equal=st.booleans(), empty=st.booleans())
@settings(max_examples=30)
def test_copies_lie_within_the_distance_that_tells_most_of_their_labels(
    rng: np.random.Generator, shared: bool, equal: bool, empty: bool
) -> None:
    """Groups of any size with a label each or with labels of their own, equal rows and lists with
    empty places among them, in any order."""
    size = rng.integers(1, 5, 60)
    group = np.repeat(np.arange(60), size)
    x = rng.normal(size=(60, 3))[group] + (not equal) * 0.05 * rng.normal(size=(len(group), 3))
    label = rng.integers(0, 3, 60)[group] if shared else rng.integers(0, 3, len(group))
    rows = rng.permutation(len(group))
    near, distance = nearest(x.astype(np.float32)[rows], x.astype(np.float32), 30, exclude=rows)
    distance = np.pad(distance, ((0, 0), (1, 0)))
    if empty:
        distance[rng.random(len(rows)) < 0.3, 12:] = np.inf
    labels = label[np.column_stack([rows, near])].astype(np.int8)
    within = radius(rows, labels, distance)
    assert within == radius_of(rows, labels, distance)
    assert (within == 0) == bool((distance[:, 1] == 0).mean() >= 0.1)


@pytest.mark.parametrize(("times", "jitter"), [(2, 0.02), (2, 0.2), (4, 0.1), (10, 0.2)])
@pytest.mark.parametrize("n_features", [2, 10])
def test_copies_that_were_changed_a_little_are_all_left_out(
    times: int, jitter: float, n_features: int
) -> None:
    """By parts of the distance of a row's nearest; one that stays gives its label away."""
    rng = np.random.default_rng([times, n_features])
    y, n = rng.integers(0, 2, 800), 800 * times
    x = rng.normal(size=(800, n_features)) + 4.0 * y[:, None] * np.eye(n_features)[0]
    x = x.astype(np.float32)
    apart = np.median(nearest(x, x, 1, exclude=np.arange(800))[1]) / np.sqrt(2 * n_features)
    row = rng.permutation(n)
    x = (x[row % 800] + jitter * apart * rng.normal(size=(n, n_features))).astype(np.float32)
    given = noisy(y.astype(np.int8), 0.2, 0.2, times)[row % 800]
    near, distance = nearest(x, x, 299, exclude=np.arange(n))
    near, distance = np.column_stack([np.arange(n), near]), np.pad(distance, ((0, 0), (1, 0)))
    mates = mates_in(near, given[near], distance, n, 2)
    assert mates.near
    mate = mates.among(near[:, 0], near[:, 1:], distance[:, 1:])
    same = (row % 800)[near[:, 1:]] == (row % 800)[:, None]
    assert mate[same].mean() > 0.9
    assert mate[~same].sum() < 0.5 * same.sum()
    own = noisy(y[row % 800].astype(np.int8), 0.2, 0.2, 1)
    assert mates_in(near, own[near], distance, n, 2) == Mates()


@pytest.mark.parametrize("jitter", [0.0, 0.05])
def test_a_sample_keeps_one_of_rows_that_share_a_label(jitter: float) -> None:
    """In any order; all of them where each has a label of its own, and where few would be left."""
    rng = np.random.default_rng(int(100 * jitter))
    y, row = rng.integers(0, 3, 400), rng.permutation(1600) % 400
    x = (3.0 * np.eye(6)[y] + rng.normal(size=(400, 6)))[row]
    x = (x + jitter * rng.normal(size=x.shape)).astype(np.float32)
    shared = np.where(rng.random(400) < 0.2, (y + 1) % 3, y)[row]
    alone = one_of_copies(x, shared)
    first = np.sort(np.unique(row, return_index=True)[1])
    assert np.isin(first, alone).all()
    assert len(alone) <= (404 if jitter else 400)
    own = np.where(rng.random(1600) < 0.2, (y[row] + 1) % 3, y[row])
    assert len(one_of_copies(x, own)) == 1600
    few = row < 80
    assert len(one_of_copies(x[few], shared[few])) == few.sum()


@pytest.mark.parametrize(
    ("informative", "apart", "p0", "p1"), [(15, 0.7, 0.3, 0.1), (8, 0.4, 0.05, 0.05)]
)
def test_lower_ends_allow_for_overlap_that_looks_like_mistakes(
    informative: int, apart: float, p0: float, p1: float
) -> None:
    """1,300 rows of overlapping classes in 100 dimensions: no neighborhood is pure."""
    below = 0
    for seed in range(8, 16):
        shape = {"n_informative": informative, "n_redundant": 3, "class_sep": apart}
        x, y = make_classification(1300, 100, flip_y=0, random_state=seed, **shape)
        x = np.ascontiguousarray((x - x.mean(axis=0)) / x.std(axis=0), np.float32)
        rows = np.arange(len(x))
        near = np.column_stack([rows, nearest(x, x, 325, exclude=rows)[0]])
        given = noisy(y.astype(np.int8), p0, p1, seed)
        rates = crossfit(near, given[near], len(x))
        below += rates.p0_interval[0] <= given[y == 0].mean()
        below += rates.p1_interval[0] <= 1 - given[y == 1].mean()
    assert below >= 15


def test_upper_ends_allow_for_mistakes_where_classes_meet() -> None:
    n, held = 2000, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y, x = rng.integers(0, 2, n).astype(np.int8), rng.normal(size=(n, 2))
        x[:, 0] += 3.0 * y
        rank = np.argsort(np.argsort(-np.abs(x[:, 0] - 1.5))) / n
        given = np.where(rng.random(n) < 0.8 * rank**4, 1 - y, y).astype(np.int8)
        near, _ = nearest(x.astype(np.float32), x.astype(np.float32), 299, exclude=np.arange(n))
        near = np.column_stack([np.arange(n), near])
        rates = crossfit(near, given[near], n)
        held += [given[y == 0].mean() <= rates.p0_interval[1]]
        held += [1 - given[y == 1].mean() <= rates.p1_interval[1]]
    assert np.mean(held) > 0.9


def test_lower_ends_of_supported_rates_are_near(
    clouds: tuple[NDArray[np.int64], NDArray[np.int8]],
) -> None:
    near, y = clouds
    rates = crossfit(near, noisy(y, 0.3, 0.1, 1)[near], 2000)
    assert rates.support == "supported"
    assert rates.p0 - rates.p0_interval[0] < 1.5 * 1.96 * rates.standard_errors[0]


@pytest.mark.parametrize("value", [0, 1])
def test_one_class_only(value: int) -> None:
    near, y = two_clouds(100, 3)
    rates = crossfit(near[:, :60], np.full((100, 60), value, dtype=np.int8), len(y))
    assert (rates.support, rates.p0, rates.p1) == ("unsupported", float(value), 1.0 - value)


def test_bad_lists_are_refused() -> None:
    near = np.zeros((30, 20), dtype=np.int64)
    with pytest.raises(ValueError, match="shapes"):
        crossfit(near, np.zeros((30, 19), dtype=np.int8), 100)
    with pytest.raises(ValueError, match="20 anchors"):
        crossfit(near[:10], np.zeros((10, 20), dtype=np.int8), 100)
    with pytest.raises(ValueError, match="only 0 and 1"):
        crossfit(near, np.full((30, 20), 2, dtype=np.int8), 100)


def test_intervals_cover() -> None:
    """95 % intervals over 32 simulated pools: at least nine in ten cover the realized rate."""
    covered = []
    for seed in range(8):
        near, y = two_clouds(900, 50 + seed, apart=3.0)
        for p0, p1 in RATES:
            label = noisy(y, p0, p1, seed)
            rates = crossfit(near, label[near], 900)
            for side, (low, high) in ((0, rates.p0_interval), (1, rates.p1_interval)):
                covered.append(low <= float((label[y == side] != side).mean()) <= high)
    assert np.mean(covered) >= 0.9


def test_plateau_is_the_mean_of_a_prefix() -> None:
    """Against a loop over every candidate count, from the definition."""
    rng = np.random.default_rng(1)
    score = rng.random(500)
    held = HeldOutLabels((rng.random(500) < 0.1 + 0.8 * (score > 0.5)).astype(float), np.ones(500))
    rate, error, rows = read_plateau(score, held, 3.0)
    ranked = held.ones[np.argsort(score)]
    assert rate == pytest.approx(ranked[:rows].mean())
    bound = (rows * rate + 4.5) / (rows + 9) + 3.0 * error
    for m in (40, 60, 100, 200, 350):
        center = (ranked[:m].sum() + 4.5) / (m + 9)
        assert bound <= center + 3.0 * np.sqrt(center * (1 - center) / (m + 9)) + 0.01
    assert 150 <= rows <= 300


def test_a_file_that_is_sorted_by_its_labels_has_the_rates_of_a_shuffled_one() -> None:
    """Many rows have the same eight nearest labels, and such are not to come with their own 0
    first; by rows in their order p0 was less than half of what it is."""
    near, y = two_clouds(2000, 1, apart=3.0)
    label = noisy(y, 0.3, 0.1, 1)
    order = np.argsort(label, kind="stable")
    place = np.argsort(order)
    shuffled, by_label = (
        crossfit(lists_, given[lists_], 2000)
        for lists_, given in ((near, label), (place[near[order]], label[order]))
    )
    assert by_label.p0 == pytest.approx(shuffled.p0, abs=1e-4)
    assert by_label.p1 == pytest.approx(shuffled.p1, abs=1e-4)
    assert shuffled.p0 == pytest.approx(float(label[y == 0].mean()), abs=0.03)


def test_asymptotes_of_a_known_curve() -> None:
    """Labels drawn from the fitted family itself: the asymptotes come back within four errors."""
    rng = np.random.default_rng(2)
    t = rng.normal(size=20_000)
    clean = rng.random(20_000) < 1 / (1 + np.exp(-8 * t))
    label = np.where(clean, rng.random(20_000) < 0.7, rng.random(20_000) < 0.2)
    fit = fit_asymptotes(t, HeldOutLabels(label.astype(float), np.ones(20_000)), 20_000)
    assert abs(fit.lower - 0.2) < 0.02
    assert abs(fit.upper - 0.7) < 0.02
    assert 0.0 < fit.lower_se < 0.02
    assert np.all(np.diff(fit.clean[np.argsort(t)]) >= 0)


@given(st.integers(20, 200_000_000), st.integers(1, 2000))
def test_anchor_plan_stays_in_budget(n_rows: int, n_features: int) -> None:
    anchors, width = anchor_plan(n_rows, n_features)
    assert anchors <= n_rows
    assert width <= n_rows
    assert anchors * width * 9 <= 100_000_000
    if n_rows <= 20_000:
        assert anchors == n_rows
    if n_rows >= 1_000_000:
        assert anchors * 2.5e-9 <= 0.07 * 70e-6


def test_anchors_are_some_of_each_class() -> None:
    few, length = anchor_plan(1_000_000, 768)
    assert anchor_plan(1_000_000, 768, 100) == (few, length)
    anchors, _ = anchor_plan(1_000_000, 768, 1000)
    assert anchors >= 10 * 1000
    assert anchor_plan(30_000_000, 768, 5000)[0] == 20_000


def test_given_rates() -> None:
    rates = given_rates(0.2, 0.1)
    assert (rates.p0, rates.p1, rates.method, rates.support) == (0.2, 0.1, "given", "supported")
    with pytest.raises(ValueError, match="p0 \\+ p1 < 1"):
        given_rates(0.5, 0.5)


@given(st.integers(3, 8), st.integers(20, 60), st.integers(10, 50), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_classes_are_held_out_as_each_against_all_others(
    n_classes: int, n_anchors: int, width: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n_rows = n_anchors * int(rng.integers(1, 8))
    near = np.stack([rng.permutation(max(n_rows, width))[:width] for _ in range(n_anchors)])
    label = rng.integers(0, n_classes, near.shape)
    share, held = held_out_classes(near, label, n_classes, n_rows, 100, np.float64)
    for b in range(n_classes):
        one, features, _ = held_out(near, (label == b).astype(np.int8), n_rows, 100)
        np.testing.assert_array_equal(held[:, b], one.ones)
        np.testing.assert_array_equal(share[:, :, b], features.T)


def test_a_rate_that_may_be_anything_is_not_told_to_a_thousandth() -> None:
    side = {"informative_rows": 0.0}
    known = known_to(0.05, [0.2, 94.461], [side, side], [(0.0, 1.0), (0.0, 1.0)])
    assert "rate p1 may be anything while" in known
    assert "94" not in known


def test_how_well_a_rate_is_known_does_not_contradict_its_interval() -> None:
    """What holds if mistakes depend on the class alone stands beside what holds if they do not."""
    side = {"informative_rows": 3243.0}
    known = known_to(0.93, [0.025, 0.02], [side, side], [(0.0, 0.147), (0.0, 0.13)])
    assert "rate p0 is known to about 0.025, if mistakes depend on the class alone, " in known
    assert "else within 0.000 to 0.147, while" in known


def test_asymptotes_of_exchanged_classes_are_exchanged() -> None:
    rng = np.random.default_rng(3)
    t = rng.normal(size=2000)
    label = rng.random(2000) < 0.3 + 0.5 / (1 + np.exp(-4 * (t - 0.5)))
    held = HeldOutLabels(label.astype(float), np.ones(2000))
    one, other = fit_asymptotes(t, held, 2000), fit_asymptotes(-t, held.flipped(), 2000)
    exchanged = [1 - other.upper, 1 - other.lower, other.upper_se, other.lower_se]
    assert [one.lower, one.upper, one.lower_se, one.upper_se] == pytest.approx(exchanged, rel=1e-3)


@pytest.mark.parametrize("probit", [True, False])
def test_gradient_of_the_curve_is_that_of_differences(probit: bool) -> None:
    rng = np.random.default_rng(4)
    trials = rng.uniform(0.2, 1.0, 40)
    held = HeldOutLabels(trials * (rng.random(40) < 0.6), trials)
    free, design = np.array([-1.2, 0.7, 0.3, 1.1, 0.2]), rng.normal(size=(40, 2))
    found = _loss(free, design, held, probit)[1]
    for at, step in enumerate(1e-6 * np.eye(len(free))):
        up, down = (_loss(free + sign * step, design, held, probit)[0] for sign in (1, -1))
        assert found[at] == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_one_clean_label_is_one() -> None:
    amounts = [worth(n).removeprefix("tells as much as ") for n in (0.4, 1.0, 1.4, 1.6, 2875.0)]
    one, two = "1 clean label", "2 clean labels"
    assert amounts == ["0 clean labels", one, one, two, "2,875 clean labels"]
