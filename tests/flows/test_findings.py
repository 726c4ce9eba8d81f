"""Segments, order and leakage as a user meets them: text, JSON, page and warnings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import AS_IN_FIT

from flows.cli import main

QUIET = ("--workers", "0", "-q")


def patients(n: int, seed: int) -> pd.DataFrame:
    """Two separate classes, whatever age and site; the labels of old patients of site B are wrong
    more often."""
    rng = np.random.default_rng(seed)
    clean, age, site = rng.integers(0, 2, n), rng.integers(20, 80, n), rng.choice([*"ABC"], n)
    x = 40 * rng.normal(size=(n, 4)) + 200 * clean[:, None]
    wrong = rng.random(n) < np.where((site == "B") & (age > 60), 0.4, 0.03)
    names = np.array(["no", "yes"])[clean ^ wrong]
    labs = {name: x[:, i] for i, name in enumerate("abcd")}
    return pd.DataFrame({**labs, "age": age, "site": site, "sick": names})


def train(source: Path, run: Path, *more: str) -> int:
    command = ("train", str(source), "--label-column", "sick", "--run", str(run), *QUIET)
    return main([*command, "--encode", "one-hot", "--scale", "none", *AS_IN_FIT, *more])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("segments")
    patients(3000, 0).to_csv(folder / "train.csv", index=False)
    assert train(folder / "train.csv", folder / "run") == 0
    return folder


def test_the_worst_segment_is_a_sentence_over_raw_columns(made: Path) -> None:
    report = json.loads((made / "run" / "report.json").read_text())
    issues = pd.read_parquet(made / "run" / "label_issues.parquet")["is_label_issue"]
    data = pd.read_csv(made / "train.csv")
    here = (data["site"] == "B") & (data["age"] > 60)
    worst = report["segments"][0]
    features = report["config"]["feature_names"]
    bounds = {features[feature]: (low, high) for feature, low, high in worst["bounds"]}
    assert bounds.pop("site=B") == (0.0, None)
    ((name, (low, high)),) = bounds.items()
    assert (name, high) == ("age", None)
    assert 57 <= low <= 63
    assert worst["interval"][0] < issues[here].mean() < worst["interval"][1]
    text = (made / "run" / "report.txt").read_text()
    (line,) = [line for line in text.splitlines() if " suspect (" in line][:1]
    assert "site = B" in line
    assert f"age > {low:.0f}" in line
    page = made / "page.html"
    assert main(["report", "--run", str(made / "run"), "--html", str(page)]) == 0
    assert "site = B" in page.read_text()
    assert "Where labels are worst" in page.read_text()


def test_mistakes_that_stand_together_are_found_by_their_place(tmp_path: Path) -> None:
    """A hurried session: half of the labels of 240 rows in a row of 3,000."""
    table, rng = patients(3000, 0), np.random.default_rng(2)
    hurried = slice(1200, 1440)
    wrong = rng.random(240) < 0.5
    there = table.loc[1200:1439, "sick"]
    table.loc[1200:1439, "sick"] = np.where(wrong, there.map({"no": "yes", "yes": "no"}), there)
    table["rate"] = [f"{share} %" for share in rng.integers(0, 100, 3000)]  # as no place is written
    table.to_csv(tmp_path / "train.csv", index=False)
    assert train(tmp_path / "train.csv", tmp_path / "run", "--parse", "r*=percent") == 0
    text = (tmp_path / "run" / "report.txt").read_text()
    said = re.search(r"(\d+) < row of the source ≤ (\d+): \d+% suspect", text)
    assert said is not None
    assert abs(int(said[1]) - hurried.start) < 60
    assert abs(int(said[2]) - hurried.stop) < 60


def test_an_encoded_column_is_one_of_those_that_matter_or_do_not(tmp_path: Path) -> None:
    table = patients(2000, 0)[["age", "site", "sick"]]
    rng = np.random.default_rng(1)
    table["ward"] = np.where(table["sick"] == "yes", "north", rng.choice([*"stu"], len(table)))
    table["color"] = rng.choice([f"c{i}" for i in range(12)], len(table))
    table.to_csv(tmp_path / "train.csv", index=False)
    assert train(tmp_path / "train.csv", tmp_path / "run", "--metric", "weighted") == 0
    text = (tmp_path / "run" / "report.txt").read_text()
    most = re.search(r"what tells most of the labels: (\w+) \d+%", text)
    assert most is not None
    assert most[1] == "ward"
    useless = re.search(r"of no use for the labels, as far as can be told: (.*)", text)
    assert useless is not None
    assert {"color", "site"} <= set(useless[1].split(", ")) <= {"color", "site", "age"}


def test_a_column_that_says_whose_labels_these_are_is_told_and_the_remedy_works(
    tmp_path: Path,
) -> None:
    """One of four annotators is as good as blind; as a feature the column hides that."""
    rng, table = np.random.default_rng(3), patients(3000, 0).drop(columns=["site", "age"])
    clean = (table[[*"abcd"]].mean(axis=1) > 100).to_numpy()
    table["who"] = rng.choice([*"pqrs"], len(table))
    wrong = rng.random(len(table)) < np.where(table["who"] == "s", 0.45, 0.05)
    table["sick"] = np.where(clean ^ wrong, "yes", "no")
    table.to_csv(tmp_path / "train.csv", index=False)
    assert train(tmp_path / "train.csv", tmp_path / "run") == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    (warning,) = report["warnings"]
    assert warning.startswith("labels where who is s (2")
    assert report["support"] != "supported"
    (remedy,) = re.findall(r"train again with (.*)$", warning)
    assert train(tmp_path / "train.csv", tmp_path / "again", *remedy.split()) == 0
    report = json.loads((tmp_path / "again" / "report.json").read_text())
    assert (report["warnings"], report["support"]) == ([], "supported")
    assert report["groups"]["groups"][0]["value"] == "s"
    assert report["groups"]["groups"][0]["wrong"] == pytest.approx(0.45, abs=0.05)
    flags = pd.read_parquet(tmp_path / "again" / "label_issues.parquet")["is_label_issue"]
    assert flags[wrong].mean() > 0.95


def test_a_date_that_bounds_a_segment_is_told_as_a_date(tmp_path: Path) -> None:
    table = patients(3000, 0)
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(table.pop("age"), unit="D")
    table.assign(seen=seen.dt.strftime("%Y-%m-%d")).to_csv(tmp_path / "train.csv", index=False)
    assert train(tmp_path / "train.csv", tmp_path / "run", "--parse", "seen=datetime") == 0
    text = (tmp_path / "run" / "report.txt").read_text()
    assert re.search(r"  .*seen > 2020-0[23]-\d\d.*: \d+% suspect \(", text)


def test_no_sentence_is_on_one_place_of_an_embedding(tmp_path: Path) -> None:
    table = patients(3000, 0)
    places = table.drop(columns="sick").assign(site=table.site == "B").astype(np.float32)
    columns = {"embedding": list(places.to_numpy()), "sick": table.sick}
    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    assert train(tmp_path / "train.parquet", tmp_path / "run") == 0
    text = (tmp_path / "run" / "report.txt").read_text()
    assert "a region of embedding: " in text
    assert "embedding[" not in text
    page = tmp_path / "page.html"
    assert main(["report", "--run", str(tmp_path / "run"), "--html", str(page)]) == 0
    assert " are yes; nearest first: " in page.read_text()
    assert "embedding[" not in re.sub(r"<t[hd].*?</t[hd]>", "", page.read_text(), flags=re.S)


def test_a_file_in_order_is_said_and_a_shuffled_one_not(made: Path, tmp_path: Path) -> None:
    shuffled = json.loads((made / "run" / "report.json").read_text())
    assert shuffled["order"]["p_value"] > 0.01
    (whose,) = shuffled["warnings"]
    assert whose.startswith("labels where site is B (32% of the rows) are unlike those near them")
    pd.read_csv(made / "train.csv").sort_values("a").to_csv(tmp_path / "sorted.csv", index=False)
    assert train(tmp_path / "sorted.csv", tmp_path / "run") == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["order"]["p_value"] < 1e-6
    warning, of_site = report["warnings"]
    assert warning.startswith("rows that follow each other are alike")
    assert of_site.startswith("labels where site is B")
    assert "order of the rows: features follow none" in (made / "run" / "report.txt").read_text()


def test_scored_rows_of_the_training_pool_are_counted(made: Path, tmp_path: Path) -> None:
    known, new = pd.read_csv(made / "train.csv").head(60), patients(240, 5)
    nearly = known.head(20).assign(a=known["a"] + 1e-3)
    pd.concat([known, new, nearly]).to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "scores.parquet"
    scoring = ("score", str(tmp_path / "new.csv"), "--run", str(made / "run"), *QUIET)
    assert main([*scoring, "--out", str(out)]) == 0
    (folder,) = (made / "run" / "scores").iterdir()
    report = json.loads((folder / "report.json").read_text())
    near = pd.read_parquet(out)["near_duplicates"]
    assert (near[:60] >= 1).all()
    assert (near[300:] >= 1).all()
    assert report["n_near_training"] == (near > 0).sum()
    assert 60 <= report["n_equal_to_training"] <= 60 + 20
    assert any("are in the training pool" in line for line in report["warnings"])
    new.to_csv(tmp_path / "new.csv", index=False)
    assert main([*scoring, "--out", str(out)]) == 0
    (again,) = [f for f in (made / "run" / "scores").iterdir() if f != folder]
    report = json.loads((again / "report.json").read_text())
    assert report["n_equal_to_training"] == 0
    assert report["n_far_from_training"] < 12
    assert report["warnings"] == []


def test_scored_rows_in_other_units_are_far_from_the_training_pool(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = patients(300, 6)
    other["a"] *= 1000
    other.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "scores.parquet"
    scoring = ("score", str(tmp_path / "new.csv"), "--run", str(made / "run"), *QUIET)
    assert main([*scoring, "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["n_far_from_training"] > 290
    (warning,) = report["warnings"]
    assert "scored rows (" in warning
    assert "are far from all training rows" in warning
