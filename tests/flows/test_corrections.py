"""Corrected labels: certain in the next training, counted, and held to their source."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from runs import PoolWriter, fit, results

from flows.cli import main
from flows.intake.preflight import run_check
from flows.report.content import train_text
from flows.report.kinds import TrainReport, kind_of
from flows.report.model import Training
from storage.answers import Answer, AnswersFile, Asked, Origin
from storage.errors import InputError


def answered(path: Path, origin: Origin, labels: dict[int, object]) -> None:
    log = AnswersFile.open(str(path), origin)
    for row, label in labels.items():
        asked = (Asked(row, None, "useful", True),)
        log.add(Answer(f"a{row}", asked, label, "ann", "t"))  # type: ignore[arg-type]


def test_corrected_labels_are_certain(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    given = np.load(source)["y"]
    plain = fit(source, tmp_path / "plain")
    assert plain["corrections"] is None
    before = pq.read_table(tmp_path / "plain/label_issues.parquet").to_pandas()
    wrong = before.index[before.is_label_issue][:20]
    right = before.index[~before.is_label_issue][:5]
    labels = {int(row): int(1 - given[row]) for row in wrong} | {
        int(r): int(given[r]) for r in right
    }
    run_json = json.loads((tmp_path / "plain/run.json").read_text())
    origin = Origin.of_config(run_json, (0, 1), len(given), "plain")
    answered(tmp_path / "answers.jsonl", origin, labels)
    report = fit(source, tmp_path / "run", corrections=str(tmp_path / "answers.jsonl"))
    used = {"file": "answers.jsonl", "n_rows": 25, "n_changed": 20, "n_conflicts": 0}
    assert report["corrections"] == used
    assert "25 from answers.jsonl, which count as certain, 20 of them corrected" in train_text(
        TrainReport.model_validate(report)
    )
    assert report["warnings"] == plain["warnings"]
    assert (report["p0"], report["p1"]) == (plain["p0"], plain["p1"])
    after = pq.read_table(tmp_path / "run/label_issues.parquet").to_pandas()
    checked = after.loc[sorted(labels)]
    assert (checked.label_quality == 1).all()
    assert not checked.is_label_issue.any()
    assert (checked.given_label == [labels[row] for row in checked.index]).all()
    assert (checked.predicted_label == checked.given_label).all()
    # The same labels in the source itself, by the same rates: all but the verdicts on these very
    # rows is the same.
    y = given.copy()
    y[list(labels)] = list(labels.values())
    np.savez(tmp_path / "mended.npz", X=np.load(source)["X"], y=y)
    rates = {"p0": 0.25, "p1": 0.1}
    same = fit(tmp_path / "mended.npz", tmp_path / "mended", **rates)
    known = fit(source, tmp_path / "known", corrections=str(tmp_path / "answers.jsonl"), **rates)
    assert (same["weighed"], same["threshold"]) == (known["weighed"], known["threshold"])
    after = pq.read_table(tmp_path / "known/label_issues.parquet").to_pandas()
    mended = pq.read_table(tmp_path / "mended/label_issues.parquet").to_pandas()
    others = after.index.difference(sorted(labels))
    pd.testing.assert_frame_equal(after.loc[others], mended.loc[others])
    whole = results(tmp_path / "run")
    assert fit(source, tmp_path / "run", corrections=str(tmp_path / "answers.jsonl")) == report
    assert results(tmp_path / "run") == whole
    answered(tmp_path / "answers.jsonl", origin, {int(wrong[-1]) + 1: 0})
    with pytest.raises(InputError, match=r"answers\.jsonl has .* bytes, it had"):
        fit(source, tmp_path / "run", corrections=str(tmp_path / "answers.jsonl"))
    with pytest.raises(InputError, match="no longer part of the source"):
        fit(source, tmp_path / "run")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rates_are_of_the_labels_as_given_whoever_checked_the_surest_suspects(
    tmp_path: Path, n_classes: int
) -> None:
    """By rates of what is left half of the other mistakes were believed, and more."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, n_classes, 4000)
    x = rng.normal(size=(4000, 3)) + 3.6 * np.eye(3)[clean]
    given = np.where(rng.random(4000) < 0.2, (clean + 1) % n_classes, clean)
    np.savez(tmp_path / "pool.npz", X=x.astype(np.float32), y=given)
    plain = fit(tmp_path / "pool.npz", tmp_path / "plain", builder="exact")
    before = pq.read_table(tmp_path / "plain/label_issues.parquet").to_pandas()
    rows = before.label_quality.to_numpy().argsort()[:600]
    pd.DataFrame({"row": rows, "label": clean[rows]}).to_csv(tmp_path / "log.csv", index=False)
    options = {"builder": "exact", "corrections": str(tmp_path / "log.csv")}
    report = fit(tmp_path / "pool.npz", tmp_path / "checked", **options)
    for what in ("support", "reason", "class_noise", "class_noise_interval", "clean_prior"):
        assert report[what] == plain[what]
    after = pq.read_table(tmp_path / "checked/label_issues.parquet").to_pandas()
    left = (given != clean) & ~np.isin(np.arange(4000), rows)
    suspect = after.label_quality.to_numpy() < 0.5
    assert suspect[left].mean() > 0.75
    assert not suspect[rows].any()
    assert (suspect & ~left).sum() < 0.3 * left.sum()
    assert report["share_wrong"] == pytest.approx(left.mean(), abs=0.015)
    low, high = report["share_wrong_interval"]
    assert low <= left.mean() <= high
    earlier = kind_of(report).model_validate({**report, "n_wrong": None})
    assert isinstance(earlier, Training)  # whose rates were those of the corrected labels
    assert earlier.share_wrong == pytest.approx(plain["share_wrong"], abs=0.03)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_any_label_values_and_a_disagreement(tmp_path: Path, pool: PoolWriter, kind: str) -> None:
    data = np.load(pool())
    table = pd.DataFrame(data["X"], columns=list("abcd"))
    table["sick"] = np.where(data["y"] == 1, "yes", "no")
    text = "row,label,reviewer\n7,yes,ann\n7,no,bob\n9,yes,ann\n11,,ann\n"
    lines = {"orient": "records", "lines": True}
    if kind == "csv":
        table.to_csv(tmp_path / "pool.csv", index=False)
        (tmp_path / "checked.csv").write_text(text)
    else:
        table.to_json(tmp_path / "pool.jsonl", **lines)
        pd.read_csv(io.StringIO(text)).to_json(tmp_path / "checked.jsonl", **lines)
    options = {"label_column": "sick", "corrections": str(tmp_path / f"checked.{kind}")}
    report = fit(tmp_path / f"pool.{kind}", tmp_path / "run", **options)
    assert (report["corrections"]["n_rows"], report["corrections"]["n_conflicts"]) == (1, 1)
    assert not report["warnings"]  # one row tells nothing of how rows were chosen
    verdicts = pq.read_table(tmp_path / "run/label_issues.parquet").to_pandas()
    assert (verdicts.label_quality[9], verdicts.given_label[9]) == (1, "yes")
    assert verdicts.given_label[7] == table["sick"][7]


