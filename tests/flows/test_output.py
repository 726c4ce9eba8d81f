"""What the command line prints: quiet, in detail, scores on stdout, scripts for shells."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from runs import PoolWriter, fit

from flows import clean
from flows.cli import cli, main
from knnoise import open_run
from storage.export import write_columns

Capture = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "flows.cli"]


@pytest.fixture(scope="module")
def source(shared_pool: PoolWriter) -> Path:
    return shared_pool()


@pytest.fixture(scope="module")
def run(source: Path) -> str:
    fit(source, source.parent / "run")
    return str(source.parent / "run")


def commands(group: click.Group = cli) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += [(name, *below) for below in commands(command)]
        else:
            found.append((name,))
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_can_be_quiet_and_tell_more(
    command: tuple[str, ...], capsys: Capture
) -> None:
    assert main([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "-q, --quiet" in out
    assert "-v, --verbose" in out


def test_quiet_leaves_what_was_found(run: str, source: Path, capsys: Capture) -> None:
    for command in (["status", "--run", run], ["check", str(source)], ["report", "--run", run]):
        assert main(command) == 0
        told = capsys.readouterr()
        assert main([*command, "-q"]) == 0
        assert capsys.readouterr() == told
    assert main(["status", "-q", "--run", f"{run}-absent"]) != 0
    assert capsys.readouterr().err.startswith("knnoise: ")


def test_verbose_tells_each_part_once(source: Path, tmp_path: Path, capsys: Capture) -> None:
    train = ["train", str(source), "--k", "10", "--workers", "0"]
    assert main([*train, "--run", str(tmp_path / "a"), "-v"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert len([line for line in told if line.startswith("regression block-00000: ")]) == 1
    assert main([*train, "--run", str(tmp_path / "b")]) == 0
    assert "block-00000" not in capsys.readouterr().err
    assert main([*train, "--run", str(tmp_path / "c"), "-qv"]) == 0
    assert "block-00000" in capsys.readouterr().err


def test_verbose_traces_an_error_without_its_secrets(run: str, capsys: Capture) -> None:
    assert main(["status", "--run", "s3://me:hunter2@bucket/run", "-v"]) != 0
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last)")
    assert err.splitlines()[-1].startswith("knnoise: ")
    assert "hunter2" not in err


def test_the_demo_names_its_pools_and_ends_with_what_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("flows.demo.N_SIMULATED", 2000)
    monkeypatch.setattr("flows.demo.N_TEST", 200)
    assert main(["demo", "--dir", str(tmp_path / "a demo")]) == 0
    shown = capsys.readouterr()
    assert [line.partition(",")[0] for line in shown.err.splitlines()] == [
        "pool 1 of 2: cancer",
        "pool 2 of 2: sheets",
    ]
    (page,) = [line for line in shown.out.splitlines() if "knnoise report" in line]
    assert main(shlex.split(page, comments=True)[1:]) == 0
    assert (tmp_path / "a demo" / "sheets.html").exists()


def test_a_demo_where_no_folder_can_be_is_refused_as_any(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", "--dir", str(tmp_path / "file")]) == 2
    assert f"({tmp_path / 'file'} is a file); name another" in capsys.readouterr().err


def test_scores_on_stdout_are_the_file(run: str, source: Path, tmp_path: Path) -> None:
    score = ["score", str(source), "--run", run, "--workers", "0"]
    assert main([*score, "--out", str(tmp_path / "scores.csv")]) == 0
    command = [*COMMAND, *score, "--out", "-", "--json"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == (tmp_path / "scores.csv").read_bytes()
    assert len(pd.read_csv(io.BytesIO(done.stdout))) == 600
    assert json.loads(done.stderr.decode().splitlines()[-1])["out"] == "-"
    with contextlib.redirect_stdout(io.StringIO(newline="")) as here:
        assert main([*score, "--out", "-"]) == 0
    assert here.getvalue().encode() == done.stdout


READ: dict[str, Callable[[Path], pd.DataFrame]] = {
    "s.parquet": pd.read_parquet,
    "s.csv": pd.read_csv,
    "s.CSV.gz": lambda path: pd.read_csv(path, compression="gzip"),
    "s.xlsx": pd.read_excel,
    "s.jsonl": lambda path: pd.read_json(path, lines=True),
    "s.arrow": pd.read_feather,
    "s.feather": pd.read_feather,
}


def test_a_name_says_what_is_written(
    run: str, source: Path, tmp_path: Path, capsys: Capture
) -> None:
    score = ["score", str(source), "--run", run, "--workers", "0", "-q", "--out"]
    for name in READ:
        assert main([*score, str(tmp_path / name)]) == 0
    want = pd.read_parquet(tmp_path / "s.parquet")
    for name, read in READ.items():
        found = read(tmp_path / name)
        pd.testing.assert_frame_equal(found, want, check_dtype=False, check_exact=False, rtol=1e-6)
    capsys.readouterr()
    for name in ("s.json", "s.txt", "s", "s.xls", "s.html"):
        assert main([*score[:1], "absent.csv", *score[2:], str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert "tables are written as .parquet, .csv, .csv.gz, .xlsx" in said
        assert not (tmp_path / name).exists()
    for command in (["report", "--run", run], ["compare", run, run]):
        assert main([*command, "--html", str(tmp_path / "r.pdf")]) == 2
        assert "a page is written as .html" in capsys.readouterr().err
    export = ["review", "--run", run, "--export-to", str(tmp_path / "a.txt"), "-q"]
    assert main(export) == 2
    assert "tables are written as" in capsys.readouterr().err


def test_text_in_a_workbook_is_no_formula(tmp_path: Path) -> None:
    texts = ["=1+1", "+x", "a\x01b", "plain"]
    ids = pa.array([10**15 + n for n in range(4)])
    columns = {"text": pa.array(texts), "n": pa.array(range(4)), "id": ids}
    write_columns(str(tmp_path / "t.xlsx"), columns)
    (sheet,) = openpyxl.load_workbook(tmp_path / "t.xlsx").worksheets
    rows = list(sheet.iter_rows(min_row=2))
    assert [row[0].value for row in rows] == ["=1+1", "+x", "a\ufffdb", "plain"]
    assert {row[0].data_type for row in rows} == {"s"}
    assert {row[1].data_type for row in rows} == {"n"}
    assert [row[2].value for row in rows] == [10**15, *(str(10**15 + n) for n in (1, 2, 3))]


def test_who_reads_only_the_head_hears_of_no_error(run: str, source: Path) -> None:
    score = ["score", source, "--run", run, "--out", "-", "-qv"]
    for command in (score, ["report", "--run", run], ["--help"], ["train", "--help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [*COMMAND, *command], stdout=write, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(write)
        assert done.returncode == 0
        assert "Error" not in done.stderr
        assert "knnoise: " not in done.stderr


def test_a_full_stdout_is_named(run: str) -> None:
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "status", "--run", run]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("knnoise: stdout: cannot be written (No space left on device);")
    assert len(done.stderr.splitlines()) == 1


def test_pictures_are_drawn_where_no_home_can_be(run: str, tmp_path: Path) -> None:
    command = [*COMMAND, "report", "--run", run, "--html", str(tmp_path / "page.html"), "-q"]
    env = {**os.environ, "HOME": "/proc/nobody", "MPLCONFIGDIR": "/proc/nobody"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("streams", "encoding", "printed"),
    [("", "ascii", r"r\xfcn\udcff"), (">&-", "", ""), ("2>&-", "", "rün"), (">&- 2>&-", "", "")],
)
def test_a_stream_that_cannot_print_it_is_no_error(
    run: str, tmp_path: Path, streams: str, encoding: str, printed: str
) -> None:
    name = tmp_path / "rün\udcff"
    name.symlink_to(run)
    call = [sys.executable, "-m", "flows.cli", "status", "--run", str(name)]
    done = subprocess.run(
        ["bash", "-c", f'"$@" {streams}', "bash", *call],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert printed in done.stdout.decode("utf-8", "surrogateescape")


def test_stdout_is_one_file_of_this_process(run: str, source: Path, capsys: Capture) -> None:
    many = ["score", str(source.parent), "--run", run, "--out", "-", "--new-files"]
    assert main(many) == 2
    assert "--out -: --new-files writes a file for each" in capsys.readouterr().err
    assert main(["submit", "score", "--out", "-"]) == 2
    assert "--out -: a run on a worker has no stdout" in capsys.readouterr().err


def test_a_script_completes_commands_and_paths(tmp_path: Path) -> None:
    (tmp_path / "patients.csv").touch()
    script = subprocess.run(
        [*COMMAND, "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    assert "_KNNOISE_COMPLETE=bash_complete" in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    words = {"knnoise tra": "plain,train", "knnoise train pat": "file,pat"}
    for line, expected in words.items():
        count = str(len(line.split()) - 1)
        asked = {"_KNNOISE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": count}
        done = subprocess.run(
            COMMAND, capture_output=True, text=True, env={**os.environ, **asked}, check=False
        )
        assert done.stdout.splitlines() == [expected]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts_too(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    assert f"_KNNOISE_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_what_is_read_is_never_written_over(
    source: Path, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """By whatever name or link; and a run's own files are left alone."""
    monkeypatch.chdir(tmp_path)
    pool = pd.DataFrame(np.load(source)["X"], columns=list("abcd")).assign(y=np.load(source)["y"])
    pool.to_csv("pool.csv", index=False)
    fit("pool.csv", "own", label_column="y")
    Path("sub").mkdir()
    Path("in").mkdir()
    pool.drop(columns="y").to_parquet("in/a.parquet")
    Path("link.csv").symlink_to("pool.csv")
    Path("in_link").symlink_to("in")
    before = {file: file.read_bytes() for file in (Path("pool.csv"), Path("in/a.parquet"))}
    for command in (
        "score pool.csv --run own --out sub/../pool.csv",
        "score link.csv --run own --out pool.csv",
        "score in/a.parquet --run own --out in_link/a.parquet",
        "score in --run own --out in_link --new-files",
        "score in --run own --out sub/../in --new-files",
        "clean pool.csv --run own --out pool.csv",
        "review --run own --export-to pool.csv",
        "clean pool.csv --run own --out own/label_issues.parquet",
        "score pool.csv --run own --out own/ledger/scores.csv",
        f"score pool.csv --run own --out {run}/label_issues.parquet",
        f"train pool.csv --label-column y --run {run}/inner",
    ):
        assert main(command.split()) == 2, command
        *_, line = capsys.readouterr().err.splitlines()
        assert re.search(r"name (another|one beside it)$", line), line
    assert before == {file: file.read_bytes() for file in before}
    assert main(["status", "--run", "own"]) == 0
    assert main(["score", "pool.csv", "--run", "own", "--out", "own/scores.csv", "-q"]) == 0


