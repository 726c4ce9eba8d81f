"""Speculate-correct bounds: the identity they rest on, their parts, the sampling, the reference."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference_speculate import exact_estimate, printed_terms, true_error

from pipeline.arrays import added
from pipeline.labels import dtype_of
from pipeline.methods.speculate_correct import (
    Counts,
    Design,
    at_least,
    best_design,
    certify,
    chance_all_nearer,
    chance_cut_off,
    clean_loss,
    clean_range,
    enough_samples,
    epsilon,
    majority,
    sample_block,
    threshold_rules,
)

SAMPLES = 10_000_000


@pytest.mark.parametrize(
    ("n", "k", "r", "share", "total"),
    [
        (20_000, 3, 3, 0.037, 0.1930),
        (20_000, 5, 4, 0.026, 0.2350),
        (20_000, 9, 4, 0.017, 0.3006),
        (20_000, 13, 4, 0.013, 0.3538),
        (50_000, 3, 4, 0.035, 0.1250),
        (50_000, 5, 4, 0.025, 0.1517),
        (50_000, 9, 4, 0.016, 0.1935),
        (50_000, 13, 5, 0.012, 0.2272),
    ],
)
def test_reference_of_the_printed_bound(n: int, k: int, r: int, share: float, total: float) -> None:
    design = best_design(n, k, 29, SAMPLES, 0.05, "lemma6")
    assert (design.r, design.m) == (r, round(share * n))
    assert round(epsilon(design, 0.05, "lemma6").total, 4) == total


@pytest.mark.parametrize("k", [3, 13])
def test_hoeffding_reaches_the_tables(k: int) -> None:
    """The tables of the paper run from about 5 % (n = 100,000, k = 3) to 17.5 % (20,000, 13)."""
    at = {n: best_design(n, k, 29, SAMPLES, 0.05) for n in (20_000, 100_000)}
    most = epsilon(at[20_000], 0.05).total, epsilon(at[100_000], 0.05).total
    assert most[0] < 0.175
    assert most[1] < (0.05 if k == 3 else 0.08)


@pytest.mark.parametrize(
    ("n", "k", "enough"), [(600, 70, 100_000), (600, 5, 1_000_000), (20_000, 5, SAMPLES)]
)
def test_samples_that_narrow_nothing_are_not_drawn(n: int, k: int, enough: int) -> None:
    asked = best_design(n, k, 100, SAMPLES, 0.05)
    fewer = enough_samples(asked, 0.05)
    assert fewer == replace(asked, samples=enough)
    assert epsilon(fewer, 0.05).total < 1.02 * epsilon(asked, 0.05).total
    assert enough_samples(replace(asked, samples=1), 0.05).samples == 1


small = st.tuples(st.integers(6, 12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))


@given(small)
@settings(deadline=None)
def test_chance_all_nearer_by_counting(sizes: tuple[int, int, int, int]) -> None:
    """(62) against all ways to deal the places of i subsets and of no subset to nearest rows."""
    n, k, r, m = sizes
    if r * m > n - k or math.comb(n, m) > 1000:
        return
    design = Design(n, k, r, m, n - 1, 1)
    for i in range(r + 1):
        rest = n - r * m
        assert chance_all_nearer(design, i) == pytest.approx(_by_draws(rest, m, i, k), abs=1e-12)


def _by_draws(rest: int, m: int, i: int, k: int) -> float:
    """P(each of i sets of m is drawn before the k-th of `rest`), one draw at a time."""

    def go(left: int, sets: tuple[int, ...]) -> Fraction:
        if all(size < m for size in sets):
            return Fraction(1)
        if left == rest - k:
            return Fraction(0)
        every = left + sum(sets)
        chance = Fraction(left, every) * go(left - 1, sets)
        for j, size in enumerate(sets):
            if size:
                less = (*sets[:j], size - 1, *sets[j + 1 :])
                chance += Fraction(size, every) * go(left, less)
        return chance

    return float(go(rest, (m,) * i))


@given(st.integers(20, 60), st.integers(1, 5), st.integers(1, 3), st.integers(1, 6))
@settings(deadline=None)
def test_parts_against_the_print(n: int, k: int, r: int, m: int) -> None:
    if r * m > n - k:
        return
    design = Design(n, k, r, m, min(n - 1, k + 4), 1000)
    parts = epsilon(design, 0.05, "lemma6")
    found = (parts.validation, parts.remainder, parts.cutoff, parts.sampling)
    assert found == pytest.approx(printed_terms(design, 0.05), rel=1e-9, abs=1e-12)
    assert epsilon(design, 0.05).validation < parts.validation
    assert epsilon(design, 0.01).total > epsilon(design, 0.05).total
    assert 0.0 <= chance_cut_off(design) <= 1.0


@given(st.integers(0, 2**32 - 1), st.sampled_from([(6, 1, 2, 1), (7, 3, 2, 2), (7, 1, 3, 1)]))
@settings(max_examples=15, deadline=None)
def test_the_error_is_the_sum_of_its_terms(seed: int, sizes: tuple[int, int, int, int]) -> None:
    """Theorem 1 in Corollary 2's form: for one split, speculated and corrected terms add up."""
    n, k, r, m = sizes
    rng = np.random.default_rng(seed)
    x, y = rng.random(n), rng.integers(0, 2, n)
    query, truth = rng.random(40), rng.integers(0, 2, 40)
    error, terms = true_error(x, y, query, truth, k, r, m)
    assert sum(terms) == pytest.approx(error)