def test_true_and_false_of_a_table_of_text(tmp_path: Path, pool: PoolWriter) -> None:
    data = np.load(pool())
    table = pd.DataFrame(data["X"], columns=list("abcd")).assign(sick=data["y"] == 1)
    table.to_parquet(tmp_path / "pool.parquet")
    (tmp_path / "checked.csv").write_text("row,label\n7,TRUE\n9,false\n")
    options = {"label_column": "sick", "corrections": str(tmp_path / "checked.csv")}
    report = fit(tmp_path / "pool.parquet", tmp_path / "run", **options)
    assert (report["corrections"]["n_rows"], report["label_values"]) == (2, [False, True])


def test_labels_that_are_joined_may_be_checked_in_any_spelling(tmp_path: Path) -> None:
    """As the source has them."""
    x = np.random.default_rng(0).normal(size=(300, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(sick=np.where(x[:, 0] > 0, "yes", "no"))
    table.loc[:29, "sick"] = table["sick"][:30].str.upper()
    table.to_csv(tmp_path / "pool.csv", index=False)
    (tmp_path / "checked.csv").write_text("row,label\n7,YES\n99,No\n")
    more = {"label_column": "sick", "corrections": str(tmp_path / "checked.csv")}
    report = fit(tmp_path / "pool.csv", tmp_path / "run", join_labels=True, **more)
    assert (report["corrections"]["n_rows"], report["label_values"]) == (2, ["no", "yes"])
    assert run_check(str(tmp_path / "pool.csv"), join_labels=True, **more)["n_rows"] == 300


BAD = {
    "row": ("row,label\n600,1\n", "row 600, the source has rows 0 to 599"),
    "label": ("row,label\n3,2\n", "label 2 of row 3 occurs nowhere"),
    "text": ("row,label\nthree,1\n", "'three' at row 0"),
    "source": ("row,label,source\n3,1,0123\n", "another source"),
    "kind": (None, "unknown kind of file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_corrections_are_one_line(
    pool: PoolWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    content, message = BAD[case]
    name = "bad.csv" if content else "bad.txt"
    (tmp_path / name).write_text(content or "x")
    source = str(pool())
    options = ["--run", str(tmp_path / "run"), "--workers", "0", "-q"]
    assert main(["train", source, *options, "--corrections", str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()
