"""Seeded pools: rows depend on their number alone, labels follow eta, noise has its own stream."""

from __future__ import annotations

import numpy as np

from pipeline.simulate import flip, sheets


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
    y = sheets(60_000, 1)[1]
    given = flip(y, 0.3, 0.1, 1)
    assert abs((given[y == 0] == 1).mean() - 0.3) < 0.01
    assert abs((given[y == 1] == 0).mean() - 0.1) < 0.01
    np.testing.assert_array_equal(flip(y[:100], 0.3, 0.1, 1), given[:100])
    np.testing.assert_array_equal(flip(y, 0.0, 0.0, 1), y)
