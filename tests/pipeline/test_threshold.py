"""Thresholds, posteriors and label doubts, each against Bayes' rule written out."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pipeline.decision.threshold import (
    UNKNOWN,
    contradicted,
    cost_share,
    credible,
    posterior,
    predict,
    tempered,
    threshold,
    vote_table,
)
from pipeline.methods.rules import Rule
from pipeline.noise.rates import NoiseRates, Support, clean_shares

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


def test_towards_a_rare_class_the_interval_is_at_risk() -> None:
    weak = replace(rates(0.05, 0.4, "weak", half=0.2), errors=(0.01, 0.02))
    assert weak.risk(0.3).tolist() == [0.01, 0.02]
    assert weak.risk(0.1) == pytest.approx([0.4 * 0.25, 0.4 * 0.4])
    assert replace(weak, support="supported").risk(0.1).tolist() == [0.01, 0.02]


@given(st.integers(1, 500), RATE, RATE)
def test_votes_make_nothing_certain(k: int, p0: float, p1: float) -> None:
    """The likelier class stays the likelier one, and chances keep their order."""
    eta = np.arange(k + 1) / k
    chance = Rule("corrected", threshold(p0, p1), p0, p1).posterior(eta, k)
    assert ((chance > 0) & (chance < 1)).all()
    assert (np.diff(chance) >= 0).all()
    sure = np.abs(eta - threshold(p0, p1)) > 1e-9
    assert ((chance > 0.5) == (eta > threshold(p0, p1)))[sure].all()


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


def test_rates_that_pay_are_used() -> None:
    decision = tempered(rates(0.1, 0.3), simulated_votes(0.1, 0.3, 20_000, 50))
    assert decision.full == threshold(0.1, 0.3)
    assert decision.full <= decision.threshold <= decision.full + 0.05
    assert decision.gain > 2 * decision.gain_error
    assert decision.balanced_gain > 0
    assert decision.reason.endswith("labels, if mistakes depend on the class alone.")
    balanced = tempered(rates(0.1, 0.3), simulated_votes(0.1, 0.3, 20_000, 50), "balanced")
    assert "depend on the class alone" not in balanced.reason  # noise by class scales it only


def test_a_move_that_would_lose_is_not_made() -> None:
    """The rows that would switch to 1 are given 1 no more often than pure zeros are."""
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    votes[:25] = [[900, 100]] * 25
    decision = tempered(rates(0.1, 0.3), votes)
    assert (decision.threshold, decision.gain) == (0.5, 0.0)


def test_rates_that_are_not_known_move_nothing() -> None:
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    assert tempered(rates(0.1, 0.3, "supported", 0.5), votes).threshold == 0.5
    assert tempered(rates(0.6, 0.5, "unsupported", 0.5), votes).threshold == 0.5


def test_less_known_rates_move_less() -> None:
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    found = [tempered(rates(0.1, 0.3, "weak", half), votes).threshold for half in (0.3, 0.15, 0.02)]
    assert 0.5 >= found[0] > found[1] > found[2] >= threshold(0.1, 0.3) - 1e-12


def test_averages_that_are_drawn_to_the_middle_are_made_up_for() -> None:
    """No noise at all: rows of a rare class whose neighbors are mostly others of the common one.
    The plain vote takes no row for the rare class; its rows' own labels say where it begins."""
    votes = np.zeros((11, 2), np.int64)
    votes[0] = 950, 0
    votes[3] = 4, 46
    decision = tempered(rates(0.0, 0.0), votes)
    assert decision.threshold == pytest.approx(0.05)
    assert decision.gain == pytest.approx(42)
    assert decision.balanced_gain == pytest.approx(0.5 * (46 / 46 - 4 / 954))
    votes[9] = 10, 40  # of which the plain vote is right
    decision = tempered(rates(0.0, 0.0), votes)
    assert decision.balanced_gain == pytest.approx(0.5 * (46 / 86 - 4 / 964))


