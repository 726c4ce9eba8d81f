"""Fits and special functions against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy import special as exact

from pipeline.noise import special
from pipeline.noise.likeliest import FLAT, likeliest


def test_functions_of_a_number_are_scipys() -> None:
    z = np.concatenate([np.linspace(-40, 40, 801), [-800.0, 800.0, 0.0]])
    np.testing.assert_allclose(special.expit(z), exact.expit(z), rtol=1e-14)
    np.testing.assert_allclose(special.ndtr(z), exact.ndtr(z), rtol=1e-12, atol=1e-300)
    for p in (1e-6, 0.3, 0.5, 0.999):
        assert special.logit(p) == pytest.approx(float(exact.logit(p)), rel=1e-12)
    logs = np.random.default_rng(0).normal(scale=300, size=(50, 4))
    np.testing.assert_allclose(special.softmax(logs), exact.softmax(logs, axis=1), rtol=1e-14)


@given(st.floats(0.01, 1e7), st.floats(-8, 8))
def test_the_gamma_tail_is_scipys(a: float, spreads: float) -> None:
    x = max(0.0, a + spreads * a**0.5)
    expected = float(exact.gammaincc(a, x))
    assert special.gammaincc(a, x) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 8), st.booleans())
def test_a_convex_minimum_within_bounds_is_scipys(seed: int, n: int, bounded: bool) -> None:
    rng = np.random.default_rng(seed)
    x, true = rng.normal(size=(60, n)), rng.normal(scale=2, size=n)
    y = (rng.random(60) < special.expit(x @ true)).astype(float)

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        z = x @ free
        value = np.logaddexp(0.0, z).sum() - y @ z + 0.5 * free @ free
        return float(value), x.T @ (special.expit(z) - y) + free

    bounds = [(0.0, 0.7) if bounded and i % 2 == 0 else (None, None) for i in range(n)]
    found = likeliest(loss, np.full(n, 0.1), bounds)
    twin = optimize.minimize(
        loss, np.full(n, 0.1), (), "L-BFGS-B", True, bounds=bounds, options={"ftol": 1e-14}
    )
    assert loss(found)[0] <= twin.fun + 1e-6 * abs(twin.fun)
    np.testing.assert_allclose(found, twin.x, atol=2e-3)
    if bounded:
        assert (found[::2] >= 0.0).all()
        assert (found[::2] <= 0.7).all()


def test_a_curved_valley_is_followed_to_its_end() -> None:
    def valley(free: np.ndarray) -> tuple[float, np.ndarray]:
        return float(optimize.rosen(free)), optimize.rosen_der(free)

    found = likeliest(valley, np.array([-1.2, 1.0, -0.5]), [(None, None)] * 3)
    np.testing.assert_allclose(found, 1.0, atol=1e-3)
    held = likeliest(valley, np.array([-1.2, 1.0]), [(None, 0.5), (None, None)])
    np.testing.assert_allclose(held, [0.5, 0.25], atol=1e-4)


def test_a_start_that_is_a_minimum_is_kept() -> None:
    start = np.array([1.0, 2.0])
    found = likeliest(lambda free: (0.0, np.full(2, FLAT / 2)), start, [(None, None)] * 2)
    np.testing.assert_array_equal(found, start)
