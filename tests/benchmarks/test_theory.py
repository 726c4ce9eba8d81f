"""Bounds of Reeve & Kaban 2019: values by hand, ranges of validity, and that they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.study.bounds import (
    Margin,
    Smoothness,
    excess_risk_bound,
    extremum_bound,
    fast_rate_bound,
    k_n,
    pointwise_bound,
)

LINE = Smoothness(lam=1.0, omega=3.0)


def test_values_by_hand() -> None:
    """Section 5's smoothness (1, 3) at n = 10,000, k = 100, delta = 0.05."""
    bias = 3 * 0.02
    assert pointwise_bound(10_000, 100, 0.05, LINE) == pytest.approx(
        math.sqrt(math.log(60) / 200) + bias
    )
    assert extremum_bound(10_000, 100, 0.05, LINE) == pytest.approx(
        math.sqrt(math.log(1_200_000) / 200) + 2 * bias
    )
    log = math.log(3_600_000)
    assert k_n(10_000, 0.05, LINE) == math.ceil((log / 18) ** (1 / 3) * 10_000 ** (2 / 3))
    assert excess_risk_bound(10_000, 100, 0.05, LINE, Margin(), 0.6) == pytest.approx(
        8 / 0.6 * (math.sqrt(log / 100) + 2 * bias) + 0.05
    )
    assert fast_rate_bound(10_000, 0.05, LINE, Margin(1.0, 2.0), 0.6) == pytest.approx(
        2 * (2**7 * 3 ** (1 / 3) / 0.6) ** 2 * (log / 10_000) ** (2 / 3) + 0.05
    )


@pytest.mark.parametrize("k", [17, 5001])
def test_k_outside_the_theorem_is_refused(k: int) -> None:
    """4 log(60) + 1 = 17.4 and n / 2 = 5,000 are the ends of Theorem 4.1."""
    with pytest.raises(ValueError, match="holds for 18 <= k <= 5000"):
        pointwise_bound(10_000, k, 0.05, LINE)


def test_the_ends_are_included() -> None:
    pointwise_bound(10_000, 18, 0.05, LINE)
    pointwise_bound(10_000, 5000, 0.05, LINE)
    extremum_bound(10_000, 16, 0.05, LINE)
    with pytest.raises(ValueError, match="16 <= k"):
        extremum_bound(10_000, 15, 0.05, LINE)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="delta"):
        pointwise_bound(100, 40, 1.0, LINE)
    with pytest.raises(ValueError, match="positive"):
        Smoothness(0.0, 1.0)
    with pytest.raises(ValueError, match="alpha"):
        Margin(-1.0)
    with pytest.raises(ValueError, match="keep"):
        excess_risk_bound(10_000, 100, 0.05, LINE, Margin(), 0.0)
    with pytest.raises(ValueError, match="needs at least"):
        k_n(200, 0.05, LINE)
    with pytest.raises(ValueError, match="k="):
        k_n(200, 0.05, Smoothness(1.0, 0.05))


@given(
    st.integers(20_000, 10_000_000),
    st.floats(0.001, 0.5),
    st.floats(0.3, 2.0),
    st.floats(1.0, 4.0),
    st.floats(0.0, 2.0),
)
def test_the_closed_form_dominates_equation_11(
    n: int, delta: float, lam: float, omega: float, alpha: float
) -> None:
    """At k_n the second display of Theorem 4.3 is an upper bound of the first."""
    smooth, margin = Smoothness(lam, omega), Margin(alpha, 1.0)
    try:
        k = k_n(n, delta, smooth)
    except ValueError:
        return
    assert excess_risk_bound(n, k, delta, smooth, margin, 0.5) <= fast_rate_bound(
        n, delta, smooth, margin, 0.5
    )


@given(st.integers(100, 400), st.integers(1000, 100_000))
def test_bounds_fall_with_n(k: int, n: int) -> None:
    assert pointwise_bound(2 * n, k, 0.1, LINE) <= pointwise_bound(n, k, 0.1, LINE)


def test_the_pointwise_bound_holds() -> None:
    """eta(x) = x on [0, 1] is measure-smooth with lam = 1 and omega = 2; 200 draws of n = 2,000."""
    rng = np.random.default_rng(3)
    bound = pointwise_bound(2000, 100, 0.1, Smoothness(1.0, 2.0))
    missed = 0
    for _ in range(200):
        x = rng.random(2000)
        label = rng.random(2000) < x
        nearest = np.argsort(np.abs(x - 0.3))[:100]
        missed += abs(label[nearest].mean() - 0.3) > bound
    assert missed <= 20
