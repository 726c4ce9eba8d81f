"""Label qualities of two classes in a run, and of any where trees are heard: as the estimator says,
resumed to the same bits."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import fit, fit_until, results
from scattered import scattered
from sklearn.neighbors import KNeighborsTransformer

from flows.cli import main
from flows.report.kinds.two import ALIKE
from flows.report.lines import predicted_by
from pipeline.arrays import AnyArray
from pipeline.decision.class_votes import CANDIDATES
from pipeline.decision.odds import PLACED
from pipeline.decision.quality import FIT_ROWS
from pipeline.decision.tempering import Worth
from pipeline.estimator import RobustKNeighborsClassifier

N = 1800


def trained(folder: Path, c: int) -> Path:
    """A training of this many classes, whose models tell what neighbors do not."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, c, N)
    x = rng.normal(size=(N, 16 if c == 3 else 8))  # columns beyond the fourth say nothing
    if c > CANDIDATES:
        x = 0.8 * rng.normal(size=(c, 24))[clean] + rng.normal(size=(N, 24))
    else:
        x[:, :4] = x[:, :4] * (1 + clean[:, None]) + 1.5 * clean[:, None]
    wrong = rng.random(N) < np.where(clean == 1, 0.1, 0.25)
    given = np.where(wrong, (clean + 1) % c, clean)
    np.savez(folder / "pool.npz", X=x.astype(np.float32), y=given)
    fit(folder / "pool.npz", folder / "run", k=None, block_rows=600)
    return folder


def test_the_verdict_says_where_qualities_take_one_rate(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    near = rng.random(N) < 0.25
    clean = near & (rng.random(N) < 0.15)
    x = rng.normal(size=(N, 4)) + 4.0 * near[:, None]
    wrong = rng.random(N) < np.where(near, 0.4, 0.1)
    np.savez(tmp_path / "pool.npz", X=x.astype(np.float32), y=clean ^ wrong)
    report = fit(tmp_path / "pool.npz", tmp_path / "run")
    assert report["reason"].endswith(ALIKE)


def test_rates_of_a_place_decide_nothing_as_the_estimator_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = rng.random(N) < 0.04
    x = np.column_stack([rng.normal(size=(N, 3)) + clean[:, None], 4.0 * rng.random(N)])
    wrong = rng.random(N) < 0.4 * (x[:, 3] > 2.8)
    x, given = x.astype(np.float32), clean ^ wrong
    np.savez(tmp_path / "pool.npz", X=x, y=given)
    report = fit(tmp_path / "pool.npz", tmp_path / "run", k=None)
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x, given)
    assert report["support"] == model.support_ == "unsupported"
    assert report["reason"] == report["decision"]["reason"] == model.reason_ == PLACED
    low, high = report["share_wrong_interval"]
    assert low <= wrong.mean() <= high
    issues = pd.read_parquet(tmp_path / "run" / "label_issues.parquet")
    np.testing.assert_allclose(issues["label_quality"], model.label_quality_, rtol=1e-5)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("odds"), 2)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("three"), 3)


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("forty"), 40)


@pytest.fixture(params=["made", "three", "forty"])
def either(request: pytest.FixtureRequest) -> Path:
    made: Path = request.getfixturevalue(request.param)
    return made


def test_run_says_what_the_estimator_says(either: Path) -> None:
    pool = np.load(either / "pool.npz")
    model = RobustKNeighborsClassifier(metric="euclidean").fit(pool["X"], pool["y"])
    issues = pd.read_parquet(either / "run" / "label_issues.parquet")
    np.testing.assert_allclose(issues["label_quality"], model.label_quality_, rtol=1e-5)
    assert np.array_equal(issues["is_label_issue"], model.label_issues_)
    assert issues["label_quality"].nunique() > 0.99 * N
    assert re.search(
        "several sizes of neighborhoods(, with how far these reach,)? and models of the features "
        "together",
        (either / "run" / "report.txt").read_text(),
    )


