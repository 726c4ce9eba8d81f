"""How far a matrix corrects: gains are what they estimate, and blocks' sums add up."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.arrays import Float64
from pipeline.decision.class_rule import decide
from pipeline.decision.tempering import (
    MISTAKEN,
    PARTS,
    Worth,
    assumed,
    believed,
    choose_part,
    shrunk,
    softened,
    worth,
)
from pipeline.noise.rates import Support, unknown_mistakes
from pipeline.noise.transition import Transition

SUPPORTS: tuple[Support, ...] = ("supported", "weak", "unsupported")


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_gains_are_sums_over_rows(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain, moved, label = rng.integers(0, c, (3, 30))
    matrix = 0.6 * np.eye(c) + 0.4 * rng.dirichlet(np.ones(c), c)
    inverse = np.linalg.inv(matrix)
    rows = [inverse[b, q] - inverse[b, p] for p, q, b in zip(plain, moved, label, strict=True)
            if p != q]  # fmt: skip
    found = worth(plain, moved, label, matrix, np.zeros(c))
    alike = [int(q == b) - int(p == b) for p, q, b in zip(plain, moved, label, strict=True)]
    agreeing = sum(alike) / max(1.0, np.linalg.norm(alike))
    expected = Worth(sum(rows), np.linalg.norm(rows), 0.0, agreeing)
    np.testing.assert_allclose(astuple(found), astuple(expected), atol=1e-9)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_weighed_vote_is_worth_what_the_matrix_makes_of_it(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, weighed, label = rng.integers(0, c, (3, 50))
    matrix = 0.6 * np.eye(c) + 0.4 * rng.dirichlet(np.ones(c), c)
    found = worth(one, weighed, label, matrix, np.full(c, 0.01))

    def gain(moved: int, step: float) -> float:
        """Where a class keeps less of right labels, and the others get them by their shares."""
        other = matrix.copy()
        right = other[moved, moved]
        other[moved] *= (1 - right + step) / (1 - right)
        other[moved, moved] = right - step
        inverse = np.linalg.inv(other)
        return float(sum(inverse[label, weighed] - inverse[label, one]))

    slopes = [(gain(a, 1e-6) - gain(a, -1e-6)) / 2e-6 for a in range(c)]
    assert found.gain == pytest.approx(gain(0, 0.0), abs=1e-6)
    assert found.matrix_error == pytest.approx(0.01 * np.linalg.norm(slopes), rel=1e-3, abs=1e-6)
    order = rng.permutation(c)
    place = np.argsort(order)
    again = worth(place[one], place[weighed], place[label], matrix[order][:, order], [0.01] * c)
    assert (again.gain, again.matrix_error) == pytest.approx((found.gain, found.matrix_error))


def test_a_weighed_vote_predicts_unless_it_is_likely_to_lose() -> None:
    assert Worth(-11.0, 6.0, 0.0).taken
    assert not Worth(-13.0, 6.0, 0.0).taken
    assert Worth(-6.0, 6.0, 6.0).taken
    assert not Worth(-7.0, 6.0, 6.0).taken
    assert Worth(5.0, 6.0, 11.0).taken
    assert not Worth(5.0, 6.0, 12.0).taken
    assert Worth(0.0, 0.0, 0.0).taken  # the same predictions: the chances that are better
    assert Worth(5.0, 6.0, 500.0, agreeing=2.0).taken  # whatever the matrix
    assert not Worth(5.0, 6.0, 500.0, agreeing=1.9).taken
    assert not Worth(-5.0, 6.0, 500.0, agreeing=9.0).taken


def test_gains_are_without_bias() -> None:
    rng = np.random.default_rng(0)
    matrix = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
    y, plain, moved = rng.integers(0, 3, (3, 200_000))
    label = (rng.random(len(y))[:, None] > np.cumsum(matrix[y], axis=1)).sum(axis=1).clip(0, 2)
    found = worth(plain, moved, label, matrix, np.zeros(3))
    truth = int((moved == y).sum()) - int((plain == y).sum())
    assert abs(found.gain - truth) < 4 * found.gain_error


@given(st.integers(2, 8), st.floats(0, 1), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_softened_matrices_are_stochastic_and_begin_with_the_plain_vote(
    c: int, part: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = 0.5 * np.eye(c) + 0.5 * rng.dirichlet(np.ones(c), c)
    found = softened(matrix, rng.integers(1, 9, c), part)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    if part == 0.0:
        share = rng.dirichlet(np.ones(c), 20)
        votes = share @ np.linalg.inv(found)
        np.testing.assert_array_equal(votes.argmax(axis=1), share.argmax(axis=1))
    assert softened(matrix, np.ones(c, int), 1.0) == pytest.approx(matrix)


def spread_alike(c: int, wrong: float) -> Float64:
    return np.where(np.eye(c, dtype=bool), 1.0 - wrong, wrong / (c - 1))


@given(st.integers(2, 8), st.floats(0.05, 0.4), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_mistakes_of_which_nothing_is_known(c: int, wrong: float, seed: int) -> None:
    counts = np.random.default_rng(seed).integers(1, 9, c)
    share = counts / counts.sum()
    found = unknown_mistakes(wrong, counts)
    drawn = min(wrong / (1.0 - (share**2).sum()), 0.9)
    of_draws = (1.0 - drawn) * np.eye(c) + drawn * share
    np.testing.assert_allclose(found, 0.5 * (spread_alike(c, wrong) + of_draws))
    np.testing.assert_allclose(share @ of_draws, share)  # classes stay as frequent as labels
    if drawn < 0.9:
        assert 1.0 - share @ np.diag(found) == pytest.approx(wrong)


@given(st.integers(3, 8), st.floats(0.05, 0.45), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_entries_in_doubt_are_alike(c: int, wrong: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = 0.5 * np.eye(c) + 0.5 * rng.dirichlet(np.ones(c), c)
    doubt, alike = rng.random((c, c)) ** 3, wrong / (c - 1)
    apart = rng.random(c) < 0.5
    pairs = [(a, b) for a in range(c) for b in range(c) if a != b]
    spread = np.mean([max((matrix[p] - alike) ** 2 - doubt[p] ** 2, 0.0) for p in pairs])
    expected = np.eye(c)
    for p in pairs:
        away, part = abs(matrix[p] - alike), spread / (spread + doubt[p] ** 2)
        if apart[p[0]] and away > 2 * doubt[p]:
            part = max(part, 1.0 - (doubt[p] / away) ** 2)
        expected[p] = part * matrix[p] + (1.0 - part) * alike
        expected[p[0], p[0]] -= expected[p]
    np.testing.assert_allclose(shrunk(matrix, doubt, spread_alike(c, wrong), apart), expected)


def test_a_matrix_is_taken_as_far_as_it_is_known() -> None:
    matrix = np.array([[0.7, 0.3, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
    sure, alike, blended = np.zeros((3, 3)), spread_alike(3, 0.2), np.zeros(3, np.bool_)
    np.testing.assert_allclose(shrunk(matrix, sure, alike, blended), matrix, atol=1e-9)
    np.testing.assert_allclose(shrunk(matrix, np.ones((3, 3)), alike, blended), alike, atol=1e-4)
    one = np.full((3, 3), 0.01)
    one[0, 1] = 1.0
    found = shrunk(matrix, one, alike, blended)
    assert found[0, 1] == pytest.approx(0.1, abs=0.01)
    np.testing.assert_allclose(found[1:], matrix[1:], atol=0.01)
    mostly_wrong = np.array([[0.1, 0.5, 0.4], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
    found = shrunk(mostly_wrong, sure, alike, blended)
    assert found[0, 0] == pytest.approx(1 / 3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@given(st.integers(3, 8), st.floats(0.05, 0.45), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_qualities_take_the_average_of_two_readings(c: int, wrong: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = 0.6 * np.eye(c) + 0.4 * rng.dirichlet(np.ones(c), c)
    impurity, doubt, counts = rng.random(c), rng.random((c, c)) ** 3, rng.integers(1, 9, c)
    noise = Transition(matrix, "weak", "", class_support=("weak",) * c)
    np.testing.assert_array_equal(assumed(noise, counts, wrong), matrix)
    impurity[:2] = 0.02
    first = np.argsort(matrix, axis=1)[:, -2:]  # its own label, and whose it is given most
    found = assumed(replace(noise, impurity=impurity, doubt=doubt), counts, wrong)
    unknown = unknown_mistakes(wrong, counts)
    part = 0.5 + 0.5 * np.exp(-6.0 * impurity[:, None])
    apart = impurity[first].max(axis=1) <= 0.03
    other = shrunk(matrix, doubt, unknown_mistakes(MISTAKEN * wrong, counts), apart)
    np.testing.assert_allclose(found, 0.5 * (part * matrix + (1.0 - part) * unknown + other))
    nothing = Transition(
        *(np.eye(c), "unsupported", ""), impurity=np.ones(c), doubt=np.ones((c, c))
    )
    found = assumed(nothing, np.full(c, 9), wrong)
    assert np.ptp(found[~np.eye(c, dtype=bool)]) < 1e-9
    assert (np.diag(found) < 1.0).all()


def test_only_what_surely_pays_is_taken() -> None:
    parts = [Worth(*of) for of in ((1.0, 10.0, 0.0), (9.0, 4.0, 0.0), (12.0, 20.0, 0.0))]
    known, unknown = Worth(8.0, 4.0, 0.1), Worth(20.0, 4.0, 9.0)
    assert choose_part([*parts, known]).part == PARTS[1]
    assert choose_part([*parts, unknown]).part == PARTS[1]  # the matrix may err by more
    assert choose_part([parts[0], parts[2], known, unknown]).part == PARTS[2]
    assert choose_part([Worth(-of.gain, of.gain_error, 0.0) for of in parts]).part == 0.0


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_rows_of_classes_that_nothing_supports_are_symmetric(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, impurity = rng.dirichlet(np.ones(c), c), rng.choice([0.02, 0.04, 0.5], c)
    verdicts = tuple(SUPPORTS[i] for i in rng.integers(0, 3, c))
    noise = Transition(matrix, "weak", "", class_support=verdicts, impurity=impurity)
    found = believed(noise, rng.integers(1, 9, c))
    assert np.allclose(found.sum(axis=1), 1)
    for row, verdict in enumerate(verdicts):
        own, most = matrix[row, row] == matrix[row].max(), max(np.delete(matrix[row], row))
        partner = impurity[matrix[row].tolist().index(most)]
        apart = max(impurity[row], partner) == 0.02
        if verdict == "supported" or (own or apart if verdict == "weak" else own and apart):
            assert (found[row] == matrix[row]).all()
        else:
            assert np.ptp(np.delete(found[row], row)) < 1e-12
            assert found[row, row] >= 1 / c


@pytest.mark.parametrize("n_classes", [4, 40])
def test_few_rows_of_classes_that_stand_apart_tell_whom_they_are_mistaken_for(
    n_classes: int,
) -> None:
    """Pairs of classes exchange .4 of their labels: that is 12 clean labels' worth of each."""
    matrix = 0.6 * np.eye(n_classes) + 0.4 * np.eye(n_classes)[np.arange(n_classes) ^ 1]
    doubt = np.where(matrix > 0.0, 0.18, 0.005) + np.eye(n_classes)
    noise = Transition(matrix, "unsupported", "", class_support=("unsupported",) * n_classes)
    noise = replace(noise, impurity=np.full(n_classes, 0.01), doubt=doubt)
    found = assumed(noise, np.full(n_classes, 300), 0.4)
    assert found[0, 1] > 0.3
    blended = np.where(np.arange(n_classes) == 1, 0.1, 0.01)
    one_of_two = assumed(replace(noise, impurity=blended), np.full(n_classes, 300), 0.4)
    assert max(one_of_two[0, 1], one_of_two[1, 0]) < 0.2
    mixed = assumed(replace(noise, impurity=np.full(n_classes, 0.1)), np.full(n_classes, 300), 0.4)
    assert mixed[0, 1] < 0.2


