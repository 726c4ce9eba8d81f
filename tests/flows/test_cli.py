"""The command line as a user meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TextIO, cast

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from runs import PoolWriter

from flows.cli import main
from knnoise import train
from storage.errors import InputError
from storage.redaction import RedactedStream


def knnoise(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_csv_from_training_to_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 2, 2000)
    table = pd.DataFrame(rng.normal(size=(2000, 3)) + 3 * clean[:, None], columns=["a", "b", "c"])
    table["sick"] = np.where(clean ^ (rng.random(2000) < 0.2), "yes", "no")
    table.to_csv(tmp_path / "patients.csv", index=False)
    run, out = str(tmp_path / "run"), tmp_path / "scores.parquet"
    done = knnoise(
        "train", tmp_path / "patients.csv", "--label-column", "sick", "--run", run, "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {
        *("n_rows", "n_features", "k", "noise", "p0", "p1", "p0_interval", "p1_interval"),
        *("threshold", "recall", "recall_interval", "builder", "n_blocks", "seconds"),
        "peak_rss_mb",
    } <= set(report)
    assert abs(report["p0"] - 0.2) < 0.05
    assert report["label_values"] == ["no", "yes"]
    assert "dashboard" not in done.stderr  # small work starts no cluster
    scored = knnoise("score", tmp_path / "patients.csv", "--run", run, "--out", out, "--json")
    assert scored.returncode == 0, scored.stderr
    assert {"n_rows", "recall", "seconds"} <= set(json.loads(scored.stdout))
    assert len(pd.read_parquet(out)) == 2000
    assert main(["report", "--run", run]) == 0
    assert "p0 = P(given yes | true no)" in capsys.readouterr().out
    assert main(["report", "--run", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    assert main(["status", "--run", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished"]


def test_the_folder_of_a_date_is_named(
    pool: PoolWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = tmp_path / "r-{date:%G}"
    assert main(["train", str(pool()), "--run", str(name), "-q", "--workers", "0"]) == 0
    (run,) = tmp_path.glob("r-*")
    assert capsys.readouterr().out.endswith(f"\nresults: {run}\n")


def test_what_is_compiled_is_kept_somewhere(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nowhere where the installation and HOME are read-only."""
    monkeypatch.setenv("NUMBA_CACHE_LOCATOR_CLASSES", "ZipCacheLocator")
    train = knnoise("train", pool(), "--run", tmp_path / "run")
    assert train.returncode == 3
    (line,) = train.stderr.splitlines()
    assert line.startswith("knnoise: compiled code can be kept nowhere")
    (setting,) = re.findall("set ([A-Z_]+) to a folder", line)
    monkeypatch.setenv("NUMBA_CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    monkeypatch.setenv(setting, str(tmp_path))
    subprocess.run([sys.executable, "-c", "import pipeline.knn.lists"], check=True)


def bad_sources(folder: Path) -> dict[str, tuple[list[object], str]]:
    """Arguments after `train --run RUN`, and what the message must contain."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 2)), np.arange(100) % 2
    good = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    good.to_csv(folder / "good.csv", index=False)
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b,y\n")
    good.assign(y=0).to_csv(folder / "one.csv", index=False)
    good.assign(y=y + (np.arange(100) == 51)).to_csv(folder / "three.csv", index=False)
    good.assign(a=np.where(np.arange(100) % 40 == 7, np.nan, x[:, 0])).to_csv(
        folder / "nan.csv", index=False
    )
    np.save(folder / "objects.npy", np.array([[1, "a"], [2, None]], dtype=object))
    np.save(folder / "complex.npy", x.astype(complex))
    np.save(folder / "y.npy", y)
    good.assign(a=1.0, b=2.0).to_csv(folder / "constant.csv", index=False)
    good.head(20).to_csv(folder / "short.csv", index=False)
    return {
        "absent": ([folder / "absent.csv", "--label-column", "y"], "absent.csv"),
        "empty": ([folder / "empty.csv", "--label-column", "y"], "empty"),
        "header": ([folder / "header.csv", "--label-column", "y"], "no rows"),
        "column": ([folder / "good.csv", "--label-column", "z"], "no column 'z'"),
        "one class": ([folder / "one.csv", "--label-column", "y"], "all labels are 0"),
        "three": ([folder / "three.csv", "--label-column", "y"], "class 2 has 1 row"),
        "nan": ([folder / "nan.csv", "--label-column", "y"], "first at row 7"),
        "objects": ([folder / "objects.npy", "--labels", folder / "y.npy"], "object"),
        "complex": ([folder / "complex.npy", "--labels", folder / "y.npy"], "complex"),
        "few": ([folder / "short.csv", "--label-column", "y"], "too few"),
        "builder": ([folder / "good.csv", "--label-column", "y", "--builder", "x"], "builder"),
        "workers": ([folder / "good.csv", "--label-column", "y", "--workers", -2], "--workers -2"),
        "crowd": ([folder / "good.csv", "--workers", 100_000], "must be 1024 or less"),
        "nowhere": ([folder / "good.csv", "--scheduler", ""], "--scheduler '': "),
        "no name": (["", "--label-column", "y"], "'': a path cannot be empty"),
        "constant": ([folder / "constant.csv", "--label-column", "y"], "every feature is constant"),
        "k": ([folder / "good.csv", "--label-column", "y", "--k", 2], "--k 2"),
    }


CASES = (
    *("absent", "empty", "header", "column", "one class", "three"),
    *("nan", "objects", "complex", "few", "builder", "k", "workers", "constant"),
    *("crowd", "nowhere", "no name"),
)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PREFECT_API_URL": "http://127.0.0.1:99999/api"}, "Port out of range"),
        (
            {"PREFECT_LOGGING_LEVEL": "loud", "PREFECT_API_URL": "http://[::1/api"},
            "PREFECT_API_URL",
        ),
    ],
)
def test_settings_of_prefect_that_are_none_are_named(
    environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "knnoise", "submit", "train", "--run", "run"],
        env={**os.environ, "PREFECT_HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("knnoise: Prefect's settings cannot be used")
    assert said in done.stderr


@pytest.mark.parametrize("written", [b"[profiles.a\n", b"profiles = 3", "ü".encode("latin1")])
def test_profiles_of_prefect_that_cannot_be_read_are_named(written: bytes, tmp_path: Path) -> None:
    (file := tmp_path / "profiles.toml").write_bytes(written)
    train = (sys.executable, "-m", "knnoise", "train", "none.csv", "--run", str(tmp_path))
    submit = (sys.executable, "-m", "knnoise", "submit", "train", "--run", "run")
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path)}
    for command, more in ((train, {"PREFECT_PROFILE": "a"}), (submit, {})):
        done = subprocess.run(
            command, env={**environment, **more}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"knnoise: {file}: Prefect cannot read its profiles")


def test_a_pattern_of_runs_is_not_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "train", "--run", "runs/*"]) == 2
    assert "patterns of runs; name one folder" in capsys.readouterr().err
    (there := tmp_path / "run[1]").mkdir()  # as training goes on with it
    assert main(["submit", "train", "--run", str(there)]) == 2
    assert "no Prefect server is configured" in capsys.readouterr().err


def test_a_deleted_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["status", "--run", "run"]) == 2
    assert "run: the current folder has been deleted" in capsys.readouterr().err


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_clear_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args, expected = bad_sources(tmp_path)[case]
    status = main(["train", "--workers", "0", "--run", str(tmp_path / "run"), *map(str, args)])
    out, err = capsys.readouterr()
    said = [line for line in err.splitlines() if line.startswith("knnoise: ")]
    assert status == 2
    assert out == ""
    assert len(said) == 1
    assert expected in said[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("train a.csv --run r --label y", "'--label'. (Did you mean one of: '--label-column', '--"),
        ("train a.csv y --run r", "y: no option stands before it; give it as --label-column y, or"),
        ("report --run r s", "got unexpected extra argument (s); see"),
        ("review --run r s", "s: no option stands before it; give it as --run s; see"),
    ],
)
def test_what_is_typed_as_none_of_the_options_says_which(
    typed: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed.split()) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--answers", "", "'': a path cannot be empty; check it"),
        ("--reviewer", "", "--reviewer '': must not be empty"),
        ("--image-shape", "0x4", "--image-shape 0x4: must be two whole numbers such as 28x28"),
    ],
)
def test_what_a_value_has_to_be_is_in_plain_words(
    option: str, value: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["review", "--run", "run", "--export-to", "q.json", option, value]) == 2
    assert capsys.readouterr().err == f"knnoise: {expected}\n"


def test_too_few_file_handles_are_said_at_once(tmp_path: Path) -> None:
    line = f"ulimit -n 24; exec {sys.executable} -m flows.cli status --run {tmp_path}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == (
        "knnoise: this process may open 24 files, which are too few: ulimit -n 64 or more\n"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NUMBA_NUM_THREADS", "0"),
        ("ZARR_THREADING__MAX_WORKERS", "0"),
        ("ZARR_ASYNC__CONCURRENCY", "abc"),
        ("ZARR_ASYNC__CONCURRENCY", "0"),  # Zarr would wait for ever
    ],
)
def test_counts_of_the_environment_that_are_none_are_named(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    done = knnoise("status", "--run", tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"knnoise: {name}={value}: must be a whole number above 0; mend or unset that variable of "
        "the environment\n"
    )
    with pytest.raises(InputError, match=f"^{name}={value}: "):
        train(tmp_path, tmp_path / "run")


def test_too_little_memory_is_said_at_once(pool: PoolWriter, tmp_path: Path) -> None:
    train = f"{sys.executable} -m flows.cli train {pool()} --run {tmp_path}/run"
    line = f"ulimit -v 600000; exec {train}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4
    assert done.stderr == (
        "knnoise: this process may map 614 MB (ulimit -v), too few for any run: allow 5 GB or "
        "more, or limit the memory that is used, as containers do\n"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("of", ["can't start new thread", "Failed to launch worker thread: again"])
def test_too_few_threads_are_no_defect_and_no_damage(
    of: str, pool: PoolWriter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*args: object) -> None:
        raise RuntimeError(of)

    monkeypatch.setattr("storage.sources.formats.npy.open_zip", refused)
    assert main(["check", str(pool())]) == 4
    assert capsys.readouterr().err.startswith("knnoise: no more threads may be started (ulimit -u)")


def test_scheduler_that_does_not_answer(
    pool: PoolWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    status = main(["train", str(pool()), "--run", run, "--scheduler", "tcp://127.0.0.1:9"])
    assert status == 4
    assert "no Dask cluster" in capsys.readouterr().err


NAMES = {
    "a::b": "'::' joins addresses",
    "{date:%Y": "cannot fill in the date; write it as {date:%Y-%m-%d}",
    "n" * 300: "no file or folder has a name of more than 255 bytes",
}


@pytest.mark.parametrize("name", NAMES)
def test_all_commands_refuse_a_name_alike(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [[word, "--run", name] for word in ("status", "report", "settings", "certify")]
    commands += [["compare", name, "other"], ["review", "--run", name]]
    commands += [["train", "new.csv", "--run", name], ["submit", "train", "new.csv", "--run", name]]
    commands += [["acquire", "new.csv", "--run", name, "--budget", "5"]]
    commands += [["score", "new.csv", "--run", name, "--out", "s.csv"]]
    for command in commands:
        status = main(command)
        told = capsys.readouterr().err
        assert status == 2, (command, told)
        assert NAMES[name] in told, command
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["nowhere", "nowhere/run", "file", "file/run", "[x]", "pool-*"])
def test_folder_that_cannot_be_made(
    name: str,
    pool: PoolWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to("nothing")
    monkeypatch.chdir(tmp_path)
    before = {*tmp_path.iterdir(), pool()}
    for command in (["train"], ["acquire", "--budget", "5"]):
        assert main([*command, "pool.npz", "--run", name, "--workers", "0"]) == 2
        told = capsys.readouterr().err
        assert ("stand for patterns" if set("[*") & set(name) else "no folder can be made") in told
    assert {*tmp_path.iterdir()} == before


def test_a_run_is_looked_at_by_the_name_it_was_made_by(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pool(), pool(n=5, name="new.npz")
    Path("[x]").mkdir()
    for name in ("r-{date:%Y}", "[x]"):
        assert main(["train", "pool.npz", "--run", name, "--workers", "0"]) == 0
        for word in ("status", "report", "settings"):
            assert main([word, "--run", name]) == 0, word
        assert main(["compare", name, name]) == 0
        assert main(["score", "new.npz", "--run", name, "--out", "s.csv"]) == 0
    assert len(list(Path().glob("*/scores/*"))) == 2
    for out in ("http://host/s.csv", "pool.npz/s.csv", "."):
        assert main(["score", "pool.npz", "--run", "[x]", "--out", out]) == 2
        assert main(["report", "--run", "[x]", "--html", out]) == 2
    assert len(list(Path().glob("*/scores/*"))) == 2  # refused before any work


def test_defect_is_one_line_with_a_trace_on_file(
    pool: PoolWriter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def defect(*args: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr("flows.steps.graph.building.find_anchors", defect)
    status = main(["train", str(pool()), "--run", str(tmp_path / "run"), "--workers", "0"])
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "surprise" in line]
    assert status == 4
    assert "Traceback" in Path(said.rsplit(" ", 1)[1]).read_text()


def test_help_shows_first_what_most_people_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) < 36
    assert "--label-column" in short
    assert "--step-timeout" not in short
    assert re.search(r"by\s+--help-all: .*19\s+on\s+method", short, re.DOTALL)
    assert main(["train", "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')} " in whole for name in ("step_timeout", "k", "sep"))
    assert {"Text files:", "Columns:", "Method:", "Computing:"} <= set(whole.splitlines())
    assert main(["certify", "--help"]) == 0
    assert "--step-timeout" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["train", "check", "score", "clean", "acquire", "submit train"])
def test_help_says_once_what_a_source_may_be(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    every = ["--help-all"] if command in ("train", "acquire") else []
    for option in ("--help", *every):
        assert main([*command.split(), option]) == 0
        usage, _, rest = capsys.readouterr().out.partition("\n")
        assert "SOURCE" in usage
        assert re.findall(r"^ *SOURCE.*", rest, re.MULTILINE)[0].startswith("  SOURCE: ")
        assert len(re.findall(r"^ *SOURCE", rest, re.MULTILINE)) == 1


@pytest.mark.parametrize("command", ["train", "score", "review", "acquire", "clean", "certify"])
def test_help_names_no_option_that_is_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    named = "--help-all" in capsys.readouterr().out
    assert main([command, "--help-all"]) == (0 if named else 2)


@pytest.mark.parametrize(("handler", "status"), [("SIG_DFL", 4), ("SIG_IGN", 5)])
def test_a_closed_terminal_ends_a_command_unless_that_is_ignored(handler: str, status: int) -> None:
    code = f"""
import signal, sys
from flows.engine.deadline import Terminated, terminated_by_signal
signal.signal(signal.SIGHUP, signal.{handler})
try:
    with terminated_by_signal():
        signal.raise_signal(signal.SIGHUP)
        sys.exit(5)
except Terminated:
    assert signal.getsignal(signal.SIGHUP) == signal.{handler}
    sys.exit(4)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == status


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("during", ["Thing.__del__", "ExtensionFileLoader.create_module"])
def test_a_signal_whose_exception_would_be_lost_ends_a_command(during: str, name: str) -> None:
    """As where something is destroyed, or a compiled module imported."""
    kind, method = during.split(".")
    code = f"""
import os, signal, sys, time
from flows import cli
class {kind}:
    def {method}(self):
        try:
            os.kill(os.getpid(), signal.{name})
        except BaseException:
            if {method!r} == "__del__":
                raise
def work(*args, **more):
    thing = {kind}()
    getattr(thing, "create_module", int)()
    del thing
    time.sleep(60)
cli.cli.main = work
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(cli.main([]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (4, "knnoise: interrupted\n")


def test_warnings_as_errors_end_no_command(tmp_path: Path) -> None:
    pd.DataFrame({"a": range(9), "y": [0, 1, 0] * 3}).to_csv(tmp_path / "t.csv", index=False)
    command = [sys.executable, "-W", "error", "-m", "flows.cli", "check", str(tmp_path / "t.csv")]
    done = subprocess.run([*command, "--label-column", "y"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_line_that_nobody_sees_changes_no_status(tmp_path: Path) -> None:
    master, slave = os.openpty()
    os.close(master)  # as a terminal's that was closed
    command = [sys.executable, "-m", "knnoise", "status", "--run", tmp_path / "nowhere"]
    assert subprocess.run(command, stderr=slave, check=False).returncode == 2
    terminal = os.fdopen(slave, "w")
    Console(file=cast(TextIO, RedactedStream(terminal)), force_terminal=True).print("a line")
    with pytest.raises(OSError, match="Input/output error"):
        terminal.close()  # which is not told of by the stream that people read


@pytest.mark.parametrize("given", [([], 100), (["--k", "30"], 60)], ids=["by default", "k"])
@pytest.mark.parametrize("rows", [-1, 1, 10, 59])
def test_the_fewest_rows_of_a_block_are_one_number(
    pool: PoolWriter,
    tmp_path: Path,
    rows: int,
    given: tuple[list[str], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", str(pool()), "--run", run, "--block-rows", str(rows), *given[0]]) == 2
    said = f"--block-rows {rows}: must be {given[1]} or more, twice the neighbors kept"
    assert said in capsys.readouterr().err
