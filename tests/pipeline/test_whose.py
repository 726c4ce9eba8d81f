"""Rates of those who gave the labels: planted ones are recovered, and alike groups stay alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import generators

from pipeline.decision.whose import (
    ROUNDS,
    ROWS,
    Attributed,
    _likeliest,
    are_apart,
    find_places,
    own_likelihood,
    place_of,
    place_rates,
    wrong_rates,
)

Floats = npt.NDArray[np.float64]


def matrix_of(rng: np.random.Generator, c: int) -> Floats:
    matrix = rng.dirichlet(np.ones(c), c) * 0.2 + 0.8 * np.eye(c)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def rows_of(
    rng: np.random.Generator, n: int, matrix: Floats, rates: Floats, sure: float
) -> Attributed:
    """Rows whose clean classes have known chances, labeled by groups of these rates (group, class),
    who mistake classes as the matrix has it."""
    c = len(matrix)
    chance = rng.dirichlet(np.full(c, 1.0 / sure), n)
    clean = (chance.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, c - 1)
    group = rng.integers(0, len(rates), n)
    label = clean.copy()
    for i in np.flatnonzero(rng.random(n) < rates[group, clean]):
        other = matrix[clean[i]].copy()
        other[clean[i]] = 0.0
        label[i] = rng.choice(c, p=other / other.sum())
    code = np.tile(np.arange(c, dtype=np.int32), (n, 1))
    return Attributed(chance, code, label, group)


@given(rng=generators(), c=st.integers(2, 5))
def test_a_label_of_some_kind_is_given(rng: np.random.Generator, c: int) -> None:
    matrix, wrong = matrix_of(rng, c), np.tile(rng.random(c), (c, 1))
    code = np.tile(np.arange(c, dtype=np.int32), (c, 1))
    likely = own_likelihood(code, np.arange(c), matrix, wrong)  # (label, true)
    assert np.allclose(likely.sum(axis=0), 1.0)
    assert np.allclose(np.diag(likely), 1.0 - wrong[0])
    by_matrix = own_likelihood(code, np.arange(c), matrix, np.tile(1 - np.diag(matrix), (c, 1)))
    assert np.allclose(by_matrix, matrix.T)


@pytest.mark.parametrize("c", [2, 4])
def test_planted_rates_are_recovered_and_nobodys_are_the_wholes(c: int) -> None:
    rng = np.random.default_rng(c)
    matrix, rates = np.full((c, c), 0.2 / (c - 1)), rng.random((3, c)) * 0.45
    np.fill_diagonal(matrix, 0.8)
    rows = rows_of(rng, 9000, matrix, rates, 8.0)
    unknown = np.where(np.arange(9000) % 10 == 0, -1, rows.group)
    fitted = wrong_rates(rows.chance, rows.code, rows.given, unknown, matrix, 3)
    assert np.allclose(fitted[:3], rates, atol=0.06)
    assert np.allclose(fitted[-1], 0.2)


def test_groups_that_do_not_differ_are_taken_as_alike() -> None:
    alike = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rows_of(rng, 1000, np.array([[0.8, 0.2], [0.2, 0.8]]), np.full((10, 2), 0.2), 1.0)
        matrix = np.array([[0.8, 0.2], [0.2, 0.8]])
        fitted = wrong_rates(*rows, matrix, 10)
        alike += np.allclose(fitted, 0.2)
        assert np.abs(fitted - 0.2).max() < 0.25
    assert alike >= 12


@given(rng=generators(), drawn=st.sampled_from([0.5, 5.0, 80.0]))
def test_rates_are_those_of_loops_over_rows(rng: np.random.Generator, drawn: float) -> None:
    matrix, n_groups = matrix_of(rng, 3), 2
    rows = rows_of(rng, 40, matrix, rng.random((n_groups, 3)) * 0.5, 4.0)
    whole = 1.0 - np.diag(matrix)
    rates = np.tile(whole, (n_groups + 1, 1))
    expected = rates.copy()
    for _ in range(ROUNDS):
        total, wrong = np.zeros_like(expected), np.zeros_like(expected)
        for chance, label, group in zip(rows.chance, rows.given, rows.group, strict=True):
            after = np.zeros(3)
            for a in range(3):
                miss = expected[group, a]
                share = miss * matrix[a, label] / whole[a]
                after[a] = chance[a] * (1.0 - miss if a == label else share)
            after /= after.sum()
            total[group] += after
            wrong[group] += np.where(np.arange(3) == label, 0.0, after)
        for g in range(n_groups + 1):
            times = (wrong[g].sum() + drawn) / (total[g] @ whole + drawn)
            toward = np.minimum(times * whole, 0.95)
            expected[g] = (wrong[g] + ROWS * drawn * toward) / (total[g] + ROWS * drawn)
    assert np.allclose(_likeliest(rows, matrix, rates, drawn), expected)


def test_a_place_of_wrong_labels_is_found_by_its_bounds() -> None:
    """And nothing where labels are wrong alike, however classes overlap in a part of the space."""
    matrix, n = np.array([[0.9, 0.1], [0.1, 0.9]]), 4000
    alike = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.random((n, 3)).astype(np.float32)
        sure = np.where(x[:, 0] > 0.7, 0.6, 0.98)
        clean, there = rng.integers(0, 2, n), (x[:, 1] > 0.6) & (x[:, 2] <= 0.5)
        says = np.where(rng.random(n) < sure, clean, 1 - clean)
        chance = np.where(np.arange(2) == says[:, None], sure[:, None], 1.0 - sure[:, None])
        code = np.tile(np.arange(2, dtype=np.int32), (n, 1))
        draws = rng.random(n)
        even, uneven = (clean ^ (draws < p) for p in (0.1, np.where(there, 0.4, 0.05)))
        alike += find_places(x, chance, code, even, matrix) == ()
        unlabeled = np.where(np.arange(n) < 100, -1, uneven)
        places = find_places(x, chance, code, unlabeled, matrix)
        inside, rates = place_of(places, x), place_rates(places, matrix)
        assert np.allclose(rates[-1], 0.1)
        assert (rates >= rates[-1]).all()
        raised = rates[inside].max(axis=1) > 0.2
        assert (raised == there).mean() > 0.9
        assert np.abs(rates[inside[there & raised]] - 0.4).max() < 0.12
    assert alike == 10


def test_mistakes_that_chances_have_as_overlap_are_seen_from_outside() -> None:
    """Chances that were fitted to the labels of a place leave nothing to explain there."""
    matrix, n = np.array([[0.99, 0.01], [0.01, 0.99]]), 3000
    for seed in range(10):
        rng = np.random.default_rng(seed)
        clean, there = rng.integers(0, 2, n), rng.random(n) < 0.2
        rates = np.where(there[:, None], rng.uniform(0.2, 0.4, 2) * [1.0, seed % 2], 0.01)
        x = np.column_stack([rng.normal(size=(n, 3)) + 5.0 * clean[:, None], there])
        label = clean ^ (rng.random(n) < rates[np.arange(n), clean])
        chance = (
            np.eye(2)[clean] * (1.0 - rates)
            + np.eye(2)[1 - clean] * rates[np.arange(n), clean, None]
        )
        chance = np.clip(chance + 0.02 * rng.normal(size=(n, 1)) * [1.0, -1.0], 0.01, 0.99)
        code = np.tile(np.arange(2, dtype=np.int32), (n, 1))
        places = find_places(x.astype(np.float32), chance, code, label, matrix)
        inside, apart = place_of(places, x.astype(np.float32)), are_apart(places)
        assert (apart[inside] == there)[clean == 0].mean() > 0.9  # of the other some are right
        told = place_rates(places, matrix)[inside[there], clean[there]]
        assert np.abs(told - rates[there, clean[there]]).mean() < 0.06


@given(rng=generators(), width=st.floats(0.3, 3.0))
def test_where_one_class_changes_into_the_other_they_are_not_told_apart(
    rng: np.random.Generator, width: float
) -> None:
    n, code = 2000, np.tile(np.arange(2, dtype=np.int32), (2000, 1))
    x = rng.normal(size=(n, 3)).astype(np.float32)
    one = 1.0 / (1.0 + np.exp(-width * np.clip(x[:, 0], -2.0, 2.0)))
    label = (rng.random(n) < one).astype(np.int64)
    chance = np.column_stack([1.0 - one, one])
    places = find_places(x, chance, code, label, np.array([[0.95, 0.05], [0.05, 0.95]]))
    assert not are_apart(places).any()


def test_few_rows_have_no_places() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((150, 2)).astype(np.float32)
    code = np.tile(np.arange(2, dtype=np.int32), (150, 1))
    chance, label = np.full((150, 2), 0.5), (x[:, 0] > 0.5).astype(np.int64)
    assert find_places(x, chance, code, label, np.full((2, 2), 0.5)) == ()
    assert find_places(x[:0], chance[:0], code[:0], label[:0], np.full((2, 2), 0.5)) == ()
    assert place_of((), x).tolist() == [-1] * 150


def test_a_single_feature_leaves_nothing_to_tell_classes_apart_by() -> None:
    n, matrix = 2000, np.array([[0.99, 0.01], [0.01, 0.99]])
    rng = np.random.default_rng(0)
    x = rng.random((n, 1)).astype(np.float32)
    chance = np.where(x > 0.7, [0.4, 0.6], [0.98, 0.02])
    label = (rng.random(n) < chance[:, 1]).astype(np.int64)
    code = np.tile(np.arange(2, dtype=np.int32), (n, 1))
    assert not are_apart(find_places(x, chance, code, label, matrix)).any()
