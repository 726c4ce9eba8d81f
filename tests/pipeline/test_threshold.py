"""Thresholds, posteriors and label doubts, each against Bayes' rule written out."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.decision.threshold import (
    posterior,
    predict,
    tempered,
    threshold,
    vote_table,
)
from pipeline.noise.rates import NoiseRates, Support

RATE = st.floats(0.0, 0.49)


def rates(p0: float, p1: float, support: Support = "supported", half: float = 0.01) -> NoiseRates:
    ends = [(max(0.0, p - half), p + half) for p in (p0, p1)]
    return NoiseRates(p0, p1, ends[0], ends[1], "crossfit", 50, support, "for the test")


def test_threshold_by_hand() -> None:
    assert threshold(0.1, 0.3) == pytest.approx(0.4)
    assert threshold(0.2, 0.2) == 0.5


@pytest.mark.parametrize("bad", [(0.5, 0.5), (-0.1, 0.2), (math.nan, 0.1)])
def test_impossible_rates_are_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="need rates"):
        threshold(*bad)


@given(st.integers(1, 500), st.integers(0, 100), st.integers(0, 100), st.booleans())
def test_ties_count_as_one_exactly(k: int, a: int, b: int, single: bool) -> None:
    """Every count against every threshold of whole percents, decided in exact fractions."""
    assume(a + b < 100)
    at = threshold(a / 100, b / 100)
    exact = (1 + Fraction(a, 100) - Fraction(b, 100)) / 2
    count = np.arange(k + 1)
    eta = (count / k).astype(np.float32 if single else np.float64)
    want = [int(Fraction(int(c), k) >= exact) for c in count]
    assert predict(eta, at).tolist() == want


@given(RATE, RATE, st.floats(0, 1))
def test_posterior_inverts_the_noise(p0: float, p1: float, eta: float) -> None:
    """Equation 1 there and back; the threshold is where the posterior passes 1/2."""
    eta_corr = np.array([(1 - p0 - p1) * eta + p0])
    assert posterior(eta_corr, p0, p1)[0] == pytest.approx(eta, abs=1e-9)
    if abs(eta - 0.5) > 1e-6:
        assert predict(eta_corr, threshold(p0, p1))[0] == (eta > 0.5)


@given(RATE, RATE, st.floats(0, 1))
def test_exchanging_classes(p0: float, p1: float, eta: float) -> None:
    one, other = np.array([eta]), np.array([1.0 - eta])
    assert posterior(other, p1, p0)[0] == pytest.approx(1 - posterior(one, p0, p1)[0], abs=1e-9)


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.integers(0, 30))
def test_vote_table_adds_up(k: int, seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    count, label = rng.integers(0, k + 1, 30), rng.integers(0, 2, 30)
    whole = vote_table(count, label, k)
    assert whole[3 % (k + 1), 1] == ((count == 3 % (k + 1)) & (label == 1)).sum()
    parts = vote_table(count[:cut], label[:cut], k) + vote_table(count[cut:], label[cut:], k)
    np.testing.assert_array_equal(whole, parts)


def simulated_votes(p0: float, p1: float, n: int, k: int) -> NDArray[np.int64]:
    """Rows with a uniform clean probability that their neighbors share."""
    rng = np.random.default_rng(4)
    eta_corr = (1 - p0 - p1) * rng.random(n) + p0
    return vote_table(rng.binomial(k, eta_corr), (rng.random(n) < eta_corr).astype(int), k)


def test_supported_rates_that_pay_are_used() -> None:
    """All but the last bins, whose rows are as likely of one class as of the other."""
    decision = tempered(rates(0.1, 0.3), simulated_votes(0.1, 0.3, 20_000, 50))
    assert decision.full == threshold(0.1, 0.3)
    assert decision.full <= decision.threshold <= decision.full + 0.05
    assert decision.gain > 2 * decision.gain_error


def test_a_move_that_would_lose_is_not_made() -> None:
    """The rows that would switch to 1 are given 1 no more often than pure zeros are."""
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    switching = np.arange(20, 25)
    votes[switching] = [[900, 100]] * 5
    decision = tempered(rates(0.1, 0.3), votes)
    assert (decision.threshold, decision.gain) == (0.5, 0.0)


def test_unsupported_rates_leave_the_plain_vote() -> None:
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    assert tempered(rates(0.1, 0.3, "unsupported"), votes).threshold == 0.5
    assert tempered(rates(0.6, 0.5, "unsupported"), votes).threshold == 0.5


def test_plain_extremes_stand_in_for_rates_without_support() -> None:
    """Their difference is all that counts, and it must pay by 1.5 standard errors."""
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    unknown = rates(0.5, 0.45, "unsupported")
    moved = tempered(replace(unknown, plain=(0.0, 0.2)), votes)
    assert 0.4 - 1e-12 <= moved.threshold < 0.5
    assert moved.full == pytest.approx(0.4)
    assert tempered(replace(unknown, plain=(0.2, 0.2)), votes).threshold == 0.5
    few = simulated_votes(0.1, 0.3, 60, 50)
    assert tempered(replace(unknown, plain=(0.0, 0.2)), few).threshold == 0.5


def test_plain_extremes_that_leave_no_range_are_shortened() -> None:
    votes = simulated_votes(0.4, 0.4, 2000, 50)
    found = tempered(replace(rates(0.4, 0.4, "weak"), plain=(0.6, 0.4)), votes)
    assert 0 < found.threshold < 1


def test_weak_rates_move_no_further_than_supported() -> None:
    votes = simulated_votes(0.1, 0.3, 1500, 50)
    weak = tempered(rates(0.1, 0.3, "weak", 0.08), votes).threshold
    strong = tempered(rates(0.1, 0.3, "supported", 0.08), votes).threshold
    assert 0.5 >= weak >= strong >= threshold(0.1, 0.3) - 1e-12


def test_given_rates_are_taken_at_their_word() -> None:
    word = NoiseRates(0.1, 0.3, (0.1, 0.1), (0.3, 0.3), "given", 0, "supported", "")
    assert tempered(word, np.zeros((51, 2), dtype=np.int64)).threshold == threshold(0.1, 0.3)


@given(RATE, RATE, st.integers(0, 2**32 - 1))
def test_tempered_lies_between_plain_and_full(p0: float, p1: float, seed: int) -> None:
    votes = np.random.default_rng(seed).integers(0, 200, (22, 2))
    decision = tempered(rates(p0, p1, "weak", 0.02), votes)
    low, high = sorted((0.5, decision.full))
    assert low - 0.5 / 21 <= decision.threshold <= high + 0.5 / 21
    assert decision.gain >= 0


@given(st.floats(0.02, 0.4), st.floats(0.02, 0.4), st.integers(0, 2**32 - 1))
def test_gain_is_the_enumerated_one(p0: float, p1: float, seed: int) -> None:
    """The gain reported is that of a loop over the bins that switch."""
    k = 20
    votes = np.random.default_rng(seed).integers(0, 3000, (k + 1, 2))
    decision = tempered(rates(p0, p1), votes)
    gain = 0.0
    before = predict(np.arange(k + 1) / k, 0.5)
    after = predict(np.arange(k + 1) / k, decision.threshold)
    for c in range(k + 1):
        rows, ones = votes[c].sum(), votes[c, 1]
        truly = (ones - p0 * rows) / (1 - p0 - p1)
        gain += (int(after[c]) - int(before[c])) * (2 * truly - rows)
    assert decision.gain == pytest.approx(gain, rel=1e-9, abs=1e-6)
