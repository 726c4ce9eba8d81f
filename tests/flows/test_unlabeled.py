"""Rows without a label: they vote for nobody, and are given one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.cli import main
from flows.score import run_score
from flows.train import run_train
from storage.errors import InputError
from storage.sources.values.labels import are_there, label_value

N = 1500
QUICK = {"label_column": "y", "workers": 0, "quiet": True}
PREDICT = {**QUICK, "unlabeled": "predict"}


def table(n_classes: int = 2) -> pd.DataFrame:
    """A table of wrong labels, two thirds of them missing."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, n_classes, N)
    x = rng.normal(size=(N, 4)) + 4 * np.eye(4)[true]
    given = np.where(rng.random(N) < 0.15, rng.integers(0, n_classes, N), true)
    names = np.array(["cat", "dog", "emu"])[given].astype(object)
    names[rng.random(N) < 2 / 3] = None
    return pd.DataFrame(x, columns=list("abcd")).assign(y=names)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_they_vote_for_nobody_and_are_scored_by_the_others(tmp_path: Path, n_classes: int) -> None:
    found = table(n_classes)
    found.to_parquet(tmp_path / "all.parquet")
    labeled = found[found["y"].notna()]
    labeled.to_parquet(tmp_path / "labeled.parquet")
    alone = run_train(str(tmp_path / "labeled.parquet"), run=str(tmp_path / "alone"), **QUICK)
    report = run_train(str(tmp_path / "all.parquet"), run=str(tmp_path / "run"), **PREDICT)
    same = ("n_rows", "k", "transition_matrix", "transition_interval", "n_label_issues", "recall")
    assert {name: report[name] for name in same} == {name: alone[name] for name in same}
    assert report["n_unlabeled"] == report["unlabeled"]["n_rows"] == N - len(labeled)
    issues = pd.read_parquet(tmp_path / "run/label_issues.parquet")
    assert issues["row"].tolist() == labeled.index.tolist()
    missing = found[found["y"].isna()]
    missing.to_parquet(tmp_path / "missing.parquet")
    out = str(tmp_path / "scores.parquet")
    run_score(
        str(tmp_path / "missing.parquet"),
        run=str(tmp_path / "alone"),
        out=out,
        workers=0,
        quiet=True,
    )
    ours, expected = pd.read_parquet(tmp_path / "run/unlabeled.parquet"), pd.read_parquet(out)
    assert ours["row"].tolist() == missing.index.tolist()
    pd.testing.assert_frame_equal(ours.drop(columns="row"), expected.drop(columns="row"))


def test_one_row_without_a_label(tmp_path: Path) -> None:
    found = table().assign(y=np.arange(N) % 2)
    found["y"] = found["y"].astype("Int64").where(found.index != 7)
    found.to_csv(tmp_path / "t.csv", index=False)
    run_train(str(tmp_path / "t.csv"), run=str(tmp_path / "run"), **PREDICT)
    assert pd.read_parquet(tmp_path / "run/unlabeled.parquet")["row"].tolist() == [7]


def test_what_is_done_is_not_done_again_and_what_is_lost_is(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "t.csv", index=False)
    source, run = str(tmp_path / "t.csv"), tmp_path / "run"
    first = run_train(source, run=str(run), **PREDICT)
    before = (run / "unlabeled.parquet").read_bytes()
    assert run_train(source, run=str(run), **PREDICT)["unlabeled"] == first["unlabeled"]
    shutil.rmtree(run / "unlabeled")
    (run / "unlabeled.parquet").unlink()
    run_train(source, run=str(run), **PREDICT)
    assert (run / "unlabeled.parquet").read_bytes() == before


