"""Several labels per row, from a long table to the consensus."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from processes import killed_at, running
from runs import AS_IN_FIT, fit, results

import knnoise
from flows.cli import main
from flows.intake.preflight import run_check
from flows.report import content
from flows.report.lines import warnings
from storage.errors import InputError
from storage.runs.run import Run

N = 600
SKILL = {"ann": 0.95, "bob": 0.85, "cyd": 0.75, "dan": 0.5}
OPTIONS = {"id_column": "id", "k": 10, "block_rows": 200}


def votes(ids: pd.Series, true: np.ndarray, seed: int = 1) -> pd.DataFrame:
    """One to three labels of each row, of shuffled lines."""
    rng, names, classes = np.random.default_rng(seed), list(SKILL), np.unique(true)
    lines = []
    for name, label in zip(ids, true, strict=True):
        for who in rng.permutation(names)[: rng.integers(1, 4)]:
            others = classes[classes != label]
            said = label if rng.random() < SKILL[who] else rng.choice(others)
            lines.append((name, who, said))
    return pd.DataFrame(lines, columns=["id", "annotator", "label"]).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features, votes of two and of three classes, and a finished run of the former."""
    folder = tmp_path_factory.mktemp("votes")
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, N)
    x = rng.normal(size=(N, 2)) + 2.5 * np.column_stack([true, true == 1])
    table = pd.DataFrame(x, columns=["a", "b"])
    table.insert(0, "id", [f"p{row}" for row in rng.permutation(N)])
    table.to_csv(folder / "pool.csv", index=False)
    table.assign(site=rng.choice(["x", "y"], N)).to_csv(folder / "sites.csv", index=False)
    two, three = np.array(["no", "yes"])[(true > 0).astype(int)], np.array(["r", "s", "t"])[true]
    np.savez(folder / "true.npz", two=two, three=three)
    votes(table["id"], two).to_csv(folder / "votes.csv", index=False)
    votes(table["id"], three).to_parquet(folder / "three.parquet", index=False)
    fit(folder / "pool.csv", folder / "run", annotations=str(folder / "votes.csv"), **OPTIONS)
    return folder


def true_of(made: Path, name: str = "two") -> np.ndarray:
    return np.load(made / "true.npz")[name]


def whole(run: Path) -> dict[str, bytes]:
    return {**results(run), "consensus": (run / "consensus.parquet").read_bytes()}


def test_names_that_differ_by_spelling_alone_are_said(made: Path, tmp_path: Path) -> None:
    panel = content.load(Run.of(made / "run")).annotators
    assert panel is not None
    assert not any("accents" in line for line in warnings(panel))
    ann, *others = panel.annotators
    again = replace(panel, annotators=[ann, replace(others[0], value=f"{ann.value} "), *others[1:]])
    (line,) = (line for line in warnings(again) if "accents" in line)
    assert line.startswith(f"annotators {ann.value!r} and '{ann.value} ' differ by case, spaces or")
    said = pd.read_csv(made / "votes.csv")
    said["annotator"] = np.where(said.index % 2 == 0, said.annotator.str.upper(), said.annotator)
    said.to_csv(tmp_path / "votes.csv", index=False)
    votes_of = {"id_column": "id", "annotations": str(tmp_path / "votes.csv")}
    (text,) = (
        one["text"]
        for one in run_check(str(made / "pool.csv"), **votes_of)["findings"]
        if one["kind"] == "alike annotators"
    )
    assert text.startswith("annotators: ")
    assert text.endswith("differ by case, spaces or accents: recode the annotations")


