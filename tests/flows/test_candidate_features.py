"""The preprocessing of candidate sets: as the kernels say in memory, and to the same bits however
it comes about."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from classes import clouds
from runs import fit, fit_until, results

from benchmarks.study.beside import preprocess
from flows.cli import main
from flows.report.content import load_any
from flows.report.kinds import CandidateReport
from flows.report.status import status
from flows.score import score
from pipeline.knn.exact import nearest
from pipeline.methods.partial_features import PIPELINES
from pipeline.methods.partial_labels import AdaptiveParams, pack, predict
from storage.arrays.groups import read_array
from storage.errors import InputError, StorageError
from storage.runs.run import Run

N, C, NEW = 900, 7, 150
OPTIONS: dict[str, Any] = {
    "k": None,
    "block_rows": 300,
    "scale": "none",
    "builder": "exact",
    "target_recall": 1.0,
    "candidate_features": "averaged",
}
HERE = {"workers": 0, "quiet": True}


def drawn() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Features and candidates of clouds; some rows are copies of others."""
    x, clean, _ = clouds(N + NEW, C)
    x[60:180] = x[0]
    rng, every = np.random.default_rng(1), np.arange(N + NEW)
    candidate = rng.random((N + NEW, C)) < rng.uniform(0, 0.6, C)
    candidate[every, clean] = True
    return x, candidate


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings by both pipelines, and a scoring of the first."""
    folder = tmp_path_factory.mktemp("features")
    x, candidate = drawn()
    np.savez(folder / "mask.npz", X=x[:N], y=candidate[:N])
    np.savez(folder / "new.npz", X=x[N:])
    for name in PIPELINES:
        fit(folder / "mask.npz", folder / name, **{**OPTIONS, "candidate_features": name})
        out = str(folder / f"{name}.parquet")
        score.fn(str(folder / "new.npz"), str(folder / name), out, **HERE)
    return folder


@pytest.mark.parametrize("name", PIPELINES)
def test_pool_and_queries_are_what_the_kernels_make(made: Path, name: str) -> None:
    x, candidate = drawn()
    train, test = preprocess(x[:N], x[N:], PIPELINES[name])
    run = Run.of(made / name)
    assert np.array_equal(read_array(run.group("pool"), "x"), train)
    report = load_any(run)
    assert isinstance(report, CandidateReport)
    assert report.n_blocks > 1
    [scored] = (made / name / "scores").iterdir()
    queries = read_array(Run.of(scored).group("queries"), "x")
    assert np.allclose(queries, test, rtol=1e-5, atol=1e-6)
    how = AdaptiveParams(report.c1, report.delta, report.k)
    found = predict(nearest(test, train, report.k)[0], pack(candidate[:N]), C, N, how)
    scores = pd.read_parquet(made / f"{name}.parquet")
    assert (scores["predicted_label"] == found.label).mean() > 0.99
    assert (scores["n_neighbors"] == found.n_neighbors).mean() > 0.97
    np.savez(made / "one.npz", X=x[N : N + 1])
    score.fn(str(made / "one.npz"), str(made / name), str(made / "one.parquet"), **HERE)
    pd.testing.assert_frame_equal(pd.read_parquet(made / "one.parquet"), scores[:1])


def stages(run: Path) -> dict[str, bytes]:
    """The results of a training and of all its stages."""
    found = results(run)
    for stage in (run / "features").iterdir():
        files = [file for file in (stage / "results.zarr").rglob("*") if file.is_file()]
        found |= {str(file.relative_to(run)): file.read_bytes() for file in files}
    return found


def arguments(made: Path, run: Path) -> list[str]:
    options = "--block-rows 300 --scale none --builder exact --target-recall 1 --workers 0"
    features = ["--candidate-features", "averaged", "--run", str(run)]
    return ["train", str(made / "mask.npz"), *features, *options.split()]


def test_interrupted_stage_ends_with_the_same_bits(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_until("averages", made / "mask.npz", run, below="features/given", **OPTIONS)
    fit(made / "mask.npz", run, **OPTIONS)
    assert stages(run) == stages(made / "averaged")


def test_workers_make_the_same_bits(made: Path, tmp_path: Path) -> None:
    fit(made / "mask.npz", tmp_path / "run", **{**OPTIONS, "workers": 2})
    assert stages(tmp_path / "run") == stages(made / "averaged")


def test_damaged_stage_is_noticed_and_made_again(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made / "averaged", run, ignore=shutil.ignore_patterns("scores"))
    chunk = run / "features/averaged/results.zarr/partition/centroid/c/0/0"
    chunk.write_bytes(b"torn")
    assert "averaged/partition all damaged" in str(status(str(run)).damage)
    with pytest.raises(StorageError, match="run train again to repair"):
        score.fn(str(made / "new.npz"), str(run), str(tmp_path / "s.parquet"), **HERE)
    fit(made / "mask.npz", run, **OPTIONS)
    assert stages(run) == stages(made / "averaged")
    assert status(str(run)).finished
    score.fn(str(made / "new.npz"), str(run), str(tmp_path / "s.parquet"), **HERE)
    again = pd.read_parquet(tmp_path / "s.parquet")
    pd.testing.assert_frame_equal(again, pd.read_parquet(made / "averaged.parquet"))


def test_people_see_the_features_as_they_were_read(made: Path) -> None:
    x, _ = drawn()
    run, page = str(made / "averaged"), made / "page.html"
    assert main(["report", "--run", run, "--html", str(page)]) == 0
    report = load_any(Run.of(run))
    assert isinstance(report, CandidateReport)
    assert report.candidate_features == "averaged"
    issues = pd.read_parquet(made / "averaged" / "label_issues.parquet")
    worst = issues[issues["is_label_issue"]].sort_values("label_quality")["row"].iloc[0]
    assert f"{x[worst, 0]:.4g}" in page.read_text()
    assert "averaged with 10 neighbors" in page.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pca": 2}, "--candidate-features averaged takes the features themselves"),
        ({"candidate_features": "smooth"}, "--candidate-features smooth: must be one of raw, "),
    ],
)
def test_what_does_not_go_together(
    made: Path, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        fit(made / "mask.npz", tmp_path / "run", **{**OPTIONS, **options})
    assert not (tmp_path / "run").exists()


def test_pools_without_sets_or_with_few_rows_are_refused(tmp_path: Path) -> None:
    x, candidate = drawn()
    np.savez(tmp_path / "single.npz", X=x[:N], y=candidate[:N].argmax(axis=1))
    np.savez(tmp_path / "few.npz", X=x[:45], y=candidate[:45])
    with pytest.raises(InputError, match="is for candidate sets, and each row has one label"):
        fit(tmp_path / "single.npz", tmp_path / "run", **OPTIONS)
    with pytest.raises(InputError, match="45 rows are too few for --candidate-features averaged"):
        fit(tmp_path / "few.npz", tmp_path / "run", **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_ids_and_rows_without_candidates(tmp_path: Path) -> None:
    x, candidate = drawn()
    sets = ["|".join(map(str, np.flatnonzero(row))) for row in candidate[:N]]
    sets[3] = sets[77] = ""
    table = pd.DataFrame(x[:N], columns=list("abcd")).assign(kind=sets)
    table = table.assign(name=[f"r{i}" for i in range(N)])
    table.to_csv(tmp_path / "t.csv", index=False)
    more = {"label_column": "kind", "candidates": "|", "id_column": "name"}
    fit(tmp_path / "t.csv", tmp_path / "run", unlabeled="predict", **more, **OPTIONS)
    predicted = pd.read_parquet(tmp_path / "run" / "unlabeled.parquet")
    assert predicted["name"].tolist() == ["r3", "r77"]
    issues = pd.read_parquet(tmp_path / "run" / "label_issues.parquet")
    assert issues["name"].tolist() == [f"r{i}" for i in range(N) if i not in (3, 77)]
    out = tmp_path / "s.parquet"
    options = {"candidates": "kind", **HERE}
    table[90:200].to_csv(tmp_path / "own.csv", index=False)
    score.fn(str(tmp_path / "own.csv"), str(tmp_path / "run"), str(out), **options)
    scores = pd.read_parquet(out)
    assert scores["name"].tolist() == [f"r{i}" for i in range(90, 200)]
    assert all(
        str(label) in own.split("|")
        for label, own in zip(scores["predicted_label"], sets[90:200], strict=True)
    )
