"""Transition matrices of c classes: two classes are crossfit, and the simplex solution is exact."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from pipeline.decision.threshold import posterior
from pipeline.knn.exact import nearest
from pipeline.knn.threads import Threads
from pipeline.noise import transition_fit
from pipeline.noise.extrema import crossfit
from pipeline.noise.rates import given as given_rates
from pipeline.noise.simplex import posterior_simplex
from pipeline.noise.transition import (
    MEETING,
    MUTUAL,
    _coinciding,
    of_rates,
    transition_matrix,
)
from pipeline.noise.transition_fit import loss, pieces_of

Floats = NDArray[np.float64]
MATRIX = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.1, 0.6]])


def clouds(n: int, n_classes: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lists of 300, the row itself first, and clean labels of round clouds on a circle."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    angle = 2 * np.pi * y / n_classes
    x = 5 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(size=(n, 2))
    x = x.astype(np.float32)
    index, _ = nearest(x, x, 299, exclude=np.arange(n))
    return np.concatenate([np.arange(n)[:, None], index], axis=1), y


def test_copied_labels_of_many_classes_count_once() -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 900)
    given = np.repeat(corrupt(y, 0.7 * np.eye(3) + 0.1, 4), 8)
    x = rng.normal(size=(900, 4))
    x[:, :3] += 6.0 * np.eye(3)[y]
    x = np.repeat(x, 8, axis=0).astype(np.float32)
    rows = np.arange(len(x))
    index, distance = nearest(x, x, 299, exclude=rows)
    near, distance = np.column_stack([rows, index]), np.pad(distance, ((0, 0), (1, 0)))
    assert np.diag(transition_matrix(near, given[near], len(x), 3).matrix).min() > 0.95
    found = transition_matrix(near, given[near], len(x), 3, distance=distance)
    assert "88% of the rows are copies" in found.reason
    assert np.abs(np.diag(found.matrix) - 0.8).max() < 0.1
    assert found.support != "unsupported"


def test_labels_that_persons_of_many_classes_share_count_once() -> None:
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 400)
    given = np.repeat(corrupt(y, 0.7 * np.eye(3) + 0.1, 4), 10)
    of_person = rng.normal(size=(400, 9)) + 3.0 * np.eye(9)[y]
    x = (np.repeat(of_person, 10, axis=0) + 0.7 * rng.normal(size=(4000, 9))).astype(np.float32)
    index, distance = nearest(x, x, 299, exclude=np.arange(4000))
    near, distance = np.column_stack([np.arange(4000), index]), np.pad(distance, ((0, 0), (1, 0)))
    assert np.diag(transition_matrix(near, given[near], 4000, 3).matrix).min() > 0.9
    found = transition_matrix(near, given[near], 4000, 3, distance=distance)
    assert "Rows at most 8 apart in the source" in found.reason
    assert np.abs(np.diag(found.matrix) - 0.8).max() < 0.1
    assert set(found.class_support) <= {"weak", "unsupported"}


def test_classes_of_two_rows_are_told_apart_by_nothing() -> None:
    """A thousand of them take no fit of a million entries."""
    rng = np.random.default_rng(5)
    y = np.repeat(np.arange(1000), 2)
    near = np.column_stack([np.arange(2000), rng.integers(0, 2000, (2000, 300))])
    found = transition_matrix(near, y[near], 2000, 1000)
    assert (found.support, found.reason) == ("unsupported", "No class has 25 rows.")


def corrupt(y: NDArray[np.int64], matrix: Floats, seed: int) -> NDArray[np.int64]:
    """Given labels, row y of the matrix each."""
    chance = np.random.default_rng([seed, 7]).random(len(y))
    return (chance[:, None] > np.cumsum(matrix, axis=1)[y]).sum(axis=1)


def realized(y: NDArray[np.int64], label: NDArray[np.int64], n_classes: int) -> Floats:
    return np.stack([np.bincount(label[y == a], minlength=n_classes) / (y == a).sum()
                     for a in range(n_classes)])  # fmt: skip


@pytest.fixture(scope="module")
def three() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return clouds(3000, 3, 1)


def test_two_classes_are_crossfit_to_the_last_bit() -> None:
    near, y = clouds(1200, 2, 0)
    label = corrupt(y, np.array([[0.8, 0.2], [0.1, 0.9]]), 0)
    rates = crossfit(near, label[near].astype(np.int8), 1200)
    found = transition_matrix(near, label[near], 1200, 2)
    expected = [[1 - rates.p0, rates.p0], [rates.p1, 1 - rates.p1]]
    np.testing.assert_array_equal(found.matrix, expected)
    assert found.rates == rates
    assert (found.support, found.reason) == (rates.support, rates.reason)


def test_three_classes_are_found(three: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
    near, y = three
    label = corrupt(y, MATRIX, 1)
    found = transition_matrix(near, label[near], len(y), 3)
    assert np.abs(found.matrix - realized(y, label, 3)).sum(axis=1).max() < 0.05
    np.testing.assert_allclose(found.matrix.sum(axis=1), 1.0)
    assert found.support == "supported"
    assert found.rates is None
    json.dumps(found.diagnostics, allow_nan=False)


def test_label_without_a_place_of_its_own_is_mistakes_alone() -> None:
    """As `unknown` is, given at random: rates and shares are those of the other classes."""
    rng = np.random.default_rng(2)
    y = (rng.random(2000) < 0.3).astype(np.int64)
    x = np.c_[rng.normal(size=(2000, 2)) + np.outer(y, [2.2, 1.8]), rng.normal(size=(2000, 2))]
    label = np.where(rng.random(2000) < np.array([0.09, 0.16])[y], 1 - y, y)
    label[rng.random(2000) < 0.1] = 2
    near = np.argsort(((x[:, None] - x) ** 2).sum(axis=2), axis=1, kind="stable")[:, :460]
    found = transition_matrix(near, label[near], len(y), 3)
    assert found.prior is not None
    assert found.interval is not None
    np.testing.assert_allclose(found.prior, [0.7, 0.3, 0.0], atol=0.06)
    true = np.stack([np.bincount(label[y == a], minlength=3) / (y == a).sum() for a in (0, 1)])
    assert np.abs(found.matrix[:2] - true).max() < 0.06
    assert ((found.interval[:2, :, 0] <= true) & (true <= found.interval[:2, :, 1])).all()
    assert found.interval[2].tolist() == [[0.0, 1.0]] * 3
    assert found.class_support[2] == "unsupported"
    assert found.reason.startswith("1 label is common nowhere, and taken for mistakes alone.")


@pytest.mark.parametrize(("n_classes", "seed"), [(4, 2), (4, 3), (4, 8), (5, 1), (6, 8)])
def test_labels_without_a_place_take_that_of_no_class(n_classes: int, seed: int) -> None:
    """`unknown`, and a second name of the first class: a fit that begins with places for both may
    explain the rows of one class by that of another."""
    rng, n = np.random.default_rng(seed), 1000
    near, y = clouds(n, n_classes, seed)
    label = np.where((y == 0) & (rng.random(n) < 0.4), n_classes, y)
    label = np.where(rng.random(n) < 0.15, n_classes + 1, label)
    found = transition_matrix(near, label[near], n, n_classes + 2)
    shares = np.bincount(y) / n
    assert found.prior is not None
    assert np.abs(found.prior[1:n_classes] - shares[1:]).max() < 0.02
    assert abs(found.prior[[0, n_classes]].sum() - shares[0]) < 0.02
    assert found.prior[-1] == 0
    right = np.array([(label[y == a] == a).mean() for a in range(1, n_classes)])
    assert np.abs(np.diag(found.matrix)[1:n_classes] - right).max() < 0.05


def test_rows_of_many_classes_far_apart_are_of_one_each() -> None:
    """And are not the mixtures of classes that their labels are."""
    rng, n, n_classes = np.random.default_rng(0), 4000, 40
    y = rng.integers(0, n_classes, n)
    x = (1.6 * rng.normal(size=(n_classes, 16))[y] + rng.normal(size=(n, 16))).astype(np.float32)
    label = np.where(rng.random(n) < 0.12, rng.integers(0, n_classes, n), y)
    near = np.column_stack([np.arange(n), nearest(x, x, 299, exclude=np.arange(n))[0]])
    found = transition_matrix(near, label[near], n, n_classes)
    right = np.array([(label[y == a] == a).mean() for a in range(n_classes)])
    assert np.abs(np.diag(found.matrix) - right).max() < 0.03


def test_classes_that_few_anchors_show_are_not_said_to_lie_nowhere() -> None:
    """60 classes apart from each other, of most of which one anchor or none is there."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 60, 6000)
    x = 12.0 * rng.normal(size=(60, 8))[y] + rng.normal(size=(6000, 8))
    label = np.where(rng.random(6000) < 0.15, rng.integers(0, 60, 6000), y)
    row = np.arange(0, 6000, 75)
    near, _ = nearest(np.float32(x[row]), np.float32(x), 150, exclude=row)
    near = np.column_stack([row, near])
    found = transition_matrix(near, label[near], 6000, 60)
    assert "nowhere" not in found.reason
    assert np.abs(np.diag(found.matrix) - 0.85).mean() < 0.08


