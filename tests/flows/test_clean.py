"""What a run was trained on, without its suspect labels: columns, types, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from classes import clouds, names
from runs import PoolWriter, fit

from flows.clean import CleanReport, clean_text, run_clean
from flows.cli import main
from knnoise import open_run, train
from knnoise.result import _read
from storage.errors import InputError
from storage.export import FORMATS
from storage.sources.opening import open_source
from storage.sources.stored import stored_cells, stored_schema

N = 600


def table(n: int = N) -> pd.DataFrame:
    """Two noisy clouds, with columns of many types beside."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, n)
    given = clean ^ (rng.random(n) < np.where(clean == 1, 0.1, 0.3))
    x = (rng.normal(size=(n, 2)) + 3.0 * clean[:, None]).astype(np.float32)
    return pd.DataFrame(x, columns=["a", "b"]).assign(
        count=rng.integers(0, 9, n).astype(np.int16),
        site=[f"{i % 7:03d}" for i in range(n)],
        day=pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n), "D"),
        kind=pd.Categorical(np.where(clean, "new", "old")),
        sick=np.where(given, "yes", "no"),
    )


ASIDE = ["site", "day", "kind"]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, pd.DataFrame]:
    """A source, its run and its verdicts."""
    folder = tmp_path_factory.mktemp("two")
    table().to_parquet(folder / "pool.parquet")
    fit(folder / "pool.parquet", folder / "run", label_column="sick", exclude=ASIDE)
    issues = pd.read_parquet(folder / "run/label_issues.parquet")
    return folder / "pool.parquet", folder / "run", issues


@pytest.mark.parametrize("end", FORMATS)
def test_any_format_has_the_columns_of_the_source(
    two: tuple[Path, Path, pd.DataFrame], tmp_path: Path, end: str
) -> None:
    source, run, issues = two
    out = str(tmp_path / f"clean{end}")
    assert main(["clean", str(source), "--run", str(run), "--out", out, "-q"]) == 0
    found, kept = _read(out), table()[~issues["is_label_issue"].to_numpy()]
    assert list(found) == list(kept)
    assert len(found) == len(kept) < N
    for name in ("a", "b"):
        assert np.allclose(found[name], kept[name], rtol=1e-6)
    assert (found["sick"].to_numpy() == kept["sick"].to_numpy()).all()
    if end in (".parquet", ".arrow", ".feather"):
        assert (found.dtypes[["a", "count", "day"]] == kept.dtypes[["a", "count", "day"]]).all()
        assert (found["site"].to_numpy() == kept["site"].to_numpy()).all()


def test_labels_are_replaced_or_weighted(
    two: tuple[Path, Path, pd.DataFrame], tmp_path: Path
) -> None:
    source, run, issues = two
    found = {
        how: open_run(run).clean(source, tmp_path / f"{how}.parquet", how).frame
        for how in ("relabel", "weight", "soft")
    }
    given, suspect = table()["sick"], issues["is_label_issue"]
    other = given.map({"yes": "no", "no": "yes"})
    assert (found["relabel"]["sick"] == given.where(~suspect, other)).all()
    assert (found["weight"]["sample_weight"] == issues["label_quality"]).all()
    soft = found["soft"]
    assert (soft["sick"] == given).all()
    of_given = soft["posterior_yes"].where(given == "yes", soft["posterior_no"])
    assert np.allclose(of_given, issues["label_quality"], atol=1e-6)
    assert np.allclose(soft["posterior_yes"] + soft["posterior_no"], 1.0)


