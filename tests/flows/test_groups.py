"""Whose labels: a column from the table to the report, to Python and to the page."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from classes import clouds, names
from runs import fit, fit_until, results
from sklearn.metrics import average_precision_score

import knnoise
from flows.cli import main
from flows.report.content import load
from flows.report.lines import remarks
from storage.arrays.groups import read_array
from storage.errors import InputError
from storage.runs.run import Run

N = 3000
SITES = np.array(["Aachen", "Bern", "Chur", "Davos"])
RATES = np.array([0.05, 0.1, 0.2, 0.35])


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Two clouds; the four sites are mixed, and label wrongly at `RATES`."""
    rng = np.random.default_rng(seed)
    clean, site = rng.integers(0, 2, n), rng.integers(0, 4, n)
    x = rng.normal(size=(n, 3)) + 3.0 * clean[:, None]
    sick = clean ^ (rng.random(n) < RATES[site])
    when = np.datetime64("2026-01-01") + rng.integers(0, 3, n) * np.timedelta64(40, "D")
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "site": SITES[site], "month": when}
    return pd.DataFrame({**columns, "sick": np.where(sick, "yes", "no")})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training by site, and one that was never told of sites."""
    folder = tmp_path_factory.mktemp("groups")
    table().drop(columns="month").to_csv(folder / "pool.csv", index=False)
    options: dict[str, Any] = {"label_column": "sick", "k": None, "block_rows": 1200}
    fit(folder / "pool.csv", folder / "run", by="site", **options)
    fit(folder / "pool.csv", folder / "plain", exclude=["site"], **options)
    return folder


def test_groups_are_found_worst_first(made: Path) -> None:
    report = json.loads((made / "run" / "report.json").read_text())
    groups = report["groups"]
    assert groups["column"] == "site"
    assert groups["p_value"] < 1e-6
    assert [group["value"] for group in groups["groups"]] == SITES[::-1].tolist()
    for group, rate in zip(groups["groups"], RATES[::-1], strict=True):
        low, high = group["wrong_interval"]
        assert low <= rate <= high
        assert abs(group["wrong"] - rate) < 0.05
        assert [one["true"] for one in sorted(group["rates"], key=lambda r: r["true"])] == [
            *("no", "yes")
        ]
    assert sum(group["rows"] for group in groups["groups"]) == N
    assert sum(group["suspects"] for group in groups["groups"]) == report["n_label_issues"]
    text = (made / "run" / "report.txt").read_text()
    assert "whose labels, by 'site': 4 groups, they differ (p < 0.001)" in text
    assert text.index("'Davos'") < text.index("'Aachen'")


def test_the_column_changes_nothing_but_qualities(made: Path) -> None:
    one, two = (json.loads((made / run / "report.json").read_text()) for run in ("run", "plain"))
    for name in ("p0", "p1", "k", "threshold", "n_features"):
        assert one[name] == two[name]
    assert two["groups"] is None
    first, second = results(made / "run"), results(made / "plain")
    assert {key for key in first if key not in second} >= {"results.zarr/pool/group/zarr.json"}
    changed = {key for key in second if first[key] != second[key]}
    judged = ("label_quality", "is_label_issue")
    qualities = tuple(f"results.zarr/labels/{name}/" for name in judged)
    expected = ("results.zarr/pool/", "label_issues.parquet", *qualities)
    assert [key for key in changed if not key.startswith(expected)] == []
    assert any(key.startswith(qualities[0]) for key in changed)


def test_names_that_look_the_same_are_said(made: Path) -> None:
    """Composed and decomposed: what they are written with tells them apart."""
    groups = load(Run.of(made / "run")).groups
    assert groups is not None
    names = ["Z\u00fcrich", "Bern", "Zu\u0308rich", "Chur"]
    named = zip(groups.groups, names, strict=True)
    spelled = replace(groups, groups=[replace(one, value=name) for one, name in named])
    assert not any("accents" in line for line in remarks(groups))
    (line,) = (line for line in remarks(spelled) if "accents" in line)
    assert line.startswith(
        "groups 'Z\\xfcrich' and 'Zu\\u0308rich' differ by case, spaces or accents"
    )


@pytest.mark.parametrize("c", [2, 5])
def test_qualities_know_whose_labels_they_are(c: int, tmp_path: Path) -> None:
    """Of two labels that the same neighbors doubt, that of the sloppy one is the likelier wrong;
    whatever the blocks."""
    rng = np.random.default_rng(c)
    clean, who = rng.integers(0, c, 3000), rng.integers(0, 4, 3000)
    x = rng.normal(size=(3000, 3)) + 2.0 * rng.normal(size=(c, 3))[clean]
    wrong = rng.random(3000) < np.array([0.02, 0.02, 0.1, 0.45])[who]
    given = np.where(wrong, (clean + rng.integers(1, c, 3000)) % c, clean)
    np.savez(tmp_path / "pool.npz", X=x.astype(np.float32), y=given, who=who)
    precision, rates = {}, {}
    np.savez(tmp_path / "plain.npz", X=x.astype(np.float32), y=given)
    runs: dict[str, dict[str, Any]] = {"plain": {}, "pool": {"by": "who"}}
    runs["blocks"] = {"by": "who", "block_rows": 800}
    for run, options in runs.items():
        source = tmp_path / ("plain.npz" if run == "plain" else "pool.npz")
        fit(source, tmp_path / run, k=None, **options)
        labels = Run.of(str(tmp_path / run)).group("labels")
        precision[run] = average_precision_score(wrong, -read_array(labels, "label_quality"))
        if run != "plain":
            wrong_of = read_array(Run.of(str(tmp_path / run)).group("mistakes"), "wrong")
            values = Run.of(str(tmp_path / run)).group("pool").attrs.asdict()["group_values"]
            rates[run] = wrong_of[np.argsort(values)]
    assert min(precision["pool"], precision["blocks"]) > precision["plain"] + 0.02
    assert np.allclose(rates["pool"], rates["blocks"], atol=0.05)
    assert rates["pool"][3].min() > 0.3
    assert rates["pool"][:2].max() < 0.12


def test_interrupted_run_ends_with_the_same_bits(made: Path, tmp_path: Path) -> None:
    options = {"label_column": "sick", "k": None, "block_rows": 1200, "by": "site"}
    fit_until("group-counts", made / "pool.csv", tmp_path / "run", **options)
    report = fit(made / "pool.csv", tmp_path / "run", **options)
    assert results(tmp_path / "run") == results(made / "run")
    assert report["groups"] == json.loads((made / "run" / "report.json").read_text())["groups"]


def test_a_site_that_codes_labels_otherwise_is_told(tmp_path: Path) -> None:
    """By site, and where the site is taken for a feature, from which its own code can be learned;
    the remedies followed, there is no such word."""
    frame = table()
    there = frame.site == "Bern"
    frame.loc[there, "sick"] = frame.sick[there].map({"yes": "no", "no": "yes"})
    frame = frame.drop(columns="month")
    taken = knnoise.train(frame, tmp_path / "feature", label_column="sick", encode="one-hot")
    (told,) = [line for line in taken.summary["warnings"] if "are unlike those near them" in line]
    assert "labels where site is Bern" in told
    assert told.endswith("train again with --by site")
    knnoise.train(frame, tmp_path / "by", label_column="sick", by="site")
    text = (tmp_path / "by" / "report.txt").read_text()
    (line,) = [line for line in text.splitlines() if "may code labels otherwise" in line]
    assert line.startswith("  'Bern' may code labels otherwise; its label → that of such rows")
    assert "'no' → 'yes'" in line
    assert "'yes' → 'no'" in line
    right = table().drop(columns="month")
    knnoise.train(right, tmp_path / "right", label_column="sick", by="site")
    assert "code labels otherwise" not in (tmp_path / "right" / "report.txt").read_text()


def test_scored_tables_may_have_the_column_or_not(made: Path, tmp_path: Path) -> None:
    new = table(60, 1).drop(columns="month")
    new.to_csv(tmp_path / "with.csv", index=False)
    new.drop(columns=["site", "sick"]).to_csv(tmp_path / "without.csv", index=False)
    scores = []
    for name in ("with", "without"):
        out = tmp_path / f"{name}.parquet"
        args = ("score", str(tmp_path / f"{name}.csv"), "--run", str(made / "run"))
        assert main([*args, "--out", str(out), "--workers", "0", "-q"]) == 0
        scores.append(pd.read_parquet(out))
    pd.testing.assert_frame_equal(*scores)


def test_check_takes_the_column_for_no_feature(made: Path, capsys: Any) -> None:
    args = ("check", str(made / "pool.csv"), "--label-column", "sick", "--json")
    assert main([*args, "--by", "site"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_features"] == 3
    assert not any("site" in finding["columns"] for finding in found["findings"])


def test_pages_show_the_groups(made: Path, tmp_path: Path) -> None:
    for run, shown in (("run", True), ("plain", False)):
        page = tmp_path / f"{run}.html"
        assert main(["report", "--run", str(made / run), "--html", str(page)]) == 0
        text = page.read_text()
        assert ('<h2 id="h-whose">Whose labels</h2>' in text) == shown
        assert ('<title id="whose-t">' in text) == shown


def test_dates_numbers_and_gaps_from_python(tmp_path: Path) -> None:
    frame = table(800).drop(columns="site")
    frame.loc[frame.index[:30], "month"] = pd.NaT
    options = {"label_column": "sick", "workers": 0, "quiet": True, "k": 10}
    found = knnoise.train(frame, tmp_path / "run", by="month", **options)
    groups = found.groups
    assert groups.index.name == "month"
    assert sorted(groups.index) == [f"2026-{day} 00:00:00" for day in ("01-01", "02-10", "03-22")]
    assert groups["rows"].sum() == 770
    assert found.summary["groups"]["nobody"] == 30
    assert (groups["low"] <= groups["wrong"]).all()
    assert {"p0", "p1_low", "wrong_shrunk", "support"} <= set(groups.columns)
    assert "30 rows have no 'month'" in str(found)
    plain = knnoise.train(frame.drop(columns="month"), tmp_path / "plain", **options)
    with pytest.raises(InputError, match="trained without by"):
        _ = plain.groups


def test_more_than_two_classes(tmp_path: Path) -> None:
    x, clean, _ = clouds(2400, 5)
    rng = np.random.default_rng(1)
    group = rng.integers(0, 3, len(x))
    wrong = rng.random(len(x)) < np.array([0.05, 0.2, 0.4])[group]
    given = np.where(wrong, (clean + 1) % 5, clean)
    np.savez(tmp_path / "pool.npz", X=x, y=names(5)[given], who=group * 10)
    report = fit(tmp_path / "pool.npz", tmp_path / "run", by="who", k=15)
    groups = report["groups"]
    assert [one["value"] for one in groups["groups"]] == [20, 10, 0]
    assert groups["p_value"] < 1e-6
    for one, rate in zip(groups["groups"], (0.4, 0.2, 0.05), strict=True):
        assert len(one["rates"]) == 5
        assert abs(one["wrong"] - rate) < 0.05
        assert np.allclose([r["estimate"] for r in one["rates"]], rate, atol=0.12)
    assert "whose labels, by 'who': 3 groups" in (tmp_path / "run" / "report.txt").read_text()


def test_groups_that_live_apart_are_at_most_weak(tmp_path: Path) -> None:
    there = table()
    order = there["b"].argsort().argsort()
    there["site"] = SITES[order * 4 // N]
    there["b"] += 10 * (order * 4 // N)
    there.drop(columns="month").to_csv(tmp_path / "t.csv", index=False)
    report = fit(tmp_path / "t.csv", tmp_path / "run", by="site", label_column="sick")
    assert report["groups"]["apart"] > 0.9
    assert {group["support"] for group in report["groups"]["groups"]} <= {"weak", "unsupported"}
    assert "groups live apart: " in (tmp_path / "run" / "report.txt").read_text()


def test_rates_of_groups_are_of_the_labels_that_they_gave(made: Path, tmp_path: Path) -> None:
    """Whoever checked them since: once the suspects were, the labels left are nearly all right."""
    issues = pd.read_parquet(made / "run" / "label_issues.parquet")
    rows = issues.index[issues["is_label_issue"]]
    other = np.where(issues.loc[rows, "given_label"] == "yes", "no", "yes")
    pd.DataFrame({"row": rows, "label": other}).to_csv(tmp_path / "checked.csv", index=False)
    report = fit(
        made / "pool.csv",
        tmp_path / "run",
        by="site",
        label_column="sick",
        corrections=str(tmp_path / "checked.csv"),
    )
    before = json.loads((made / "run" / "report.json").read_text())
    wrong, unchecked = (
        {group["value"]: group["wrong"] for group in each["groups"]["groups"]}
        for each in (report, before)
    )
    assert wrong == pytest.approx(unchecked, abs=0.01)
    assert report["groups"]["p_value"] < 1e-6


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({}, {"by": "town"}, "--by 'town' is not there; columns are 'a', 'b', 'c', 'site'"),
        ({}, {"by": "sick"}, "--by 'sick' is the column of the labels"),
        ({}, {"by": "site", "id_column": "site"}, "--by 'site' is the column of the ids"),
        ({"site": np.arange(1100)}, {"by": "site"}, r"--by 'site': more than 1,000 values by row "),
        ({"site": np.nan}, {"by": "site"}, "--by 'site': the column is empty"),
        ({}, {"by": "site", "noise": "minmax"}, "leave out --noise minmax"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, change: Any, options: Any, said: str) -> None:
    table(1100).drop(columns="month").assign(**change).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=said):
        fit(tmp_path / "t.csv", tmp_path / "run", label_column="sick", **options)
    assert not (tmp_path / "run").exists()


def test_damaged_groups_are_made_again(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    for lost in ("group/c/0", "group/zarr.json"):
        (tmp_path / "run" / "results.zarr" / "pool" / lost).unlink()
    options = {"label_column": "sick", "k": None, "block_rows": 1200, "by": "site"}
    fit(made / "pool.csv", tmp_path / "run", **options)
    assert results(tmp_path / "run") == results(made / "run")