@pytest.mark.parametrize(("n", "used"), [(1, 0.9), (8, 0.75)])
def test_a_move_pays_by_a_standard_error(n: int, used: float) -> None:
    """Rows that are all given 1 are few: their share is not taken for certain."""
    votes = np.zeros((11, 2), np.int64)
    votes[:8], votes[8], votes[10] = (50, 0), (0, n), (0, 90)
    decision = tempered(rates(0.0, 0.0), votes, "9:1")
    assert decision.threshold == pytest.approx(used)
    decision = tempered(rates(0.0, 0.0), votes[::-1, ::-1], "1:9")
    assert decision.threshold == pytest.approx(1.0 - used)


VOTES = (
    st.integers(5, 12)
    .flatmap(lambda k: arrays(np.int64, (k + 1, 2), elements=st.integers(0, 400)))
    .filter(lambda votes: votes.sum() > 0)
)


@given(VOTES, RATE, RATE, st.sampled_from(["accuracy", "balanced", "1:9", "4:1"]))
def test_gain_is_within_the_rows_there_are(
    votes: NDArray[np.int64], p0: float, p1: float, objective: str
) -> None:
    """No more rows are put right than a class has, or set wrong than move."""
    decision = tempered(rates(p0, p1, "unsupported", 0.05), votes, objective)
    n = votes.sum()
    zeros, ones = (max(1.0, n * s) for s in clean_shares(p0, p1, votes[:, 1].sum() / n))
    cut, half = ((predict(np.arange(len(votes)) / (len(votes) - 1), at) == 0).sum()
                 for at in (decision.threshold, 0.5))  # fmt: skip
    rows = votes[min(cut, half) : max(cut, half)].sum()
    assert -rows <= decision.gain <= min(rows, ones if cut < half else zeros) + 1e-6
    assert abs(decision.balanced_gain) <= 1
    assert decision.gain_error <= rows
    if objective == "accuracy":
        assert decision.gain >= 0


@given(VOTES, RATE, RATE)
def test_equal_costs_are_accuracy(votes: NDArray[np.int64], p0: float, p1: float) -> None:
    one, other = (tempered(rates(p0, p1), votes, objective) for objective in ("accuracy", "2:2"))
    assert one.threshold == other.threshold == one.even == other.even


@given(VOTES, RATE, RATE)
def test_balanced_accuracy_takes_no_rates(votes: NDArray[np.int64], p0: float, p1: float) -> None:
    known, unknown = (tempered(r, votes, "balanced") for r in (rates(p0, p1), rates(0.0, 0.0)))
    assert known.threshold == unknown.threshold


@pytest.mark.parametrize("noise", [(0.0, 0.0), (0.2, 0.2), (0.05, 0.3)])
def test_what_an_objective_asks_for_it_gets(noise: tuple[float, float]) -> None:
    """Clean labels of 20,000 rows, a fifth of the class 1: no other threshold tried does better."""
    rng = np.random.default_rng(5)
    clean = rng.beta(0.5, 2.0, 20_000)
    y = rng.random(len(clean)) < clean
    chance = noise[0] + (1 - sum(noise)) * clean
    count, label = (
        rng.binomial(40, chance),
        rng.random(len(y)) < np.where(y, 1 - noise[1], noise[0]),
    )
    votes = vote_table(count, label, 40)

    def worth(at: float, objective: str) -> float:
        right = predict(count / 40, at) == y
        if objective == "balanced":
            return float(right[y].mean() + right[~y].mean()) / 2
        c01, c10 = {"accuracy": (1, 1), "1:6": (1, 6)}[objective]
        return -float((~right[y]).sum() * c10 + (~right[~y]).sum() * c01) / len(y)

    found = {
        o: tempered(rates(*noise), votes, o).threshold for o in ("accuracy", "balanced", "1:6")
    }
    for objective, at in found.items():
        best = max(worth(c / 40, objective) for c in range(1, 41))
        assert worth(at, objective) > best - 0.01


@pytest.mark.parametrize(
    "bad", ["", "precision", "1", "1:", "0:1", "1:0", "-1:2", "1:2:3", "nan:1"]
)
def test_objectives_there_are_not(bad: str) -> None:
    with pytest.raises(ValueError, match="need accuracy, balanced, or two costs"):
        cost_share(bad)


