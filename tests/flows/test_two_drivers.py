"""Two processes that want one run: one makes it, the other is refused by name."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from processes import committed, killed_at, running
from runs import AS_IN_FIT, PoolWriter, fit, results

from flows.score import score
from flows.steps.graph import building
from storage.errors import BusyError
from storage.files.location import Location
from storage.runs.lease import Owner, birth


@pytest.mark.parametrize("k", [10, 20])
def test_second_driver_is_refused_while_the_first_works(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    source, run, find_pairs = pool(), tmp_path / "run", building.find_pairs
    refused: list[str] = []

    def meanwhile(*args: Any) -> Any:
        def second() -> None:
            with pytest.raises(Exception, match=r"works on this run|begun otherwise") as caught:
                fit(source, run, k=k)
            refused.append(type(caught.value).__name__)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        return find_pairs(*args)

    monkeypatch.setattr(building, "find_pairs", meanwhile)
    fit(source, run)
    assert refused == ["BusyError" if k == 10 else "InputError"]
    monkeypatch.undo()
    fit(source, tmp_path / "alone")
    assert results(run) == results(tmp_path / "alone")


def test_drivers_that_start_together(pool: PoolWriter, tmp_path: Path) -> None:
    """Of two processes at once one makes the run, and the other ends with status 4, or after it."""
    source, run = pool(), tmp_path / "run"
    options = ("--run", run, "--k", "10", "--workers", "0", *AS_IN_FIT)
    args = ("-m", "flows.cli", "train", source, *options)
    with (
        running(*args, log=tmp_path / "a.log") as a,
        running(*args, log=tmp_path / "b.log") as b,
    ):
        ended = sorted([a.wait(120), b.wait(120)])
    assert ended in ([0, 0], [0, 4])
    if ended == [0, 4]:
        logs = (tmp_path / "a.log").read_text() + (tmp_path / "b.log").read_text()
        assert "works on this run" in logs
    fit(source, tmp_path / "alone")
    assert results(run) == results(tmp_path / "alone")


def test_driver_that_was_succeeded_writes_no_more(
    pool: PoolWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was stopped for long enough that another host took the run over, and goes on."""
    source, run, find_pairs = pool(), tmp_path / "run", building.find_pairs

    def stopped(*args: Any) -> Any:
        other = json.loads(Owner.this().to_json()) | {"machine": "other", "released": True}
        Location.of(run).replace("lease/00000009.json", json.dumps(other).encode())
        (run / "lease" / "00000001.json").unlink()
        (run / "timings.json").write_text('{"theirs": 1.0}')
        return find_pairs(*args)

    monkeypatch.setattr(building, "find_pairs", stopped)
    with pytest.raises(BusyError, match="taken over"):
        fit(source, run, quiet=False)
    monkeypatch.undo()
    assert "timings.json" not in capsys.readouterr().err
    assert committed(run, "pairs") == 0
    assert json.loads((run / "timings.json").read_text()) == {"theirs": 1.0}
    fit(source, run)
    fit(source, tmp_path / "alone")
    assert results(run) == results(tmp_path / "alone")


def test_driver_killed_is_succeeded_at_once(pool: PoolWriter, tmp_path: Path) -> None:
    source, run = pool(2000), tmp_path / "run"
    asked = ("--k", "10", "--workers", "0", "--block-rows", "300", *AS_IN_FIT)
    args = ("train", source, "--run", run, *asked)
    with running("-m", "flows.cli", *args, log=tmp_path / "a.log") as process:
        killed_at(process, run, 3, tree=False)
    fit(source, run, block_rows=300)
    fit(source, tmp_path / "alone", block_rows=300)
    assert results(run) == results(tmp_path / "alone")


def test_scoring_that_another_process_makes_is_refused(pool: PoolWriter, tmp_path: Path) -> None:
    source, run, out = pool(), tmp_path / "run", tmp_path / "scores.parquet"
    fit(source, run)
    call = {"workers": 0, "quiet": True}
    score.fn(str(source), str(run), str(out), **call)
    (folder,) = (run / "scores").iterdir()
    (folder / "report.json").unlink()
    parent = {"pid": os.getppid(), "birth": birth(os.getppid())}
    other = json.loads(Owner.this().to_json()) | parent
    Location.of(folder).replace("lease/00000009.json", json.dumps(other).encode())
    with pytest.raises(BusyError, match=f"process {os.getppid()}"):
        score.fn(str(source), str(run), str(out), **call)
