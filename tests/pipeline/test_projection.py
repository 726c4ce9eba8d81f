"""Principal components of a stream, beside scikit-learn's of the whole."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from strategies import chunk_sizes

from pipeline.blocks.projection import Components, Covariance
from pipeline.blocks.scaling import FeatureStatistics, Scaling

Rows = npt.NDArray[np.float32]


def rows(n: int = 500, d: int = 12, seed: int = 0) -> Rows:
    """Correlated features of unlike spread, far from 0."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    return (mixed * np.geomspace(1, 8, d) + 100).astype(np.float32)


def seen(x: Rows, sizes: list[int] | None = None) -> Covariance:
    covariance = Covariance(x.shape[1])
    for chunk in np.split(x, np.cumsum(sizes or [])):
        if len(chunk):
            covariance.see(chunk)
    return covariance


@given(st.integers(2, 40), st.integers(1, 8), chunk_sizes())
@settings(max_examples=50, deadline=None)
def test_the_covariance_does_not_depend_on_chunks(n: int, d: int, sizes: list[int]) -> None:
    x = rows(n, d)
    found = seen(x, sizes)
    scatter = np.tril(found.scatter) + np.tril(found.scatter, -1).T
    exact = np.cov(x.astype(np.float64), rowvar=False).reshape(d, d)
    assert np.allclose(scatter / (n - 1), exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("scale", ["none", "range", "standard"])
@pytest.mark.parametrize("n_components", [1, 5, 12])
def test_components_are_those_of_scikit_learn(scale: str, n_components: int) -> None:
    x = rows()
    statistics = FeatureStatistics(x.shape[1])
    statistics.see(x)
    scaling = statistics.scaling(scale)
    components, share = seen(x, [70, 200]).components(n_components, scaling)
    offset, factor = scaling.offset or (0.0,), scaling.factor or (1.0,)
    scaled = (x.astype(np.float64) - np.array(offset)) * np.array(factor)
    twin = PCA(n_components, svd_solver="full").fit(scaled)
    assert np.allclose(components.variance, twin.explained_variance_, rtol=1e-9)
    assert share == pytest.approx(twin.explained_variance_ratio_.sum(), abs=1e-12)
    expected = twin.transform(scaled)
    assert np.allclose(components.apply(x), expected, atol=1e-5 * np.abs(expected).max())


@given(chunk_sizes())
@settings(max_examples=50, deadline=None)
def test_a_row_is_projected_alike_whatever_stands_beside_it(sizes: list[int]) -> None:
    x = rows(100)
    components, _ = seen(x).components(7, Scaling())
    whole = components.apply(x)
    pieces = [components.apply(piece) for piece in np.split(x, np.cumsum(sizes))]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()


def test_distances_are_kept_by_all_components() -> None:
    x = rows(60)
    found, share = seen(x).components(x.shape[1], Scaling())
    turned = found.apply(x).astype(np.float64)
    wide = x.astype(np.float64)
    before = np.linalg.norm(wide[:, None] - wide, axis=2)
    assert share == pytest.approx(1.0)
    assert np.allclose(np.linalg.norm(turned[:, None] - turned, axis=2), before, rtol=1e-4)


def test_constants_and_no_rows() -> None:
    x = np.ones((5, 3), np.float32)
    x[:, 1] = [0, 1, 2, 3, 4]
    found, share = seen(x).components(2, Scaling())
    assert found.variance.tolist() == pytest.approx([2.5, 0.0])
    assert share == pytest.approx(1.0)
    assert found.apply(x[:0]).shape == (0, 2)
    assert isinstance(found, Components)
