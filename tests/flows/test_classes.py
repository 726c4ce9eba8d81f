"""More than two classes from source to report: as the estimator says, resumed to the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from classes import clouds, names, write_csv
from runs import fit, fit_until, results

from flows.cli import main
from flows.report.content import load
from flows.report.kinds import ClassReport
from flows.report.page.classes import verdict
from flows.score import score
from flows.steps.queries.class_scores import posterior_columns, write_posteriors
from pipeline.decision.class_rule import Decided
from pipeline.estimator import RobustKNeighborsClassifier
from storage import InputError, open_run
from storage.runs.pool import ChunkWriter
from storage.runs.run import Run

N, C = 1800, 10


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training on ten named classes and a scoring of 300 rows more."""
    folder = tmp_path_factory.mktemp("classes")
    x, clean, given = clouds(N + 300, C)
    write_csv(folder / "pool.csv", x[:N], names(C)[given[:N]])
    write_csv(folder / "new.csv", x[N:], names(C)[given[N:]])
    pd.DataFrame({"clean": names(C)[clean[N:]]}).to_csv(folder / "truth.csv", index=False)
    fit(folder / "pool.csv", folder / "run", label_column="kind", k=None, block_rows=600)
    here = {"workers": 0, "quiet": True}
    score.fn(str(folder / "new.csv"), str(folder / "run"), str(folder / "scores.parquet"), **here)
    return folder


@pytest.fixture(scope="module")
def model(made: Path) -> RobustKNeighborsClassifier:
    """The estimator on the same rows."""
    table = pd.read_csv(made / "pool.csv")
    return RobustKNeighborsClassifier(metric="euclidean").fit(table[list("abcd")], table["kind"])


def test_run_says_what_the_estimator_says(made: Path, model: RobustKNeighborsClassifier) -> None:
    report = load(Run.of(made / "run"))
    assert isinstance(report, ClassReport)
    assert report.n_blocks > 1
    assert report.classes == list(model.classes_) == list(names(C))
    assert report.k == model.n_neighbors_
    assert np.array_equal(report.transition_matrix, model.transition_matrix_)
    assert np.array_equal(report.transition_interval, model.transition_interval_)
    assert report.class_support == list(model.class_support_)
    assert report.decision == model.correction_
    issues = pd.read_parquet(made / "run" / "label_issues.parquet")
    assert np.allclose(issues["label_quality"], model.label_quality_, rtol=1e-6)
    assert report.share_wrong == pytest.approx((1 - model.label_quality_).mean(), abs=1e-5)
    assert np.array_equal(issues["is_label_issue"], model.label_issues_)
    assert np.array_equal(issues["likely_label"], model.likely_label_)
    new = pd.read_csv(made / "new.csv")[list("abcd")]
    scores = pd.read_parquet(made / "scores.parquet")
    assert (scores["predicted_label"] == model.predict(new)).mean() > 0.98  # lists: recall .997
    apart = np.abs(scores["posterior"] - model.predict_proba(new).max(axis=1))
    assert np.median(apart) < 1e-6


