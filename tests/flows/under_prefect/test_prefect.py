"""The flows as Prefect runs them: one task a step, recorded by a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prefect import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterId,
)
from prefect.flow_engine import run_flow
from processes import running, wait_for
from runs import PoolWriter

from flows.review import run_review
from flows.score import score
from flows.train import train
from storage import InputError


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
        *("ingest", "metric", "anchors", "mates", "pairs", "partition", "blocks", "neighbors"),
        *("audit", "regression", "rates", "labels", "export", "checks", "segments", "probes"),
        "report",
    ]
    assert task_names("knnoise-score") == ["ingest", "search", "scores", "report"]


@pytest.mark.parametrize("answered", [True, False])
def test_a_schedule_publishes_its_list_and_waits(
    server: str, pool: PoolWriter, tmp_path: Path, answered: bool
) -> None:
    run, log = tmp_path / "run", tmp_path / "train.log"
    args = ("train", pool(), "--run", run, "--k", "10", "--workers", "0")
    wait = "60" if answered else "2"
    args += ("--publish-review", "20", "--review-wait", wait, "--json")
    before = tmp_path / "before.csv"
    before.write_text("row,label\n0,1\n1,1\n")
    args += ("--corrections", before)
    env = {**os.environ, "PREFECT_API_URL": server}
    with running("-m", "flows.cli", *args, log=log, env=env) as process:
        if answered:
            wait_for(lambda: "paused until" in log.read_text(), 60)
            wanted = pd.read_csv(run / "review/list.csv")
            assert len(wanted) == 20
            wanted = wanted[wanted["row"] > 1]
            wanted.assign(label=wanted["likely_label"]).to_csv(tmp_path / "said.csv", index=False)
            run_review(str(run), import_from=str(tmp_path / "said.csv"), workers=0, quiet=True)
            with get_client(sync_client=True) as client:
                wait_for(lambda: any(one.state_name == "Paused" for one in client.read_flow_runs()))
                paused = [one for one in client.read_flow_runs() if one.state_name == "Paused"]
                client.resume_flow_run(paused[0].id)
        assert process.wait(60) == 0
    assert "Finished in state Completed" in log.read_text()
    checked = tmp_path / "run-checked"
    assert checked.exists() == answered
    if answered:
        report = json.loads((checked / "report.json").read_text())
        assert report["corrections"]["n_rows"] == len(wanted) + 2
    keys = {"knnoise-review-list", "knnoise-review"}
    wanted = ArtifactFilter(key=ArtifactFilterKey(any_=list(keys)))
    with get_client(sync_client=True) as client:
        assert {artifact.key for artifact in client.read_artifacts(artifact_filter=wanted)} == keys


HOSTILE: dict[str, dict[str, Any]] = {
    "device": {"source": "/dev/zero"},
    "template": {"run": "{date.__class__.__mro__}"},
    "nul": {"run": "a\0b"},
    "long": {"source": "x" * 5000},
}


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_hostile_parameters_end_in_a_line_and_write_nothing(
    hostile: dict[str, Any], pool: PoolWriter, tmp_path: Path
) -> None:
    """A deployment's API knows their types and nothing more; the run is as a worker's process
    begins it."""
    sound = {"source": str(pool()), "run": str(tmp_path / "run"), "k": 10, "workers": 0}
    schema = train.parameters.model_dump_for_openapi()
    with get_client(sync_client=True) as client:
        flow = client.create_flow(train)
        deployment = client.create_deployment(
            flow, "hostile", parameter_openapi_schema=schema, enforce_parameter_schema=True
        )
        run = client.create_flow_run_from_deployment(deployment, parameters={**sound, **hostile})
        with pytest.raises(InputError):
            run_flow(train, flow_run=run)
        state = client.read_flow_run(run.id).state
    assert state is not None
    assert state.name == "Failed"
    assert "InputError" in str(state.message)
    assert len(str(state.message)) < 1000
    assert {file.name for file in tmp_path.iterdir()} == {"pool.npz"}


def test_a_server_that_is_away_is_named_and_no_defect(pool: PoolWriter, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "train", str(pool()), "--k", "10"]
    done = subprocess.run(
        [*command, "--run", str(tmp_path / "run"), "--workers", "0"],
        env={**os.environ, "PREFECT_API_URL": "http://127.0.0.1:9/api"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "the Prefect server does not answer (Failed to reach API at http" in done.stderr
    assert "please report" not in done.stderr


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