@pytest.mark.parametrize(
    ("n", "k", "r", "m", "w"), [(7, 1, 2, 2, 6), (8, 3, 2, 1, 5), (8, 1, 3, 2, 4)]
)
def test_sampling_estimates_what_all_permutations_average(
    n: int, k: int, r: int, m: int, w: int
) -> None:
    rng = np.random.default_rng(n * k)
    x, y = rng.random((n, 2)), rng.integers(0, 2, n)
    near = _lists(x, w)
    design = Design(n, k, r, m, w, 400_000)
    counts = sample_block(np.arange(n), y, y[near], design, majority(2), 2, 3)
    exact = exact_estimate(near, y, k, r, m)
    error = math.sqrt(r * sum(4**i for i in range(r)) / counts.samples)
    assert certify(counts, design, 0.05).estimate == pytest.approx(exact, abs=4 * error)


def _lists(x: NDArray[np.float64], w: int) -> NDArray[np.int64]:
    far = np.linalg.norm(x[:, None] - x[None], axis=2)
    np.fill_diagonal(far, np.inf)
    return np.argsort(far, axis=1)[:, :w]


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 59), max_size=4), st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_blocks_add_up_to_the_whole(seed: int, cuts: list[int], n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    n, w = 60, 9
    dtype = dtype_of(n_classes)
    label = rng.integers(0, n_classes, n).astype(dtype)
    neighbor_label = rng.integers(0, n_classes, (n, w)).astype(dtype)
    neighbor_label[rng.random(n) < 0.1, -2:] = -1 if n_classes == 2 else np.iinfo(dtype).max
    design = Design(n, 5, 3, 4, w, 900)

    def block(row: NDArray[np.int64]) -> Counts:
        rule = majority(n_classes)
        return sample_block(row, label[row], neighbor_label[row], design, rule, n_classes, seed)

    whole = block(np.arange(n))
    parts = [block(p) for p in np.split(rng.permutation(n), sorted(set(cuts)))]
    total = added(parts)
    assert np.array_equal(total.weight, whole.weight)
    assert (total.rows, total.samples, total.short_rows) == (n, 900, whole.short_rows)
    assert np.array_equal(block(np.arange(n)).weight, whole.weight)


def test_seeds_differ() -> None:
    label = np.random.default_rng(0).integers(0, 2, 50)
    design = Design(50, 3, 2, 5, 8, 5000)
    lists = np.random.default_rng(1).integers(0, 2, (50, 8))
    a, b = (
        sample_block(np.arange(50), label, lists, design, majority(2), 2, seed).weight
        for seed in (1, 2)
    )
    assert not np.array_equal(a, b)


@given(st.integers(1, 30), st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_majority_counts_votes(k: int, n_classes: int, seed: int) -> None:
    voter = np.random.default_rng(seed).integers(0, n_classes, (20, k))
    for found, votes in zip(majority(n_classes)(voter), voter.tolist(), strict=True):
        most = max(votes.count(c) for c in range(n_classes))
        best = [c for c in range(n_classes) if votes.count(c) == most]
        assert found == (best[-1] if n_classes == 2 else best[0])


@given(st.integers(1, 30), st.floats(0.0, 1.0))
@settings(deadline=None)
def test_thresholds_are_no_more_rules_than_counted(k: int, threshold: float) -> None:
    """All thresholds make k + 2 rules of k votes at most."""
    voters = np.tril(np.ones((k + 1, k), np.int64), -1)
    rules = {tuple(at_least(j / k)(voters)) for j in range(k + 2)}
    assert tuple(at_least(threshold)(voters)) in rules
    assert len(rules) <= threshold_rules(k)


@given(st.floats(0, 0.45), st.floats(0, 0.45), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_clean_loss_is_unbiased(p0: float, p1: float, seed: int) -> None:
    """Whatever a rule predicts where, the mean of the loss is its error against clean labels."""
    noise = np.array([[1 - p0, p0], [p1, 1 - p1]])
    joint = np.random.default_rng(seed).dirichlet(np.ones(4)).reshape(2, 2)  # (true, predicted)
    given_joint = noise.T @ joint
    assert (clean_loss(noise) * given_joint).sum() == pytest.approx(joint[0, 1] + joint[1, 0])
    printed = np.array([[-p0, 1 - p1], [1 - p0, -p1]]) / (1 - p0 - p1)
    assert clean_loss(noise) == pytest.approx(printed)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_clean_range_holds_every_pair_of_rates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    design = Design(2000, 3, 3, 60, 12, 20_000)
    weight = (20_000 / 3 * rng.dirichlet(np.ones(4) * 3)).astype(np.int64).reshape(2, 2)
    counts = Counts(weight, 2000, 20_000, int(rng.integers(0, 3)))
    p0, p1 = np.sort(rng.uniform(0, 0.4, (2, 2)), axis=1)
    low, high = clean_range(counts, design, 0.05, tuple(p0), tuple(p1))
    for a, b in rng.uniform([p0[0], p1[0]], [p0[1], p1[1]], (20, 2)):
        one = certify(counts, design, 0.05, clean_loss(np.array([[1 - a, a], [b, 1 - b]])))
        assert low <= one.lower + 1e-12
        assert one.upper <= high + 1e-12


def test_rates_of_nothing_give_the_bound_itself() -> None:
    design = Design(2000, 3, 3, 60, 12, 20_000)
    counts = Counts(np.array([[3000, 400], [500, 2700]]), 2000, 20_000, 0)
    plain = certify(counts, design, 0.05)
    assert clean_range(counts, design, 0.05, (0.0, 0.0), (0.0, 0.0)) == (plain.lower, plain.upper)
    assert certify(counts, design, 0.05, n_rules=5).half_width > plain.half_width


def test_short_lists_widen_the_bound() -> None:
    design = Design(2000, 3, 3, 60, 12, 20_000)
    weight = np.array([[3000, 400], [500, 2700]])
    plain, short = (certify(Counts(weight, 2000, 20_000, s), design, 0.05) for s in (0, 20))
    assert short.half_width > plain.half_width + 20 / 2000
    assert short.estimate == plain.estimate


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"r": 0}, "r, m >= 1"),
        ({"m": 700}, "n - k"),
        ({"w": 2}, "k <= w"),
        ({"samples": 0}, "samples"),
    ],
)
def test_designs_that_cannot_be(change: dict[str, int], says: str) -> None:
    sizes = {"n": 2000, "k": 3, "r": 3, "m": 60, "w": 12, "samples": 100}
    with pytest.raises(ValueError, match=says):
        Design(**{**sizes, **change})


