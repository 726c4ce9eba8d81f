"""What reports compute: reliability, the picture's plane, suspects, drift; against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.decomposition import PCA

from pipeline.drift import rate_change
from pipeline.plane import principal_plane
from pipeline.reliability import ReliabilityCounter
from pipeline.suspects import MostSuspect, contradiction
from pipeline.threshold import label_quality, vote_table


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


def test_plane_of_one_feature_and_of_equal_rows() -> None:
    assert principal_plane(np.array([[1.0], [3.0]])).at.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert not principal_plane(np.ones((3, 2))).at.any()
    with pytest.raises(ValueError, match="no rows"):
        principal_plane(np.empty((0, 2)))


@given(st.integers(0, 999), st.integers(1, 200), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_most_suspect_of_a_stream_are_those_of_the_whole(seed: int, n: int, step: int) -> None:
    rng = np.random.default_rng(seed)
    k, p0, p1 = 7, 0.2, 0.1
    count, label = rng.integers(0, k + 1, n), rng.integers(0, 2, n)
    stream, whole = MostSuspect(10, k, p0, p1), MostSuspect(10, k, p0, p1)
    whole.see(0, count, label)
    for start in range(0, n, 10 * step):
        rows = slice(start, start + 10 * step)
        stream.see(start, count[rows], label[rows])
    assert stream.row.tolist() == whole.row.tolist()
    value = contradiction(count / k, label, p0, p1)
    assert value[whole.row].tolist() == sorted(value.tolist(), reverse=True)[:10]
    assert whole.tied(vote_table(count, label, k)) == (value == value[whole.row[-1]]).sum()


def test_contradiction_is_one_less_quality_before_it_is_cut() -> None:
    eta, label = np.linspace(0, 1, 11), np.arange(11) % 2
    cut = np.clip(contradiction(eta, label, 0.2, 0.1), 0, 1)
    np.testing.assert_allclose(cut, 1 - label_quality(eta, label, 0.2, 0.1))


def test_drift_by_hand() -> None:
    steady = rate_change((0.3, (0.28, 0.32), "supported"), (0.32, (0.30, 0.34), "weak"))
    assert steady.verdict == "steady"
    assert steady.interval == pytest.approx((0.02 - 0.02 * 2**0.5, 0.02 + 0.02 * 2**0.5))
    up = rate_change((0.3, (0.28, 0.32), "supported"), (0.33, (0.31, 0.35), "supported"))
    assert (up.verdict, up.change) == ("drifted", pytest.approx(0.03))
    down = rate_change((0.3, (0.28, 0.32), "supported"), (0.2, (0.1, 0.25), "supported"))
    assert down.verdict == "drifted"
    unknown = rate_change((0.3, (0.28, 0.32), "supported"), (0.9, (0.85, 1), "unsupported"))
    assert unknown.verdict == "unknown"
