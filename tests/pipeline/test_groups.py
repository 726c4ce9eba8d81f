"""Noise rates by group: counts against a loop, laws, and what simulation says of the estimates."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import generators

from benchmarks.study.groups import compared, groups_of, shared
from pipeline.knn.exact import nearest
from pipeline.noise.extrema import crossfit
from pipeline.noise.group_cells import Certain, Layout, apart, certain_rows, level_of, together
from pipeline.noise.group_rates import differ, estimates, p_value
from pipeline.noise.groups import Groups, Whole, group_rates
from pipeline.noise.rates import clean_shares

LAYOUT = Layout(3, 4, 5)


def part(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Group, likely class, level, given class, suspect of some rows."""
    likely, label = rng.integers(0, 4, (2, n))
    return rng.integers(-1, 3, n), likely, rng.integers(-1, 5, n), label, rng.random(n) < 0.3


@given(generators(), st.integers(1, 40))
def test_cells_are_those_of_a_loop(rng: np.random.Generator, n: int) -> None:
    columns = part(rng, n)
    cells = LAYOUT.count(*columns)
    expected: dict[str, Counter] = {"rows": Counter(), "wrong": Counter(), "suspect": Counter()}
    for group, likely, level, label, suspect in zip(*columns, strict=True):
        kind = likely if level >= 0 else 4
        at = (group if group >= 0 else 3, kind, max(level, 0))
        expected["rows"][at] += 1
        expected["wrong"][at] += label != likely
        expected["suspect"][at] += suspect
    places = list(zip(*(p.tolist() for p in LAYOUT.places(cells)), strict=True))
    for name, counter in expected.items():
        found = dict(zip(places, getattr(cells, name).tolist(), strict=True))
        assert found == {at: counter[at] for at in expected["rows"]}


@given(generators(), st.integers(2, 40), st.integers(1, 39))
def test_cells_of_parts_add_up(rng: np.random.Generator, n: int, cut: int) -> None:
    columns = part(rng, n)
    whole = LAYOUT.count(*columns)
    first, second = (tuple(c[rows] for c in columns) for rows in (slice(cut), slice(cut, None)))
    parts = [LAYOUT.count(*some) for some in (second, first)]
    for found, expected in zip(together(parts), whole, strict=True):
        assert np.array_equal(found, expected)


def test_levels_divide_the_upper_half_of_chances() -> None:
    assert level_of(np.array([0.2, 0.5, 0.56, 0.99, 1.0])).tolist() == [-1, 0, 1, 9, 9]


def test_groups_apart_are_told_from_mixed_ones() -> None:
    rng = np.random.default_rng(0)
    group = rng.choice([-1, 0, 1, 2], 3000, p=[0.1, 0.6, 0.2, 0.1])
    mixed = rng.permutation(group)[rng.integers(0, 3000, (3000, 10))]
    assert apart(group, mixed) < 0.02
    assert apart(group, np.tile(group[:, None], 10)) == pytest.approx(1)
    half = np.where(rng.random(mixed.shape) < 0.5, group[:, None], mixed)
    assert apart(group, half) == pytest.approx(0.46, abs=0.03)  # of the others a tenth is nobody's
    assert apart(np.zeros(5, int), np.zeros((5, 3), int)) == 0
    assert apart(np.full(5, -1), np.full((5, 3), -1)) == 0


def test_certain_rows_begin_where_labels_say_so() -> None:
    rows = np.array([[1000, 1000, 1000, 1000]] * 2)
    share_pure = np.array([0.2, 0.6, 0.95, 1.0])
    right = share_pure * 0.8 + (1 - share_pure) * 0.1
    wrong = np.rint(rows * (1 - right)).astype(np.int64)
    matrix = np.array([[0.8, 0.2], [0.1, 0.9]])
    both = certain_rows(rows, wrong, matrix, np.array([0.5, 0.5]))
    assert both.level[0] == 2
    assert both.purity[0] == pytest.approx(0.975, abs=0.005)
    assert both.level[1] == 4  # 0.9 of the labels right is more than any level shows
    assert np.isnan(both.purity[1])


def counted(rows: np.ndarray, wrong: np.ndarray) -> Groups:
    """The groups of nearly certain rows (group, class) of a pool whose rates are known."""
    layout = Layout(len(rows), 2, 1)
    parts = []
    for g, k in np.ndindex(rows.shape):
        n, bad = int(rows[g, k]), int(wrong[g, k])
        label = np.where(np.arange(n) < bad, 1 - k, k)
        where = np.full(n, g), np.full(n, k), np.zeros(n, int)
        parts.append(layout.count(*where, label, np.zeros(n, bool)))
    p0, p1 = wrong.sum(axis=0) / rows.sum(axis=0)
    matrix = np.array([[1 - p0, p0], [p1, 1 - p1]])
    prior = rows.sum(axis=0) / rows.sum()
    whole = Whole(("no", "yes"), matrix, prior, np.zeros(2), ["supported"] * 2)
    return group_rates(together(parts), layout, whole, "site", [f"s{g}" for g in range(len(rows))])