def test_consensus_and_annotators(made: Path, tmp_path: Path) -> None:
    found = pd.read_parquet(made / "run/consensus.parquet")
    assert list(found)[:4] == ["id", "row", "given_label", "consensus_label"]
    assert (found.id == pd.read_csv(made / "pool.csv").id).all()
    long = pd.read_csv(made / "votes.csv")
    assert (found.n_annotations == long.id.value_counts().reindex(found.id).to_numpy()).all()
    joined = long.merge(found, on="id")
    agreed = (joined.label == joined.consensus_label).groupby(joined.id).mean()
    assert found.agreement.to_numpy() == pytest.approx(agreed.reindex(found.id).to_numpy())
    counts = long.groupby(["id", "label"]).size().unstack(fill_value=0).reindex(found.id)
    given = found.given_label.to_numpy()
    most = counts.to_numpy().max(axis=1)
    assert (most == counts.to_numpy()[np.arange(N), counts.columns.get_indexer(given)]).all()
    true = true_of(made)
    right = (found.consensus_label == true).mean()
    assert right > (given == true).mean() + 0.08
    assert found.certainty.mean() == pytest.approx(right, abs=0.04)
    report = json.loads((made / "run/report.json").read_text())
    told = report["annotators"]
    assert [one["value"] for one in told["annotators"]] == ["dan", "cyd", "bob", "ann"]
    for one in told["annotators"]:
        assert one["interval"][0] - 0.03 < SKILL[one["value"]] < one["interval"][1] + 0.03
        assert np.array(one["matrix"]).sum(axis=1) == pytest.approx(1)
        assert sum(one["class_rows"]) == pytest.approx(one["labels"])
    assert told["n_annotations"] == len(long)
    assert told["n_changed"] == (found.consensus_label != given).sum()
    least = found.sort_values(["certainty", "row"]).row[:20].tolist()
    assert [row["row"] for row in told["look_first"]] == least
    assert "'dan': hardly better than chance" in " ".join(report["warnings"])
    text = content.train_text(content.training(report))
    assert "annotators: 4, " in text
    assert "consensus in consensus.parquet" in text
    assert f"look first at rows {least[0]} (" in text
    assert text.split("look first at rows ")[1].splitlines()[0].endswith(" of its column row")
    trained = knnoise.open_run(made / "run")
    pd.testing.assert_frame_equal(trained.consensus, found)
    assert list(trained.annotators.index) == ["dan", "cyd", "bob", "ann"]
    page = tmp_path / "page.html"
    assert main(["report", "--run", str(made / "run"), "--html", str(page)]) == 0
    assert '<h2 id="h-annotators">Annotators</h2>' in page.read_text()


def test_who_copies_is_named(made: Path, tmp_path: Path) -> None:
    long = pd.read_csv(made / "votes.csv")
    copies = long[long.annotator == "cyd"].assign(annotator="eve")
    pd.concat([long, copies]).to_csv(tmp_path / "votes.csv", index=False)
    options = {**OPTIONS, "annotations": str(tmp_path / "votes.csv")}
    report = fit(made / "pool.csv", tmp_path / "run", **options)
    (line,) = (line for line in report["warnings"] if " agree in " in line)
    rows = f"agree in 100% of {len(copies)} rows, where "
    assert line.startswith(f"annotators 'cyd' and 'eve' {rows}")
    assert {one["support"] for one in report["annotators"]["annotators"]} <= {"weak", "unsupported"}
    assert " agree in " not in " ".join(
        json.loads((made / "run/report.json").read_text())["warnings"]
    )


def test_three_classes_and_rows_by_number(made: Path, tmp_path: Path) -> None:
    table, long = pd.read_csv(made / "pool.csv"), pd.read_parquet(made / "three.parquet")
    place = pd.Series(table.index, table.id)
    long.assign(row=place[long.id].to_numpy()).drop(columns="id").rename(
        columns={"annotator": "who", "label": "said"}
    ).to_csv(tmp_path / "rows.csv", index=False)
    named = {"annotator_column": "who", "label_column": "said", "exclude": ["id"], "k": 10}
    table.to_parquet(tmp_path / "pool.parquet", index=False)
    report = fit(
        *(tmp_path / "pool.parquet", tmp_path / "rows"),
        annotations=str(tmp_path / "rows.csv"),
        **named,
    )
    assert report["label_name"] == "said"
    fit(
        *(made / "pool.csv", tmp_path / "ids"),
        annotations=str(made / "three.parquet"),
        id_column="id",
    )
    by_row, by_id = (
        pd.read_parquet(tmp_path / run / "consensus.parquet") for run in ("rows", "ids")
    )
    assert (by_row.n_annotations == by_id.n_annotations).all()
    assert (by_row.consensus_label == by_id.consensus_label).mean() > 0.97  # ties fall otherwise
    right = (by_id.consensus_label == true_of(made, "three")).mean()
    assert right > (by_id.given_label == true_of(made, "three")).mean() + 0.1


