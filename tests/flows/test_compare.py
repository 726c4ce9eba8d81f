"""Two trainings side by side: drift beyond intervals, flipped rows counted exactly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import chromium, look
from runs import PoolWriter, fit
from selenium.webdriver.common.by import By

from flows.cli import main
from flows.report.compare import Incomparable, compare, compare_text, drift
from flows.report.kinds import TrainReport
from flows.report.model import RunConfig
from flows.report.page.build import verdict
from storage.errors import InputError

N = 6000


def clouds(path: Path, rates: tuple[float, float], seed: int = 0, labels: int = 0) -> Path:
    """Two separate clouds as `.npz`; `labels` seeds the wrong labels alone."""
    rng = np.random.default_rng(seed)
    clean = rng.integers(0, 2, N)
    x = (rng.normal(size=(N, 3)) + 6.0 * clean[:, None]).astype(np.float32)
    chance = np.random.default_rng([seed, labels]).random(N)
    wrong = chance < np.where(clean == 1, rates[1], rates[0])
    np.savez(path, X=x, y=(clean ^ wrong).astype(np.int8))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings on one pool, on the same rows labeled anew, and on other pools."""
    folder = tmp_path_factory.mktemp("compare")
    fit(clouds(folder / "a.npz", (0.3, 0.1)), folder / "a", k=20)
    fit(folder / "a.npz", folder / "k", k=8)
    fit(clouds(folder / "relabeled.npz", (0.3, 0.1), labels=1), folder / "relabeled", k=20)
    fit(clouds(folder / "drifted.npz", (0.15, 0.1), seed=1), folder / "drifted", k=20)
    return folder


def verdicts(run: Path) -> pd.DataFrame:
    return pd.read_parquet(run / "label_issues.parquet").set_index("row")


@pytest.mark.parametrize("other", ["a", "k", "relabeled"])
def test_flipped_rows_are_those_of_both_tables(runs: Path, other: str) -> None:
    rows = compare(str(runs / "a"), str(runs / other)).as_json()["rows"]
    a, b = verdicts(runs / "a"), verdicts(runs / other)
    issue, predicted = a.is_label_issue != b.is_label_issue, a.predicted_label != b.predicted_label
    assert rows["comparable"]
    assert rows["flipped"] == (issue | predicted).sum()
    assert rows["share"] == (issue | predicted).mean()
    assert rows["given_changed"] == (a.given_label != b.given_label).sum()
    assert rows["newly_suspect"] - rows["no_longer_suspect"] == (
        b.is_label_issue.sum() - a.is_label_issue.sum()
    )
    changed = (a.label_quality.astype(float) - b.label_quality).abs()[issue | predicted]
    listed = [found["row"] for found in rows["largest"]]
    assert changed.loc[listed].tolist() == changed.nlargest(20).tolist()
    for found in rows["largest"]:
        assert found["is_label_issue"] == [t.is_label_issue[found["row"]] for t in (a, b)]
    assert (rows["flipped"] == 0) == (other == "a")


def test_parameters_and_source_that_differ_are_named(runs: Path) -> None:
    found = compare(str(runs / "a"), str(runs / "k"))
    assert found.differences == {"parameters": {"k": (20, 8)}, "source": {}, "versions": {}}
    found = compare(str(runs / "a"), str(runs / "drifted"))
    assert {"features a.npz", "features drifted.npz"} <= set(found.differences["source"])
    assert isinstance(found.rows, Incomparable)
    assert "features differ" in found.rows.reason
    assert "not comparable one by one" in compare_text(found)


def test_drift_is_told_beyond_the_intervals_only(runs: Path) -> None:
    assert compare(str(runs / "a"), str(runs / "relabeled")).warnings == []
    found = compare(str(runs / "a"), str(runs / "drifted"))
    assert {name: c.verdict for name, c in found.rates.items()} == {
        "p0": "drifted",
        "p1": "within error",
    }
    (line,) = found.warnings
    assert line.startswith("p0 = P(given 1 | true 0) fell from 0.")
    assert f"DRIFT: {line}" in compare_text(found)