def test_small_groups_are_drawn_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat([[20, 20], [500, 500]], 20, axis=0)
    rate = rng.beta(4, 16, rows.shape)
    found = counted(rows, rng.binomial(rows, rate))
    true = {f"s{g}": rate[g] for g in range(40)}
    errors: dict[tuple[bool, bool], list[float]] = {}
    for group in found.groups:
        for one in group.rates:
            truth = true[str(group.value)][("no", "yes").index(str(one.true))]
            for shrunk in (False, True):
                value = one.shrunk if shrunk else one.estimate
                errors.setdefault((group.rows < 100, shrunk), []).append(abs(value - truth))
    small, small_shrunk = np.mean(errors[True, False]), np.mean(errors[True, True])
    assert small_shrunk < 0.85 * small
    assert abs(np.mean(errors[False, False]) - np.mean(errors[False, True])) < 0.002
    assert [g.support for g in found.groups if g.rows > 100] == ["supported"] * 20
    assert found.p_value is not None
    assert found.p_value < 1e-6
    assert [g.wrong_shrunk for g in found.groups] == sorted(
        (g.wrong_shrunk for g in found.groups), reverse=True
    )


def test_groups_that_are_alike_get_the_rate_of_the_whole() -> None:
    rows = np.full((10, 2), 400)
    found = counted(rows, np.full((10, 2), 60))
    assert found.p_value == pytest.approx(1.0, abs=1e-3)
    assert all(w is not None and w > 1e4 for w in found.weight)
    shrunk = [rate.shrunk for group in found.groups for rate in group.rates]
    assert shrunk == pytest.approx([0.15] * 20, abs=1e-3)


@pytest.mark.parametrize("sizes", [(5, 400), (3, 12, 30), (40,) * 60, (1000,) * 4])
def test_level_of_the_test_on_binomial_counts(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(sizes))
    rows = np.column_stack([sizes, sizes])
    alarms = 0
    for _ in range(200):
        p_value = counted(rows, rng.binomial(rows, [0.2, 0.05])).p_value
        alarms += p_value is not None and p_value < 0.05
    assert alarms <= 19  # 10 are expected; more than 19 once in 500


@pytest.mark.parametrize("off", [-1.0, 0.0, 1.0])
def test_level_where_classes_are_shared_unequally(off: float) -> None:
    """Every second group has four times as much of class 1, so that more of its rows that look like
    class 0 are not; the whole's rates are off by a standard error."""
    rng = np.random.default_rng(3)
    p, mixed, error, alarms = np.array([0.2, 0.1]), 0.02, 0.01, 0
    for _ in range(200):
        ones = rng.binomial(500, np.tile([0.2, 0.8], 10))
        true = np.column_stack([500 - ones, ones])
        others = rng.binomial(true[:, ::-1], mixed)
        rows = true + others
        wrong = rng.binomial(true, p) + rng.binomial(others, 1 - p[::-1])
        gap = 1 - p.sum()
        purity = true.sum(axis=0) / rows.sum(axis=0) + off * error / gap
        certain = Certain(np.zeros(2, int), np.minimum(purity, 1.0), 1 - p, p[::-1])
        none = np.zeros((1, 2))
        counts = np.vstack([rows, none]), np.vstack([wrong, none])
        rates, _, _ = estimates(*counts, certain, np.full(2, error))
        tests = [differ(rates, certain, a) for a in range(2)]
        alarms += p_value(*np.sum([test for test in tests if test is not None], axis=0)) < 0.05
    assert alarms <= 19


def test_one_group_and_a_group_without_rows() -> None:
    found = counted(np.array([[300, 300]]), np.array([[60, 30]]))
    assert found.p_value is None
    assert [rate.estimate for rate in found.groups[0].rates] == pytest.approx([0.2, 0.1])
    found = counted(np.array([[300, 300], [0, 0]]), np.array([[60, 30], [0, 0]]))
    assert found.groups[-1].support == "unsupported"
    assert found.groups[-1].rates == []
    assert found.groups[-1].wrong_interval == (0.0, 1.0)


def test_rates_of_mixed_groups_from_neighbors() -> None:
    """Clouds of two classes, six groups of 500 and 1,500 rows with rates from 0.05 to 0.35."""
    sizes, told = (500,) * 3 + (1500,) * 3, []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, sum(sizes)).astype(np.int8)
        x = (rng.normal(size=(len(y), 3)) + 2.5 * y[:, None]).astype(np.float32)
        near = nearest(x, x, 400, exclude=np.arange(len(x)))[0]
        group = shared(y, sizes, rng, skewed=True)
        rates = rng.uniform(0.05, 0.35, (6, 2))
        label = (y ^ (rng.random(len(y)) < rates[group, y])).astype(np.int8)
        lists = np.column_stack([np.arange(len(x)), near]).astype(np.int64)
        whole = crossfit(lists, label[lists], len(x))
        found = groups_of(near[:, :30], label, group, whole, 6)
        assert found.p_value is not None
        assert found.p_value < 0.001
        told += compared(found, rates, sizes)["rates"]
    assert len(told) == 24
    assert np.mean([abs(error) for _, error, *_ in told]) < 0.03
    assert sum(covers for _, _, _, covers, *_ in told) >= 21


def test_nothing_is_certain_where_rates_are_too_low() -> None:
    """Rates of the whole far below what any region shows: no row counts as certain."""
    cells = Layout(2, 2, 1).count(
        *(np.arange(400) % 2, np.arange(400) // 2 % 2, np.zeros(400, int)),
        *(np.arange(400) // 4 % 2, np.zeros(400, bool)),
    )
    shares = np.array(clean_shares(0.0, 0.0, 0.5))
    whole = Whole((0, 1), np.eye(2), shares, np.zeros(2), ["supported"] * 2)
    found = group_rates(cells, Layout(2, 2, 1), whole, "site", ["a", "b"])
    assert found.p_value is None
    assert [group.rates for group in found.groups] == [[], []]
