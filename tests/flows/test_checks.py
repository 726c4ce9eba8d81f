"""What the graph tells of rows besides their labels, from a run in several blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reference import shapley_terms
from runs import PoolWriter, fit

from pipeline.knn.lots import lots


@pytest.fixture
def doubled(pool: PoolWriter, tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """A pool with a copy that was given the other label, and a row far out."""
    data = np.load(pool())
    x, y = data["X"].copy(), data["y"].copy()
    x[400], y[400], x[77] = x[5], 1 - y[5], 60.0
    np.savez(tmp_path / "doubled.npz", X=x, y=y)
    return tmp_path / "doubled.npz", x, y


def test_checks_are_those_of_the_whole_pool(
    doubled: tuple[Path, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    source, x, y = doubled
    k = 10
    report = fit(source, tmp_path / "run", k=k, builder="exact", block_rows=150, scale="none")
    assert report["n_blocks"] > 1
    apart = np.sqrt(np.square(x[:, None].astype(np.float64) - x[None]).sum(axis=-1))
    np.fill_diagonal(apart, np.inf)
    apart = apart.astype(np.float32)
    order = np.lexsort((np.broadcast_to(lots(np.arange(len(x))), apart.shape), apart))[:, :k]
    distance = np.take_along_axis(apart, order, axis=1)
    found = pd.read_parquet(tmp_path / "run" / "data_issues.parquet")
    assert found["row"].tolist() == list(range(600))
    assert found["nearest_row"].tolist() == order[:, 0].tolist()
    assert np.allclose(found["nearest_distance"], distance[:, 0])
    value = np.zeros(600)
    np.add.at(value, order, shapley_terms(y[order], y))
    assert np.allclose(found["data_value"], value, atol=1e-6)
    assert found["outlier_score"].idxmin() == 77
    assert found["is_outlier"][77]
    assert found["is_outlier"].sum() == report["n_outliers"]
    both = found.loc[[5, 400]]
    assert (both["contradicting_duplicates"] == 1).all()
    assert report["n_contradicting"] == (found["contradicting_duplicates"] > 0).sum()
    assert report["n_near_duplicates"] == (found["near_duplicates"] > 0).sum()