def test_two_workers_and_a_killed_run_give_the_same_bits(made: Path, tmp_path: Path) -> None:
    args = ("-m", "flows.cli", "train", made / "pool.csv", "--run", tmp_path / "run")
    more = ("--id-column", "id", "--annotations", made / "votes.csv", "--block-rows", "200")
    more += ("--k", "10", "--workers", "2", *AS_IN_FIT)
    with running(*args, *more, log=tmp_path / "log") as process:
        killed_at(process, tmp_path / "run", step="annotators-00")
    options: dict[str, Any] = {"annotations": str(made / "votes.csv"), **OPTIONS}
    fit(made / "pool.csv", tmp_path / "run", **options)
    assert whole(tmp_path / "run") == whole(made / "run")
    with pytest.raises(InputError, match=r"votes\.csv"):
        fit(
            made / "pool.csv",
            made / "run",
            **{**options, "annotations": str(made / "three.parquet")},
        )


def test_rows_without_annotations_checked_labels_and_groups(made: Path, tmp_path: Path) -> None:
    long = pd.read_csv(made / "votes.csv", index_col=False)
    without = pd.read_csv(made / "pool.csv").id[:20]
    kept = long[~long.id.isin(without)]
    kept.to_csv(tmp_path / "votes.csv", index=False)
    checked = "row,label\n" + "".join(f"{row},{true_of(made)[row]}\n" for row in range(15, 60))
    (tmp_path / "checked.csv").write_text(checked)
    report = fit(
        *(made / "sites.csv", tmp_path / "run"),
        annotations=str(tmp_path / "votes.csv"),
        corrections=str(tmp_path / "checked.csv"),
        unlabeled="predict",
        by="site",
        **OPTIONS,
    )
    assert report["n_unlabeled"] == 15
    assert len(pd.read_parquet(tmp_path / "run/unlabeled.parquet")) == 15
    found = pd.read_parquet(tmp_path / "run/consensus.parquet").set_index("row")
    assert (found.consensus_label.loc[15:59] == true_of(made)[15:60]).all()
    assert (found.certainty.loc[15:59] > 0.999).all()
    assert found.n_annotations.loc[15:19].eq(0).all()
    assert len(report["groups"]["groups"]) == 2
    assert report["annotators"]["n_annotations"] == len(kept)


def test_single_labels_and_doubtful_lines_are_warned_of(made: Path, tmp_path: Path) -> None:
    long = pd.read_csv(made / "votes.csv").drop_duplicates("id")
    three = long[:3]
    more = [three.assign(annotator="eve"), three.assign(annotator="gus", label="yse")]
    long = pd.concat([long, *more])
    long = pd.concat([long, long[:2].assign(annotator="fay", label=None)])
    long.to_csv(tmp_path / "votes.csv", index=False)
    options = {**OPTIONS, "annotations": str(tmp_path / "votes.csv")}
    report = fit(made / "pool.csv", tmp_path / "run", **options)
    warned = " ".join(report["warnings"])
    assert "few rows have labels of several annotators" in warned
    assert "2 lines of the annotations without a label" in warned
    assert "3 annotations have a label that is no row's majority" in warned
    assert {one["support"] for one in report["annotators"]["annotators"]} <= {"weak", "unsupported"}


