"""The log kept with a run."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from runs import PoolWriter, fit

from flows.engine.progress import Reporter, RunLog
from flows.options.params import Compute
from flows.orchestration.session import open_job
from storage.errors import InputError
from storage.files.location import Location
from storage.runs.run import Run


def log_lines(run: Path) -> list[list[dict[str, Any]]]:
    """The lines of each log of a run, oldest first."""
    files = sorted((run / "logs").glob("*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def test_log_tells_run_step_and_part(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(2000), tmp_path / "run", block_rows=300)
    (lines,) = log_lines(tmp_path / "run")
    assert (lines[0]["event"], lines[-1]["event"]) == ("run-started", "run-done")
    assert all({"time", "run", "event"} <= line.keys() for line in lines)
    assert {line["run"] for line in lines} == {"run"}
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    parts = {(line["step"], line["part"]) for line in lines if line["event"] == "part-done"}
    records = (tmp_path / "run" / "ledger").glob("*/*.json")
    ledger = {(record.parent.name.removesuffix("-pool"), record.stem) for record in records}
    assert parts == ledger - {("pool", "all")}
    begun = [line["step"] for line in lines if line["event"] == "step-started"]
    ended = [line["step"] for line in lines if line["event"] == "step-done"]
    assert begun == ended
    assert {"ingest", "neighbors", "audit", "rates", "labels"} <= set(begun)


def test_a_failure_is_in_the_log_and_the_rerun_has_its_own(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = pool(2000), tmp_path / "run"

    def defect(*args: object, **more: object) -> None:
        raise RuntimeError("lost s3://me:hunter2@bucket/pool?sig=hunter2")

    with monkeypatch.context() as patched:
        patched.setattr("flows.steps.graph.neighbors.pick", defect)  # lists that the anchors have
        with pytest.raises(RuntimeError, match="lost"):
            fit(source, run, block_rows=300)
    (lines,) = log_lines(run)
    assert [line["event"] for line in lines[-2:]] == ["step-failed", "run-failed"]
    assert lines[-2]["step"] == "neighbors"
    assert "RuntimeError: lost s3://***@bucket/pool" in lines[-1]["error"]
    assert "hunter2" not in json.dumps(lines)
    fit(source, run, block_rows=300)
    _, again = log_lines(run)
    assert "ingest" not in {line.get("step") for line in again}
    assert again[-1]["event"] == "run-done"


def test_log_in_a_remote_store() -> None:
    location = Location.of("memory://logs/run")
    log = RunLog(location, print)
    log.event("message", message="one")
    log.flush()
    log.event("message", message="two")
    log.flush()
    content = fsspec.filesystem("memory").cat_file(f"/logs/run/{log.key}")
    assert [json.loads(line)["message"] for line in content.splitlines()] == ["one", "two"]


def test_log_that_cannot_be_written_does_not_end_a_run(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    said: list[str] = []
    log = RunLog(Location.of(tmp_path), said.append)
    for _ in range(2):
        log.event("message", message="one")
        log.flush()
    (complaint,) = said
    assert "no log is kept" in complaint


def test_input_error_leaves_no_folder_behind(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "bad.npz", X=np.zeros((100, 2), np.float32), y=rng.integers(0, 2, 100))
    with pytest.raises(InputError, match="constant"):
        fit(tmp_path / "bad.npz", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_messages_go_through_logging(
    pool: PoolWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="knnoise"):
        fit(pool(2000), tmp_path / "run", block_rows=300)
    parts = [record for record in caplog.records if record.__dict__.get("event") == "part-done"]
    assert {"neighbors", "audit"} <= {record.__dict__["step"] for record in parts}
    assert all(record.__dict__["part"] in record.getMessage() for record in parts)
    steps = [record for record in caplog.records if record.__dict__.get("event") == "step-done"]
    assert all(record.levelno == logging.INFO for record in steps)


def test_said_and_linked_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.of(tmp_path / "run")
    run.begin({})
    reporter = Reporter()
    with (
        caplog.at_level(logging.DEBUG, logger="knnoise"),
        open_job(run, Compute(workers=0), reporter),
    ):
        reporter.say("reading https://me:hunter2@host/pool.csv?token=hunter2")
        reporter.link("dask-dashboard", "https://me:hunter2@host/status?token=hunter2")
    told = (tmp_path / "run" / "logs").glob("*.jsonl").__next__().read_text()
    assert "https://***@host/pool.csv" in told
    assert "hunter2" not in told + caplog.text + "".join(capsys.readouterr())
