"""Ids from a table to every output; features by name, the same for every scored table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from runs import fit

from flows.cli import main
from storage import open_run


def table(n: int, seed: int, ids: list[str] | np.ndarray) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 2)) + 3 * clean[:, None]
    sick = np.where(clean ^ (rng.random(n) < 0.15), "yes", "no")
    return pd.DataFrame(
        {"patient": ids, "lab_a": x[:, 0], "when": "May", "lab_b": x[:, 1], "sick": sick}
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training with ids, and scores of rows with and without them."""
    folder = tmp_path_factory.mktemp("columns")
    table(400, 0, [f"P{i:04d}" for i in range(400)]).to_csv(folder / "train.csv", index=False)
    new = table(50, 1, np.arange(100, 150))
    new.to_csv(folder / "new.csv", index=False)
    new.drop(columns=["patient", "when", "sick"]).to_csv(folder / "bare.csv", index=False)
    run, quiet = str(folder / "run"), ("--workers", "0", "-q")
    train = ("train", str(folder / "train.csv"), "--label-column", "sick", "--run", run, *quiet)
    assert main([*train, "--id-column", "patient", "--features", "lab_*"]) == 0
    for name in ("new", "bare"):
        out = str(folder / f"{name}.parquet")
        assert main(["score", str(folder / f"{name}.csv"), "--run", run, "--out", out, *quiet]) == 0
    return folder


def test_ids_are_in_every_output(made: Path, tmp_path: Path) -> None:
    issues = pd.read_parquet(made / "run" / "label_issues.parquet")
    assert list(issues.columns)[:2] == ["patient", "row"]
    assert issues["patient"].tolist() == [f"P{i:04d}" for i in issues["row"]]
    assert open_run(str(made / "run"))["pool"]["id"].values[7] == "P0007"
    page = tmp_path / "page.html"
    assert main(["report", "--run", str(made / "run"), "--html", str(page)]) == 0
    worst = issues.sort_values("label_quality").iloc[0]
    assert f"<td>{worst['patient']}</td>" in page.read_text()


def test_scores_have_the_ids_of_their_own_rows(made: Path) -> None:
    scores = pq.read_table(made / "new.parquet")
    assert scores["patient"].type == "int64"
    assert scores["patient"].to_pylist() == list(range(100, 150))
    bare = pq.read_table(made / "bare.parquet")
    assert bare.column_names[0] == "row"
    assert bare["eta_corr"].equals(scores["eta_corr"])


def test_a_scored_table_may_have_columns_to_leave_out(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fit(made / "train.csv", tmp_path / "run", label_column="sick", exclude=["patient", "when"])
    pd.read_csv(made / "bare.csv").assign(visit=1).to_csv(tmp_path / "t.csv", index=False)
    score = ["score", str(tmp_path / "t.csv"), "--run", str(tmp_path / "run"), "-q"]
    score += ["--out", str(tmp_path / "s.csv")]
    assert main(score) == 2
    remedy = "extra 'visit'; give the columns of training alone, or give --exclude visit"
    assert remedy in capsys.readouterr().err
    assert main([*score, "--exclude", "visit"]) == 0
    pd.read_csv(made / "bare.csv").assign(visit=1, ward=2).to_csv(tmp_path / "t.csv", index=False)
    assert main(score) == 2
    remedy = "extra 'visit', 'ward'; give the columns of training alone, or leave the others out, "
    assert f"{remedy}each by --exclude" in capsys.readouterr().err
    assert main([*score, "--exclude", "visit", "--exclude", "ward"]) == 0


def test_the_choice_is_recorded_and_compared(made: Path, capsys: pytest.CaptureFixture) -> None:
    config = json.loads((made / "run" / "run.json").read_text())
    assert config["feature_names"] == ["lab_a", "lab_b"]
    assert config["parameters"]["features"] == ["lab_*"]
    assert config["id_name"] == "patient"
    again = ("train", str(made / "train.csv"), "--label-column", "sick", "--run")
    more = ("--id-column", "patient", "--features", "lab_a", "-q")
    assert main([*again, str(made / "run"), *more]) == 2
    assert "features was ['lab_*'] and is ['lab_a']" in capsys.readouterr().err


def test_an_id_column_that_scored_rows_lack_is_refused_where_it_was_asked_for(
    made: Path, capsys: pytest.CaptureFixture
) -> None:
    args = ("score", str(made / "bare.csv"), "--run", str(made / "run"), "--out", "x.parquet")
    assert main([*args, "--id-column", "patient", "-q"]) == 2
    assert "--id-column 'patient' is not there" in capsys.readouterr().err