def test_paths_may_begin_with_the_user_s_folder(
    run: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As files of settings, Python and `--run=~/run` have them, which no shell expands."""
    monkeypatch.setenv("HOME", str(source.parent))
    monkeypatch.chdir(tmp_path)
    home = ("--run", f"~/{Path(run).name}")
    assert main(["clean", f"~/{source.name}", *home, "--out", "~/clean.csv", "-q"]) == 0
    assert main(["report", *home, "--html", "~/page.html", "-q"]) == 0
    assert {"clean.csv", "page.html"} <= {file.name for file in source.parent.iterdir()}
    assert open_run(home[1]).run == run
    assert not [*tmp_path.iterdir()]


def test_a_source_that_changes_while_it_is_cleaned_leaves_what_was_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    pool = pd.DataFrame(np.load(source)["X"], columns=list("abcd")).assign(y=np.load(source)["y"])
    pool.to_csv("pool.csv", index=False)
    fit("pool.csv", "own", label_column="y")
    command = ["clean", "pool.csv", "--run", "own", "--out", "clean.csv", "-q"]
    assert main(command) == 0
    whole = Path("clean.csv").read_bytes()
    cleaned = clean._Cleaning._cleaned

    def touched(self: clean._Cleaning, *args: Any) -> pa.Table:
        with Path("pool.csv").open("a") as file:
            file.write("1,2,3,4,1\n")
        return cleaned(self, *args)

    monkeypatch.setattr(clean._Cleaning, "_cleaned", touched)
    assert main(command) == 2
    assert "was written while it was read" in capsys.readouterr().err
    assert Path("clean.csv").read_bytes() == whole
