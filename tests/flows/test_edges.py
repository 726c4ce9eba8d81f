"""Labels of every kind at their edges: one clear line, exit status 2, and no run left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import fit

from flows.cli import main
from flows.report.kinds import TrainReport
from flows.score import run_score

N = 240
Make = Callable[[Path], list[str]]
X = np.random.default_rng(0).normal(size=(N, 3)).round(3)


def table(labels: object, *options: str) -> Make:
    def make(folder: Path) -> list[str]:
        n = len(labels)  # type: ignore[arg-type]
        x = np.random.default_rng(0).normal(size=(n, 3)).round(3)
        pd.DataFrame(x, columns=list("abc")).assign(y=labels).to_csv(folder / "t.csv", index=False)
        return [str(folder / "t.csv"), "--label-column", "y", *options]

    return make


def wide_mask(folder: Path) -> list[str]:
    np.savez(folder / "t.npz", X=X, y=np.ones((N, 1001), bool))
    return [str(folder / "t.npz")]


def masks_beside(folder: Path) -> list[str]:
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", np.ones((N - 1, 3), bool))
    return [str(folder / "x.npy"), "--labels", str(folder / "y.npy")]


def many_groups(folder: Path) -> list[str]:
    n = 200_000
    text = "a,who,y\n" + "".join(f"{at % 97},w{at},{at % 2}\n" for at in range(n))
    (folder / "t.csv").write_text(text)
    return [str(folder / "t.csv"), "--label-column", "y", "--by", "who"]


LONE = ["lone", *(("cat", "dog") * N)[: N - 1]]
SETS = ["cat|dog", "cat", "dog|hen"] * (N // 3)
CASES = [
    (table([f"k{at}" for at in range(1100)] * 2), "labels must be at most 1,000 values"),
    (table(LONE), "class 'lone' has 1 row"),
    (table([*SETS[1:], ""], "--candidates", "|"), "1 row has no candidate; first at row 239"),
    (table([*SETS[1:], "|"], "--candidates", "|"), "1 row has no candidate; first at row 239"),
    (wide_mask, "a mask of 1,001 candidates, at most 1,000"),
    (masks_beside, "239 labels for 240 rows"),
    (many_groups, "--by 'who': more than 1,000 values by row 1,000 (from 0)"),
]


@pytest.mark.parametrize(("make", "said"), CASES)
def test_refused_in_one_line_with_nothing_left(
    make: Make, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = make(tmp_path)
    run = tmp_path / "run"
    assert main(["train", *words, "--run", str(run), "--workers", "0", "--quiet"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("knnoise: ")
    assert said in lines[0]
    assert not run.exists()


def test_a_finished_run_outlives_a_refused_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = table((["cat", "dog"] * N)[:N])(tmp_path)
    fit(words[0], tmp_path / "run", label_column="y")
    before = (tmp_path / "run" / "report.json").read_bytes()
    words = table(LONE)(tmp_path)
    assert main(["train", *words, "--run", str(tmp_path / "run"), "--workers", "0", "-q"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (tmp_path / "run" / "report.json").read_bytes() == before


def test_classes_of_two_rows_are_trained_on_and_doubted(tmp_path: Path) -> None:
    words = table(["rare", "rare", *(["cat", "dog"] * N)[: N - 2]])(tmp_path)
    found = fit(words[0], tmp_path / "run", label_column="y")
    assert found["class_support"][found["classes"].index("rare")] == "unsupported"
    assert found["clean_prior"][found["classes"].index("rare")] is None


def test_scores_of_two_distinct_points(tmp_path: Path) -> None:
    rng, at = np.random.default_rng(0), np.arange(N) % 2
    points = np.array([[0, 0], [1, 2]], np.float32)
    noisy = np.where(rng.random(N) < 0.2, 1 - at, at)
    np.savez(tmp_path / "t.npz", X=points[at], y=noisy)
    np.savez(tmp_path / "q.npz", X=np.array([[0, 0], [1, 2], [-9, 1], [90, 90]], np.float32))
    report = fit(tmp_path / "t.npz", tmp_path / "run", k=None)
    assert max(abs(report[rate] - 0.2) for rate in ("p0", "p1")) < 0.1
    out = str(tmp_path / "s.parquet")
    run_score(str(tmp_path / "q.npz"), run=str(tmp_path / "run"), out=out, workers=0, quiet=True)
    scores = pd.read_parquet(out)
    assert scores["predicted_label"].tolist() == [0, 1, 0, 1]
    assert scores["posterior"].between(0, 1).all()
    assert (scores["near_duplicates"] > 0).tolist() == [True, True, False, False]


def test_mistakes_along_a_feature_are_counted_by_the_plain_vote(tmp_path: Path) -> None:
    """Beside a class of 2 % they look like one of a third of the rows, mostly given the other
    label: such rates decide nothing, and are no measure of the wrong labels."""
    rng = np.random.default_rng(0)
    clean = (rng.random(3000) < 0.02).astype(int)
    x = rng.normal(size=(3000, 4)).astype(np.float32)
    x[clean == 1, :2] += 1.2
    rate = 0.4 * np.argsort(np.argsort(x[:, 3])) / len(x)
    given = np.where(rng.random(3000) < rate, 1 - clean, clean)
    np.savez(tmp_path / "t.npz", X=x, y=given)
    report = fit(tmp_path / "t.npz", tmp_path / "run", k=None, metric="as-scaled")
    assert report["p1"] > 0.5
    assert report["threshold"] == 0.5
    assert "the plain vote decides" in report["decision"]["reason"]
    assert abs(report["share_wrong"] - (given != clean).mean()) < 0.03
    assert report["clean_prior"][1] < 0.1
    low, high = report["share_wrong_interval"]
    assert low <= report["share_wrong"] <= high
    by_rates = {"n_wrong": None, "clean_prior": [0.7, 0.3]}
    earlier = TrainReport.model_validate({**report, **by_rates})
    assert earlier.share_wrong == pytest.approx(0.7 * report["p0"] + 0.3 * report["p1"])


def test_a_label_of_two_lines_stays_on_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(N, 3))
    labels = np.where(x[:, 0] > 0, "two\nlines", "one")
    pd.DataFrame(x, columns=list("abc")).assign(y=labels).to_parquet(tmp_path / "t.parquet")
    run = ["--run", str(tmp_path / "run"), "-q"]
    assert main(["train", str(tmp_path / "t.parquet"), "--label-column", "y", *run]) == 0
    said = capsys.readouterr().out
    assert "P(given two lines | true one)" in said
    assert not any(line.startswith("lines") for line in said.splitlines())
    pd.DataFrame({"a": x[:, 0], "y": labels}).to_csv(tmp_path / "t.csv", index=False)
    assert main(["check", str(tmp_path / "t.csv"), "--label-column", "y"]) == 2  # as train says
    assert "a line break at row" in capsys.readouterr().err
    for name in ("one", "two"):  # a label that the folder gives
        (tmp_path / f"parts/y={name}").mkdir(parents=True)
        pd.DataFrame({"a": x[:, 0], "b": x[:, 1]}).to_csv(
            tmp_path / f"parts/y={name}/t.csv", index=False
        )
    assert main(["check", str(tmp_path / "parts"), "--label-column", "y"]) == 0