def test_posteriors_of_all_classes_are_those_of_the_estimator(
    made: Path, model: RobustKNeighborsClassifier, tmp_path: Path
) -> None:
    for name in ("all.parquet", "all.csv"):
        args = ("score", made / "new.csv", "--run", made / "run", "--out", tmp_path / name, "-q")
        assert main([*map(str, args), "--all-classes", "--workers", "0"]) == 0
    scores, text = pd.read_parquet(tmp_path / "all.parquet"), pd.read_csv(tmp_path / "all.csv")
    columns = [f"posterior_{name}" for name in names(C)]
    posterior = scores[columns].to_numpy()
    assert np.allclose(posterior.sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(posterior.max(axis=1), scores["posterior"])
    assert np.allclose(text[columns], posterior, rtol=1e-6)
    apart = np.abs(posterior - model.predict_proba(pd.read_csv(made / "new.csv")[list("abcd")]))
    assert np.median(apart.max(axis=1)) < 1e-6
    plain = pd.read_parquet(made / "scores.parquet")
    pd.testing.assert_frame_equal(scores.drop(columns=columns), plain)


def test_posteriors_of_very_many_classes_are_written_in_pieces(tmp_path: Path) -> None:
    """Five rows are a piece; a row has at most three candidates."""
    rng, n_classes, n = np.random.default_rng(0), 200_000, 12
    code = np.sort(rng.choice(n_classes, (n, 3), replace=False), axis=1).astype(np.int32)
    chance = rng.dirichlet([1, 1, 1], n)
    code[:4, 2], chance[:4, 2] = -1, 0
    run = Run.of(str(tmp_path / "run"))
    run.begin({})
    for part, rows in enumerate((slice(0, 7), slice(7, 12))):
        decided = Decided(code[rows], chance[rows], code[rows, 0].astype(np.int64))
        write_posteriors(run, part, decided, n_classes)
    ChunkWriter(run, "scores", 7, n).finish(n, {})
    read, step = posterior_columns(run, list(range(n_classes)))
    assert step == 5
    found = read(slice(3, 11))
    for i, row in enumerate(range(3, 11)):
        for c, p in zip(code[row], chance[row], strict=True):
            assert c < 0 or found[f"posterior_{c}"][i] == np.float32(p)
    total = np.sum([np.count_nonzero(column) for column in found.values()])
    assert total == np.count_nonzero(chance[3:11])


def test_tables_hold_labels_and_no_codes(made: Path) -> None:
    given = pd.read_csv(made / "pool.csv")["kind"]
    issues = pd.read_parquet(made / "run" / "label_issues.parquet")
    assert np.array_equal(issues["given_label"], given)
    assert set(issues["predicted_label"]) == set(names(C))
    scores = pd.read_parquet(made / "scores.parquet")
    assert not any(name.endswith("_code") for name in (*issues, *scores))
    assert [top[0] for top in scores["top_label"]] == scores["predicted_label"].tolist()
    group = open_run(str(made / "run"))
    assert group["pool"]["y"].dtype == group["graph/00000"]["neighbor_label"].dtype == np.uint8


def test_report_names_what_was_found(made: Path) -> None:
    report = json.loads((made / "run" / "report.json").read_text())
    matrix = np.array(report["transition_matrix"])
    assert np.allclose(matrix.sum(axis=1), 1)
    assert np.allclose(np.diag(matrix), 0.8, atol=0.12)
    low, high = np.moveaxis(np.array(report["transition_interval"]), 2, 0)
    assert ((low <= matrix) & (matrix <= high)).all()
    assert report["support"] == "weak"  # 180 rows a class
    assert np.isclose(sum(report["clean_prior"]), 1)
    worst = report["confusions"][0]
    assert worst["given"] == names(C)[(list(names(C)).index(worst["true"]) + 1) % C]
    assert f"truly {worst['true']!r} are labeled" in (made / "run" / "report.txt").read_text()


def test_mistakes_of_a_class_of_which_nothing_is_known_may_be_many_or_none(made: Path) -> None:
    report = json.loads((made / "run" / "report.json").read_text())
    priors, (low, high) = report["clean_prior"], report["class_noise_interval"][0]
    unknown = ClassReport.model_validate({**report, "clean_prior": [None, *priors[1:]]})
    assert unknown.share_wrong_interval is not None
    change = np.subtract(unknown.share_wrong_interval, report["share_wrong_interval"])
    assert change[0] == pytest.approx(-priors[0] * low, rel=0.1)
    assert abs(change[1]) < 0.1 * priors[0] * high  # by given labels the class is as frequent
    ends, priors = [(0.0, 0.9), *[(0.0, 0.1)] * (C - 1)], [None, None, *priors[2:]]
    both = {"clean_prior": priors, "class_noise_interval": ends}
    two = ClassReport.model_validate({**report, **both})
    part = sum(report["class_counts"][:2]) / report["n_rows"]  # rows of one may be given the other
    assert two.share_wrong_interval is not None
    assert two.share_wrong_interval[1] == pytest.approx(0.1 + 0.8 * part, rel=0.05)


def test_what_nothing_supports_is_not_the_first_thing_said(made: Path) -> None:
    report = json.loads((made / "run" / "report.json").read_text())
    worst = report["confusions"][0]["true"]
    doubted = ["unsupported" if name == worst else "weak" for name in report["classes"]]
    found = ClassReport.model_validate({**report, "class_support": doubted})
    assert all(
        line.endswith("; unsupported") == (f"truly {worst!r}" in line) for line in found.confused(9)
    )
    assert f"truly {worst} are" in verdict(ClassReport.model_validate(report))
    assert f"truly {worst} are" not in verdict(found)
    nothing = {"class_support": ["unsupported"] * C, "clean_prior": [None] * C}
    nothing = {**report, **nothing}
    assert "whose rates nothing supports" in verdict(ClassReport.model_validate(nothing))


def test_names_of_no_class_and_two_of_one_are_said_and_mended(tmp_path: Path) -> None:
    """What is said to be done is done, and is not said again."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 1500)
    x = rng.normal(size=(1500, 2)) + 6.0 * np.eye(3)[clean, :2]
    label = np.array(["cat", "dog", "owl"], object)[clean]
    label[(clean == 2) & (rng.random(1500) < 0.5)] = "Eule"
    label[rng.random(1500) < 0.15] = "unknown"
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "animal": label})

    def text(name: str, **more: Any) -> str:
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        fit(tmp_path / f"{name}.csv", tmp_path / name, label_column="animal", k=None, **more)
        return (tmp_path / name / "report.txt").read_text()

    before = text("before")
    assert "'Eule' and 'owl' are given to the same rows: if they are two names" in before
    assert "'unknown' is the commonest label nowhere" in before
    assert before.count("is the commonest label nowhere") == 1
    frame.animal = frame.animal.replace({"Eule": "owl", "unknown": None})
    frame.loc[:3, "animal"] = "emu"  # of which too little is known
    after = text("after", unlabeled="predict")
    assert "given to the same rows" not in after
    assert "commonest label nowhere" not in after


def test_pages_and_comparison(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, page = str(made / "run"), made / "page.html"
    truth = ("--scores", made / "scores.parquet", "--truth", made / "truth.csv")
    assert main(["report", "--run", run, "--html", page, *truth]) == 0
    text = page.read_text()
    assert text.count('class="right"') == C
    assert "kind aa → kind" in text
    options = {"label_column": "kind", "k": 15, "builder": "exact"}
    fit(made / "pool.csv", made / "other", **options)
    assert main(["compare", run, str(made / "other"), "--html", page, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(found["rates"]) == set(names(C))
    assert found["rows"]["predicted_to_1"] is None
    assert "wrong in" not in page.read_text()


@pytest.mark.parametrize("step", ["regression", "first-pass", "second-pass"])
def test_interrupted_run_ends_with_the_same_bits(made: Path, tmp_path: Path, step: str) -> None:
    options: dict[str, Any] = {"label_column": "kind", "k": None, "block_rows": 600}
    fit_until(step, made / "pool.csv", tmp_path / "run", **options)
    fit(made / "pool.csv", tmp_path / "run", **options)
    assert results(tmp_path / "run") == results(made / "run")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array(["no", "yes"]), str),
        (np.array([False, True]), bool),
        (np.array([-1, 1]), int),
    ],
)
def test_two_classes_have_their_labels_too(tmp_path: Path, values: Any, kind: type) -> None:
    x, _, given = clouds(400, 2)
    np.savez(tmp_path / "pool.npz", X=x, y=values[given])
    np.savez(tmp_path / "plain.npz", X=x, y=given)
    report, plain = (fit(tmp_path / f"{n}.npz", tmp_path / n) for n in ("pool", "plain"))
    assert report["classes"] == values.tolist()
    assert (report["p0"], report["p1"]) == (plain["p0"], plain["p1"])
    assert report["transition_matrix"][0][1] == report["p0"]
    named, coded = (
        pd.read_parquet(tmp_path / n / "label_issues.parquet") for n in ("pool", "plain")
    )
    assert isinstance(named["given_label"].tolist()[0], kind)
    assert np.array_equal(named["given_label"], values[given])
    assert np.array_equal(named["predicted_label"], values[coded["predicted_label"]])
    assert list(named) == list(coded)


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (np.arange(1100), {}, "at most 1,000"),
        (np.r_[np.arange(1099) % 3, 3], {}, "class 3 has 1 row: at least 2 are needed"),
        (np.arange(1100) % 3, {"noise": "minmax"}, "--noise minmax is for two classes"),
        (np.arange(1100) % 3, {"rule": "rknn"}, "--rule rknn is for two classes"),
        (np.arange(1100) % 3, {"objective": "1:5"}, "--objective 1:5 is for two classes"),
        (np.arange(1100) % 3, {"p0": 0.1, "p1": 0.1}, "is for two classes"),
    ],
)
def test_bad_input_is_refused(tmp_path: Path, labels: Any, options: Any, said: str) -> None:
    np.savez(tmp_path / "pool.npz", X=np.random.default_rng(0).normal(size=(1100, 2)), y=labels)
    with pytest.raises(InputError, match=said):
        fit(tmp_path / "pool.npz", tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_truth_of_another_class_is_refused(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(made / "run")
    (tmp_path / "truth.csv").write_text("clean\n" + "kind zz\n" * 300)
    truth = ["--scores", str(made / "scores.parquet"), "--truth", str(tmp_path / "truth.csv")]
    assert main(["report", "--run", run, "--html", str(tmp_path / "p.html"), *truth]) == 2
    assert "label 'kind zz' (row 0 from 0) is none of the training's classes" in (
        capsys.readouterr().err
    )