def bad(table: pd.DataFrame, case: str) -> pd.DataFrame:
    """A table of annotations that is refused."""
    first = table.iloc[[0]]
    if case == "unknown":
        return pd.concat([table, first.assign(id="q7")])
    if case == "twice":
        return pd.concat([table, first])
    if case == "annotators":
        return (
            table.assign(annotator=range(len(table)))
            .loc[table.index.repeat(9)]
            .assign(annotator=range(9 * len(table)))
        )
    if case == "without":
        return table[table.id != "p11"]
    if case == "nobody":
        return pd.concat([table, first.assign(annotator=None)])
    if case == "column":
        return table.rename(columns={"annotator": "who"})
    return table.assign(label=table.id)


BAD = {
    "unknown": "id 'q7' at row {n} (from 0) is none of the source's 600 rows (1 such)",
    "twice": "twice, at rows 0 and {n} (from 0); keep one (1 such)",
    "annotators": "column 'annotator' has more than 10,000 values by row 10,000 (from 0)",
    "without": "1 row has no annotation; first row ",
    "nobody": "column 'annotator' is empty at row {n} (from 0)",
    "column": "no column 'annotator', only 'id', 'who', 'label'",
    "classes": "has 1 row",
}


@pytest.mark.parametrize("case", BAD)
def test_bad_annotations_are_one_line(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    table = pd.read_csv(made / "votes.csv")
    bad(table, case).to_csv(tmp_path / "bad.csv", index=False)
    args = ["train", str(made / "pool.csv"), "--run", str(tmp_path / "run"), "--id-column", "id"]
    args += ["--annotations", str(tmp_path / "bad.csv"), "--workers", "0", "-q"]
    assert main(args) == 2
    told = capsys.readouterr().err
    assert BAD[case].format(n=f"{len(table):,}") in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run/report.json").exists()


def test_options_that_do_not_go_together(made: Path, tmp_path: Path) -> None:
    table = pd.read_csv(made / "pool.csv")
    pd.concat([table, table[:1]]).to_csv(tmp_path / "again.csv", index=False)
    table.assign(label=np.arange(N) % 7).to_csv(tmp_path / "label.csv", index=False)
    options = {**OPTIONS, "annotations": str(made / "votes.csv")}
    with pytest.raises(InputError, match=r"id 'p\d+' occurs again at row 600 \(from 0\)"):
        fit(tmp_path / "again.csv", tmp_path / "run", **options)
    with pytest.raises(InputError, match="has a column 'label' like the labels of"):
        fit(tmp_path / "label.csv", tmp_path / "run", **options)
    with pytest.raises(InputError, match="leave out --labels"):
        fit(made / "pool.csv", tmp_path / "run", **options, labels="y.csv")
    with pytest.raises(InputError, match="give both"):
        fit(made / "pool.csv", tmp_path / "run", annotator_column="who")


def test_check_names_labels_that_annotators_write_in_several_ways(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    votes = pd.read_csv(made / "votes.csv", dtype=str)
    one = sorted(votes.label.unique())[0]
    votes.loc[votes.annotator == "ann", "label"] = votes.label.replace(one, f"{one} é")
    votes.loc[votes.annotator == "bob", "label"] = votes.label.replace(one, f"{one} E")
    votes.to_csv(tmp_path / "votes.csv", index=False)
    check = ["check", str(made / "pool.csv"), "--id-column", "id", "--annotations"]
    assert main([*check, str(tmp_path / "votes.csv")]) == 0
    told = capsys.readouterr().out
    assert f"'{one} E' and '{one} é' differ by case, spaces or accents: recode the" in told


def test_check_and_score(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["check", str(made / "pool.csv"), "--id-column", "id", "--json"]
    assert main([*args, "--annotations", str(made / "votes.csv")]) == 0
    assert json.loads(capsys.readouterr().out)["n_features"] == 2
    out = tmp_path / "scores.parquet"
    args = ["score", str(made / "pool.csv"), "--run", str(made / "run"), "--out", str(out)]
    assert main([*args, "--workers", "0", "-q"]) == 0
    assert len(pd.read_parquet(out)) == N
