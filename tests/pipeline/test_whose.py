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
    own_likelihood,
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