@pytest.mark.parametrize("how", ["soft", "weight"])
def test_what_cleaning_adds_is_no_feature_of_a_training(
    two: tuple[Path, Path, pd.DataFrame],
    tmp_path: Path,
    how: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, run, _ = two
    out = tmp_path / "clean.parquet"
    added = [name for name in open_run(run).clean(source, out, how).frame if name not in table()]
    aside = [word for name in ASIDE for word in ("--exclude", name)]
    train = ["train", str(out), "--label-column", "sick", *aside, "--workers", "0", "-q", "--run"]
    assert main([*train, str(tmp_path / "run")]) == 0
    config = json.loads((tmp_path / "run/run.json").read_text())
    assert config["feature_names"] == ["a", "b", "count"]
    assert main(["check", str(out), "--label-column", "sick"]) == 0
    assert f"left out: {', '.join(map(repr, added))} {'are' if added[1:] else 'is'} what clean" in (
        capsys.readouterr().out
    )
    if how == "soft":  # asked for by name, they are a model's probabilities
        given = ["--model-probabilities", "posterior_"]
        assert main([*train, str(tmp_path / "stated"), *given]) == 0
        config = json.loads((tmp_path / "stated/run.json").read_text())
        assert {*added} <= {*config["feature_names"]}


def test_two_ways_to_clean_at_once_are_refused(
    two: tuple[Path, Path, pd.DataFrame], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run, _ = two
    clean = ["clean", str(source), "--run", str(run), "--out", str(tmp_path / "c.csv"), "-q"]
    assert main([*clean, "--soft", "--drop"]) == 2
    assert "--drop and --soft: give one of them" in capsys.readouterr().err
    assert main([*clean, "--how=soft", "--drop"]) == 2
    assert "--drop and --how: give one of them" in capsys.readouterr().err
    assert not (tmp_path / "c.csv").exists()
    assert main([*clean, "--soft", "--soft"]) == 0
    assert main([*clean, "--how", "weight"]) == 0  # as Python has it
    assert "sample_weight" in pd.read_csv(tmp_path / "c.csv")


def test_text_has_the_types_of_its_cells(tmp_path: Path) -> None:
    words = np.array(["NA", "null", "DE"])[np.arange(N) % 3]
    plain = table().drop(columns=["kind"]).assign(part=np.where(np.arange(N) < 500, "1", "x"))
    plain = plain.assign(land=words, last=np.where(words == "NA", words, "1,5"))
    plain = plain.assign(people=[f"{i % 90 + 1}.000" for i in range(N)])
    plain.to_csv(tmp_path / "pool.csv", index=False, sep=";", decimal=",")
    more: dict[str, Any] = {"sep": ";", "decimal": ","}
    fit(
        tmp_path / "pool.csv",
        tmp_path / "run",
        label_column="sick",
        exclude=["site", "day", "part", "land", "last", "people"],
        **more,
    )
    out = tmp_path / "clean.parquet"
    run_clean(str(tmp_path / "pool.csv"), str(tmp_path / "run"), str(out), how="weight")
    found = pd.read_parquet(out)
    assert found["count"].dtype == np.int64
    assert found["a"].dtype == np.float64
    assert found["site"][1] == "001"
    assert found["part"][499:501].tolist() == ["1", "x"]
    assert found["land"].tolist() == words.tolist()
    assert found["last"].isna().tolist() == (words == "NA").tolist()
    assert found["last"][1] == 1.5
    assert found["people"].tolist() == plain["people"].tolist()
    assert np.allclose(found["a"], plain["a"])


@pytest.mark.parametrize("mended", ["relabel", "corrections", "join_labels"])
def test_labels_that_are_not_the_cells_are_spelled_as_all_others(
    tmp_path: Path, mended: str
) -> None:
    spelled = {"no": "1.50", "yes": "+2"} if mended != "join_labels" else {"no": "No ", "yes": "ye"}
    pool = table()[["a", "b"]].assign(sick=table()["sick"].map(spelled))
    if mended == "join_labels":
        pool.loc[:99, "sick"] = pool["sick"][:100].str.upper()
    source, out = str(tmp_path / "pool.parquet"), str(tmp_path / "clean.parquet")
    pool.to_parquet(source)
    (tmp_path / "checked.csv").write_text("row,label\n0,2\n1,1.5\n2,2\n3,1.5\n")
    more: dict[str, Any] = {"corrections": tmp_path / "checked.csv", "join_labels": True}
    fit(source, tmp_path / "run", label_column="sick", **{k: more[k] for k in more if k == mended})
    how = "relabel" if mended == "relabel" else "weight"
    report = run_clean(source, str(tmp_path / "run"), out, how=how)
    found = pd.read_parquet(out)["sick"].value_counts()
    assert found[[*map(str, report["classes"])]].tolist() == report["n_by_class"]
    assert len(found) == 2


@pytest.mark.parametrize("end", ["parquet", "csv"])
def test_labels_that_are_large_floats_stay_the_same(tmp_path: Path, end: str) -> None:
    """Whole numbers from 2 ** 53 on, which Arrow makes no floats of unasked."""
    large = {"no": 2.0**60, "yes": 2.0**60 + 256}
    pool = table()[["a", "b"]].assign(sick=table()["sick"].map(large))
    source, out = str(tmp_path / f"pool.{end}"), str(tmp_path / "clean.parquet")
    pool.to_csv(source, index=False) if end == "csv" else pool.to_parquet(source)
    fit(source, tmp_path / "run", label_column="sick")
    report = run_clean(source, str(tmp_path / "run"), out, how="relabel")
    found = pd.read_parquet(out)["sick"].value_counts()
    assert found[[*large.values()]].tolist() == report["n_by_class"]
    assert len(found) == 2


def test_columns_that_folders_give_are_written(tmp_path: Path) -> None:
    halves = {"year=2024/kind=a": table()[:400], "year=2025/kind=b": table()[400:]}
    for name, half in halves.items():
        (tmp_path / "pool" / name).mkdir(parents=True)
        half.drop(columns=ASIDE).to_csv(tmp_path / "pool" / name / "t.csv", index=False)
    fit(tmp_path / "pool", tmp_path / "run", label_column="sick", exclude=["kind"])
    out = tmp_path / "clean.parquet"
    run_clean(str(tmp_path / "pool"), str(tmp_path / "run"), str(out), how="weight")
    found = pd.read_parquet(out)
    assert found["year"].tolist() == [2024] * 400 + [2025] * 200
    assert found["kind"].tolist() == ["a"] * 400 + ["b"] * 200


def test_long_numbers_of_text_are_written_as_they_are(tmp_path: Path) -> None:
    long = 8 * 10**18 + np.arange(N)
    given = table()["sick"].map({"no": "9007199254740992", "yes": "9007199254740993"})
    plain = table()[["a", "b"]].assign(
        long=long,
        beyond=[str(10 * int(one)) for one in long],
        beside=np.where(np.arange(N) % 2, "9007199254740993", "0.5"),
        few=np.where(np.arange(N) % 2, "123456789012345", "0.25"),
        written=np.where(np.arange(N) % 2, "3.1415926535897931", "0.00012300000000000000000"),
        beside_pi=np.where(np.arange(N) % 2, "3.14159265358979323846", "0.5"),
        sick=given.where(np.arange(N) % 50 > 0, given + ".0"),
    )
    plain.to_csv(tmp_path / "pool.csv", index=False)
    more: dict[str, Any] = {"label_column": "sick", "exclude": ["long", "be*", "few", "written"]}
    fit(tmp_path / "pool.csv", tmp_path / "run", **more)
    out = tmp_path / "clean.parquet"
    run_clean(str(tmp_path / "pool.csv"), str(tmp_path / "run"), str(out), how="weight")
    found = pd.read_parquet(out)
    assert found["long"].dtype == np.int64
    assert found["few"].dtype == found["written"].dtype == np.float64
    for name in ("long", "beyond", "beside", "beside_pi", "sick"):
        assert (found[name] == plain[name]).all(), name


def test_many_classes_rows_left_out_and_checked_labels(tmp_path: Path) -> None:
    x, _, given = clouds(900, 4)
    pool = pd.DataFrame(x.astype(np.float64), columns=list("abcd")).assign(kind=names(4)[given])
    pool.loc[[3, 700], "b"] = np.nan
    pool.loc[[5, 701], "kind"] = None
    checked = pd.DataFrame({"row": [7, 8], "label": names(4)[(given[[7, 8]] + 1) % 4]})
    checked.to_csv(tmp_path / "checked.csv", index=False)
    options: dict[str, Any] = {"impute": "drop", "unlabeled": "predict", "label_column": "kind"}
    corrections = str(tmp_path / "checked.csv")
    found = train(pool, tmp_path / "run", workers=0, quiet=True, corrections=corrections, **options)
    issues = found.label_issues.set_index("row")
    rows = issues.index.to_numpy()
    assert len(rows) == 896
    soft, kept = found.clean(pool, how="soft"), found.clean(pool)
    assert (soft.frame["a"].to_numpy() == pool["a"].to_numpy()[rows]).all()
    assert (soft.frame["kind"].to_numpy() == issues["given_label"].to_numpy()).all()
    assert soft.frame["kind"][5] == checked["label"][0]  # row 7, of which 3 and 5 are left out
    chance = soft.frame[[f"posterior_{name}" for name in names(4)]].to_numpy()
    assert np.allclose(chance.sum(axis=1), 1.0, atol=1e-6)
    codes = pd.Index(names(4)).get_indexer(issues["given_label"])
    assert np.allclose(chance[np.arange(len(rows)), codes], issues["label_quality"], atol=1e-6)
    suspect = issues["is_label_issue"].to_numpy()
    assert (kept.frame["a"].to_numpy() == pool["a"].to_numpy()[rows[~suspect]]).all()
    again = found.clean(pool, how="relabel").frame["kind"].to_numpy()
    likely = np.where(suspect, issues["likely_label"], issues["given_label"])
    assert (again == likely).all()
    assert "4 rows are not in it, left out by the training" in str(kept)


def test_truth_values_beside_missing_ones_are_nullable(tmp_path: Path) -> None:
    pool = table().drop(columns=ASIDE)
    pool["member"] = pd.array(np.where(pool.index % 5, pool["a"] > 1, None), dtype="boolean")
    found = train(
        pool, tmp_path / "run", label_column="sick", impute="median", workers=0, quiet=True
    )
    for end in (".parquet", ".csv", ".jsonl"):
        kept = found.clean(pool, tmp_path / f"clean{end}").frame
        issues = found.label_issues["is_label_issue"].to_numpy()
        assert kept["member"].dtype == "boolean"
        assert kept["member"].equals(pool["member"][~issues].reset_index(drop=True))


def test_truth_values_of_a_sheet_stay_such(tmp_path: Path) -> None:
    source = str(tmp_path / "pool.xlsx")
    given = table()[["a", "b", "sick"]].assign(flag=np.arange(N) % 3 > 1, note="true")
    given.loc[5, "note"] = "none"
    given.to_excel(source, index=False)
    found = train(source, label_column="sick", exclude=["note"], workers=0, quiet=True, k=10)
    for end in ("xlsx", "parquet"):
        clean = found.clean(source, tmp_path / f"clean.{end}", "weight").frame
        assert clean["flag"].dtype == bool
        assert clean[["flag", "note"]].equals(given[["flag", "note"]])


def test_labels_beside_a_column_of_their_name_get_another(tmp_path: Path) -> None:
    given = table()[["a", "b"]].assign(label=np.arange(N) % 7)
    found = train(given, labels=table()["sick"], workers=0, quiet=True, k=10)
    clean = found.clean(given, how="weight")
    assert clean.frame[["a", "b", "label"]].equals(given)
    assert clean.frame["label2"].tolist() == table()["sick"].tolist()
    assert "\nlabels are in column 'label2'\n" in str(clean)


def test_text_of_polars_in_whatever_column_is_kept(tmp_path: Path) -> None:
    pool = pl.DataFrame(table().drop(columns=ASIDE).to_dict("list"))
    names = pl.Series([f"name {i}" for i in range(N)])
    deep = {
        "packed": names.cast(pl.Binary),
        "two": pl.DataFrame({"in": names, "n": range(N)}).to_struct(),
        "three": pl.Series([[[name], []] for name in names]),
        "pair": pl.Series([[name, None] for name in names], dtype=pl.Array(pl.String, 2)),
    }
    pool = pool.with_columns(**deep)
    options: dict[str, Any] = {"label_column": "sick", "exclude": [*deep], "workers": 0}
    found = train(pool, tmp_path / "run", quiet=True, **options)
    found.clean(pool, tmp_path / "clean.parquet")
    kept = pool.filter(~pl.Series(found.label_issues["is_label_issue"]))
    assert pl.read_parquet(tmp_path / "clean.parquet").to_dicts() == kept.to_dicts()


def test_arrays_have_a_column_a_feature(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool(x64=np.zeros(1))
    x, y = (np.load(source)[name] for name in ("X", "y"))
    fit(source, tmp_path / "run")
    out = tmp_path / "clean.parquet"
    run_clean(str(source), str(tmp_path / "run"), str(out), how="weight")
    found = pd.read_parquet(out)
    assert list(found) == ["x0", "x1", "x2", "x3", "y", "sample_weight"]
    assert (found[["x0", "x1", "x2", "x3"]].to_numpy() == x).all()
    assert (found["y"] == y).all()
    assert found["x0"].dtype == np.float32
    wide = x.astype(np.float64) + 1e-9
    named = train(wide, tmp_path / "named", labels=y, k=10, workers=0, quiet=True)
    found = named.clean(wide, how="relabel").frame
    assert list(found) == ["x0", "x1", "x2", "x3", "label"]
    assert (found[["x0", "x1", "x2", "x3"]].to_numpy() == wide).all()
    for kind in (">f4", np.longdouble):
        other, run = tmp_path / "other.npz", tmp_path / f"run-{np.dtype(kind).char}"
        np.savez(other, X=x.astype(kind), y=y.astype(">i4"))
        fit(other, run)
        run_clean(str(other), str(run), str(out), how="weight")
        assert (pd.read_parquet(out)[["x0", "x1", "x2", "x3"]].to_numpy() == x).all()


def test_what_cannot_be_cleaned_is_refused_in_one_line(
    two: tuple[Path, Path, pd.DataFrame], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run, _ = two
    lists = table().assign(sample_weight=1.0, v=[[1.0, 2.0]] * N).drop(columns=ASIDE)
    lists.to_parquet(tmp_path / "lists.parquet")
    lists.assign(sick=[["yes", "no"], ["no"]] * (N // 2)).to_parquet(tmp_path / "sets.parquet")
    table(N - 1).to_parquet(tmp_path / "other.parquet")
    said = table()[["sick"]].rename(columns={"sick": "label"}).assign(row=range(N), annotator="me")
    said.to_csv(tmp_path / "votes.csv", index=False)
    table().drop(columns=["sick"]).to_parquet(tmp_path / "bare.parquet")
    lists_run = tmp_path / "lists"
    fit(tmp_path / "lists.parquet", lists_run, label_column="sick")
    table().assign(v=[{"a": b"\xff"}] * N).to_parquet(tmp_path / "deep.parquet")
    fit(tmp_path / "deep.parquet", tmp_path / "deep", label_column="sick", exclude=[*ASIDE, "v"])
    fit(tmp_path / "sets.parquet", tmp_path / "sets", label_column="sick", k=None)
    votes = {"annotations": str(tmp_path / "votes.csv"), "exclude": ASIDE}
    fit(tmp_path / "bare.parquet", tmp_path / "votes", **votes)
    capsys.readouterr()
    for file, of, out, more, why in (
        ("other.parquet", run, "c.parquet", [], "is not what"),
        ("absent.parquet", run, "c.parquet", [], "absent.parquet"),
        ("lists.parquet", tmp_path / "lists", "c.csv", [], "column 'v' holds lists; name it .parq"),
        ("deep.parquet", tmp_path / "deep", "c.xlsx", [], "'v' holds struct<a: binary>; name it"),
        (
            "lists.parquet",
            tmp_path / "lists",
            "c.parquet",
            ["--weight"],
            "a column 'sample_weight'",
        ),
        ("sets.parquet", tmp_path / "sets", "c.parquet", [], "candidate sets"),
        ("bare.parquet", tmp_path / "votes", "c.parquet", [], "put its column consensus_label"),
        (source, run, "c.txt", [], "name the file so"),
        (source, tmp_path / "none", "c.parquet", [], "no run"),
    ):
        call = [
            "clean",
            str(tmp_path / file),
            "--run",
            str(of),
            "--out",
            str(tmp_path / out),
            *more,
        ]
        assert main(call) == 2, why
        told = capsys.readouterr()
        assert (told.out, len(told.err.splitlines())) == ("", 1), told.err
        assert why in told.err
        assert not (tmp_path / out).exists()
    with pytest.raises(InputError, match="the DataFrame: is not what"):
        open_run(run).clean(table(N - 1))


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (np.zeros(N, np.bool_), np.full(N, 0.5), "is bool there, and double from row 600 on"),
        (np.zeros(N, np.float32), np.full(N, 0.1), "is float there, and double from row 600 on"),
        (np.zeros(N, np.float32), np.append(np.full(N - 1, 0.5), np.nan), None),
    ],
)
def test_no_number_becomes_another_by_the_type_of_the_first_file(
    first: npt.NDArray[Any], then: npt.NDArray[Any], message: str | None, tmp_path: Path
) -> None:
    source = tmp_path / "pool"
    source.mkdir()
    for name, flag in (("a", first), ("b", then)):
        table().drop(columns=ASIDE).assign(flag=flag).to_parquet(source / f"{name}.parquet")
    fit(source, tmp_path / "run", label_column="sick", impute="median")
    call = str(source), str(tmp_path / "run"), str(tmp_path / "clean.parquet")
    if message is None:
        run_clean(*call, how="weight")
        found = pd.read_parquet(tmp_path / "clean.parquet")["flag"]
        assert found.equals(pd.Series(np.append(first, then).astype(np.float32), name="flag"))
        return
    with pytest.raises(InputError, match=f"column 'flag' {message}; give files of one type"):
        run_clean(*call, how="weight")
    assert not (tmp_path / "clean.parquet").exists()


@pytest.mark.parametrize("noisy", [False, True])
def test_labels_that_may_be_right_are_doubted_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], noisy: bool
) -> None:
    pool = table()
    if not noisy:
        pool["sick"] = np.where(pool["a"] + np.random.default_rng(1).normal(0, 2, N) > 1.5, *"yn")
    pool.to_parquet(tmp_path / "pool.parquet")
    fit(tmp_path / "pool.parquet", tmp_path / "run", label_column="sick", exclude=ASIDE)
    asked = ["clean", str(tmp_path / "pool.parquet"), "--run", str(tmp_path / "run")]
    assert main([*asked, "--out", str(tmp_path / "clean.parquet")]) == 0
    assert ("WARNING: from 0.0% to" in capsys.readouterr().out) is not noisy


def test_one_suspect_is_one_label() -> None:
    counts = {"n_rows": 9, "n_written": 8, "n_suspect": 1, "n_left_out": 0, "n_by_class": [4, 4]}
    names = {"how": "drop", "label": "y", "classes": [0, 1], "run": "run", "out": "o.csv"}
    text = clean_text(CleanReport.model_validate(counts | names))
    assert text == "8 of 9 rows written to o.csv; 1 suspect label left out\n"


def test_rows_of_a_wide_table_are_taken_together(tmp_path: Path) -> None:
    """Of its blocks of text, of few rows each, each column would take its time."""
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 2000)))
    wide.to_csv(tmp_path / "wide.csv", index=False)
    source = open_source(str(tmp_path / "wide.csv"), with_labels=False, raw=True)
    ((first, cells),) = stored_cells(source, stored_schema(source))
    assert (first, cells.shape) == (0, wide.shape)
    assert (cells.to_pandas().to_numpy() == wide.to_numpy()).all()
