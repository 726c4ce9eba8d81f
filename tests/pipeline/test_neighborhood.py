"""Outliers, duplicates and data values against what one would do by hand."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import shapley_terms
from strategies import generators

from pipeline.diagnostics.neighborhood import (
    data_values,
    mean_distance,
    near_duplicates,
    outlier_score,
    usual_distances,
)


def shapley_by_subsets(match: np.ndarray, k: int) -> np.ndarray:
    """Value of each neighbor, nearest first, for the share of the k nearest of a set that match."""
    n = len(match)

    def utility(chosen: tuple[int, ...]) -> float:
        return float(match[sorted(chosen)[:k]].sum()) / k

    value = np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for chosen in combinations(others, size):
                gain = utility((*chosen, i)) - utility(chosen)
                value[i] += gain / (n * comb(n - 1, size))
    return value


@given(st.lists(st.booleans(), min_size=2, max_size=7), st.integers(2, 7))
@settings(max_examples=30, deadline=None)
def test_values_are_shapleys_up_to_the_end_of_the_list(matches: list[bool], k: int) -> None:
    match = np.array(matches)
    k = min(k, len(match))
    exact = shapley_by_subsets(match, k)
    label, own = match[None, :k].astype(np.int8), np.ones(1, np.int8)
    terms = shapley_terms(label, own)[0]
    assert terms[-1] == 0
    assert np.allclose(terms - terms[-1], exact[:k] - exact[k - 1])
    assert np.abs(terms - exact[:k]).max() <= 1 / k + 1e-12


@given(generators(), st.integers(1, 30), st.integers(1, 6))
@settings(deadline=None)
def test_values_are_summed_over_all_lists(rng: np.random.Generator, n: int, k: int) -> None:
    """Of rows here and elsewhere; those nobody lists are left out. To the last bit."""
    row = np.sort(rng.permutation(60)[:n])
    neighbor = np.array([rng.permutation(60)[:k] for _ in range(n)])
    neighbor[rng.random((n, k)) < 0.1] = -1
    label, own = rng.integers(0, 2, (n, k), np.int8), rng.integers(0, 2, n, np.int8)
    terms = shapley_terms(label, own)
    listed, value = data_values(row, neighbor, label, own)
    wanted = np.zeros(60)
    np.add.at(wanted, neighbor[neighbor >= 0], terms[neighbor >= 0])
    assert listed.tolist() == sorted(set(neighbor[neighbor >= 0].tolist()))
    assert value.tolist() == wanted[listed].tolist()


def test_what_is_far_and_what_is_near() -> None:
    rng = np.random.default_rng(0)
    x = np.r_[rng.normal(size=(200, 2)), [[30.0, 30.0]]]
    x[7] = x[3]
    x[9] = x[3] + 1e-9
    apart = np.sqrt(np.square(x[:, None] - x[None]).sum(-1))
    np.fill_diagonal(apart, np.inf)
    order = np.argsort(apart, axis=1, kind="stable")[:, :10]
    distance = np.take_along_axis(apart, order, axis=1).astype(np.float32)
    usual = usual_distances(distance)
    mean = mean_distance(distance)
    assert np.allclose(mean, distance.mean(axis=1))
    score = outlier_score(mean, usual)
    assert score.argmin() == 200
    assert (mean > usual.outlying)[200]
    assert np.count_nonzero(mean > usual.outlying) < 30
    assert np.median(score) == pytest.approx(np.exp(-1), rel=1e-5)
    own = (np.arange(201) % 2).astype(np.int8)
    own[9] = 0
    near, other = near_duplicates(distance, own[order], own, usual)
    wanted = (distance < 0.13 * np.median(distance[:, 0])).sum(axis=1)
    assert near.tolist() == wanted.tolist()
    assert (near[[3, 7, 9]] >= 2).all()
    assert other[7] >= 1
    assert mean_distance(np.array([[1, np.inf]], np.float32)).tolist() == [1.0]