def test_trees_are_kept_with_the_run_and_heard_for_new_rows(
    either: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, pool = tmp_path / "run", np.load(either / "pool.npz")
    shutil.copytree(either / "run", run)
    shape = 60, pool["X"].shape[1]
    new = np.random.default_rng(1).normal(1.0, 2.0, shape).astype(np.float32)
    np.save(tmp_path / "q.npy", new)
    asked = ["score", str(tmp_path / "q.npy"), "--run", str(run), "--workers", "0", "-q"]
    assert main([*asked, "--out", str(tmp_path / "s.parquet")]) == 0
    model = RobustKNeighborsClassifier(metric="euclidean").fit(pool["X"], pool["y"])
    scored = pd.read_parquet(tmp_path / "s.parquet")
    chance = model.predict_proba(new)
    expected = chance[:, 1] if chance.shape[1] == 2 else chance.max(axis=1)
    np.testing.assert_allclose(scored["posterior"], expected, atol=1e-6)
    assert np.array_equal(scored["predicted_label"], model.predict(new))
    trees = run / "results.zarr" / "trees" / "threshold" / "c" / "0"
    trees.write_bytes(trees.read_bytes()[:-9])
    assert main([*asked, "--out", str(tmp_path / "t.parquet")]) == 3
    assert "trees/threshold" in capsys.readouterr().err
    fit(either / "pool.npz", run, k=None, block_rows=600)
    assert results(run) == results(either / "run")


@pytest.mark.parametrize("rates", [(0.3, 0.1), (0.2, 0.2, 0.2)])
def test_new_rows_are_told_by_how_far_their_neighbors_are(
    tmp_path: Path, rates: tuple[float, ...]
) -> None:
    """Classes lie around another, and nearest to all rows are those of the inner one."""
    x, clean, given = scattered(4000, 1.5, rates=rates)
    pool, run, out = (tmp_path / name for name in ("pool.npz", "run", "s.parquet"))
    np.savez(pool, X=x[:2000], y=given[:2000])
    np.save(tmp_path / "q.npy", x[2000:])
    fit(pool, run, k=None)
    assert "neighborhoods, with how far these reach, " in (run / "report.txt").read_text()
    asked = ["score", str(tmp_path / "q.npy"), "--run", str(run), "--workers", "0", "-q"]
    assert main([*asked, "--out", str(out)]) == 0
    model = RobustKNeighborsClassifier(metric="euclidean").fit(x[:2000], given[:2000])
    scored, issues = pd.read_parquet(out), pd.read_parquet(run / "label_issues.parquet")
    chance = model.predict_proba(x[2000:])
    chance = chance[:, 1] if len(rates) == 2 else chance.max(axis=1)
    np.testing.assert_allclose(scored["posterior"], chance, atol=1e-5)
    np.testing.assert_allclose(issues["label_quality"], model.label_quality_, rtol=1e-5)
    graph = KNeighborsTransformer(n_neighbors=100).fit_transform(x[:2000])
    alone = RobustKNeighborsClassifier(metric="euclidean").fit(x[:2000], given[:2000], graph)
    right, before = ((one.predict(x[2000:]) == clean[2000:]).mean() for one in (model, alone))
    assert right > before + 0.05


def test_weights_rest_on_a_sample(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pool above `FIT_ROWS` rows, a few of each block."""
    monkeypatch.setattr("flows.steps.labels.two.FIT_ROWS", 900)
    assert FIT_ROWS > N
    fit(made / "pool.npz", made / "few", k=None, block_rows=600)
    whole, few = (pd.read_parquet(made / n / "label_issues.parquet") for n in ("run", "few"))
    away = (whole["label_quality"] - few["label_quality"]).abs()
    assert 0.0 < away.max() < 0.4  # trees of half the rows
    assert away.mean() < 0.03
    assert (whole["is_label_issue"] == few["is_label_issue"]).mean() > 0.97


@pytest.mark.parametrize("step", ["regression", "rates", "relay", "smoothing"])
def test_interrupted_run_ends_with_the_same_bits(made: Path, tmp_path: Path, step: str) -> None:
    fit_until(step, made / "pool.npz", tmp_path / "run", k=None, block_rows=600)
    fit(made / "pool.npz", tmp_path / "run", k=None, block_rows=600)
    assert results(tmp_path / "run") == results(made / "run")


def test_run_interrupted_before_trees_are_heard_ends_with_the_same_bits(
    three: Path, tmp_path: Path
) -> None:
    fit_until("model-chances", three / "pool.npz", tmp_path / "run", k=None, block_rows=600)
    fit(three / "pool.npz", tmp_path / "run", k=None, block_rows=600)
    assert results(tmp_path / "run") == results(three / "run")


def uneven(tmp_path: Path, c: int) -> tuple[Path, AnyArray, AnyArray]:
    """A pool of classes that lie apart, of whose labels four in ten are wrong in a ninth of the
    rows; which these rows are, and which labels are wrong."""
    rng = np.random.default_rng(1)
    clean, age, site = rng.integers(0, c, N), rng.integers(20, 80, N), rng.integers(0, 3, N)
    there = (site == 1) & (age > 60)
    wrong = rng.random(N) < np.where(there, 0.4, 0.03)
    given = np.where(wrong, (clean + rng.integers(1, c, N)) % c, clean)
    x = 3.0 * rng.normal(size=(c, 6))[clean] + rng.normal(size=(N, 6))
    x = np.column_stack([x, age / 17.0, np.eye(3)[site]]).astype(np.float32)
    np.savez(tmp_path / "uneven.npz", X=x, y=given)
    return tmp_path / "uneven.npz", there, wrong


@pytest.mark.parametrize(("c", "step"), [(2, "labels"), (3, "relay-places")])
def test_labels_count_less_where_they_are_wrong_more_often(
    c: int, step: str, tmp_path: Path
) -> None:
    """Of the mistakes there flags found a twentieth by the rates of the whole; whatever the blocks,
    and after any interruption."""
    source, there, wrong = uneven(tmp_path, c)
    options = {"k": None, "block_rows": 800, "metric": "weighted"}
    fit_until(step, source, tmp_path / "run", **options)
    fit(source, tmp_path / "run", **options)
    issues = pd.read_parquet(tmp_path / "run" / "label_issues.parquet").sort_values("row")
    flagged = issues["is_label_issue"].to_numpy()
    assert flagged[wrong & there].mean() > 0.6
    assert wrong[flagged].mean() > 0.95
    fit(source, tmp_path / "whole", **options)
    assert results(tmp_path / "whole") == results(tmp_path / "run")
    pool = np.load(source)
    model = RobustKNeighborsClassifier(metric="weighted").fit(pool["X"], pool["y"])
    assert model.label_issues_[wrong & there].mean() > 0.6
    assert model.group_rates_ is None
    assert wrong[model.label_issues_].mean() > 0.95


@pytest.mark.parametrize("n_classes", [2, 3])
def test_mistakes_of_one_site_are_no_overlap(tmp_path: Path, n_classes: int) -> None:
    """Chances fitted to its labels had them as such, and flags found none; in any blocks, and after
    an interruption."""
    rng = np.random.default_rng(0)
    clean, there = rng.integers(0, n_classes, N), rng.random(N) < 0.25
    wrong = there & (rng.random(N) < 0.3)
    x = rng.normal(size=(N, 6))
    x[:, 0] += 5.0 * clean
    source = tmp_path / "site.npz"
    np.savez(
        source, X=np.column_stack([x, there]).astype(np.float32), y=(clean + wrong) % n_classes
    )
    options = {"k": None, "block_rows": 600}
    fit_until("labels", source, tmp_path / "run", **options)
    fit(source, tmp_path / "run", **options)
    issues = pd.read_parquet(tmp_path / "run" / "label_issues.parquet").sort_values("row")
    pool = np.load(source)
    model = RobustKNeighborsClassifier().fit(pool["X"], pool["y"])
    for flagged in (issues["is_label_issue"].to_numpy(), model.label_issues_):
        assert flagged[wrong].mean() > 0.9
        assert wrong[flagged].mean() > 0.9
    fit(source, tmp_path / "whole", **options)
    assert results(tmp_path / "whole") == results(tmp_path / "run")


def test_an_error_of_more_rows_than_there_are_is_not_told() -> None:
    unknown = Worth(-10.0, 5.0, 1100.0)
    (many,), (few,) = (predicted_by(unknown, None, n_rows) for n_rows in (3000, 2000))
    assert many.endswith("10 ± 2,156 fewer of the sampled rows right, as estimated")
    assert "too little is known of the mistakes to tell" in few