def test_rare_classes_among_many_keep_the_rows_of_others_apart() -> None:
    """Of a matrix that is nearly singular the inverse would take any class for any other."""
    first, true = np.full((40, 40), 0.005) + 0.8 * np.eye(40), np.arange(40)
    plain = np.linalg.pinv(0.95 * first + 0.05 / 40)
    np.testing.assert_array_equal(transition_fit._inverse(first, true), plain)
    first[39] = first[:39].mean(axis=0) + 1e-3 * np.eye(40)[39] - 1e-3 * np.eye(40)[38]
    plain = np.linalg.pinv(0.95 * first + 0.05 / 40)
    inverse = transition_fit._inverse(first, true)
    assert np.abs(inverse).max() < 10.0 < np.abs(plain).max()
    assert (first[:39] @ inverse).argmax(axis=1).tolist() == true[:39].tolist()


def test_two_of_few_classes_that_nearly_coincide_are_told_apart_by_their_matrix() -> None:
    first = np.full((4, 4), 0.05) + 0.8 * np.eye(4)
    first[3] = first[:3].mean(axis=0) + np.array([0.0, 0.0, -1e-3, 1e-3])
    plain = np.linalg.pinv(0.95 * first + 0.05 / 4)
    np.testing.assert_array_equal(transition_fit._inverse(first, np.arange(4)), plain)


