"""What reports compute: reliability, the picture's plane, suspects, drift; against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.decomposition import PCA

from pipeline.blocks.sampling import Greatest
from pipeline.diagnostics.drift import flips, rate_change
from pipeline.diagnostics.pca import principal_plane
from pipeline.diagnostics.reliability import ReliabilityCounter


@given(st.integers(0, 999), st.integers(1, 400), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_reliability_is_scikit_learns_in_any_chunks(seed: int, n: int, chunks: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    truth = (rng.random(n) < p**2).astype(np.int8)
    predicted, eta = (p > 0.4).astype(np.int8), rng.random(n)
    counter = ReliabilityCounter()
    for part in np.array_split(rng.permutation(n), chunks):
        counter.see(eta[part], p[part], predicted[part], truth[part])
    found = counter.finish()
    share, mean = calibration_curve(truth, p, n_bins=10)
    np.testing.assert_allclose(found.share, share)
    np.testing.assert_allclose(found.posterior, mean)
    assert sum(found.rows) == found.n_rows == n
    assert found.brier == pytest.approx(np.mean((p - truth) ** 2))
    assert found.accuracy == np.mean(predicted == truth)
    assert found.accuracy_half == np.mean((eta >= 0.5) == truth)
    low, high = np.array(found.interval).T
    assert ((low <= share + 1e-9) & (share <= high + 1e-9)).all()


def test_reliability_refuses_what_is_no_probability() -> None:
    one = np.ones(1, np.int8)
    with pytest.raises(ValueError, match="posterior"):
        ReliabilityCounter().see(np.ones(1), np.array([1.5]), one, one)
    with pytest.raises(ValueError, match="no rows"):
        ReliabilityCounter().finish()


@given(st.integers(0, 999), st.integers(3, 60), st.integers(2, 6))
@settings(max_examples=30, deadline=None)
def test_plane_is_scikit_learns_up_to_sign(seed: int, n: int, d: int) -> None:
    x = np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)
    found, pca = principal_plane(x), PCA(2).fit(x)
    np.testing.assert_allclose(np.abs(found.at), np.abs(pca.transform(x)), atol=1e-8)
    np.testing.assert_allclose(found.share, pca.explained_variance_ratio_, atol=1e-9)


@given(st.integers(0, 999), st.integers(3, 12), st.integers(13, 60))
@settings(max_examples=30, deadline=None)
def test_plane_of_more_features_than_rows(seed: int, n: int, d: int) -> None:
    x = np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)
    found, padded = principal_plane(x), principal_plane(np.vstack([x] * d))
    np.testing.assert_allclose(found.at, padded.at[:n], atol=1e-6)
    np.testing.assert_allclose(found.share, padded.share, atol=1e-9)
    assert principal_plane(x[:1]).at.tolist() == [[0.0, 0.0]]


def test_plane_of_very_wide_rows_takes_no_square_of_the_features() -> None:
    x = np.random.default_rng(0).normal(size=(5, 60_000))
    assert principal_plane(x).at.shape == (5, 2)


def test_plane_of_one_feature_and_of_equal_rows() -> None:
    assert principal_plane(np.array([[1.0], [3.0]])).at.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert not principal_plane(np.ones((3, 2))).at.any()
    with pytest.raises(ValueError, match="no rows"):
        principal_plane(np.empty((0, 2)))


@given(st.integers(0, 999), st.integers(1, 200), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_greatest_of_a_stream_in_any_order_are_those_of_the_whole(
    seed: int, n: int, chunks: int
) -> None:
    rng = np.random.default_rng(seed)
    value = rng.integers(0, 6, n).astype(np.float64)
    stream, whole = Greatest(10), Greatest(10)
    whole.see(np.arange(n), value)
    for part in np.array_split(rng.permutation(n), chunks):
        stream.see(part, value[part])
    assert stream.row.tolist() == whole.row.tolist()
    assert whole.value.tolist() == sorted(value.tolist(), reverse=True)[:10]
    assert value[whole.row].tolist() == whole.value.tolist()


def test_drift_by_hand() -> None:
    before = (0.3, (0.28, 0.32))
    within = rate_change(before, (0.32, (0.30, 0.34)), reliable=True)
    assert within.verdict == "within error"
    assert within.interval == pytest.approx((0.02 - 0.02 * 2**0.5, 0.02 + 0.02 * 2**0.5))
    up = rate_change(before, (0.33, (0.31, 0.35)), reliable=True)
    assert (up.verdict, up.change) == ("drifted", pytest.approx(0.03))
    assert rate_change(before, (0.2, (0.1, 0.25)), reliable=True).verdict == "drifted"
    assert rate_change(before, (0.9, (0.85, 1.0)), reliable=False).verdict == "unknown"


def test_drift_is_found_in_one_of_twenty_where_there_is_none() -> None:
    rng = np.random.default_rng(0)
    n, p, half = 4000, 0.3, 1.96 * (0.3 * 0.7 / 4000) ** 0.5
    rate = rng.binomial(n, p, (2000, 2)) / n
    sides = [[(r, (r - half, r + half)) for r in pair] for pair in rate.tolist()]
    drifted = [rate_change(a, b, reliable=True).verdict == "drifted" for a, b in sides]
    assert 0.035 < np.mean(drifted) < 0.065


@given(st.integers(0, 999), st.integers(1, 50))
@settings(max_examples=40, deadline=None)
def test_flips_by_row(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (
        {
            "given_label": rng.integers(0, 2, n),
            "predicted_label": rng.integers(0, 2, n),
            "is_label_issue": rng.random(n) < 0.5,
        }
        for _ in range(2)
    )
    rows = list(zip(*a.values(), *b.values(), strict=True))
    found = flips(a, b)
    assert found["n_rows"] == n
    assert found["given_changed"] == sum(r[0] != r[3] for r in rows)
    assert found["predicted_to_1"] == sum(r[1] < r[4] for r in rows)
    assert found["predicted_to_0"] == sum(r[1] > r[4] for r in rows)
    assert found["newly_suspect"] == sum(r[5] and not r[2] for r in rows)
    assert found["no_longer_suspect"] == sum(r[2] and not r[5] for r in rows)
    assert found["flipped"] == sum(r[1] != r[4] or r[2] != r[5] for r in rows)
