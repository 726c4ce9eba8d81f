"""`--pca` and `--metric`: neighbors among what features become, from the training to every scored
row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import fit, fit_until, results
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from flows.cli import main
from flows.engine.progress import Reporter
from flows.options.params import ReviewParams
from flows.report.rows import Features
from flows.review.prepare import prepared
from flows.scorings.scored import Trained
from flows.steps.ingest.transform import metric_used
from pipeline.blocks.scaling import FeatureStatistics
from pipeline.estimator import RobustKNeighborsClassifier
from storage import open_run
from storage.arrays.groups import read_group
from storage.runs.run import Run

N, WIDE, KEPT = 900, 20, 4
QUIET = ("--workers", "0", "-q")
AS_SCALED = ("--metric", "as-scaled")


def embedding(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes in few dimensions of many, and noise in all."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(9).normal(size=(KEPT, WIDE))
    clean = rng.integers(0, 2, n)
    inner = rng.normal(size=(n, KEPT)) + 2.5 * clean[:, None]
    x = inner @ directions + 0.3 * rng.normal(size=(n, WIDE)) + 5
    y = clean ^ (rng.random(n) < 0.15)
    return x.astype(np.float32), y.astype(np.int8)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on four components of twenty features, and rows scored with it."""
    folder = tmp_path_factory.mktemp("pca")
    x, y = embedding(N, 0)
    np.savez(folder / "pool.npz", X=x, y=y)
    np.save(folder / "new.npy", embedding(80, 1)[0])
    run = str(folder / "run")
    asked = ("--pca", str(KEPT), "--builder", "exact", "--k", "10", *AS_SCALED)
    assert main(["train", str(folder / "pool.npz"), "--run", run, *asked, *QUIET]) == 0
    out = str(folder / "scores.parquet")
    assert main(["score", str(folder / "new.npy"), "--run", run, "--out", out, *QUIET]) == 0
    return folder


def twin(x: np.ndarray) -> PCA:
    return PCA(KEPT, svd_solver="full").fit(x.astype(np.float64))


def test_neighbors_are_those_among_components(made: Path) -> None:
    x, _ = embedding(N, 0)
    turned = twin(x).transform(x.astype(np.float64))
    index = NearestNeighbors(n_neighbors=11).fit(turned)
    graph = open_run(str(made / "run"))["graph"]["00000"]
    rows = graph["row"].values
    expected = index.kneighbors(turned[rows], return_distance=False)[:, 1:]
    assert (graph["neighbor"].values[:, :10] == expected).mean() > 0.999


def test_scored_rows_are_turned_as_the_training_rows(made: Path) -> None:
    x, y = embedding(N, 0)
    fitted = twin(x)
    index = NearestNeighbors(n_neighbors=10).fit(fitted.transform(x.astype(np.float64)))
    new = fitted.transform(np.load(made / "new.npy").astype(np.float64))
    votes = y[index.kneighbors(new, return_distance=False)].mean(axis=1)
    found = pq.read_table(made / "scores.parquet")["eta_corr"].to_numpy()
    assert np.isclose(found, votes).mean() > 0.98


