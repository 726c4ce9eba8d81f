"""RkNN: the open ends, the sums without a fold, and the whole selection against loops."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.study.beside import select
from pipeline.decision.threshold import predict as threshold_predict
from pipeline.decision.threshold import threshold
from pipeline.methods.rknn import GRID, best, fold_sums, own_extremes, predict

RATE = st.floats(0.0, 0.49)


def printed_rule(eta: Fraction, minus: Fraction, plus: Fraction) -> int:
    """Lines 4-10 of the paper's Algorithm 1, word for word."""
    y = int(eta >= Fraction(1, 2))
    if minus > plus and 0 < eta - Fraction(1, 2) < minus / 2 - plus / 2:
        y = 0
    if minus < plus and minus / 2 - plus / 2 < eta - Fraction(1, 2) < 0:
        y = 1
    return y


@given(st.integers(1, 101), RATE, RATE)
def test_rule_against_the_print(k: int, p0: float, p1: float) -> None:
    eta = np.arange(k + 1) / k
    ends = np.array([0.5, 0.5 + 0.5 * (p0 - p1)])
    clear = np.abs(eta[:, None] - ends).min(axis=1) > 1e-9
    want = [printed_rule(Fraction(float(e)), Fraction(p0), Fraction(p1)) for e in eta[clear]]
    assert predict(eta, p0, p1)[clear].tolist() == want


def test_open_ends() -> None:
    """p0 > p1: 1/2 and the upper end stay 1. p1 > p0: the lower end stays 0, 1/2 stays 1."""
    assert predict(np.array([0.5, 0.55, 0.6, 0.65]), 0.3, 0.1).tolist() == [1, 0, 1, 1]
    assert predict(np.array([0.35, 0.4, 0.45, 0.5]), 0.1, 0.3).tolist() == [0, 0, 1, 1]
    assert predict(np.array([0.4, 0.5, 0.6]), 0.2, 0.2).tolist() == [0, 1, 1]


@given(st.integers(1, 101), RATE, RATE)
def test_equals_algorithm_2_except_at_the_ends(k: int, p0: float, p1: float) -> None:
    """At 1/2 (p0 > p1) and at the threshold (p0 < p1) the two differ, nowhere else."""
    eta = np.arange(k + 1) / k
    at = threshold(p0, p1)
    differs = predict(eta, p0, p1) != threshold_predict(eta, at)
    end = 0.5 if p0 > p1 else at
    assert np.all(np.abs(eta[differs] - end) < 1e-9)


def test_the_two_ends_where_algorithm_2_differs() -> None:
    assert predict(np.array([0.5]), 0.3, 0.1)[0] == 1
    assert threshold_predict(np.array([0.5]), threshold(0.3, 0.1))[0] == 0
    assert predict(np.array([0.4]), 0.1, 0.3)[0] == 0
    assert threshold_predict(np.array([0.4]), threshold(0.1, 0.3))[0] == 1


@given(st.integers(1, 101), RATE, RATE)
def test_rule_is_monotone_apart_from_one_half(k: int, p0: float, p1: float) -> None:
    eta = np.arange(k + 1) / k
    guess = predict(eta, p0, p1)[np.abs(eta - 0.5) > 1e-12]
    assert np.all(np.diff(guess.astype(int)) >= 0)


def test_extremes_count_the_row_itself() -> None:
    ones, sizes = np.array([[0, 2], [1, 3]]), np.array([[1, 3], [1, 3]])
    found = own_extremes(ones, sizes, np.array([0, 1], np.int8))
    assert found.tolist() == [[0.0, 0.5], [1.0, 1.0]]
    assert own_extremes(ones[:0], sizes[:0], np.empty(0, np.int8)).tolist() == [[1, 1], [0, 0]]


def pool(n: int, width: int, seed: int) -> tuple[NDArray[np.int64], ...]:
    """Random points on a line with a step, 20 % of labels flipped; lists cut at random to -1."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    label = ((x > 0.5) ^ (rng.random(n) < 0.2)).astype(np.int8)
    distance = np.abs(x[:, None] - x[None, :])
    np.fill_diagonal(distance, np.inf)
    neighbor = np.argsort(distance, axis=1, kind="stable")[:, :width]
    neighbor[0, width // 2 :] = -1
    return neighbor, label, rng.integers(0, 4, n)


def loop_sums(
    row: NDArray[np.int64], label: NDArray[np.int64], out: NDArray[np.bool_], k: int
) -> tuple[int, int]:
    kept = [int(j) for j in row if j >= 0 and not out[j]][:k]
    return sum(int(label[j]) for j in kept), len(kept)


@settings(max_examples=25)
@given(st.integers(12, 40), st.integers(2, 11), st.integers(0, 2**32 - 1))
def test_fold_sums_against_a_loop(n: int, width: int, seed: int) -> None:
    neighbor, label, fold = pool(n, width, seed)
    grid = (1, 2, 5)
    ones, sizes = fold_sums(label[neighbor], (neighbor >= 0) & (fold[neighbor] != 1), grid)
    for i in range(n):
        for g, k in enumerate(grid):
            assert (ones[i, g], sizes[i, g]) == loop_sums(neighbor[i], label, fold == 1, k)


def test_selection_against_loops() -> None:
    """Every (k, k') scored by the definition, fold by fold and row by row."""
    neighbor, label, fold = pool(80, 20, 7)
    grid = (3, 5, 9, 25)
    score, short = np.zeros((4, 4)), 0
    for part in range(4):
        out = fold == part
        short += sum(loop_sums(neighbor[i], label, out, 25)[1] < 25 for i in range(80))
        for j, rate_neighbors in enumerate(grid):
            own = []
            for i in np.flatnonzero(~out):
                ones, size = loop_sums(neighbor[i], label, out, rate_neighbors)
                own.append(Fraction(ones + int(label[i]), size + 1))
            p0, p1 = min(own), 1 - max(own)
            for i in np.flatnonzero(out):
                for g, k in enumerate(grid):
                    ones, size = loop_sums(neighbor[i], label, out, k)
                    score[g, j] += printed_rule(Fraction(ones, max(size, 1)), p0, p1) == label[i]
    found = select(neighbor, label, fold, grid)
    np.testing.assert_allclose(found.score, score / 80)
    assert found.shortfall == short
    assert found.score[grid.index(found.k), grid.index(found.rate_neighbors)] == found.score.max()


def test_one_k_may_be_fixed() -> None:
    score = np.array([[0.5, 0.6], [0.9, 0.9]])
    assert (best(score, (5, 10), 0).k, best(score, (5, 10), 0).rate_neighbors) == (10, 5)
    assert (best(score, (5, 10), 0, 5).k, best(score, (5, 10), 0, 5).rate_neighbors) == (5, 10)


def test_the_papers_grid() -> None:
    assert GRID[0] == 5
    assert GRID[-1] == 100
    assert len(GRID) == 20
