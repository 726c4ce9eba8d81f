"""A folder that files arrive in: each is scored once, by itself, as if it were alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from runs import PoolWriter, fit

from flows.score import score
from storage import InputError


def apply(incoming: Path, run: Path | str, out: Path, **more: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"new_files": True, "workers": 0, "quiet": True, **more}
    return score.fn(str(incoming), str(run), str(out), **options)


@pytest.fixture
def incoming(pool: PoolWriter, tmp_path: Path) -> Path:
    """A folder with two files, and a training beside it."""
    fit(pool(), tmp_path / "run-1")
    (tmp_path / "in").mkdir()
    for seed, name in ((3, "in/a.npz"), (4, "in/b.npz")):
        pool(n=50, seed=seed, name=name)
    (tmp_path / "in" / "README.txt").write_text("not a source")
    return tmp_path / "in"


def test_only_new_files_are_scored(incoming: Path, pool: PoolWriter, tmp_path: Path) -> None:
    out, run = tmp_path / "out", tmp_path / "run-1"
    first = apply(incoming, run, out)
    assert (first["n_files"], first["n_scored"], first["n_skipped"]) == (2, 2, 0)
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    pool(n=1, seed=5, name="in/c.npz")
    second = apply(incoming, run, out)
    assert (second["n_files"], second["n_scored"], second["n_skipped"]) == (3, 1, 2)
    assert second["n_rows"] == 1
    assert {file: file.stat().st_mtime_ns for file in before} == before
    alone = tmp_path / "alone.parquet"
    score.fn(str(incoming / "c.npz"), str(run), str(alone), workers=0, quiet=True)
    assert (out / "c.npz.parquet").read_bytes() == alone.read_bytes()


def test_scores_in_the_folder_of_the_files_are_no_new_ones(incoming: Path, tmp_path: Path) -> None:
    for scored in (2, 0):
        assert apply(incoming, tmp_path / "run-1", incoming / "out")["n_scored"] == scored


def test_runs_among_the_files_are_no_new_ones(incoming: Path, tmp_path: Path) -> None:
    run = (tmp_path / "run-1").rename(incoming / "run-1")
    assert apply(incoming, run, tmp_path / "out")["n_files"] == 2
    with pytest.raises(InputError, match="run-1: is a run; give the folder that files come to"):
        apply(run, run, tmp_path / "out")


def test_another_version_scores_all_anew(
    incoming: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, scored in (("0.2.0", 2), ("0.2.1", 2), ("0.2.1", 0)):
        monkeypatch.setattr("flows.orchestration.session.VERSION", version)
        assert apply(incoming, tmp_path / "run-1", tmp_path / "out")["n_scored"] == scored


def test_changed_lost_and_cut_files_are_scored_again(
    incoming: Path, pool: PoolWriter, tmp_path: Path
) -> None:
    out, run = tmp_path / "out", tmp_path / "run-1"
    apply(incoming, run, out)
    pool(n=60, seed=9, name="in/a.npz")
    os.truncate(out / "b.npz.parquet", 100)
    again = apply(incoming, run, out)
    assert (again["n_scored"], again["n_skipped"]) == (2, 0)
    assert len(pd.read_parquet(out / "a.npz.parquet")) == 60
    assert len(pd.read_parquet(out / "b.npz.parquet")) == 50


def test_new_training_scores_all_anew(incoming: Path, pool: PoolWriter, tmp_path: Path) -> None:
    out = tmp_path / "out"
    apply(incoming, tmp_path / "run-1", out)
    fit(pool(seed=1), tmp_path / "run-2")
    assert apply(incoming, f"{tmp_path}/run-*", out)["n_scored"] == 2
    assert apply(incoming, tmp_path / "run-2", out)["n_scored"] == 0


def test_bad_file_does_not_keep_the_others(incoming: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (incoming / "aa.csv").write_text("p,q\n1,2\n")
    with pytest.raises(InputError, match=r"1 of 3 files .*2 scored.*aa.csv"):
        apply(incoming, tmp_path / "run-1", out)
    assert len(list(out.iterdir())) == 2


def test_files_share_one_cluster(incoming: Path, tmp_path: Path) -> None:
    assert apply(incoming, tmp_path / "run-1", tmp_path / "out", workers=1)["n_scored"] == 2


def test_nothing_trained_and_wrong_folders(incoming: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished run matches"):
        apply(incoming, f"{tmp_path}/other-*", tmp_path / "out")
    with pytest.raises(InputError, match="name another"):
        apply(incoming, tmp_path / "run-1", incoming)
    with pytest.raises(InputError, match="not a folder"):
        apply(incoming / "a.npz", tmp_path / "run-1", tmp_path / "out")
