"""What Prefect shows of a run, on a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prefect import flow, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import Artifact
from runs import PoolWriter, fit
from secret_source import OTHER, PASSWORD, SECRETS, check, guarded

from flows.cli import main
from flows.engine.progress import Reporter
from flows.options.params import Compute
from flows.orchestration.artifacts import Artifacts, as_markdown, block_table
from flows.orchestration.session import open_job
from flows.score import score
from flows.train import train
from storage.runs.run import Run


def last_run() -> Any:
    with get_client(sync_client=True) as client:
        return max(client.read_flow_runs(), key=lambda run: run.created)


def artifacts() -> dict[str, Artifact]:
    """Artifacts of the last flow run, by key without the flow's name."""
    wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[last_run().id]))
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=wanted)
    short = [str(artifact.key).split("-", 2)[2] for artifact in found]
    assert len(set(short)) == len(found)
    return dict(zip(short, found, strict=True))


@pytest.mark.usefixtures("server")
def test_a_training_shows_steps_blocks_result_and_links(pool: PoolWriter, tmp_path: Path) -> None:
    run = tmp_path / "run"
    report = train(str(pool(2000)), str(run), k=10, block_rows=300, workers=1, quiet=True)
    shown = artifacts()
    steps = {name: found for name, found in shown.items() if name.startswith("step-")}
    assert {"step-ingest", "step-neighbors", "step-audit", "step-labels"} <= steps.keys()
    assert {found.type for found in steps.values()} == {"progress"}
    assert {found.data for found in steps.values()} == {100.0}
    assert steps["step-neighbors"].task_run_id is not None
    assert "of 7 parts" in str(steps["step-neighbors"].description)
    table = block_table(Run.of(run))
    assert sum(row["rows"] for row in table) == 2000
    assert {row["recall"] for row in table} == {1.0}
    assert len(table) == report["n_blocks"] == str(shown["block-table"].data).count("block-0")
    result = str(shown["result"].data)
    assert f"true 0) = {report['p0']:.3f}, 95 % interval" in result
    assert report["reason"] in result
    assert "http://127.0.0.1:" in str(shown["dask-dashboard"].data)
    assert (run / "report.txt").as_uri() in str(shown["report"].data)


def test_a_text_is_a_list_in_which_nothing_is_marked_up() -> None:
    text = "label 'a_b*': rates\n  p0 = 0.1\n\nWARNING: <b> | [c](d)\n"
    shown = "- label 'a\\_b\\*': rates\n  - p0 = 0.1\n- WARNING: \\<b> \\| \\[c\\](d)\n"
    assert as_markdown(text) == shown


@pytest.mark.usefixtures("server")
def test_a_scoring_shows_steps_and_result(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(600), tmp_path / "run")
    queries = str(pool(40, seed=2, name="q.npz"))
    score(queries, str(tmp_path / "run"), str(tmp_path / "out.parquet"), workers=0, quiet=True)
    shown = artifacts()
    assert {"step-ingest", "step-search", "result", "report"} <= shown.keys()
    assert str(shown["result"].data).startswith("- 40 rows scored, ")


def test_prefect_shows_the_messages_of_steps(server: str, pool: PoolWriter, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "train", str(pool(2000)), "--k", "10"]
    here = {"PREFECT_API_URL": server, "PREFECT_LOGGING_TO_API_ENABLED": "true"}
    done = subprocess.run(
        [*command, "--run", str(tmp_path / "run"), "--workers", "1", "--block-rows", "300"],
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        check=True,
    )
    with get_client(sync_client=True) as client:
        run = max(client.read_flow_runs(), key=lambda run: run.start_time)
        wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id]))
        messages = [log.message for log in client.read_logs(log_filter=wanted, limit=200)]
    for text in (r"neighbors: 7 of 7 parts, .*1 worker", r"Dask dashboard: http"):
        assert [message for message in messages if re.match(text, message)], messages
        assert len(re.findall(text, done.stderr)) == 1  # by Prefect's logger alone
    assert "Finished in state Completed" in done.stderr
    (file,) = (tmp_path / "run" / "logs").glob("*.jsonl")
    assert f'"flow_run": "{run.id}"' in file.read_text().splitlines()[0]


@pytest.mark.usefixtures("server")
def test_no_secret_reaches_the_server(tmp_path: Path) -> None:
    run = Run.of(tmp_path / "run")
    run.begin({})

    @flow(name="knnoise-secret")
    def speak() -> None:
        reporter = Reporter(quiet=True)
        with open_job(run, Compute(workers=0), reporter):
            reporter.link("dask-dashboard", "https://me:hunter2@host/status?token=hunter2")

    speak()
    (link,) = artifacts().values()
    assert link.data == "[https://***@host/status](https://***@host/status)"


@pytest.mark.usefixtures("server")
def test_prefect_is_told_no_password(
    pool: PoolWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "served").mkdir()
    pool(name="served/pool.npz")
    with guarded(tmp_path / "served") as host:

        def fail(*args: object, **more: object) -> None:
            raise OSError(f"http://me:{OTHER}@{host}/x and {PASSWORD}")

        source = f"http://me:{PASSWORD}@{host}/pool.npz"
        with get_client(sync_client=True) as client:
            before = {run.id for run in client.read_flow_runs()}
            assert main(["train", source, "--run", str(tmp_path / "whole"), "--workers", "0"]) == 0
            monkeypatch.setattr("flows.steps.graph.building.find_anchors", fail)
            monkeypatch.setattr("flows.engine.under_prefect.RETRIES", 0)
            assert main(["train", source, "--run", str(tmp_path / "run"), "--workers", "0"]) == 3
            runs = [run for run in client.read_flow_runs() if run.id not in before]
            of_runs = FlowRunFilter(id=FlowRunFilterId(any_=[run.id for run in runs]))
            told: list[Any] = [*runs, *client.read_task_runs(flow_run_filter=of_runs)]
            told += client.read_artifacts(flow_run_filter=of_runs)
    assert len(runs) == 2
    assert len(told) > 30
    everything = " ".join(found.model_dump_json() for found in told)
    assert not [secret for secret in SECRETS if secret in everything]
    check(capfd, tmp_path)


@pytest.mark.usefixtures("server")
def test_refused_artifacts_do_not_end_a_run(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of the artifacts talks to a port where nobody listens."""
    nobody = "http://127.0.0.1:9/api"
    monkeypatch.setattr(
        "flows.orchestration.artifacts.get_client", lambda **_: SyncPrefectClient(nobody)
    )
    report = train(str(pool()), str(tmp_path / "run"), k=10, workers=0, quiet=True)
    assert report["recall"] == 1.0
    assert artifacts() == {}
    (file,) = (tmp_path / "run" / "logs").glob("*.jsonl")
    assert file.read_text().count("Prefect took no artifact") == 1


def test_nothing_is_sent_without_a_flow_run(tmp_path: Path) -> None:
    with Artifacts.opened(Run.of(tmp_path), print) as opened:
        assert opened is None
    assert np.size(block_table(Run.of(tmp_path))) == 0