def test_few_steps_find_overlap_for_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a thousand classes, of which no more are paid for."""
    near, y = clouds(1500, 6, 0)
    label = np.where(np.random.default_rng(1).random(1500) < 0.2, (y + 1) % 6, y)
    monkeypatch.setattr(transition_fit, "ALL_WORK", 0)
    found = transition_matrix(near, label[near], 1500, 6).matrix
    assert np.abs(found - realized(y, label, 6)).max() < 0.08


def test_a_class_of_two_names_has_the_commoner_one() -> None:
    matrix = np.array([[0.8, 0.0, 0.2, 0.0], [0.0, 0.3, 0.1, 0.6]])
    assert transition_fit.commonest(matrix, np.array([0, 1])).tolist() == [0, 3]
    assert transition_fit.commonest(matrix, np.array([0, 3])).tolist() == [0, 3]
    matrix[0, 3] = matrix[0, 0]
    assert transition_fit.commonest(matrix, np.array([0, 1])).tolist() == [0, 1]


def test_classes_of_a_few_rows_leave_the_matrix_of_others_alone(
    three: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """Four rows each, and a hundred wrong labels: such rows nothing tells from other classes'."""
    near, y = three[0], three[1].copy()
    y[:16] = 3 + np.arange(16) // 4
    label = corrupt(y, 0.75 * np.eye(7) + 0.25 / 7, 2)
    found = transition_matrix(near, label[near], len(y), 7)
    assert np.abs(found.matrix - realized(y, label, 7))[:3].sum(axis=1).max() < 0.05
    assert found.class_support == ("supported",) * 3 + ("unsupported",) * 4
    assert found.prior is not None
    assert found.prior[3:].max() < 0.01


def test_small_classes_are_found() -> None:
    near, y = clouds(800, 10, 3)
    pairs = 0.6 * np.eye(10) + 0.4 * np.roll(np.eye(10), 1, axis=1)
    label = corrupt(y, pairs, 4)
    found = transition_matrix(near, label[near], len(y), 10)
    assert np.abs(found.matrix - realized(y, label, 10)).sum(axis=1).mean() < 0.3


