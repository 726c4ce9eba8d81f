"""Label qualities of two classes in a run: as the estimator says, resumed to the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import fit, fit_until, results

from pipeline.decision.quality import FIT_ROWS
from pipeline.estimator import RobustKNeighborsClassifier

N = 1800


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odds")
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, N)
    x = rng.normal(size=(N, 4)) * (1 + clean[:, None]) + 1.5 * clean[:, None]
    given = np.where(rng.random(N) < np.where(clean == 1, 0.1, 0.25), 1 - clean, clean)
    np.savez(folder / "pool.npz", X=x.astype(np.float32), y=given)
    fit(folder / "pool.npz", folder / "run", k=None, block_rows=600)
    return folder


def test_run_says_what_the_estimator_says(made: Path) -> None:
    pool = np.load(made / "pool.npz")
    model = RobustKNeighborsClassifier(metric="euclidean").fit(pool["X"], pool["y"])
    issues = pd.read_parquet(made / "run" / "label_issues.parquet")
    np.testing.assert_allclose(issues["label_quality"], model.label_quality_, rtol=1e-5)
    assert np.array_equal(issues["is_label_issue"], model.label_issues_)
    assert issues["label_quality"].nunique() > 0.99 * N


def test_weights_rest_on_a_sample(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pool above `FIT_ROWS` rows, a few of each block."""
    for module in ("flows.steps.labels.rates", "flows.steps.labels.verdicts"):
        monkeypatch.setattr(f"{module}.FIT_ROWS", 900)
    assert FIT_ROWS > N
    fit(made / "pool.npz", made / "few", k=None, block_rows=600)
    whole, few = (pd.read_parquet(made / n / "label_issues.parquet") for n in ("run", "few"))
    away = (whole["label_quality"] - few["label_quality"]).abs()
    assert 0.0 < away.max() < 0.2
    assert away.mean() < 0.02
    assert (whole["is_label_issue"] == few["is_label_issue"]).mean() > 0.99


@pytest.mark.parametrize("step", ["regression", "relay", "smoothing"])
def test_interrupted_run_ends_with_the_same_bits(made: Path, tmp_path: Path, step: str) -> None:
    fit_until(step, made / "pool.npz", tmp_path / "run", k=None, block_rows=600)
    fit(made / "pool.npz", tmp_path / "run", k=None, block_rows=600)
    assert results(tmp_path / "run") == results(made / "run")
