"""Tables as people have them: what `knnoise check` says of them, and what `train` makes of it."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.cli import main
from flows.engine.results import result_of
from flows.intake import glance, preflight
from flows.intake.glance import look_at
from flows.intake.health import Health
from flows.intake.labels import joins, quantity
from flows.intake.preflight import run_check
from flows.steps.ingest.pool import Ingested
from flows.train import run_train
from storage import open_run
from storage.errors import InputError
from storage.runs.run import Run
from storage.sources.opening import open_source

N = 300


def wild() -> pd.DataFrame:
    """One of each thing that is wrong."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, N)
    x = rng.normal(size=(N, 3)) + 2.5 * clean[:, None]
    sick = np.where(clean ^ (rng.random(N) < 0.1), "yes", "no")
    table = pd.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in rng.permutation(N)],
            "visit": rng.permutation(10**12 + 10**6 * np.arange(N)),
            "row": np.arange(N),
            "a": x[:, 0],
            "b": 1000 * x[:, 1],
            "site": "Basel",
            "a again": x[:, 0],
            "sick (y/n)": np.where(sick == "yes", "y", "n"),
            "code": np.where(sick == "yes", 7, 3),
            "color": rng.choice(["red", "green"], N),
            "c": x[:, 2],
            "sick": sick,
        }
    )
    return table


