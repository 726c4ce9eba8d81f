"""Pools of papers follow their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.study.pools import gao, reeve_kaban


@pytest.mark.parametrize(("p0", "p1"), [(0.1, 0.3), (0.3, 0.1), (0.2, 0.2)])
def test_reeve_kaban_is_the_papers_eta(p0: float, p1: float) -> None:
    """Piece by piece, and the trap: on the plateau given labels and truth favor other classes."""
    x, y, eta = reeve_kaban(60_000, p0, p1, 2)
    at = x[:, 0].astype(float)
    m = (2 - 3 * p0 - p1) / (4 * (1 - p0 - p1))
    low, high = 2 * m / 3, (2 * m + 1) / 3
    pieces = np.where(at <= low, 1.5 * at, np.where(at <= high, m, (3 * at - 1) / 2))
    np.testing.assert_allclose(eta, pieces, atol=1e-12)
    assert abs(y.mean() - eta.mean()) < 0.01
    corrupted = (1 - p0 - p1) * m + p0
    assert (m - 0.5) * (corrupted - 0.5) <= 0


def test_reeve_kaban_refuses_rates_without_a_plateau() -> None:
    with pytest.raises(ValueError, match="plateau"):
        reeve_kaban(10, 0.6, 0.4, 0)
    with pytest.raises(ValueError, match="plateau"):
        reeve_kaban(10, 0.0, 0.9, 0)


def test_gao_is_the_papers_eta() -> None:
    x, y, eta = gao(40_000, 0)
    np.testing.assert_allclose(
        eta, (1 - np.sin(2 * np.pi * x[:, 0]) * np.sin(2 * np.pi * x[:, 1])) / 2, atol=1e-5
    )
    assert abs(y.mean() - 0.5) < 0.01
    quarter = (x < 0.5).all(axis=1)
    assert y[quarter].mean() < 0.35
