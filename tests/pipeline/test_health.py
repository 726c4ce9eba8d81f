"""What is said of columns and rows, against what one would say by hand."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from strategies import generators

from pipeline.diagnostics.health import (
    auroc,
    constant_near,
    contradictions,
    equal_columns,
    is_coarse_in_float32,
    is_constant,
    is_copy,
    is_like_ids,
    is_row_number,
    nearly_tells,
    oversampled,
    shares_labels,
)


@given(generators(), st.integers(2, 60))
def test_contradictions_are_what_pairs_say(rng: np.random.Generator, n: int) -> None:
    columns = [rng.integers(0, 3, n).astype(float), rng.integers(0, 2, n) - 0.0]
    columns[0][rng.random(n) < 0.2] = np.nan
    y = rng.integers(-1, 3, n)
    groups = defaultdict(list)
    for row in range(n):
        groups[tuple(str(values[row]) for values in columns)].append(row)
    mixed = [rows for rows in groups.values() if len(set(y[rows]) - {-1}) > 1]
    again = np.ones(n, bool)
    again[[rows[0] for rows in groups.values()]] = False
    n_groups, n_rows, copies = contradictions(columns, y)
    assert (n_groups, n_rows) == (len(mixed), sum(map(len, mixed)))
    assert copies.tolist() == again.tolist()


def test_an_oversampled_class_is_told_and_copies_of_all_are_not() -> None:
    y = np.repeat([0, 1, -1], [300, 200, 100])
    of_one = (y == 1) & (np.arange(600) % 5 > 0)
    assert oversampled(of_one, y) == (1, 0.8, 0.0)
    assert oversampled(of_one | (np.arange(600) < 30), y) is None
    assert oversampled(np.arange(600) % 5 > 0, y) is None
    assert oversampled(of_one & False, y) is None
    assert oversampled(y == 1, np.zeros(600, np.int64)) is None


@given(generators(), st.integers(4, 80))
def test_area_under_the_curve(rng: np.random.Generator, n: int) -> None:
    y = np.arange(n) % 2
    values = rng.integers(0, rng.integers(1, 20), n).astype(float)
    assert auroc(values, y) == pytest.approx(roc_auc_score(y, values))


@pytest.mark.parametrize(("first", "step"), [(2**60 + 999, 9), (1.7e9, 0.01), (-1e30, 1e17)])
def test_a_constant_to_subtract_mends_lost_digits(first: float, step: float) -> None:
    values = [first + step * row for row in range(200)]
    said = constant_near(np.array([*values, 0.0]))
    assert is_coarse_in_float32(np.array([*values, 0.0]))
    number = int(said) if isinstance(first, int) else float(said)
    assert not is_coarse_in_float32(np.array([value - number for value in values], np.float64))


def test_columns_that_are_something_else() -> None:
    n = 100
    rng = np.random.default_rng(0)
    y, x = np.arange(n) % 2, rng.normal(size=n)
    gap = np.where(np.arange(n) == 3, np.nan, 5.0)
    assert is_constant(np.full(n, 5.0))
    assert is_constant(np.full(n, np.nan))
    assert not is_constant(gap)
    assert is_copy(7.0 - y, y)
    assert is_copy(np.array([4.0, 9.0, 1.0])[np.arange(n) % 3], np.arange(n) % 3)
    assert not is_copy(np.where(np.arange(n) == 8, 1.0, y), y)
    assert not is_copy(y[:10].astype(float), y[:10])
    assert not is_copy(np.zeros(n), y)
    assert is_row_number(np.arange(n) + 1.0)
    assert not is_row_number(np.arange(n) + 5.0)
    assert is_like_ids(rng.permutation(10_000)[:n].astype(float))
    assert not is_like_ids(x)
    assert not is_like_ids(1e30 * x)
    assert nearly_tells(x + 100.0 * y, y)
    assert not nearly_tells(x + y, y)
    columns = [x, gap, x + 1, gap.copy(), x, 0 * x, -0 * x]
    assert equal_columns([(one, b"") for one in columns]) == {3: 1, 4: 0, 6: 5}
    assert equal_columns([(x, b"red"), (x, b"big"), (x, b""), (x, b"red")]) == {3: 0}


def test_a_column_of_persons_is_told_by_what_their_rows_share() -> None:
    rng = np.random.default_rng(0)
    person = rng.permutation(np.repeat(np.arange(200), 6))
    label = rng.integers(0, 2, 200)
    y, own = label[person], rng.integers(0, 2, 1200)
    number = rng.permutation(10_000)[person].astype(float)
    assert shares_labels(number, y)
    assert shares_labels(number, np.where(np.arange(1200) < 15, 1 - y, y))
    assert not shares_labels(number, own)
    assert not shares_labels(number + 0.5, y)
    assert not shares_labels(np.arange(1200.0), y)
    assert not shares_labels(y + 2.0 * (person % 5), y)
    assert not shares_labels(np.sort(number), np.sort(y)), "a file in order of its labels"
    assert not shares_labels(number, np.full(1200, -1))
    assert not shares_labels(number[:40], y[:40])


def test_infinities_are_no_reason_to_warn() -> None:
    values = np.concatenate([np.full(9, np.inf), np.full(9, -np.inf), 1e9 + np.arange(5) / 7])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_coarse_in_float32(values)
        assert not is_row_number(np.concatenate([[0.0], np.full(99, np.inf)]))