def test_gradient_of_the_loss_is_that_of_differences() -> None:
    rng = np.random.default_rng(8)
    share, held = rng.dirichlet(np.ones(3), (2, 40)), rng.multinomial(3, [0.3, 0.3, 0.4], 40) * 1.0
    free, target = rng.normal(size=2 * 9 + 2 + 3), rng.normal(size=(3, 3))
    more = (pieces_of(share, held), target, 8.0, np.arange(3))
    step = 1e-6 * np.eye(len(free))
    slopes = [(loss(free + e, *more)[0] - loss(free - e, *more)[0]) / 2e-6 for e in step]
    np.testing.assert_allclose(loss(free, *more)[1], slopes, atol=1e-4)


def test_sums_of_pieces_of_any_threads_of_float32_and_of_labels_alone_are_those_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(8)
    share, held = rng.dirichlet(np.ones(3), (2, 40)), rng.multinomial(3, [0.3, 0.3, 0.4], 40) * 1.0
    free, more = rng.normal(size=2 * 9 + 2 + 3), (rng.normal(size=(3, 3)), 8.0, np.arange(3))
    of_all = loss(free, pieces_of(share, held), *more)
    monkeypatch.setattr(transition_fit, "PIECE", 7)
    for most_exact, many, within in (
        (1000, 9, 1e-12),
        (1000, 0, 1e-12),
        (0, 9, 1e-5),
        (0, 0, 1e-5),
    ):
        monkeypatch.setattr(transition_fit, "SINGLE_WORK", most_exact)
        monkeypatch.setattr(transition_fit, "MANY_PLACES", many)
        pieces = pieces_of(share, held)
        value, slopes = loss(free, pieces, *more)
        assert np.isclose(value, of_all[0], rtol=within)
        np.testing.assert_allclose(slopes, of_all[1], rtol=within, atol=within)
        for number in (2, 5):
            by_threads = loss(free, pieces, *more, Threads(number))
            assert by_threads[0] == value
            np.testing.assert_array_equal(by_threads[1], slopes)