@pytest.mark.parametrize(
    ("p0", "p1", "impurity", "support", "doubtful"),
    [
        (0.05, 0.60, (0.3, 0.0), "weak", True),  # .05 and .15 around class 0
        (0.60, 0.05, (0.0, 0.3), "weak", True),
        (0.05, 0.60, (0.3, 0.3), "supported", False),
        (0.05, 0.49, (0.3, 0.3), "weak", False),
        (0.00, 0.60, (0.2, 0.9), "weak", False),  # of unlabeled rows of class 1
        (0.15, 0.60, (0.0, 0.0), "unsupported", True),
        (0.60, 0.60, (0.0, 0.0), "unsupported", True),
    ],
)
def test_a_class_mostly_given_the_other_label_is_doubted(
    p0: float, p1: float, impurity: tuple[float, float], support: Support, doubtful: bool
) -> None:
    diagnostics = {f"p{a}": {"impurity": i} for a, i in enumerate(impurity)}
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    estimated = replace(rates(p0, p1, support), diagnostics=diagnostics)
    used = credible(estimated, [votes, votes])
    assert estimated.doubtful is doubtful
    if not doubtful:
        assert used is estimated
        return
    assert used.p0 == used.p1 == contradicted([votes])
    assert tempered(used, votes).threshold == 0.5
    assert tempered(used, votes).reason == used.reason
    assert tempered(used, votes, "balanced").threshold == votes[:, 1].sum() / votes.sum()


@pytest.mark.parametrize(("error", "doubtful"), [(0.19, False), (0.2, True)])
def test_rates_that_are_known_to_no_more_than_their_gap_are_doubted(
    error: float, doubtful: bool
) -> None:
    votes = simulated_votes(0.1, 0.3, 20_000, 50)
    about = {f"p{a}": {"impurity": 0.0} for a in (0, 1)}
    estimated = replace(
        rates(0.0, 0.8, "unsupported"), diagnostics=about, errors=(0.01, error + 1e-12)
    )
    assert estimated.doubtful is doubtful
    used = credible(estimated, [votes])
    assert used.reason == (UNKNOWN if doubtful else estimated.reason)
    assert used.p1 == (contradicted([votes]) if doubtful else 0.8)


def test_contradicted_rows_are_those_on_the_other_side() -> None:
    table = np.array([[4, 1], [3, 2], [0, 10]])  # of 0, 1 and 2 ones among 2 neighbors; ties are 1
    assert contradicted([table]) == (1 + 3 + 0) / 20
    assert contradicted([table, table[::-1]]) == (1 + 3) / 20
    assert contradicted([np.array([[9, 0], [0, 0], [0, 9]])]) == 0.05


def test_given_rates_are_taken_at_their_word() -> None:
    word = NoiseRates(0.1, 0.3, (0.1, 0.1), (0.3, 0.3), "given", 0, "supported", "")
    assert tempered(word, np.zeros((51, 2), dtype=np.int64)).threshold == threshold(0.1, 0.3)


@given(st.floats(0.02, 0.4), st.floats(0.02, 0.4), st.integers(0, 2**32 - 1))
def test_gain_is_the_enumerated_one(p0: float, p1: float, seed: int) -> None:
    """The gain reported is that of a loop over the bins that switch."""
    k = 20
    votes = np.random.default_rng(seed).integers(0, 3000, (k + 1, 2))
    decision = tempered(rates(p0, p1), votes)
    before = predict(np.arange(k + 1) / k, 0.5).astype(int)
    change = predict(np.arange(k + 1) / k, decision.threshold) - before
    to_one = bool((change > 0).any())
    rows = right = 0.0
    for c in np.flatnonzero(change):
        truly = (votes[c, 1] - p0 * votes[c].sum()) / (1 - p0 - p1)
        rows += votes[c].sum()
        right += truly if to_one else votes[c].sum() - truly
    n = votes.sum()
    there_are = n * clean_shares(p0, p1, votes[:, 1].sum() / n)[int(to_one)]
    right = min(max(right, 0.0), rows, there_are)
    assert decision.gain == pytest.approx(2 * right - rows, rel=1e-9, abs=1e-6)


def test_labels_of_one_class_are_in_no_doubt() -> None:
    """Nothing was measured that could contradict the rates."""
    whole = (0.0, 1.0)
    rates = NoiseRates(0.0, 1.0, whole, whole, "crossfit", 1, "unsupported", "")
    assert rates.impurity == (1.0, 1.0)
    assert not rates.doubtful
