"""Buying labels: within a budget, each kept and bought once, from any oracle."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from flows.acquire import run_acquire
from flows.cli import main
from flows.report.status import status, status_text
from pipeline.knn.exact import nearest
from pipeline.methods.bought_labels import BoughtLabels
from pipeline.methods.growing_net import grow
from storage.answers import Answer, AnswersFile
from storage.errors import InputError

N = 400


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, N)
    x = rng.normal(size=(N, 3)) + 5.0 * kind[:, None]
    frame = pd.DataFrame(x.astype(np.float32), columns=["a", "b", "c"])
    path = tmp_path_factory.mktemp("acquire") / "pool.csv"
    frame.assign(kind=np.array(["cat", "dog", "eel"])[kind]).to_csv(path, index=False)
    frame.to_csv(path.with_name("bare.csv"), index=False)
    return path


def bought(run: Path) -> dict[int, object]:
    answers = AnswersFile.open(str(run / "review/answers.jsonl")).answers
    return {said.row: said.label for said in answers.rows()}


def test_a_held_back_column_is_bought_as_the_kernel_buys(table: Path, tmp_path: Path) -> None:
    options = {"label_column": "kind", "workers": 0, "quiet": True, "builder": "exact"}
    found = run_acquire(str(table), str(tmp_path / "run"), 30, **options)
    assert (found["n_bought"], found["n_known"]) == (30, 30)
    frame = pd.read_csv(table)
    x = frame[["a", "b", "c"]].to_numpy(np.float32)
    codes = frame["kind"].astype("category").cat.codes.to_numpy().astype(np.int64)
    lists = nearest(x, x, 20, exclude=np.arange(N))[0]
    labels = BoughtLabels(lambda rows: codes[rows], 30)
    grow(x, lists, labels, 30)
    assert set(bought(tmp_path / "run")) == set(labels.bought)
    assert all(frame["kind"][row] == label for row, label in bought(tmp_path / "run").items())
    every = pq.read_table(tmp_path / "run/labels.parquet").to_pandas()
    assert (every.label == frame.kind).mean() > 0.97
    assert every.is_bought.sum() == 30
    more = run_acquire(str(table), str(tmp_path / "run"), 50, **options)
    assert (more["n_bought"], more["n_known"]) == (20, 50)
    assert set(labels.bought) < set(bought(tmp_path / "run"))


def test_a_bought_label_stays_whatever_equal_rows_have(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 3, 300), "kind": rng.integers(0, 2, 300)})
    frame.to_csv(tmp_path / "pool.csv", index=False)
    options = {"label_column": "kind", "workers": 0, "quiet": True}
    assert run_acquire(str(tmp_path / "pool.csv"), str(tmp_path / "run"), 60, **options)
    every = pd.read_parquet(tmp_path / "run/labels.parquet")
    given = every[every["is_bought"]]
    assert (given["label"] == frame["kind"][given["row"]].to_numpy()).all()
    rest = every[~every["is_bought"]].groupby(frame["a"])["label"]
    assert (rest.nunique() == 1).all()


def test_a_function_is_asked_for_each_row_once(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "asked = []\ndef label(rows):\n    asked.extend(rows)\n"
    program += (
        "    if len(asked) > 12: raise OSError('gone')\n    return [row % 2 for row in rows]\n"
    )
    (tmp_path / "my_oracle.py").write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    bare, run = str(table.with_name("bare.csv")), tmp_path / "run"
    options = {"oracle": "my_oracle:label", "workers": 0, "quiet": True, "builder": "exact"}
    monkeypatch.setattr("flows.review.purchases.MOST_IN_LINE", 2)  # a batch takes several lines
    with pytest.raises(InputError, match=r"OSError: gone, asked for 5 rows; .* bought is kept"):
        run_acquire(bare, str(run), 25, **options)
    kept = bought(run)
    assert len(kept) == 10  # two batches of five were answered
    module = sys.modules.pop("my_oracle")
    (tmp_path / "my_oracle.py").write_text(program.replace("> 12", "> 120"))
    found = run_acquire(bare, str(run), 25, **options)
    assert (found["n_bought"], found["n_known"]) == (15, 25)
    assert not set(module.asked[:10]) & set(sys.modules["my_oracle"].asked)
    assert kept.items() <= bought(run).items()


def test_a_call_interrupted_within_a_batch_buys_what_an_undisturbed_one_buys(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"label_column": "kind", "workers": 0, "quiet": True, "builder": "exact"}
    run_acquire(str(table), str(tmp_path / "whole"), 40, **options)
    add, lines = AnswersFile.add, 0

    def fails(file: AnswersFile, answer: Answer) -> None:
        nonlocal lines
        lines += 1
        if lines % 2 == 0:  # after a part of a batch, whose lines are of a label each
            raise OSError("no space left")
        add(file, answer)

    with monkeypatch.context() as patch:
        patch.setattr(AnswersFile, "add", fails)
        with pytest.raises(OSError, match="no space left"):
            run_acquire(str(table), str(tmp_path / "run"), 40, **options)
        for _ in range(3):
            with contextlib.suppress(OSError):
                run_acquire(str(table), str(tmp_path / "run"), 40, **options)
    found = run_acquire(str(table), str(tmp_path / "run"), 40, **options)
    assert found["n_known"] == 40
    assert bought(tmp_path / "run") == bought(tmp_path / "whole")
    every = [pd.read_parquet(tmp_path / run / "labels.parquet") for run in ("run", "whole")]
    pd.testing.assert_frame_equal(*every)


def test_a_function_may_import_what_commands_do_without(table: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import pandas\nnumber = pandas.__version__\n")
    bare = str(table.with_name("bare.csv"))
    command = [sys.executable, "-m", "flows.cli", "acquire", bare, "--run", str(tmp_path / "run")]
    told = subprocess.run(
        [*command, "--budget", "5", "--oracle", "mine:number"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 2
    assert "mine:number: is no function" in told.stderr


def test_people_fill_in_a_table(table: Path, tmp_path: Path) -> None:
    bare, run = str(table.with_name("bare.csv")), tmp_path / "run"
    truth = pd.read_csv(table)["kind"]
    options = {"workers": 0, "quiet": True, "builder": "exact"}
    asked: list[int] = []
    found = run_acquire(bare, str(run), 12, **options)
    while found["n_wanted"]:
        state = status(str(run))
        assert not state.finished
        assert (
            f"\n{state.n_wanted} labels asked for last, not all of them given: run the"
            in status_text(state)
        )
        assert state.n_wanted == found["n_wanted"]
        wanted = pd.read_csv(found["wanted"])
        asked += wanted["row"].tolist()
        wanted.assign(label=truth[wanted["row"]].to_numpy()).to_csv(found["wanted"], index=False)
        found = run_acquire(bare, str(run), 12, **options)
    assert status(str(run)).finished
    assert len(asked) == len(set(asked)) == found["n_known"] == 12
    assert bought(run) == {row: truth[row] for row in asked}


def test_labels_that_people_give_are_counted_corrected_and_never_contradicted(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, run = str(table.with_name("bare.csv")), tmp_path / "run"
    buy = ["acquire", bare, "--run", str(run), "--budget", "20", "--workers", "0", "-q"]
    assert main([*buy, "--label-values", "cat"]) == 2
    assert "--label-values is for the page: give --page too" in capsys.readouterr().err
    assert main(buy) == 0
    first, *others = pd.read_csv(run / "wanted.csv")["row"].tolist()
    lines = [f"{first},catt", *(f"{row},cat" for row in others[:2]), f"{others[2]},"]
    (run / "wanted.csv").write_text("\n".join(["row,label", *lines]))
    assert main(buy) == 0  # what was filled in is taken, not written over
    assert "bought: 'cat' 2, 'catt' 1, in " in capsys.readouterr().out
    (run / "wanted.csv").write_text(f"row,label\n{first},cat\n")
    assert main(buy) == 0
    assert "bought: 'cat' 3, in " in capsys.readouterr().out
    (tmp_path / "other.csv").write_text(f"row,label\n{others[2]},dog\n{others[2]},cat\n")
    (tmp_path / "more.csv").write_text(f"row,label\n{first},dog\n")
    for name, row, who in (("other", others[2], "other.csv"), ("more", first, "wanted.csv")):
        assert main([*buy, "--answers", str(tmp_path / f"{name}.csv")]) == 2
        told = capsys.readouterr().err
        assert f"row {row} is " in told
        assert f"by '{who}'; keep one, or change that by a line with '{who}' as" in told
    assert set(bought(run).values()) == {"cat"}
    (tmp_path / "more.csv").write_text(f"row,label,reviewer\n{first},dog,wanted.csv\n")
    (run / "wanted.csv").write_text("place;label\n1;dog\n")
    assert main(buy) == 2
    assert (
        "corrections have the columns row and label; or remove it, and" in capsys.readouterr().err
    )
    (run / "wanted.csv").unlink()
    assert main([*buy, "--answers", str(tmp_path / "more.csv")]) == 0
    assert bought(run)[first] == "dog"


def test_labels_of_one_row_alone_are_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, answers = str(table.with_name("bare.csv")), tmp_path / "answers.csv"
    buy = [
        "acquire",
        bare,
        "--run",
        str(tmp_path / "run"),
        "--budget",
        "60",
        "--workers",
        "0",
        "-q",
    ]
    for label, named in (("Cat", True), ("cat", False)):
        given = pd.read_csv(table).kind[:60].where(np.arange(60) > 0, label)
        given.rename("label").rename_axis("row").reset_index().to_csv(answers, index=False)
        assert main([*buy, "--answers", str(answers)]) == 0
        text = capsys.readouterr().out
        assert ("of one row alone: 'Cat'; what is" in text) == named
        assert ("'Cat' and 'cat' differ by case, spaces or accents, and count" in text) == named


def test_columns_are_chosen_and_scaled_as_in_a_training(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, path, run = pd.read_csv(table), tmp_path / "pool.csv", tmp_path / "run"
    names = [f"E{row:03d}" for row in range(N)]
    frame.assign(event=names, note="x", a=1000 * frame["a"]).to_csv(path, index=False)
    buy = ["acquire", str(path), "--run", str(run), "--budget", "5", "--workers", "0", "-q"]
    assert main(buy) == 2
    assert "'kind' is not numeric" in capsys.readouterr().err  # of which --exclude is the remedy
    buy += ["--id-column", "event", "--exclude", "kind", "--exclude", "note"]
    assert main(buy) == 0
    said = capsys.readouterr().out
    assert "0 labels known for a budget of 5, 0 of them bought now; scale standard: auto: " in said
    wanted = pd.read_csv(run / "wanted.csv")
    assert wanted["event"].tolist() == [names[row] for row in wanted["row"]]
    given = wanted[["event"]].assign(label=frame["kind"][wanted["row"]].to_numpy())
    given.to_csv(tmp_path / "given.csv", index=False)
    assert main([*buy, "--answers", str(tmp_path / "given.csv")]) == 0
    assert "5 labels known for a budget of 5, 5 of them bought now" in capsys.readouterr().out
    every = pd.read_parquet(run / "labels.parquet")
    assert every["event"].tolist() == names
    assert set(pd.read_csv(run / "bought.csv")["event"]) == set(given["event"])
    assert main([*buy, "--exclude", "a"]) == 2
    assert "the run was begun otherwise: exclude was" in capsys.readouterr().err


def test_what_to_do_about_a_gap_is_what_buying_can(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(table.with_name("bare.csv"))
    frame.loc[3, "b"] = None
    frame.to_csv(tmp_path / "pool.csv", index=False)
    buy = ["acquire", str(tmp_path / "pool.csv"), "--run", str(tmp_path / "run"), "--budget", "5"]
    assert main([*buy, "--workers", "0", "-q"]) == 2
    assert "column 'b': nan; fill or drop them (empty" in capsys.readouterr().err
    frame.assign(b="text").to_csv(tmp_path / "pool.csv", index=False)
    frame.assign(b="text").to_parquet(tmp_path / "pool.parquet", index=False)
    for end in (".csv", ".parquet"):
        buy[1] = str(tmp_path / f"pool{end}")
        assert main([*buy, "--workers", "0", "-q"]) == 2
        assert capsys.readouterr().err.endswith("; leave it out with --exclude b\n")
    buy[1] = str(tmp_path / "labels.csv")
    pd.read_csv(table).replace({"kind": {"cat": None}}).to_csv(buy[1], index=False)
    assert main([*buy, "--workers", "0", "-q", "--label-column", "kind"]) == 2
    assert "rows, or train with --unlabeled predict\n" in capsys.readouterr().err


BAD = {
    "budget": (["--budget", "0"], "--budget 0: must be 1 or more"),
    "all": (["--budget", "500001"], "--budget 500001: must be 500000 or less"),
    "module": (["--budget", "5", "--oracle", "nowhere:at_all"], "cannot be imported"),
    "both": (["--budget", "5", "--oracle", "os:sep", "--label-column", "kind"], "one of them"),
    "page": (["--budget", "5", "--page"], "0 labels that people can give"),
    "answers": (["--budget", "5", "--answers", "absent.csv"], "no such file"),
    **{
        f"oracle {answer}": (["--budget", "5", "--oracle", f"wrong_oracle:{answer}"], message)
        for answer, message in {
            "raises": "KeyError: 3",
            "exits": "SystemExit: 0",
            "none": "TypeError: 'NoneType' object is not iterable",
            "nothing": "no label for row",
            "surrogate": "surrogates not allowed",
            "long": "it is not kept",
            "short": "gave 1 label for 5 rows",
            "endless": "gave more than 5 labels for 5 rows",
        }.items()
    },
    "oracle that exits": (["--budget", "5", "--oracle", "leaves:ask"], "cannot be imported (0)"),
}
ORACLES = r"""
import itertools, sys
def raises(rows): raise KeyError(3)
def exits(rows): sys.exit(0)
def none(rows): pass
def nothing(rows): return [None for row in rows]
def surrogate(rows): return ["\udcff" for row in rows]
def long(rows): return ["x" * (16 << 20) for row in rows]
def short(rows): return [1]
def endless(rows): return itertools.count()
def wide(rows): return [2**63 + row % 2 * 2**63 for row in rows]
"""


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(
    table: Path,
    tmp_path: Path,
    case: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "wrong_oracle.py").write_text(ORACLES)
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wrong_oracle", raising=False)
    more, message = BAD[case]
    args = [str(table.with_name("bare.csv")), "--run", str(tmp_path / "run"), "-q"]
    assert main(["acquire", *args, "--workers", "0", *more]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_labels_beyond_64_bits_are_kept_to_the_last_digit(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wide_oracle.py").write_text(ORACLES)
    monkeypatch.syspath_prepend(str(tmp_path))
    bare, run = str(table.with_name("bare.csv")), tmp_path / "run"
    options = {"oracle": "wide_oracle:wide", "workers": 0, "quiet": True, "builder": "exact"}
    assert run_acquire(bare, str(run), 10, **options)["n_bought"] == 10
    digits = {str(2**63), str(2**64)}
    assert set(bought(run).values()) <= digits
    assert set(pq.read_table(run / "labels.parquet")["label"].to_pylist()) <= digits


def test_a_training_does_not_go_on_where_labels_are_bought(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["--run", str(tmp_path / "run"), "-q"]
    assert main(["acquire", str(table), *run, "--label-column", "kind", "--budget", "20"]) == 0
    assert main(["train", str(table), *run, "--label-column", "kind"]) == 2
    assert "begun by another command; use another --run folder" in capsys.readouterr().err
    for command in ("report", "review", "settings", "clean"):  # nor tells the others to go on
        more = [str(table), "--out", "c.csv"] if command == "clean" else []
        assert main([command, *more, *run]) == 2
        assert "is no training: acquire keeps the labels it bought" in capsys.readouterr().err
    assert main(["status", *run[:2]]) == 0
    status = capsys.readouterr().out
    assert "/run: finished, by knnoise" in status
    assert "is no training" in status
