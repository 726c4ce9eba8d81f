"""The flows as Prefect runs them: one task a step, recorded by a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from runs import PoolWriter

from flows.score import score
from flows.train import train


def task_names(flow: str) -> list[str]:
    with get_client(sync_client=True) as client:
        runs = [run for run in client.read_flow_runs() if run.state_name == "Completed"]
        flows = {run.id: client.read_flow(run.flow_id).name for run in runs}
        wanted = max((run for run in runs if flows[run.id] == flow), key=lambda r: r.created).id
        chosen = FlowRunFilter(id=FlowRunFilterId(any_=[wanted]))
        tasks = client.read_task_runs(flow_run_filter=chosen)
    return [task.name.rsplit("-", 1)[0] for task in sorted(tasks, key=lambda t: t.start_time)]


@pytest.mark.usefixtures("server")
def test_flows_are_tasks_by_step(pool: PoolWriter, tmp_path: Path) -> None:
    run, out = str(tmp_path / "run"), str(tmp_path / "out.parquet")
    report = train(str(pool()), run, k=10, workers=0, quiet=True)
    assert report["recall"] == 1.0
    scored = score(str(pool(n=40, seed=2, name="q.npz")), run, out, workers=0, quiet=True)
    assert scored["n_rows"] == 40
    assert task_names("knnoise-train") == [
        *("ingest", "anchors", "pairs", "partition", "blocks", "neighbors", "audit"),
        *("regression", "rates", "labels", "export", "checks", "report"),
    ]
    assert task_names("knnoise-score") == [
        "ingest",
        "truth",
        "probes",
        "search",
        "scores",
        "report",
    ]


def test_command_line_reports_to_a_configured_server(
    server: str, pool: PoolWriter, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "flows.cli", "train", str(pool()), "--k", "10"]
    done = subprocess.run(
        [*command, "--run", str(tmp_path / "run"), "--workers", "0"],
        env={**os.environ, "PREFECT_API_URL": server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Finished in state Completed" in done.stderr


def test_command_line_starts_no_server_of_its_own(pool: PoolWriter, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "train", str(pool()), "--k", "10"]
    clean = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    done = subprocess.run(
        [*command, "--run", str(tmp_path / "run"), "--workers", "0"],
        env={**clean, "PREFECT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "prefect" not in done.stderr.lower()
    assert not list((tmp_path / "home").glob("*.db"))