def test_matrices_by_sums_of_float32_are_as_good(
    three: tuple[NDArray[np.int64], NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, y = three
    label = corrupt(y, MATRIX, 2)
    exact = transition_matrix(near, label[near], len(y), 3).matrix
    monkeypatch.setattr(transition_fit, "SINGLE_WORK", 0)
    found = transition_matrix(near, label[near], len(y), 3).matrix
    assert (found != exact).any()
    assert np.abs(found - exact).max() < 0.005


def test_order_of_anchors_changes_nothing(
    three: tuple[NDArray[np.int64], NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, y = three
    label = corrupt(y, MATRIX, 2)
    mixed = near[np.random.default_rng(0).permutation(len(near))]
    monkeypatch.setattr(transition_fit, "MOST_STEPS", 20)
    one = transition_matrix(near, label[near], len(y), 3)
    other = transition_matrix(mixed, label[mixed], len(y), 3)
    np.testing.assert_array_equal(one.matrix, other.matrix)


def test_renaming_classes_renames_rows_and_columns(
    three: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    near, y = three
    label, name = corrupt(y, MATRIX, 3), np.array([2, 0, 1])
    one = transition_matrix(near, label[near], len(y), 3).matrix
    other = transition_matrix(near, name[label][near], len(y), 3).matrix
    np.testing.assert_allclose(other[np.ix_(name, name)], one, atol=0.01)


def test_an_absent_class_keeps_its_identity_row(
    three: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    near, y = three
    found = transition_matrix(near, y[near], len(y), 5).matrix
    np.testing.assert_array_equal(found[3:], np.eye(5)[3:])
    np.testing.assert_array_equal(found[:3, 3:], 0.0)
    assert np.abs(found[:3, :3] - np.eye(3)).max() < 0.02


def test_labels_of_pure_noise_are_not_supported() -> None:
    near, y = clouds(400, 3, 4)
    label = np.random.default_rng(5).integers(0, 3, len(y))
    assert transition_matrix(near, label[near], len(y), 3).support == "unsupported"
    constant = transition_matrix(near, np.ones_like(near), len(y), 3)
    assert constant.support == "unsupported"
    np.testing.assert_array_equal(constant.matrix, np.eye(3))


def test_bad_lists_are_refused() -> None:
    near = np.zeros((30, 20), dtype=np.int64)
    for neighbor, label in (
        (near, near[:, 1:]),
        (near[:10], near[:10]),
        (near[:, :5], near[:, :5]),
    ):
        with pytest.raises(ValueError, match="20 anchors"):
            transition_matrix(neighbor, label, 100, 3)
    for value in (-1, 3):
        with pytest.raises(ValueError, match="need 0 to 2"):
            transition_matrix(near, np.full_like(near, value), 100, 3)


@given(st.integers(0, 10_000), st.floats(0.0, 0.45), st.floats(0.0, 0.45))
def test_posterior_of_two_classes_is_the_clipped_one(seed: int, p0: float, p1: float) -> None:
    eta = np.random.default_rng(seed).random(50)
    found = posterior_simplex(
        np.stack([1 - eta, eta], axis=1), of_rates(given_rates(p0, p1)).matrix
    )
    np.testing.assert_allclose(found[:, 1], posterior(eta, p0, p1), atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 6))
def test_posterior_is_the_nearest_on_the_simplex(seed: int, n_classes: int) -> None:
    """Against a general constrained solver, row by row."""
    rng = np.random.default_rng(seed)
    matrix = 0.6 * np.eye(n_classes) + 0.4 * rng.dirichlet(np.ones(n_classes), n_classes)
    eta = rng.dirichlet(np.full(n_classes, 0.5), 5)
    found = posterior_simplex(eta, matrix)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for row, answer in zip(eta, found, strict=True):
        brute = minimize(
            lambda q, row=row: np.square(q @ matrix - row).sum(),
            np.full(n_classes, 1 / n_classes),
            bounds=[(0, 1)] * n_classes,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
            options={"ftol": 1e-12},
        )
        assert np.square(answer @ matrix - row).sum() <= brute.fun + 1e-9


def test_posterior_undoes_the_matrix() -> None:
    clean = np.random.default_rng(0).dirichlet(np.ones(3), 100)
    np.testing.assert_allclose(posterior_simplex(clean @ MATRIX, MATRIX), clean, atol=1e-9)


def test_posterior_refuses_columns_for_rows() -> None:
    with pytest.raises(ValueError, match="true class"):
        posterior_simplex(np.eye(3), MATRIX.T)


def test_intervals_hold_the_realized_matrix(
    three: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    near, y = three
    inside = []
    for seed in range(6):
        label = corrupt(y, MATRIX, seed)
        found = transition_matrix(near, label[near], len(y), 3)
        assert found.interval is not None
        truth = realized(y, label, 3)
        low, high = found.interval[..., 0], found.interval[..., 1]
        assert (low <= found.matrix).all()
        assert (found.matrix <= high).all()
        inside.append(((low <= truth) & (truth <= high)).mean())
        assert found.class_support == ("supported",) * 3
    assert np.mean(inside) >= 0.9


def test_intervals_of_few_rows_allow_for_overlap_that_passes_for_mistakes() -> None:
    """Clouds that overlap, their labels right, or a fifth of them drawn from all."""
    inside = []
    for seed, apart in itertools.product(range(2), (1.2, 2.0)):
        rng = np.random.default_rng(seed)
        for n, c, wrong in ((150, 3, 0.0), (150, 3, 0.2), (400, 5, 0.0), (400, 5, 0.2)):
            center = rng.normal(size=(c, 4))
            center *= apart / np.linalg.norm(center, axis=1, keepdims=True)
            y = rng.permutation(np.arange(n) % c)
            x = (center[y] + rng.normal(size=(n, 4))).astype(np.float32)
            label = corrupt(y, (1.0 - wrong) * np.eye(c) + wrong / c, seed)
            rows = np.arange(n)
            near = np.column_stack([rows, nearest(x, x, n - 1, exclude=rows)[0]])
            found = transition_matrix(near, label[near], n, c)
            assert found.interval is not None
            truth = np.diag(realized(y, label, c))
            low, high = np.diagonal(found.interval)
            inside.append(((low <= truth) & (truth <= high)).mean())
    assert np.mean(inside) >= 0.9


def test_classes_that_nearly_coincide_are_not_supported() -> None:
    """Where two of four clouds lie, labels look as if these classes had each other's; where clouds
    lie apart, they have."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 4000)
    uniform = 0.75 * np.eye(4) + 0.0625
    swapped = np.eye(4)
    swapped[:2, :2] = [[0.7, 0.3], [0.25, 0.75]]
    for matrix, apart in ((uniform, 1.0), (swapped, 9.0)):
        center = np.array([[0.0, 0.0], [apart, 0.0], [0.0, 9.0], [9.0, 9.0]])
        x = (center[y] + rng.normal(size=(len(y), 2))).astype(np.float32)
        rows = np.arange(len(y))
        near = np.column_stack([rows, nearest(x, x, 299, exclude=rows)[0]])
        label = corrupt(y, matrix, 0)
        found = transition_matrix(near, label[near], len(y), 4)
        assert found.interval is not None
        truth = realized(y, label, 4)
        inside = (found.interval[..., 0] <= truth) & (truth <= found.interval[..., 1])
        assert inside.mean() > 0.8
        coincide = matrix is uniform
        assert ("or nearly coincide" in found.reason) == coincide
        assert (found.class_support[0] == "supported") != coincide
        assert inside[:2, :2].all()
        assert found.class_support[3] == "supported"


@given(st.integers(3, 7), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_what_coinciding_classes_may_owe_is_beyond_the_median_of_others(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fitted, shared = rng.dirichlet(np.full(c, 0.4), c), rng.random((c, c)) * 0.1
    expected, beyond = np.zeros((c, c)), np.zeros((c, c))
    for a in range(c):
        for b in set(range(c)) - {a}:
            others = sorted(fitted[a, list(set(range(c)) - {a, b})])
            beyond[a, b] = fitted[a, b] - others[(len(others) - 1) // 2]
    for a in range(c):
        for b in set(range(c)) - {a}:
            meet = max(shared[a, b], shared[b, a]) > MEETING
            if meet and beyond[a, b] > MUTUAL and beyond[b, a] > MUTUAL:
                expected[a, b] = beyond[a, b]
    np.testing.assert_allclose(_coinciding(fitted, shared), expected)


def test_a_class_without_rows_is_unsupported(
    three: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    near, y = three
    label = 2 * corrupt(y, MATRIX, 0)  # codes 0, 2, 4 of six
    found = transition_matrix(near, label[near], len(y), 6)
    assert found.interval is not None
    assert found.class_support[1] == "unsupported"
    assert found.interval[1].tolist() == [[0.0, 1.0]] * 6
    assert found.support == "unsupported"


def test_two_classes_have_the_intervals_of_their_rates() -> None:
    near, y = clouds(1200, 2, 0)
    label = corrupt(y, np.array([[0.8, 0.2], [0.1, 0.9]]), 0)
    found = transition_matrix(near, label[near], 1200, 2)
    assert found.rates is not None
    assert found.interval is not None
    assert tuple(found.interval[0, 1]) == found.rates.p0_interval
    assert tuple(found.interval[1, 0]) == found.rates.p1_interval
    np.testing.assert_allclose(found.interval[:, 0], 1.0 - found.interval[:, 1, ::-1])


def test_what_overlapping_classes_are_given_of_each_other_is_in_doubt() -> None:
    """Two of three clouds lie over each other, and no label is wrong."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, 1500)
    center = np.array([[0.0, 0.0], [1.2, 0.0], [9.0, 0.0]])
    x = (center[y] + rng.normal(size=(len(y), 2))).astype(np.float32)
    near = np.column_stack([np.arange(len(y)), nearest(x, x, 100, exclude=np.arange(len(y)))[0]])
    found = transition_matrix(near, y[near], len(y), 3)
    assert found.doubt is not None
    pair = found.doubt[0, 1], found.doubt[1, 0]
    assert min(pair) > 2.0 * max(found.doubt[0, 2], found.doubt[2, 0], found.doubt[2, 1])
    some = nearest(x[:200], x[:200], 60, exclude=np.arange(200))[0]
    near = np.column_stack([np.arange(200), some])
    fewer = transition_matrix(near, y[near], 200, 3)
    assert fewer.doubt is not None
    assert fewer.doubt[2, 0] > found.doubt[2, 0]