def test_other_features_are_told_before_drift(tmp_path: Path, pool: PoolWriter) -> None:
    data = np.load(pool(n=3000))
    clean = data["X"].mean(axis=1) > 1.5
    columns = {f"x{i}": column for i, column in enumerate(data["X"].T)}
    pd.DataFrame({**columns, "y": data["y"]}).to_csv(tmp_path / "a.csv", index=False)
    columns["Extra"] = columns.pop("x1")
    pd.DataFrame({**columns, "y": clean.astype(int)}).to_csv(tmp_path / "b.csv", index=False)
    for name in "ab":
        fit(tmp_path / f"{name}.csv", tmp_path / name, label_column="y")
    found = compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert found.features == "the features changed ('Extra' came, 'x1' went)"
    assert "CHANGED: p0" in compare_text(found)
    assert "DRIFT" not in compare_text(found)
    names = ["benign", "malignant tissue"]  # of labels with names nothing is said of 0 and 1
    for name in "ab":
        table = pd.read_csv(tmp_path / f"{name}.csv")
        table.assign(y=np.array(names)[table.y]).to_csv(tmp_path / f"{name}.csv", index=False)
        fit(tmp_path / f"{name}.csv", tmp_path / f"named-{name}", label_column="y")
    text = compare_text(compare(str(tmp_path / "named-a"), str(tmp_path / "named-b")))
    assert re.search(r"\n  p0 P\(given malignant tissue \| true benign\) +0\.\d{3} ", text)
    assert not re.search(r"given [01]\b|true [01]\b|became [01]\b", text)
    assert verdict(found).startswith(
        "The features changed ('Extra' came, 'x1' went), and the rates"
    )


@pytest.mark.parametrize("part", [{"support": "unsupported"}, {"noise": "minmax"}], ids=str)
def test_no_drift_is_claimed_where_rates_have_no_interval(part: dict[str, Any]) -> None:
    sure = {"p0": 0.3, "p0_interval": [0.29, 0.31], "p1": 0.1, "p1_interval": [0.09, 0.11]}
    same = {"config": RunConfig.model_construct(feature_names=["a"]), "scale": "none"}
    same["label_values"] = same["classes"] = [0, 1]
    before = {**sure, **same, "support": "supported", "noise": "crossfit"}
    after = {**before, "p0": 0.8, "p0_interval": [0.7, 0.9], **part}
    found = drift(TrainReport.model_construct(**before), TrainReport.model_construct(**after))
    assert {c.verdict for c in found.rates.values()} == {"unknown"}
    no_more = ["the rates were supported and are unsupported, so drift is not known"]
    assert found.warnings == (no_more if "support" in part else [])


def test_what_changed_is_told_where_rates_are_known_no_more() -> None:
    def report(support: str, features: list[str], classes: list[str]) -> TrainReport:
        config = RunConfig.model_construct(feature_names=features)
        rates: dict[str, Any] = {"p0": 0.3, "p0_interval": None, "p1": 0.1, "p1_interval": None}
        kinds = {"label_values": classes, "classes": classes, "noise": "crossfit"}
        return TrainReport.model_construct(
            config=config, support=support, scale="none", **rates, **kinds
        )

    before = report("weak", ["a", "b"], ["ant", "bee"])
    after = report("unsupported", ["b", "a"], ["ant", "cat"])
    changed = "the features changed (their order) and the classes changed ('cat' came, 'bee' went)"
    no_more = "the rates were weak and are unsupported, so drift is not known"
    assert drift(before, after).warnings == [f"{no_more}; {changed}"]


def test_command_in_text_and_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(runs / "a"), str(runs / "k")
    assert main(["compare", a, b]) == 0
    assert "parameters: k was 20 and is 8" in capsys.readouterr().out
    assert main(["compare", a, b, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == compare(a, b).as_json()


def test_unfinished_runs_are_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "a"), str(runs / "absent")]) == 2
    said = capsys.readouterr().err
    assert "not a knnoise run" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("width", [1280, 400])