def test_bad_input_says_what_is_wrong() -> None:
    design = Design(2000, 3, 3, 60, 12, 20_000)
    with pytest.raises(ValueError, match="delta"):
        epsilon(design, 1.0)
    with pytest.raises(ValueError, match="rows were sampled"):
        certify(Counts(np.zeros((2, 2), np.int64), 1999, 20_000, 0), design, 0.05)
    with pytest.raises(ValueError, match="too few rows"):
        best_design(5, 5, 5, 10, 0.05)
    with pytest.raises(ValueError, match="per row"):
        sample_block(
            np.arange(3), np.zeros(3, int), np.zeros((3, 4), int), design, majority(2), 2, 0
        )
    with pytest.raises(ValueError, match="p0"):
        clean_range(
            Counts(np.ones((2, 2), np.int64), 2000, 20_000, 0), design, 0.05, (0.1, 0.6), (0.1, 0.4)
        )


def test_every_order_of_every_subset_is_drawn() -> None:
    """(109) summed over places: the chances of the sets a neighbor can be in sum to one."""
    n, m, r = 9, 2, 3
    for taken in itertools.product(range(m + 1), repeat=r):
        for f in range(n - r * m + 1):
            j = f + sum(taken)
            if 1 <= j < n:
                rest = Fraction(n - r * m - f, n - j)
                assert rest + sum(Fraction(m - v, n - j) for v in taken) == 1
