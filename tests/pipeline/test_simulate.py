"""Seeded pools: rows depend on their number alone, labels follow eta, noise has its own stream."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.simulate import flip, gao, reeve_kaban, sheets


def test_a_row_of_sheets_does_not_depend_on_the_others() -> None:
    x, y, eta = sheets(9000, 3)
    assert (x.dtype, y.dtype, eta.dtype) == (np.float32, np.int8, np.float64)
    for part, first in ((sheets(5000, 3), 0), (sheets(10, 3, first=4090), 4090)):
        for column, whole in zip(part, (x, y, eta), strict=True):
            np.testing.assert_array_equal(column, whole[first : first + len(column)])
    assert not np.array_equal(sheets(10, 4)[0], x[:10])


def test_sheets_have_pure_and_mixed_regions() -> None:
    _, y, eta = sheets(50_000, 0)
    assert (eta == 0).mean() > 0.3
    assert (eta == 1).mean() > 0.3
    mixed = (eta > 0) & (eta < 1)
    assert 0.1 < mixed.mean() < 0.3
    assert abs(y[mixed].mean() - eta[mixed].mean()) < 0.02


def test_flip_meets_its_rates_and_ignores_the_data_stream() -> None:
    y = gao(60_000, 1)[1]
    given = flip(y, 0.3, 0.1, 1)
    assert abs((given[y == 0] == 1).mean() - 0.3) < 0.01
    assert abs((given[y == 1] == 0).mean() - 0.1) < 0.01
    np.testing.assert_array_equal(flip(y[:100], 0.3, 0.1, 1), given[:100])
    np.testing.assert_array_equal(flip(y, 0.0, 0.0, 1), y)


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