def test_comparison_in_a_browser(runs: Path, tmp_path: Path, width: int) -> None:
    for other in ("relabeled", "drifted"):
        page = tmp_path / f"{other}.html"
        assert main(["compare", str(runs / "a"), str(runs / other), "--html", str(page)]) == 0
    browser = chromium(tmp_path / "profile")
    try:
        for other in ("relabeled", "drifted"):
            assert look(browser, tmp_path / f"{other}.html", width=width) == []
            inner = "return document.documentElement.scrollWidth"
            assert browser.execute_script(inner) <= width  # type: ignore[no-untyped-call]
            assert browser.find_element(By.CSS_SELECTOR, "figure svg").size["height"] > 60
        assert "drifted: p0 fell" in browser.find_element(By.TAG_NAME, "h1").text
    finally:
        browser.quit()


def test_training_warns_of_drift_since_the_one_before(pool: PoolWriter, tmp_path: Path) -> None:
    """The first of its kind warns of nothing, one with other noise does, an equal one does not."""
    pattern = str(tmp_path / "runs" / "pool-*")
    source = pool(n=3000)
    first = fit(source, tmp_path / "runs" / "pool-1", compare_with=pattern)
    assert first["warnings"] == []
    same = fit(source, tmp_path / "runs" / "pool-2", compare_with=pattern)
    assert same["warnings"] == []
    data = np.load(source)
    clean = data["X"].mean(axis=1) > 1.5
    np.savez(tmp_path / "less.npz", X=data["X"], y=clean.astype(np.int8))
    other = fit(tmp_path / "less.npz", tmp_path / "runs" / "pool-3", compare_with=pattern)
    assert other["since"][0].startswith("since ")
    assert "pool-2: p0 0." in other["since"][0]
    page = tmp_path / "runs" / "page.html"
    assert main(["report", "--run", str(tmp_path / "runs/pool-3"), "--html", str(page)]) == 0
    assert "Since the last training" in page.read_text()
    assert 'href="pool-3/label_issues.parquet"' in page.read_text()
    assert any("p0" in warning and "pool-2" in warning for warning in other["warnings"])
    mistyped = tmp_path / "runs" / "pool-0"
    with pytest.raises(InputError, match="pool-0"):
        fit(source, tmp_path / "runs" / "pool-4", compare_with=str(mistyped))
    assert not (tmp_path / "runs" / "pool-4").exists()


def test_rates_of_labels_by_other_names_are_not_compared(runs: Path, tmp_path: Path) -> None:
    """The same rows and labels, called so that the other class comes first."""
    with np.load(runs / "a.npz") as pool:
        table = pd.DataFrame(pool["X"], columns=list("abc")).assign(y=pool["y"])
    names = {"health": ("healthy", "sick"), "weal": ("well", "ill")}
    for name, values in names.items():
        table.assign(y=table.y.map(dict(enumerate(values)))).to_csv(tmp_path / name, index=False)
        (tmp_path / name).rename(tmp_path / f"{name}.csv")
        fit(tmp_path / f"{name}.csv", tmp_path / name, k=20, label_column="y")
    found = compare(str(tmp_path / "health"), str(tmp_path / "weal"))
    assert found.rates == {}
    text = compare_text(found)
    assert "DRIFT" not in text
    other = "the classes changed ('ill', 'well' came, 'healthy', 'sick' went)"
    assert f"CHANGED: {other}\n" in text
    untold = "Whether the noise has drifted cannot be told from these two trainings"
    assert verdict(found).startswith(f"{untold}; {other}; the rows are not comparable")
    assert "labels are ['healthy', 'sick'] and ['ill', 'well']" in text
    assert compare(str(tmp_path / "weal"), str(tmp_path / "weal")).rates.keys() == {"p0", "p1"}
