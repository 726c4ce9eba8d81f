"""Options from a file, outputs by extension, completion."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import PoolWriter

from flows.cli import main
from flows.options.command_line import settings_text


def test_options_come_from_a_file_and_go_into_one(
    pool: PoolWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run, again = pool(), tmp_path / "run", tmp_path / "again"
    config = tmp_path / "knnoise.toml"
    config.write_text("workers = 0\nquiet = true\n[train]\nk = 15\nexclude = 'x3'\n[score]\n")
    train = ["train", str(source), "--config", str(config)]
    assert main([*train, "--run", str(run), "--noise", "minmax"]) == 0
    assert main(["settings", "--run", str(run)]) == 0
    text = capsys.readouterr().out.split("[train]")[1]
    assert "\nk = 15\n" in text
    assert '\nexclude = ["x3"]\n' in text
    assert '\nnoise = "minmax"\n' in text
    config.write_text("[train]" + text.replace('label-column = "y"\n', 'label-column = "y"\n'))
    assert main([*train, "--run", str(again), "-q", "--workers", "0"]) == 0
    both = [pd.read_parquet(folder / "label_issues.parquet") for folder in (run, again)]
    assert both[0].equals(both[1])
    for name, frame in (
        ("s.csv", pd.read_csv),
        ("s.parquet", pd.read_parquet),
        ("s.feather", pd.read_feather),
        ("s.arrow", pd.read_feather),
    ):
        out = str(tmp_path / name)
        score = ["score", str(source), "--run", str(run), "--out", out]
        assert main([*score, "-q", "--workers", "0"]) == 0
        found = frame(out)
        assert list(found.columns) == [
            "row",
            "eta_corr",
            "posterior",
            "predicted_label",
            "near_duplicates",
        ]
        assert found["row"].tolist() == list(range(600))


def test_how_text_is_written_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(60, 2))
    table = pd.DataFrame(x, columns=["größe", "alter"]).assign(krank=np.where(x[:, 0] > 0, 1, 0))
    table.to_csv("t.csv", sep="\t", decimal=",", index=False, encoding="cp1252")
    train = ["train", "t.csv", "-q", "--workers", "0", "--metric", "as-scaled", "--run"]
    written = ["--sep", "tab", "--decimal", ",", "--encoding", "cp1252"]
    assert main([*train, "run", "--label-column", "krank", *written]) == 0
    capsys.readouterr()
    assert main(["settings", "--run", "run"]) == 0
    Path("k.toml").write_text(capsys.readouterr().out)
    assert main([*train, "again", "--config", "k.toml"]) == 0
    assert main([*train, "run", "--config", "k.toml"]) == 0


def test_settings_of_any_text_are_read_back() -> None:
    given = {"by": "grö\U0001f600\x7f\x85\\ud83d", "exclude": ['a"b', "\t\x00"]}
    text = settings_text(given, "\U0001f600")
    assert tomllib.loads(text) == {"train": {"label-column": "\U0001f600", **given}}


def test_a_file_of_labels_is_no_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(60, 2)))
    np.save(tmp_path / "y.npy", rng.integers(0, 2, 60))
    labels, run = str(tmp_path / "y.npy"), str(tmp_path / "run")
    more = ["--workers", "0", "-q", "--noise", "minmax"]
    assert main(["train", str(tmp_path / "x.npy"), "--labels", labels, "--run", run, *more]) == 0
    assert main(["settings", "--run", run]) == 0
    assert "label-column" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[train]\nneighbours = 3\n", "[train] neighbours: there is no such option"),
        ("nois = 'minmax'\n", "nois: there is no such option, did you mean noise?"),
        ("[train]\nk = 'x'\n", "'x' is not a valid integer"),
        ("[train]\nk = 7.9\n", "'7.9' is not a valid integer"),
        ("[train]\nseed = true\n", "'True' is not a valid integer"),
        ("[train]\nk = 'x'\n", "--config c.toml: invalid value for '--k': 'x' is not"),
        ("[train]\nk = 3\n", "--config c.toml: --k 3: must be 5 or more"),
        ("[score]\nk = 7\n", "--config c.toml: [score] k: there is no such option"),
        ("[report]\nhtlm = 'a'\n", "[report] htlm: there is no such option, did you mean html?"),
        ("[tarin]\nk = 7\n", "[tarin]: there is no such command, did you mean train?"),
        ("worker = 1\n[train]\n", "worker: there is no such option, did you mean workers?"),
        (f"noise = 'mi{'[' * 2000}'\n", "'--noise'"),
        ("\ufeff[train]\nk = 3\n", "--config c.toml: --k 3: must be 5 or more"),
        ("k = \udcff\n", "--config c.toml: is not UTF-8; save it as UTF-8"),
        ("k = \n", "--config"),
        ("k = " + "[" * 5000, "recursion"),
        ("#" * (1 << 20) + "\n", "over 1,048,576 bytes"),
    ],
)
def test_a_wrong_file_of_options_is_refused_by_name(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(content, "utf-8", "surrogateescape")
    assert main(["train", "t.csv", "--run", "run", "--config", "c.toml"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1
    assert len(told) < 1000


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from flows.cli import process; process()"]
    asked = {"_KNNOISE_COMPLETE": "bash_complete", "COMP_WORDS": "knnoise ch", "COMP_CWORD": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **asked}, check=False
    )
    assert done.stdout.split() == ["plain,check"]


def test_a_run_may_be_called_auto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--run", "auto"]) == 2
    assert f"{tmp_path}/auto is not a knnoise run" in capsys.readouterr().err


def test_a_column_may_be_called_auto(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(auto=np.where(x[:, 0] > 0, "y", "n"))
    table.to_csv(tmp_path / "pool.csv", index=False)
    assert main(["check", str(tmp_path / "pool.csv"), "--label-column", "auto"]) == 0
    assert "label 'auto'" in capsys.readouterr().out


def test_settings_are_toml_whatever_the_names() -> None:
    text = settings_text({"run": "runs/\N{GRINNING FACE}", "by": 'a"b\n'}, "étiquette")
    assert tomllib.loads(text)["train"] == {
        "label-column": "étiquette",
        "run": "runs/\N{GRINNING FACE}",
        "by": 'a"b\n',
    }