def check(*args: object, capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main(["check", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_check_names_what_is_wrong(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, table = tmp_path / f"t.{kind}", wild()
    table.loc[4, "c"] = None
    table.loc[7, ["a", "b", "c", "a again"]] = table.loc[8, ["a", "b", "c", "a again"]].to_list()
    table.loc[7, ["color", "code", "sick (y/n)", "sick"]] = ["red", 3, "n", "no"]
    table.loc[8, ["color", "code", "sick (y/n)", "sick"]] = ["red", 7, "y", "yes"]
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, index=False)
    found = check(path, "--label-column", "sick", capsys=capsys)
    by_kind = {f["kind"]: f for f in found["findings"]}
    assert {f["kind"]: f["columns"] for f in found["findings"] if f["left_out"]} == {
        "constant": ["site"],
        "leak": ["sick (y/n)", "code"],
        "row number": ["row"],
        "duplicate": ["a again"],
    }
    likes = [f["columns"] for f in found["findings"] if f["kind"] == "id-like"]
    assert likes == [["patient"], ["visit"]]
    assert by_kind["text"]["columns"] == ["color"]
    assert "1 value is missing or infinite in 'c'" in by_kind["gaps"]["text"]
    assert by_kind["scales"]["columns"][1] == "visit"
    assert found["n_rows"] == found["looked_at"] == N
    assert found["label_counts"] == [
        ["no", int((table.sick == "no").sum())],
        ["yes", int((table.sick == "yes").sum())],
    ]
    ids = ("--id-column", "patient", "--exclude", "visit", "--exclude", "c*")
    found = check(path, "--label-column", "sick", *ids, capsys=capsys)
    kinds = [f["kind"] for f in found["findings"]]
    assert "id-like" not in kinds
    assert "2 rows are exact copies" in found["findings"][kinds.index("contradiction")]["text"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_texts_that_differ_are_not_equal_and_the_equal_column_is_named(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, path = np.random.default_rng(0), tmp_path / f"t.{kind}"
    table = pd.DataFrame(
        {
            "name": [f"customer {i}" for i in range(N)],
            "notes": [f"called on day {i}" for i in range(N)],  # unique as the names are
            "day": pd.date_range("2026-01-01", periods=N).astype(str),
            "x": rng.normal(size=N),
            "label": rng.integers(0, 2, N),
        }
    ).assign(again=lambda t: t["notes"])
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, index=False)
    findings = check(path, "--label-column", "label", capsys=capsys)["findings"]
    assert [f["text"] for f in findings if f["left_out"]] == ["'again' is equal to 'notes'"]
    assert {f["columns"][0] for f in findings if f["kind"] == "id-like"} == {"name", "notes"}


def table_of(kind: str) -> pd.DataFrame:
    """Rows that nothing is wrong with but their text."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, N)
    x = (rng.normal(size=(N, 2)) + 3 * clean[:, None]).round(3)
    table = pd.DataFrame(x, columns=["a b", "c"]).assign(city=rng.choice(["rome", "oslo"], N))
    if kind != "numbers":
        for name in ("a b", "c"):
            table[name] = table[name].map(lambda value: f"{value:.3f}".replace(".", ","))
    return table.assign(age=18 + rng.permutation(N) % 53, price=x[:, 0] * 7.7, sick=clean)


def write_semicolons(folder: Path) -> Path:
    table = table_of("comma").drop(columns=["price"])
    text = table.assign(people=[f"{i % 90 + 1}.000" for i in range(N)]).to_csv(sep=";", index=False)
    (folder / "t.csv").write_bytes(text.replace("oslo", "münchen").encode("cp1252"))
    return folder / "t.csv"


def write_quoted(folder: Path) -> Path:
    table_of("comma").drop(columns=["price"]).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def write_typed(folder: Path) -> Path:
    table_of("comma").drop(columns=["price"]).to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def write_sheets(folder: Path) -> Path:
    with pd.ExcelWriter(folder / "t.xlsx") as book:
        pd.DataFrame({"Export": ["of 2026"]}).to_excel(book, sheet_name="Cover", index=False)
        table_of("numbers").to_excel(book, sheet_name="The data", index=False)
    return folder / "t.xlsx"


def write_stream(folder: Path) -> Path:
    table = pa.Table.from_pandas(table_of("numbers"))
    with pa.ipc.new_stream(str(folder / "t.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=70)
    return folder / "t.arrow"


def write_cases(folder: Path) -> Path:
    table, words = table_of("numbers"), np.array([["no", "NO "], ["ja", "Já"]])
    table["sick"] = words[table.sick, (np.arange(N) % 3 == 0).astype(int)]
    table.loc[5, "c"] = None
    table.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def write_gaps(folder: Path) -> Path:
    table = table_of("numbers").assign(share=lambda at: at["c"].map("{:.1f} %".format))
    table.loc[[3, 8], "share"] = None
    table.loc[4, "c"] = 4e38
    table.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def write_notes(folder: Path) -> Path:
    notes = [("late;\ncall back", "friendly", "none")[i % 3] for i in range(N)]
    table_of("numbers").assign(notes=notes).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (write_notes, ["--exclude notes"]),
        (
            write_semicolons,
            ["--sep ';'", "--encoding cp1252", "--decimal ,", "--parse people=thousands"],
        ),
        (write_quoted, ["--sep ,", "--decimal ,"]),
        (write_typed, ["--decimal ,", "--parse 'a b=thousands'", "--parse c=thousands"]),
        (write_sheets, ["--sheet 'The data'"]),
        (write_stream, []),
        (write_cases, ["--join-labels", "--impute median"]),
        (write_gaps, ["--parse share=percent", "--impute median"]),
    ],
)
def test_check_ends_with_a_command_that_works(
    tmp_path: Path,
    write: Callable[[Path], Path],
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(source), "--label-column", "sick"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"try: knnoise train {source} ")
    for option in (*options, "--encode one-hot"):
        assert f"{option} " in last
    assert main([*shlex.split(last)[2:], "--workers", "0", "-q"]) == 0
    config = json.loads((tmp_path / "run/run.json").read_text())
    assert {"a b", "c", "city=rome", "age"} <= set(config["feature_names"])
    assert sum(count for _, count in config["health"]["label_counts"]) == N
    assert len(config["health"]["label_counts"]) == 2


def test_what_no_training_reads_is_neither_constant_nor_an_id(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(wild()[["a", "b", "sick"]])
    rows = range(N)
    odd: dict[str, pa.Array] = {
        "pair": pa.array([{"x": row, "y": 1.0} if row % 2 else None for row in rows]),
        "words": pa.array([["a", "b"]] * N),
        "bytes": pa.array([b"%d" % row for row in rows]),
        "uuid": pa.array([row.to_bytes(16, "big") for row in rows], pa.uuid()),
        "whole": pa.array([row * 3.0 + 7 for row in np.random.default_rng(0).permutation(N)]),
        "empty": pa.nulls(N, pa.list_(pa.string())),
    }
    for name, column in odd.items():
        table = table.append_column(name, column)
    pq.write_table(table, tmp_path / "t.parquet")
    found = run_check(str(tmp_path / "t.parquet"), label_column="sick")
    assert found["remedies"]["exclude"] == ["pair", "words", "bytes", "whole"]
    assert found["remedies"]["id_column"] == "uuid"
    assert [one["columns"] for one in found["findings"] if one["left_out"]] == [["empty"]]
    run_train(**found["remedies"], run=str(tmp_path / "run"), quiet=True, workers=0)


def test_lists_of_several_lengths_are_refused_with_their_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"e": [[1.0, 2.0], [3.0]], "y": [0, 1]}), path)
    assert main(["check", str(path), "--label-column", "y"]) == 2
    assert f"{path}: column 'e' has a list of 1 values" in capsys.readouterr().err
    pq.write_table(pa.table({"e": [[1.0, 2.0]], "y": [0]}), tmp_path / "s.parquet")
    assert main(["check", str(tmp_path), "--label-column", "y"]) == 2
    assert "s.parquet, or a file after it: column 'e' has a list" in capsys.readouterr().err


def test_a_table_of_nothing_but_labels_gets_no_command(tmp_path: Path) -> None:
    y = np.arange(N) % 2
    pd.DataFrame({"a": 1 + y, "b": 1, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    found = run_check(str(tmp_path / "t.csv"), label_column="y")
    assert found["remedies"] is None
    assert "nothing to learn from" in str(found["findings"])
    assert not any(one["option"] for one in found["findings"])


def test_check_says_what_training_would_meet_in_text_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the column of labels is named, and where the first remedy is not the right one."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"Größe": ["0,5", "1,5"] * 20, "Krank": ["ja", "nein"] * 20})
    table.to_csv("de.csv", sep=";", index=False, encoding="cp1252")
    table.astype(str).add_suffix("患").to_csv("zh.csv", index=False, encoding="gb18030")
    Path("gz.csv").write_bytes(gzip.compress(Path("de.csv").read_bytes()))
    Path("far.csv").write_text("row,label\n40,ja\n")
    Path("new.csv").write_text("row,label\n0,so\n")
    for line, told in {
        "check de.csv": "'Größe': numbers with a decimal comma, such as '0,5'; give --decimal ,",
        "check de.csv --encoding cp1252 --sep |": "one column, 'Größe;Krank'; its columns look sep",
        "check zh.csv --label-column Krank患": "--encoding cp1252 or another, or save it as UTF-8; "
        "with that: zh.csv: the header cannot be read",
        "check far.csv --labels new.csv": "knnoise: new.csv: a csv source has its labels in a "
        "column of its own; give --label-column NAME instead of --labels\n",
        "check gz.csv": "in utf-8; it is no text: name it by what it is, such as .csv.gz",
        "check de.csv --label-column Krank --candidates |": "no label holds '|', and sets of one",
        "check de.csv --label-column Krank --corrections no.csv": "no.csv: no such file or folder",
        "check de.csv --label-column Krank --corrections far.csv": "has a label for row 40, the",
        "check de.csv --label-column Krank --corrections new.csv": "'so' of row 0 occurs nowhere",
    }.items():
        main(line.split())
        assert told in "".join(capsys.readouterr()), line


def test_an_option_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"a": np.arange(40) % 9, "y": np.arange(40) % 2})
    table.to_csv("t.csv", index=False)
    table.to_parquet("t.parquet")
    for line, told in {
        "check t.csv --sheet X": "--sheet X: t.csv is no xlsx file; leave it out",
        "train t.parquet --run r --label-column y --sep ;": "--sep ;: t.parquet is no csv file",
        "check t.parquet --encoding cp1252": "--encoding cp1252: t.parquet is no csv file",
    }.items():
        assert main(line.split()) == 2
        assert told in capsys.readouterr().err


def test_numbers_that_hardly_repeat_stay_features_unless_they_look_like_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "income": rng.choice(200_000, N, replace=False),
        "visit": 1_000 + rng.permutation(N),
        "unit_id": rng.choice(10**9, N, replace=False),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.permutation(N), "D"),
        "x": rng.normal(size=N),
        "y": rng.integers(0, 2, N),
    }
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    more = ("--label-column", "y", "--parse", "day=datetime")
    found = check(tmp_path / "t.csv", *more, capsys=capsys)
    doubts = {f["columns"][0]: f["option"] for f in found["findings"] if f["kind"] == "id-like"}
    assert [name for name, option in doubts.items() if option] == ["visit", "unit_id"]
    assert "if it is an id, give --id-column income or --exclude" in str(found["findings"])
    assert "income" not in str(found["remedies"])


def test_sets_in_text_are_not_classes_of_a_single_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [["cat"], ["dog"], ["eel"]] * 20
    sets[0] = ["cat", "dog", "eel"]
    table = pd.DataFrame({"a": np.arange(60) % 7, "kind": ["|".join(one) for one in sets]})
    table.to_csv(tmp_path / "t.csv", index=False)
    found = check(tmp_path / "t.csv", "--label-column", "kind", capsys=capsys)
    assert found["remedies"]["candidates"] == "|"
    assert "few labels" not in [one["kind"] for one in found["findings"]]
    table.assign(kind=[str(one) for one in sets]).to_csv(tmp_path / "t.csv", index=False)
    found = check(tmp_path / "t.csv", "--label-column", "kind", capsys=capsys)
    assert "is a list that became text: keep it in Parquet" in found["findings"][0]["text"]


def test_check_leaves_some_feature_and_names_what_squeezes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where every feature tells the label its command named --exclude for each; a code of a gap
    took a feature away without a word."""
    monkeypatch.chdir(tmp_path)
    y, rng = np.arange(N) % 2, np.random.default_rng(0)
    apart = rng.normal(size=(N, 2)) + 9 * y[:, None]
    pd.DataFrame(apart, columns=["a", "b"]).assign(y=y).to_csv("apart.csv", index=False)
    found = run_check("apart.csv", label_column="y")
    assert [one["kind"] for one in found["findings"]] == ["near leak"] * 2
    run_train(**found["remedies"], run="run", quiet=True, workers=0)
    gap = np.where(rng.random(N) < 0.02, -9999, rng.normal(size=N))
    table = pd.DataFrame({"gap": gap, "heavy": np.exp(2 * rng.normal(size=N)), "y": y})
    table.to_csv("gaps.csv", index=False)
    assert main(["check", "gaps.csv", "--label-column", "y"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "so far from" in line]
    assert len(told) == 1
    marked = [str(one) if n % 9 else "?" for n, one in enumerate(rng.integers(0, 9, N))]
    pd.DataFrame({"a": rng.normal(size=N), "b": marked, "y": y}).to_csv("marks.csv", index=False)
    (mark,) = run_check("marks.csv", label_column="y")["findings"]
    assert mark["text"].startswith("'b': numbers, but for 34 rows, such as '?': correct them")
    assert mark["option"] == "--exclude b"  # not --encode one-hot
    assert "look: 'gap': few values lie so far from the others, such as -9999, that" in told[0]


def test_a_stream_that_ends_early_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_stream(tmp_path)
    source.write_bytes(source.read_bytes()[:-8])  # whole batches, which Arrow would read
    assert main(["check", str(source)]) == 2
    assert "the stream has no end" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "train", "clean"])
def test_a_store_without_credentials_says_what_to_give(
    tmp_path: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("s3fs")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    table_of("numbers").drop(columns=["city"]).to_csv(tmp_path / "t.csv", index=False)
    where = ["s3://bucket/pool.csv"]
    if command == "train":
        where = [str(tmp_path / "t.csv"), "--label-column", "sick", "--run", "s3://bucket/run"]
    if command == "clean":
        run_train(str(tmp_path / "t.csv"), str(tmp_path / "run"), label_column="sick", quiet=True)
        where = [str(tmp_path / "t.csv"), "--run", str(tmp_path / "run"), "--out", "s3://b/c.csv"]
    assert main([command, *where]) == 2
    said = capsys.readouterr().err
    assert "wants credentials" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("column", "what"),
    [("age", "from 18 to 70"), ("price", "numbers"), ("many", "1,500 different numbers")],
)
def test_a_quantity_is_no_label(
    tmp_path: Path, column: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of("numbers").drop(columns=["city"])
    if column == "many":  # more than there may be classes
        table = pd.DataFrame(np.random.default_rng(0).normal(size=(1500, 2)), columns=["a", "many"])
    table.to_csv(tmp_path / "t.csv", index=False)
    how = [str(tmp_path / "t.csv"), "--label-column", column]
    assert main(["check", *how]) == 0
    said = capsys.readouterr().out
    assert f"label {column!r} has " in said
    assert what in said
    assert "is that a class?" in said
    assert "try:" not in said
    train = ["train", *how, "--run", str(tmp_path / "run"), "--workers", "0", "-q"]
    assert main(train) == 2
    refused = capsys.readouterr().err
    assert "is that a class?" in refused
    assert ("--preflight warn" in refused) == (column != "many")  # more than may be never train
    assert not (tmp_path / "run").exists()
    if column == "age":
        assert main([*train, "--preflight", "warn"]) == 0


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["ill"] * N, "has only one class, 'ill': two classes are needed to learn from"),
        (
            ["ill", None] * (N // 2),
            "150 labels are missing: if that means the other class, fill it in",
        ),
        (["ill", "well"] * (N // 2 - 1) + ["wel", "ill"], "'wel' in a single row: correct, merge"),
        (["ill"] + [None] * (N - 1), "has only one class, 'ill'"),
    ],
)
def test_labels_that_no_training_learns_from_are_told_and_not_trained_on(
    tmp_path: Path,
    labels: list[str | None],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = table_of("numbers")[["a b", "c"]].assign(sick=labels)
    table.to_csv(tmp_path / "t.csv", index=False)
    how = [str(tmp_path / "t.csv"), "--label-column", "sick"]
    assert main(["check", *how]) == 0
    told = capsys.readouterr().out
    assert "look: label 'sick'" in told
    assert said in told
    assert "--unlabeled predict" not in told
    assert "try:" not in told
    assert main(["train", *how, "--run", str(tmp_path / "run"), "--workers", "0", "-q"]) == 2


def test_two_spellings_alone_are_two_classes_as_in_training(tmp_path: Path) -> None:
    """Joining them would leave one."""
    labels = np.where(table_of("numbers")["c"] > 0, "ill", "Ill")
    table_of("numbers")[["a b", "c"]].assign(sick=labels).to_csv(tmp_path / "t.csv", index=False)
    found = run_check(str(tmp_path / "t.csv"), label_column="sick")
    (alike,) = (one for one in found["findings"] if "differ by case" in one["text"])
    assert alike["option"] is None
    assert not any("one class" in one["text"] for one in found["findings"])
    assert found["remedies"] is not None


def test_labels_of_another_type_are_named_before_training(tmp_path: Path) -> None:
    labels = pa.array([{"sick": i % 2} for i in range(40)])
    pq.write_table(pa.table({"a": range(40), "y": labels}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="label column 'y' is struct<sick: int64>; labels must be"):
        run_check(str(tmp_path / "t.parquet"), label_column="y")


def test_so_few_rows_are_trained_on_as_check_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of("numbers")[["a b", "c", "sick"]]
    monkeypatch.chdir(tmp_path)
    table.head(30).to_csv("t.csv", index=False)
    assert main(["check", "t.csv", "--label-column", "sick"]) == 0
    told = capsys.readouterr().out
    assert "30 rows are too few for crossfit, which needs 40; give --noise minmax" in told
    assert main([*shlex.split(told.splitlines()[-1])[2:], "--workers", "0", "-q"]) == 0
    assert "too few for crossfit" not in capsys.readouterr().out  # whose remedy was given
    grouped = ["t.csv", "--label-column", "sick", "--by", "c"]
    assert main(["check", *grouped]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.endswith("--noise minmax --exclude c --run run")
    assert main([*shlex.split(told)[2:-1], "other", "--workers", "0", "-q"]) == 0
    assert main(["train", *grouped, "--run", "refused", "--workers", "0", "-q"]) == 2
    assert "use --exclude c for --by, and --noise minmax" in capsys.readouterr().err
    table.sort_values("sick").iloc[[0, 1, -1, -2]].to_csv("t.csv", index=False)
    capsys.readouterr()
    assert main(["check", "t.csv", "--label-column", "sick"]) == 0
    told = capsys.readouterr().out
    assert "4 rows are too few: at least 6 are needed" in told
    assert "try:" not in told
    table.assign(sick=np.arange(N) % 3).head(30).to_csv("t.csv", index=False)
    assert main(["check", "t.csv", "--label-column", "sick"]) == 0
    told = capsys.readouterr().out
    assert "30 rows are too few for crossfit, which needs 40" in told
    assert "try:" not in told
    three = ["train", "t.csv", "--label-column", "sick", "--workers", "0", "-q"]
    assert main([*three, "--run", "three"]) == 2
    assert "which needs 40; add rows" in capsys.readouterr().err
    assert main([*three, "--run", "sets", "--candidates", "|"]) == 0  # of which none are read


def test_a_lone_spelling_of_a_class_is_no_class_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["ill", "well"] * (N // 2 - 1) + ["Well", "ill"]
    table_of("numbers")[["a b", "c"]].assign(sick=labels).to_csv(tmp_path / "t.csv", index=False)
    assert main(["check", str(tmp_path / "t.csv"), "--label-column", "sick"]) == 0
    told = capsys.readouterr().out
    assert "in a single row" not in told
    assert "--join-labels" in told.splitlines()[-1]


def test_labels_that_join_others_may_be_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of("numbers")[["a b", "c", "sick"]]
    table["sick"] = np.where(
        table.index % 5 == 0, "ill|well", table["sick"].map(["ill", "well"].__getitem__)
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    assert main(["check", "t.csv", "--label-column", "sick"]) == 0
    told = capsys.readouterr().out
    assert "'ill|well' joins others: is one of them right?; give --candidates '|'" in told
    assert main([*shlex.split(told.splitlines()[-1])[2:], "--workers", "0", "-q"]) == 0
    assert json.loads((tmp_path / "run/report.json").read_text())["label_values"] == ["ill", "well"]
    kinds = {"a;b": 9, "c;d": 9, "a": 9, "b": 9}
    assert not joins("y", kinds)  # c and d are no labels
    assert not joins("y", {"n/a": 9, "yes": 9})
    assert joins("y", {"1;2": 9, 1: 9, 2: 9})[0].option == "--candidates ';'"


def test_codes_of_many_classes_are_classes() -> None:
    assert not quantity("y", dict.fromkeys(range(100), 50))
    assert not quantity("y", dict.fromkeys(range(1, 1000), 1))
    drawn = np.random.default_rng(0).integers(0, 1000, 1300)  # a look at some rows misses many
    assert not quantity("y", Counter(drawn.tolist()))
    assert quantity("y", Counter(drawn[:300].tolist()))
    assert quantity("y", Counter((drawn + 20).tolist()))
    assert not quantity("y", dict.fromkeys(range(0, 100_000, 1000), 50))
    assert not quantity("y", dict.fromkeys((0.5, 1, 2.5), 9))
    assert quantity("y", {f"name {i}": 1 for i in range(100)})


def test_copies_are_counted_by_check_and_once_in_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """400 rows with a quarter of the labels wrong, each ten times."""
    rng = np.random.default_rng(0)
    clean = np.arange(400) % 2
    table = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    table["a"] += 6.0 * clean
    table["sick"] = np.where(rng.random(400) < 0.25, 1 - clean, clean)
    path = tmp_path / "t.csv"
    pd.concat([table] * 10).to_csv(path, index=False)
    found = check(path, "--label-column", "sick", capsys=capsys)
    assert [f["kind"] for f in found["findings"]] == ["copies"]
    assert found["findings"][0]["text"].startswith("3,600 rows are exact copies of earlier ones")
    train = ("train", path, "--label-column", "sick", "--workers", "0", "--run", tmp_path / "run")
    assert main([*map(str, train)]) == 0
    said = capsys.readouterr().out
    assert "90% of the rows are copies of others" in said
    assert "  supported: " not in said


def test_a_column_of_persons_is_named_and_its_remedy_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    person, clean = rng.permutation(np.repeat(np.arange(300), 4)), rng.integers(0, 2, 300)
    x = (rng.normal(size=(300, 4)) + 5.0 * clean[:, None] * np.eye(4)[0])[person]
    table = pd.DataFrame(x + 0.3 * rng.normal(size=x.shape), columns=list("abcd"))
    table["sick"] = np.where(rng.random(300) < 0.15, 1 - clean, clean)[person]
    table["patient"] = [f"p{one}" for one in person]
    table.to_csv(tmp_path / "t.csv", index=False)
    found = check(tmp_path / "t.csv", "--label-column", "sick", capsys=capsys)
    (one,) = found["findings"]
    assert (one["kind"], one["option"]) == ("together", "--together patient or --exclude patient")
    assert found["remedies"]["together"] == "patient"
    train = ("train", tmp_path / "t.csv", "--label-column", "sick", "--run", tmp_path / "run")
    assert main([*map(str, train), *shlex.split(one["option"].partition(" or ")[0]), "-q"]) == 0
    assert "together by 'patient': 300 groups" in capsys.readouterr().out


def test_an_oversampled_class_is_named_and_one_of_each_row_tells_its_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenth of the labels wrong, then the rare class repeated until it is as common."""
    rng = np.random.default_rng(0)
    clean = (rng.random(2000) < 0.1).astype(int)
    x = rng.normal(size=(2000, 5)) + 2.5 * clean[:, None] * np.eye(5)[0]
    wrong = rng.random(2000) < 0.1
    table = pd.DataFrame(x, columns=list("abcde"))
    table["ill"] = np.where(wrong ^ (clean == 1), "yes", "no")
    rare = table[table["ill"] == "yes"]
    every = pd.concat([table, *[rare] * 4], ignore_index=True).sample(frac=1, random_state=0)
    every.to_csv(tmp_path / "t.csv", index=False)
    (found,) = check(tmp_path / "t.csv", "--label-column", "ill", capsys=capsys)["findings"]
    assert "80% of the rows labeled 'yes' are, 0% of all others" in found["text"]
    assert found["text"].endswith("keep one of each row")
    every.drop_duplicates().to_csv(tmp_path / "once.csv", index=False)
    assert not check(tmp_path / "once.csv", "--label-column", "ill", capsys=capsys)["findings"]


def test_rows_that_differ_in_a_column_not_looked_at_are_no_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "MOST_COLUMNS", 3)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 4)), np.arange(200) % 2
    x[:, :3] = x[:1, :3] + np.arange(3) * (np.arange(200) % 4)[:, None]
    np.savez(tmp_path / "t.npz", X=x, y=y)
    kinds = {f["kind"] for f in check(tmp_path / "t.npz", capsys=capsys)["findings"]}
    assert not kinds & {"copies", "contradiction"}
    np.savez(tmp_path / "t.npz", X=x[:, :3], y=y)
    kinds = {f["kind"] for f in check(tmp_path / "t.npz", capsys=capsys)["findings"]}
    assert kinds & {"copies", "contradiction"}


def test_training_leaves_out_what_is_wrong_beyond_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = tmp_path / "t.csv", tmp_path / "run"
    table = wild()
    table.to_csv(path, index=False)
    train = ("train", path, "--label-column", "sick", "--id-column", "patient", "--workers", "0")
    train = [*map(str, train), "--exclude", "visit", "--exclude", "color", "--run"]
    assert main([*train, str(run)]) == 0
    said = capsys.readouterr()
    assert "left out: 'site' is constant" in said.err
    assert "left out: 'site' is constant" in said.out
    config = json.loads((run / "run.json").read_text())
    assert config["feature_names"] == ["a", "b", "c"]
    assert main([*train, str(run)]) == 0  # the same columns again, without another look
    assert "nothing to do" in capsys.readouterr().err
    table[["c", "b", "a", "row", "site"]].to_csv(tmp_path / "new.csv", index=False)
    score = ("score", tmp_path / "new.csv", "--run", run, "--out", tmp_path / "s.parquet", "-q")
    assert main([*map(str, score), "--workers", "0"]) == 0
    assert main(["report", "--run", str(run), "--html", str(tmp_path / "page.html")]) == 0
    assert "left out: &#39;row&#39; is a count of the rows" in (tmp_path / "page.html").read_text()
    capsys.readouterr()
    assert main([*train, str(tmp_path / "all"), "--preflight", "warn"]) == 2
    assert "'site' is not numeric: 'Basel'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_digits_that_single_precision_loses_are_told(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, source = np.random.default_rng(0), tmp_path / f"pool.{kind}"
    y = rng.integers(0, 2, N)
    x = rng.normal(size=(N, 3)) * [1, 100, 1e9] + [0, 1.7e9, 1e9]
    table = pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(y=y)
    if kind == "npz":
        np.savez(source, X=x, y=y)
    elif kind == "csv":
        table.to_csv(source, index=False)
    else:
        table.to_parquet(source)
    label = [] if kind == "npz" else ["--label-column", "y"]
    (told,) = [f for f in check(source, *label, capsys=capsys)["findings"] if f["kind"] == "coarse"]
    assert told["columns"] == ["x1"]
    assert told["text"].startswith("'x1' loses digits: ")
    assert "steps of 128; subtract a constant before" in told["text"]
    run = ["--run", str(tmp_path / "run"), "--workers", "0", "--json"]
    assert main(["train", str(source), *label, *run]) == 0
    assert told["text"] in json.loads(capsys.readouterr().out)["warnings"]


def test_no_constant_is_subtracted_from_what_is_too_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(N, 2)) * [1, 1e-310]
    np.savez(tmp_path / "t.npz", X=x, y=x[:, 0] > 0)
    found = check(tmp_path / "t.npz", capsys=capsys)["findings"]
    (told,) = [f["text"] for f in found if f["kind"] == "coarse"]
    assert told.endswith("where it has steps of 1.4e-45; multiply it before")


def test_arrays_lose_their_constants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 4)).astype(np.float32), rng.integers(0, 2, N)
    x[:, 2] = 3
    np.savez(tmp_path / "t.npz", X=x, y=y)
    np.save(tmp_path / "new.npy", x[:9])
    run, more = str(tmp_path / "run"), ("--workers", "0", "-q")
    assert check(tmp_path / "t.npz", capsys=capsys)["label_name"] == "y"
    assert main(["train", str(tmp_path / "t.npz"), "--run", run, *more]) == 0
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert config["feature_names"] == ["x0", "x1", "x3"]
    out = str(tmp_path / "s.parquet")
    assert main(["score", str(tmp_path / "new.npy"), "--run", run, "--out", out, *more]) == 0
    assert len(pd.read_parquet(out)) == 9


def test_a_long_source_is_looked_at_in_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glance, "MOST_ROWS", 256)
    table = pd.DataFrame({"a": np.arange(5000.0), "y": np.arange(5000) % 2})
    table.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    table.to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "t.npy", table[["a"]].to_numpy())
    np.save(tmp_path / "y.npy", table["y"].to_numpy())
    for path, labels, last in (
        ("t.parquet", None, 4999),
        ("t.npy", "y.npy", 4999),
        ("t.csv", None, 255),
    ):
        given = (None, "y") if labels is None else (tmp_path / labels, None)
        seen = look_at(open_source(tmp_path / path, *given, raw=True))
        assert not seen.whole
        values = seen.columns[0].values
        assert len(values) == seen.n_rows == 256
        assert values[-1] == last
        assert np.array_equal(seen.label, values % 2)
        assert (np.diff(values) > 1).sum() == (0 if path == "t.csv" else 7)
    found = run_check(str(tmp_path / "t.csv"), label_column="y")
    assert str(Health.model_validate(found)).startswith(f"{tmp_path}/t.csv (csv): the first 256 ro")


def test_each_place_of_a_wide_source_costs_a_row_group(tmp_path: Path) -> None:
    """So of thousands of columns the first rows and the last are looked at."""
    x = np.broadcast_to(np.arange(600.0)[:, None], (600, 4200))
    table = pa.table({f"f{i}": column for i, column in enumerate(x.T)})
    pq.write_table(table.append_column("y", pa.array(np.arange(600) % 2)), tmp_path / "t.parquet")
    seen = look_at(open_source(tmp_path / "t.parquet", None, "y", raw=True))
    values = seen.columns[0].values
    assert values.tolist() == [*range(128), *range(472, 600)]


def test_files_of_other_types_are_looked_at_as_one_table(tmp_path: Path) -> None:
    """As a column of whole numbers is of another type where one is missing."""
    lists = pa.list_(pa.float32()), pa.list_(pa.float16(), 2)
    parts: dict[str, tuple[list, list]] = {
        "a": ([1, 2], [0.5, None]),
        "site": ([7, 8], ["x", "8"]),
        "y": ([0, 1], ["0", "1"]),
    }
    for part in (0, 1):
        columns = {name: pa.array(values[part]) for name, values in parts.items()}
        vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], lists[part])
        pq.write_table(pa.table({**columns, "v": vectors}), tmp_path / f"{part}.parquet")
    seen = look_at(open_source(tmp_path, None, "y", raw=True))
    values = {one.name: one.values.tolist() for one in seen.columns}
    assert values["a"][:3] == [1.0, 2.0, 0.5]
    assert values["v[1]"] == [2.0, 4.0] * 2
    assert values["site"] == [0.0, 1.0, 2.0, 1.0]
    assert [one.is_text for one in seen.columns] == [False, True, False, False]
    assert seen.label.tolist() == [0, 1, 0, 1]


def test_times_of_nanoseconds_are_looked_at_as_other_times(tmp_path: Path) -> None:
    """In a process of their own, which reads them without pandas."""
    y = np.arange(N) % 2
    ns = np.arange(N) * 1_234_567_891 + 1_700_000_000_000_000_001
    when, clock = pa.array(ns, pa.timestamp("ns", "UTC")), pa.array(ns // 10**5, pa.time64("ns"))
    site = pa.array(np.full(N, ns[0]), pa.timestamp("ns"))
    table = pa.table(
        {"a": np.random.default_rng(0).normal(size=N) + 3 * y, "when": when, "clock": clock, "y": y}
    )
    pq.write_table(table.append_column("site", site), tmp_path / "t.parquet")

    source = [str(tmp_path / "t.parquet"), "--label-column", "y"]
    train = ["train", *source, "--run", str(tmp_path / "run"), "--exclude=site"]
    calls = [["check", *source], [*train, "--exclude=clock"], [*train, "--exclude=when"]]
    code = (
        "import sys\nfrom flows.cli import main\nfrom flows.engine.spared import without_unused\n"
        f"with without_unused():\n    print([main(call) for call in {calls!r}], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "'2023-11-14 22:13:20.000000001Z'; give --parse when=datetime" in done.stdout
    assert "--exclude clock" in done.stdout
    *said, statuses = done.stderr.splitlines()
    assert statuses == "[0, 2, 2]", done.stderr
    assert "feature column 'when' is t" in said[-2]
    assert " at row 0; give --parse when=datetime, or leave it out with --exclude when" in said[-2]
    assert "feature column 'clock' is t" in said[-1]
    assert " at row 0; leave it out with --exclude clock" in said[-1]


def test_auto_standardizes_units_and_leaves_embeddings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    units = rng.normal(size=(N, 2)) * (1, 1000) + y[:, None]
    vector = rng.normal(size=(N, 3)) * (1, 1, 1e-3)
    table = pd.DataFrame({"a": units[:, 0], "b": units[:, 1], "v": list(vector), "y": y})
    table.to_parquet(tmp_path / "t.parquet")
    quiet = {"label_column": "y", "workers": 0, "quiet": True, "k": 10}
    found = run_train(str(tmp_path / "t.parquet"), str(tmp_path / "run"), **quiet)
    assert found["scale"] == "standard"
    assert "'b' over" in found["scale_reason"]
    record = Run.of(tmp_path / "run").ledger.get("pool", "all")
    scaling = result_of(record, Ingested).scaling
    assert scaling.factor[2:] == (1.0, 1.0, 1.0)
    assert scaling.factor[1] == pytest.approx(1 / units[:, 1].std(), rel=1e-6)
    names = ["v"]
    found = run_train(
        str(tmp_path / "t.parquet"), str(tmp_path / "vectors"), features=names, **quiet
    )
    assert (found["scale"], found["n_features"]) == ("none", 3)


@pytest.fixture(scope="module")
def gappy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with text, truth values and gaps; new rows with a color that training never saw."""
    folder, rng = tmp_path_factory.mktemp("gappy"), np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=N) + 2 * y,
            "color": np.where(rng.random(N) < 0.8, np.where(y == 1, "red", "blue"), "green"),
            "smoker": rng.choice(["true", "false"], N),
            "y": y,
        }
    )
    table.loc[3, "a"] = None
    table.loc[8, "a"] = np.inf
    table.loc[[3, 5], "color"] = None
    table.to_csv(folder / "t.csv", index=False)
    table.astype({"color": "category"}).to_parquet(folder / "t.parquet")
    new = table.head(20).assign(color=["violet", " red", *["blue"] * 18])
    new.to_csv(folder / "new.csv", index=False)
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_text_and_gaps_are_coded_as_training_learned(
    gappy: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, more = str(tmp_path / "run"), ("--workers", "0", "-q", "--k", "10")
    train = ["train", str(gappy / f"t.{kind}"), "--label-column", "y", "--run", run, *more]
    assert main([*train, "--encode", "one-hot", "--impute", "median", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = ["a", "color=blue", "color=green", "color=red", "smoker=false", "smoker=true"]
    assert report["config"]["feature_names"] == names
    assert report["n_filled"] == 2
    assert report["unseen"] == {"color": 2}
    x = open_run(run)["pool"]["x"].values
    table = pd.read_csv(gappy / "t.csv")
    assert (x[[3, 8], 0] == np.float32(table["a"].drop(8).median())).all()
    for column in ("color", "smoker"):
        for value in sorted(set(table[column].dropna().astype(str).str.lower())):
            expected = table[column].astype(str).str.lower() == value
            assert np.array_equal(x[:, names.index(f"{column}={value}")] == 1, expected)
    out = ["--out", str(tmp_path / "s.parquet"), *more[:3], "--json"]
    assert main(["score", str(gappy / "new.csv"), "--run", run, *out]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert (scored["n_filled"], scored["unseen"]) == (2, {"color": 1})
    new = pd.read_csv(gappy / "new.csv")
    new["smoker"] = new["smoker"].astype(str).str.title()  # as pandas writes truth values
    new.assign(color="mauve").to_csv(tmp_path / "new.csv", index=False)
    assert main(["score", str(tmp_path / "new.csv"), "--run", run, *out]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["unseen"] == {"color": len(new)}
    assert any("'color': no row has a value" in line for line in scored["warnings"])


def test_rows_with_gaps_are_left_out_and_rows_keep_their_place(
    gappy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, more = str(tmp_path / "run"), ("--workers", "0", "-q", "--exclude", "color")
    train = ["train", str(gappy / "t.csv"), "--label-column", "y", "--run", run, *more]
    assert main([*train, "--encode", "one-hot", "--impute", "drop", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["n_rows"], report["n_dropped"]) == (N - 2, 2)
    issues = pd.read_parquet(tmp_path / "run" / "label_issues.parquet")
    assert issues["row"].tolist() == [row for row in range(N) if row not in (3, 8)]
    assert (issues["given_label"] == pd.read_csv(gappy / "t.csv")["y"][issues["row"]].values).all()
    score = ["score", str(gappy / "new.csv"), "--run", run, "--out", str(tmp_path / "s.parquet")]
    assert main([*score, *more[:3]]) == 0
    scored = pd.read_parquet(tmp_path / "s.parquet")["row"].tolist()
    assert scored == [row for row in range(20) if row not in (3, 8)]


def test_text_of_too_many_values_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, run = tmp_path / "t.csv", str(tmp_path / "run")
    wild().assign(notes=[f"note {i % 150}" for i in range(N)]).to_csv(path, index=False)
    remedies = run_check(str(path), label_column="sick")["remedies"]
    assert remedies["encode"] == "one-hot"
    assert "notes" in remedies["exclude"]
    train = ["train", str(path), "--label-column", "sick", "--run", run, "-q"]
    assert main([*train, "--encode", "one-hot"]) == 2
    assert "'patient' has 300 values, and the 64 most frequent" in capsys.readouterr().err
    monkeypatch.setattr("flows.intake.coding.MOST_TEXTS", 140)
    assert main([*train, "--encode", "one-hot", "--exclude", "patient"]) == 2
    assert "'notes' has more than 140 values: too many to encode" in capsys.readouterr().err
    assert main([*train, "--encode", "one-hot", "--preflight", "off"]) == 2
    assert "leave out --preflight off" in capsys.readouterr().err


def test_the_most_frequent_values_of_a_text_have_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A place of a hundred would have to be left out, though most rows are in a few of them."""
    path, run, more = tmp_path / "t.csv", str(tmp_path / "run"), ("--workers", "0", "-q")
    place = np.random.default_rng(0).permutation([i % (100 if i < 100 else 10) for i in range(N)])
    wild().assign(place=[f"p{at}" for at in place])[["a", "place", "sick"]].to_csv(
        path, index=False
    )
    count = Counter(f"p{at}" for at in place)
    kept = sorted(sorted(count, key=lambda value: (-count[value], value))[:64])
    assert len(count) > 64
    assert run_check(str(path), label_column="sick")["remedies"]["encode"] == "one-hot"
    train = ["train", str(path), "--label-column", "sick", "--run", run, *more, "--json"]
    assert main([*train, "--encode", "one-hot", "--impute", "drop"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = [name for name in report["config"]["feature_names"] if name.startswith("place=")]
    assert names == [f"place={value}" for value in kept]
    assert report["unseen"] == {"place": N - sum(count[value] for value in kept)}
    assert report["n_dropped"] == 0