def test_the_report_says_what_is_kept(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads((made / "run" / "report.json").read_text())
    share = twin(embedding(N, 0)[0]).explained_variance_ratio_.sum()
    assert report["pca"]["n_components"] == KEPT
    assert report["pca"]["variance_kept"] == pytest.approx(share, abs=1e-9)
    assert report["n_features"] == WIDE
    assert main(["report", "--run", str(made / "run")]) == 0
    said = f"pca: 4 components keep {share:.1%} of the variance of 20 features"
    assert said in capsys.readouterr().out
    page = made / "page.html"
    assert main(["report", "--run", str(made / "run"), "--html", str(page)]) == 0
    assert f"{share:.1%} of the variance kept" in page.read_text()


def test_a_review_shows_the_features_as_read(made: Path) -> None:
    trained = Trained.of(str(made / "run"))
    params = ReviewParams.of(str(made / "run"), workers=0, quiet=True, budget=5)
    run = prepared(trained, params, Reporter(quiet=True))
    row = int(read_group(run.store, "review")["row"][0])
    features = Features(trained.run).of([row])[row]["features"]
    assert np.allclose(features, embedding(N, 0)[0][row], rtol=1e-5)


def test_results_do_not_depend_on_workers(made: Path, tmp_path: Path) -> None:
    fit(
        made / "pool.npz",
        tmp_path / "run",
        pca=KEPT,
        builder="exact",
        metric="as-scaled",
        workers=1,
    )
    assert results(tmp_path / "run") == results(made / "run")


def test_results_do_not_depend_on_restarts(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(made / "run", again, ignore=shutil.ignore_patterns("scores"))
    for name in ("pool", "report"):
        (again / "ledger" / name / "all.json").unlink()
    fit(made / "pool.npz", again, pca=KEPT, builder="exact")
    assert results(again) == results(made / "run")


def test_a_damaged_projection_is_found_and_made_again(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(made / "run", run, ignore=shutil.ignore_patterns("scores"))
    before = results(run)
    weight = run / "results.zarr" / "projection" / "weight" / "c" / "0" / "0"
    weight.write_bytes(weight.read_bytes()[:-9])
    out = ("--out", str(tmp_path / "s.parquet"))
    assert main(["score", str(made / "new.npy"), "--run", str(run), *out, *QUIET]) == 3
    assert "projection/weight" in capsys.readouterr().err
    fit(made / "pool.npz", run, pca=KEPT, builder="exact")
    assert results(run) == before


@pytest.mark.parametrize(
    ("pca", "wide", "told"),
    [
        (21, 20, "--pca 21 of 20 features; give 20 or fewer"),
        (2, 4097, "4,097 features, and --pca takes 4,096 at most"),
        (0, 20, "--pca 0: must be 1 or more"),
    ],
)
def test_what_cannot_be_is_refused(
    pca: int, wide: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(50, wide))
    np.savez(tmp_path / "p.npz", X=x.astype(np.float32), y=np.arange(50) % 2)
    args = ["train", str(tmp_path / "p.npz"), "--run", str(tmp_path / "run"), "--pca", str(pca)]
    assert main([*args, *QUIET]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two columns that tell the classes apart, and ten that tell nothing, in other units."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 12))
    x[:, :2] += 2.0 * clean[:, None]
    wrong = rng.random(n) < np.where(clean == 1, 0.1, 0.3)
    return (x * np.geomspace(1, 300, 12)).astype(np.float32), (clean ^ wrong).astype(np.int8)


@pytest.fixture(scope="module")
def weighed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that chose weights, and rows scored with it."""
    folder = tmp_path_factory.mktemp("metric")
    x, y = table(N, 0)
    np.savez(folder / "pool.npz", X=x, y=y)
    np.save(folder / "new.npy", table(80, 1)[0])
    fit(folder / "pool.npz", folder / "run", builder="exact", metric="auto")
    out = ("--out", str(folder / "scores.parquet"))
    assert main(["score", str(folder / "new.npy"), "--run", str(folder / "run"), *out, *QUIET]) == 0
    return folder


def learned(run: Path) -> dict[str, object]:
    """What the step `metric` found."""
    return json.loads((run / "ledger" / "metric" / "all.json").read_text())["result"]


def test_neighbors_are_those_by_the_weights_chosen(weighed: Path) -> None:
    x, y = table(N, 0)
    found = learned(weighed / "run")
    assert found["choice"]["metric"] == "weighted"
    standard = FeatureStatistics(x.shape[1])
    standard.see(x)
    seen = standard.scaling("standard").apply(x).astype(np.float64) * found["scaling"]["factor"]
    index = NearestNeighbors(n_neighbors=11).fit(seen)
    graph = open_run(str(weighed / "run"))["graph"]["00000"]
    rows = graph["row"].values
    expected = index.kneighbors(seen[rows], return_distance=False)[:, 1:]
    assert (graph["neighbor"].values[:, :10] == expected).mean() > 0.999
    model = RobustKNeighborsClassifier(10).fit(standard.scaling("standard").apply(x), y)
    chosen = metric_used(Run.of(str(weighed / "run"))).choice
    assert model.metric_ == chosen.metric
    assert model.metric_choice_.relevance == chosen.relevance
    new = standard.scaling("standard").apply(np.load(weighed / "new.npy"))
    near = index.kneighbors(new * np.array(found["scaling"]["factor"]), 10, return_distance=False)
    scored = pq.read_table(weighed / "scores.parquet")["eta_corr"].to_numpy()
    assert np.isclose(scored, y[near].mean(axis=1)).mean() > 0.98


def test_the_report_says_what_was_tried_and_which_columns_matter(
    weighed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = json.loads((weighed / "run" / "report.json").read_text())
    assert report["metric"] == learned(weighed / "run")["choice"]
    plain, best, _ = report["metric"]["tried"]
    assert best["loss"] < plain["loss"] - 3 * plain["standard_error"]
    page = weighed / "page.html"
    assert main(["report", "--run", str(weighed / "run"), "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert f"as-scaled {plain['loss']:.4f} (k = {plain['k']}), weighted {best['loss']:.4f}" in text
    (most,) = [line for line in text.splitlines() if "tells most" in line]
    assert {"x0", "x1"} <= {word.strip(":") for word in most.split()}
    (useless,) = [line for line in text.splitlines() if "of no use" in line]
    assert "x11" in useless
    assert 'class="bar" style="width:100.00%"' in page.read_text().split('id="h-metric"')[1]
    assert useless.strip()[1:] in page.read_text()


def test_weights_do_not_depend_on_workers_or_restarts(weighed: Path, tmp_path: Path) -> None:
    fit(weighed / "pool.npz", tmp_path / "run", builder="exact", metric="auto", workers=1)
    assert learned(tmp_path / "run") == learned(weighed / "run")
    assert results(tmp_path / "run") == results(weighed / "run")
    again, options = tmp_path / "again", {"builder": "exact", "metric": "auto"}
    fit_until("metric", weighed / "pool.npz", again, **options)
    fit(weighed / "pool.npz", again, **options)
    assert learned(again) == learned(weighed / "run")
    assert results(again) == results(weighed / "run")


def test_components_are_weighed_as_columns_are(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(made / "pool.npz", run, pca=KEPT, builder="exact", metric="weighted")
    factor = np.array(learned(run)["scaling"]["factor"])
    assert factor.shape == (KEPT,)
    x, _ = embedding(N, 0)
    turned = twin(x).transform(x.astype(np.float64)) * factor
    index = NearestNeighbors(n_neighbors=11).fit(turned)
    graph = open_run(str(run))["graph"]["00000"]
    expected = index.kneighbors(turned[graph["row"].values], return_distance=False)[:, 1:]
    assert (graph["neighbor"].values[:, :10] == expected).mean() > 0.99
    assert "component 1" in (run / "report.txt").read_text()


def test_directions_are_compared_as_asked(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 800)
    x = rng.normal(size=(800, 8)) + 2.0 * np.eye(8)[y]
    x = (x * rng.lognormal(0, 1.5, (800, 1))).astype(np.float32)
    x[:8] = 0
    np.savez(tmp_path / "p.npz", X=x, y=y)
    np.save(tmp_path / "q.npy", 7 * x[8:])
    run = tmp_path / "run"
    fit(tmp_path / "p.npz", run, metric="auto", scale="none", builder="exact")
    assert learned(run)["choice"]["metric"] == "cosine"
    text = (run / "report.txt").read_text()
    assert "1.0% of the rows are zeros and have no direction" in text
    index = NearestNeighbors(n_neighbors=11, metric="cosine").fit(x[8:])
    graph = open_run(str(run))["graph"]["00000"]
    expected = index.kneighbors(x[8:], return_distance=False)[:, 1:] + 8
    assert (graph["neighbor"].values[8:, :10] == expected).mean() > 0.999
    out = ("--out", str(tmp_path / "s.parquet"))
    assert main(["score", str(tmp_path / "q.npy"), "--run", str(run), *out, *QUIET]) == 0
    near = index.kneighbors(x[8:], 10, return_distance=False)
    scored = pq.read_table(tmp_path / "s.parquet")["eta_corr"].to_numpy()
    assert np.isclose(scored, y[8:][near].mean(axis=1)).mean() > 0.98


@pytest.mark.parametrize("turned", [False, True])
def test_an_embedding_is_weighed_where_its_columns_tell_something(
    turned: bool, tmp_path: Path
) -> None:
    x, y = table(300, 0)
    rng = np.random.default_rng(1)
    wide = np.hstack([x, rng.normal(size=(300, 60))])
    if turned:
        wide = wide @ np.linalg.qr(rng.normal(size=(wide.shape[1],) * 2))[0]
    wide = wide.astype(np.float32)
    np.savez(tmp_path / "p.npz", X=wide, y=y)
    report = fit(tmp_path / "p.npz", tmp_path / "run", metric="auto")
    tried = {one["metric"] for one in report["metric"]["tried"]}
    assert tried == {"as-scaled", "cosine"} | ({"weighted"} if not turned else set())
    assert RobustKNeighborsClassifier().fit(wide, y).metric_ == (
        "euclidean" if turned else "weighted"
    )
    page = tmp_path / "page.html"
    assert main(["report", "--run", str(tmp_path / "run"), "--html", str(page)]) == 0


@pytest.mark.parametrize(
    ("n", "spread", "same", "told"),
    [
        (99, 1.0, 0, "weighted: 99 rows are too few to learn from, 100 are needed"),
        (120, 0.0, 0, "weighted: no feature tells more of the labels than of shuffled ones"),
        (660, 1.0, 30, "model: a model needs several classes in each part of the sample"),
    ],
)
def test_what_cannot_be_learned_is_refused(
    n: int,
    spread: float,
    same: int,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = np.zeros((n, 3), np.float32)
    x[0] = 1.0  # else all features are constant
    x[2:] += spread * np.arange(n - 2)[:, None]
    x[n - same :] = n  # equal rows are in one part
    np.savez(tmp_path / "p.npz", X=x, y=np.arange(n) >= n - same if same else np.arange(n) % 2)
    args = ["train", str(tmp_path / "p.npz"), "--run", str(tmp_path / "run"), *QUIET]
    assert main([*args, "--metric", told.split(":")[0]]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def amounts(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five columns of heavy tails, two of which tell the classes apart."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 5))
    y = (z[:, 0] + z[:, 1] > 0) ^ (rng.random(n) < 0.15)
    return np.exp(1.5 * z).astype(np.float32), y.astype(np.int8)


@pytest.mark.parametrize(
    ("make", "metric", "width", "kept", "told"),
    [
        (table, "model", 13, "metric/threshold/c/0", "take that for the truth: --metric weighted"),
        (amounts, "auto", 5, "curves/knot/c/0/0", "such as amounts, count by their normal scores"),
    ],
    ids=["logits", "normal scores"],
)
def test_what_is_learned_is_kept_with_the_run_and_the_same_for_every_row(
    make: Callable[[int, int], tuple[np.ndarray, np.ndarray]],
    metric: str,
    width: int,
    kept: str,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x, y = make(N, 0)
    pool, run = tmp_path / "p.npz", tmp_path / "run"
    options = {"metric": metric, "scale": "none", "builder": "exact", "k": 10}
    np.savez(pool, X=x, y=y)
    fit(pool, run, **options)
    model = RobustKNeighborsClassifier(10, metric=metric).fit(x, y)
    tried = {one.metric for one in model.metric_choice_.tried}
    assert ("normal-scores" in tried, bool(learned(run)["curves"])) == (make == amounts,) * 2
    seen = model._rows(x)
    assert seen.shape == (N, width)
    index = NearestNeighbors(n_neighbors=11).fit(seen)
    graph = open_run(str(run))["graph"]["00000"]
    expected = index.kneighbors(seen[graph["row"].values], return_distance=False)[:, 1:]
    assert (graph["neighbor"].values[:, :10] == expected).mean() > 0.999
    assert told in (run / "report.txt").read_text()

    fit(pool, tmp_path / "workers", **options, workers=1)
    fit_until("metric", pool, tmp_path / "again", **options)
    fit(pool, tmp_path / "again", **options)
    for other in ("workers", "again"):
        assert learned(tmp_path / other) == learned(run)
        assert results(tmp_path / other) == results(run)

    new, _ = make(80, 1)
    np.save(tmp_path / "q.npy", new)
    asked = ["score", str(tmp_path / "q.npy"), "--run", str(run), *QUIET]
    assert main([*asked, "--out", str(tmp_path / "s.parquet")]) == 0
    near = index.kneighbors(model._rows(new), 10, return_distance=False)
    scored = pq.read_table(tmp_path / "s.parquet")["eta_corr"].to_numpy()
    assert np.isclose(scored, y[near].mean(axis=1)).mean() > 0.98

    before, learned_file = results(run), run / "results.zarr" / kept
    learned_file.write_bytes(learned_file.read_bytes()[:-9])
    assert main([*asked, "--out", str(tmp_path / "t.parquet")]) == 3
    assert kept.partition("/c/")[0] in capsys.readouterr().err
    fit(pool, run, **options)
    assert results(run) == before


def judged_by_a_model(n: int, seed: int) -> dict[str, np.ndarray]:
    """Two columns that tell little, and what a good model says of each row."""
    rng = np.random.default_rng(seed)
    dog = rng.integers(0, 2, n)
    chance = np.clip(rng.beta(2, 5, n) * np.where(dog, -1, 1) + dog, 0.01, 0.99)
    wrong = rng.random(n) < 0.15
    return {
        "a": rng.normal(size=n) + 0.5 * dog,
        "b": rng.normal(size=n),
        "p_cat": 1 - chance,
        "p_dog": chance,
        "label": np.where(dog ^ wrong, "dog", "cat"),
    }


def test_probabilities_of_a_model_are_a_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, run = judged_by_a_model(N, 0), tmp_path / "run"
    pq.write_table(pa.table(table), tmp_path / "p.parquet")
    new = judged_by_a_model(60, 1)
    pq.write_table(pa.table(new), tmp_path / "q.parquet")
    pq.write_table(pa.table({name: new[name] for name in "ab"}), tmp_path / "less.parquet")
    asked = {"label_column": "label", "builder": "exact", "metric": "auto", "k": 10}
    fit(tmp_path / "p.parquet", run, model_probabilities="p_", **asked)
    found = metric_used(Run.of(str(run)))
    assert found.choice.metric == "probabilities"
    losses = {one.metric: one.loss for one in found.choice.tried}
    mine = losses.pop("probabilities")
    text = (run / "report.txt").read_text()
    worth = f"better than the columns: loss {mine:.3f} for {min(losses.values()):.3f}"
    assert f"your model's probabilities predict given labels {worth}" in text
    assert "p_cat" not in text.split("of no use")[-1].splitlines()[0]

    def seen(rows: dict[str, np.ndarray]) -> np.ndarray:
        columns = np.stack([rows[name] for name in ("a", "b")], axis=1).astype(np.float32)
        logit = np.log(rows["p_dog"] / rows["p_cat"])
        by = found.scaling
        weighted = (columns - by.offset[:2]) * by.factor[:2]
        return np.c_[weighted, logit / found.spread]

    assert seen(table)[:, -1].std() == pytest.approx(1.0, abs=1e-4)
    index = NearestNeighbors(n_neighbors=11).fit(seen(table))
    graph = open_run(str(run))["graph"]["00000"]
    expected = index.kneighbors(seen(table)[graph["row"].values], return_distance=False)[:, 1:]
    assert (graph["neighbor"].values[:, :10] == expected).mean() > 0.99
    fit(tmp_path / "p.parquet", tmp_path / "workers", model_probabilities="p_", workers=1, **asked)
    assert results(tmp_path / "workers") == results(run)

    score = ["--run", str(run), "--out", str(tmp_path / "s.parquet"), *QUIET]
    assert main(["score", str(tmp_path / "q.parquet"), *score]) == 0
    near = index.kneighbors(seen(new), 10, return_distance=False)
    scored = pq.read_table(tmp_path / "s.parquet")["eta_corr"].to_numpy()
    votes = (table["label"][near] == "dog").mean(axis=1)
    assert np.isclose(scored, votes).mean() > 0.95
    capsys.readouterr()
    assert main(["score", str(tmp_path / "less.parquet"), *score]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "p_cat" in line
    percent = {**new, "p_dog": 100 * new["p_dog"]}
    pq.write_table(pa.table(percent), tmp_path / "percent.parquet")
    assert main(["score", str(tmp_path / "percent.parquet"), *score]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "percent.parquet: column 'p_dog' holds " in line


@pytest.mark.parametrize(
    ("changed", "more", "told"),
    [
        ({"p_dog": None}, [], "no feature 'p_dog', and each class needs its column"),
        ({"p_fox": 0.5}, [], "column 'p_fox' is of no class"),
        ({"p_dog": 1.5}, [], "column 'p_dog' holds 1.5; probabilities lie from 0 to 1"),
        ({"p_dog": 0.7}, [], "those of row 7 add up to"),
        ({"p_dog": np.nan}, [], "p_dog"),
        ({}, ["--pca", "2"], "would mix"),
        ({}, ["--metric", "weighted"], "is no part of --metric weighted"),
    ],
)
def test_what_are_no_probabilities_is_refused(
    changed: dict[str, float | None],
    more: list[str],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = judged_by_a_model(150, 0)
    for name, value in changed.items():
        if value is None:
            del table[name]
        else:
            table.setdefault(name, np.random.default_rng(0).random(150))
            table[name][7] = value
    table["p_cat"][7] = 0.9
    if not changed:
        del table["p_cat"]
    pq.write_table(pa.table(table), tmp_path / "p.parquet")
    args = ["train", str(tmp_path / "p.parquet"), "--label-column", "label", *QUIET, *more]
    asked = ["--run", str(tmp_path / "run"), "--model-probabilities", "p_"]
    assert main([*args, *asked]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