def test_with_everything_else_that_columns_can_be(tmp_path: Path) -> None:
    found = table().assign(site=np.arange(N) % 3, price=[f"{i % 50},000.5" for i in range(N)])
    found.loc[3, "a"] = np.nan
    found.to_csv(tmp_path / "t.csv", index=False)
    more = {"by": "site", "pca": 3, "impute": "median", "parse": ["price=thousands"]}
    report = run_train(str(tmp_path / "t.csv"), run=str(tmp_path / "run"), **PREDICT, **more)
    assert report["n_unlabeled"] == found["y"].isna().sum()
    assert report["n_filled"] + report["unlabeled"]["n_filled"] == 1
    predicted = pd.read_parquet(tmp_path / "run/unlabeled.parquet")
    assert predicted["row"].tolist() == found.index[found["y"].isna()].tolist()


def test_labels_that_somebody_gave_them_count(tmp_path: Path) -> None:
    found = table()
    found.loc[7, "a"] = np.nan  # and is left out
    found.to_csv(tmp_path / "t.csv", index=False)
    missing = found.index[found["y"].isna()]
    there = found.index[found["y"].notna() & (found.index > 50)]
    rows = [*missing[-3:], there[0], there[-1], 7]
    said = pd.DataFrame({"row": rows, "label": ["dog", "cat", "dog", "cat", "dog", "cat"]})
    said.to_csv(tmp_path / "said.csv", index=False)
    more = {"impute": "drop", "corrections": str(tmp_path / "said.csv")}
    run = tmp_path / "run"
    report = run_train(str(tmp_path / "t.csv"), run=str(run), **PREDICT, **more)
    assert report["corrections"]["n_rows"] == 5
    assert report["n_unlabeled"] == len(missing) - 3 - (7 in missing)
    issues = pd.read_parquet(run / "label_issues.parquet").set_index("row")
    assert (issues.loc[rows[:5], "given_label"] == said["label"][:5].to_numpy()).all()
    assert (issues.loc[rows[:5], "label_quality"] == 1).all()
    rest = issues.index.difference(rows)
    assert (issues.loc[rest, "given_label"] == found["y"][rest]).all()
    predicted = pd.read_parquet(run / "unlabeled.parquet")["row"]
    assert not set(predicted) & {*rows}


def test_people_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, run, page = tmp_path / "t.csv", str(tmp_path / "run"), tmp_path / "page.html"
    table().to_csv(source, index=False)
    train = ["train", str(source), "--label-column", "y", "--run", run, "--workers", "0"]
    assert main(train) == 2
    assert "or train with --unlabeled predict" in capsys.readouterr().err
    assert main([*train, "--unlabeled", "predict"]) == 0
    told = capsys.readouterr()
    assert "labels are missing, to be predicted" in told.err
    assert "rows without a label, which vote for nobody: " in told.out
    assert main(["report", "--run", run, "--html", str(page)]) == 0
    assert "rows without a label, which vote for nobody: " in capsys.readouterr().out
    assert "rows without a label, which vote for nobody: " in page.read_text()
    table().assign(y="").to_csv(source, index=False)
    assert main([*train[:-3], f"{run}2", "--unlabeled", "predict"]) == 2
    assert "Traceback" not in (err := capsys.readouterr().err)
    assert "has no label in any of its 1,500 rows" in err


def test_all_labels_there_changes_nothing(tmp_path: Path) -> None:
    table().dropna().to_csv(tmp_path / "t.csv", index=False)
    reports = [
        run_train(str(tmp_path / "t.csv"), run=str(tmp_path / name), **args)
        for name, args in {"plain": QUICK, "predict": PREDICT}.items()
    ]
    assert reports[0]["transition_matrix"] == reports[1]["transition_matrix"]
    assert "unlabeled" not in reports[1]
    with pytest.raises(InputError, match="unlabeled was"):
        run_train(str(tmp_path / "t.csv"), run=str(tmp_path / "plain"), **PREDICT)
    config = json.loads((tmp_path / "plain/run.json").read_text())
    assert config["parameters"]["unlabeled"] == "refuse"


@given(
    st.lists(st.one_of(st.none(), st.text(max_size=4), st.floats(), st.integers(), st.booleans()))
)
def test_a_label_is_there_where_it_has_a_value(raw: list[object]) -> None:
    labels = np.empty(len(raw), object)
    labels[:] = raw
    assert are_there(labels).tolist() == [label_value(one) is not None for one in raw]