def judged(matrix: Float64, *verdicts: Support) -> Transition:
    """Of classes that lie among others."""
    impurity = np.full(len(matrix), 0.3)
    return Transition(matrix, "weak", "", class_support=verdicts, impurity=impurity)


def test_a_rare_class_takes_no_other_over() -> None:
    """Its row holds a large class' mistakes, and the large one's row next to none."""
    rng = np.random.default_rng(0)
    near = rng.choice(3, size=(2000, 50), p=[0.6, 0.2, 0.2])  # around rows that are truly 0
    matrix = np.array([[0.98, 0.01, 0.01], [0.2, 0.6, 0.2], [0.6, 0.2, 0.2]])
    counts = np.array([9000, 900, 100])
    assert (decide(near, 3, 50, matrix).predicted == 2).mean() > 0.8
    found = believed(judged(matrix, "weak", "weak", "unsupported"), counts)
    assert (decide(near, 3, 50, found).predicted == 0).mean() > 0.85


def test_a_class_that_is_mostly_given_another_label_takes_no_rows() -> None:
    """A third of a large class is given a rare one's label, and the rare one's row is its own."""
    rng = np.random.default_rng(0)
    near = rng.choice(3, size=(2000, 40), p=[0.69, 0.3, 0.01])  # around rows that are truly 0
    matrix = np.array([[0.42, 0.29, 0.29], [0.69, 0.3, 0.01], [0.1, 0.1, 0.8]])
    found = believed(judged(matrix, "supported", "weak", "weak"), np.array([700, 300, 60]))
    assert (decide(near, 3, 40, matrix).predicted == 1).mean() > 0.8
    assert (decide(near, 3, 40, found).predicted == 0).mean() > 0.9
