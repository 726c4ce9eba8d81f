"""Deployments of deploy/prefect.yaml on a real server with a real worker."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from textwrap import dedent
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import psutil
import pytest
import yaml
from planted import plant
from prefect import get_client
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.objects import FlowRun
from prefect_service import ROOT, Prefect, environment, free_port, serving
from processes import committed, kill_tree, wait_for
from runs import PoolWriter, fit, results

from flows.orchestration.submit import submit
from flows.orchestration.watch import _why
from flows.score import score
from storage import InputError

DEPLOYMENTS = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())["deployments"]
SMALL: dict[str, Any] = {"k": 10, "workers": 0, "metric": "as-scaled"}
BLOCKS: dict[str, Any] = {"block_rows": 100, "builder": "exact"}
HELD = """
import time
from pathlib import Path

import flows.steps.graph.neighbors as graph
from flows.train import train

anchored_part, folder = graph.anchored_part, Path(__file__).parent


def held(k, run, part):
    while len(list(folder.glob("run/ledger/neighbors/*"))) >= int((folder / "n").read_text()):
        time.sleep(0.05)
    return anchored_part(k, run, part)


graph.anchored_part = held
"""
"""A training that makes lists of no more blocks than a file says, so far."""


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running server with the deployments of deploy/prefect.yaml, asking for a password. It ends
    with these tests: one that waits is still busy."""
    folder = tmp_path_factory.mktemp("prefect")
    server = Prefect(folder, environment(folder, free_port()))
    with serving(server):
        server.deploy()
        yield server


def test_a_run_that_does_not_begin_is_explained(prefect: Prefect) -> None:
    """By its pool and queue as the server has them; the remedies let them go on."""
    prefect.ask("work_pools/", {"name": "idle", "type": "process"})

    async def why(state: str = "Late", pool: str | None = "idle", pause: str = "") -> str:
        async with get_client() as client:
            if pause == "queue":
                queue = await client.read_work_queue_by_name("default", "idle")
                await client.update_work_queue(queue.id, is_paused=True)
            elif pause == "pool":
                await client.update_work_pool("idle", WorkPoolUpdate(is_paused=True))
            of = {"work_pool_name": pool, "work_queue_name": pool and "default"}
            return await _why(client, cast(FlowRun, SimpleNamespace(state_name=state, **of)))

    with prefect.settings():
        assert "begins when that has ended" in asyncio.run(why("AwaitingConcurrencySlot"))
        assert "work pool is gone" in asyncio.run(why(pool=None))
        for paused in ("queue", "pool"):
            because, _, remedy = asyncio.run(why(pause=paused)).partition(": ")
            assert because == f"the work {paused} is paused"
            prefect.call(*remedy.split())
            assert asyncio.run(why()).endswith("prefect worker start --pool idle")


def test_every_deployment_is_accepted(prefect: Prefect) -> None:
    found = {
        (deployment["name"], len(deployment["schedules"]))
        for deployment in prefect.ask("deployments/filter", {})
        if deployment["concurrency_options"]["collision_strategy"] == "ENQUEUE"
        and deployment["global_concurrency_limit"]["limit"] == 1
        and [schedule["active"] for schedule in deployment["schedules"]].count(True) == 1
    }
    kinds = ("", "-docker", "-kubernetes")
    assert found == {(f"weekly{kind}", 1) for kind in kinds} | {
        (f"nightly{kind}", 3) for kind in kinds
    }


def test_bad_parameters_are_refused_before_a_run(prefect: Prefect, tmp_path: Path) -> None:
    before = _submitted(prefect)
    args = ("submit", "train", "--run", tmp_path / "run", "--deployment")
    status, _, refused = prefect.here(*args, "weekly", "--k", 2)
    assert status == 2
    assert "2 is less than the minimum of 5" in refused
    assert len(refused.splitlines()) == 1
    status, _, refused = prefect.here(*args, "knnoise-score/nightly")
    assert (status, "is a deployment of score" in refused) == (2, True)
    for name, value, reason in [
        ("noise", "guess", "'guess' is not one of"),
        ("target_recall", 1.5, "1.5 is greater than the maximum"),
        ("p0", 1, "greater than or equal to the maximum"),
        ("knn", 5, "no parameter knn"),
    ]:
        with prefect.settings(), pytest.raises(InputError, match=reason):
            submit("train", {name: value}, "weekly")
    assert _submitted(prefect) == before


def _submitted(prefect: Prefect) -> int:
    """Runs that somebody submitted; the server makes those of schedules whenever it likes."""
    return sum(not run["auto_scheduled"] for run in prefect.flow_runs())


def test_runs_that_are_cancelled_that_crash_and_that_fall_silent_are_resumed(
    prefect: Prefect, pool: PoolWriter, tmp_path: Path
) -> None:
    """One is cancelled, retried, killed and retried, each told how; then its worker is killed, too.
    It is found by its silence; the next, which has waited for its place, goes on."""
    source, folder = pool(1200), tmp_path / "run"
    (tmp_path / "held.py").write_text(HELD)
    prefect.copy("weekly", "held", entrypoint=f"{tmp_path}/held.py:train")
    options = ("--label-column", "y", "--k", 10, "--block-rows", 100, "--builder", "exact")
    options += ("--metric", "as-scaled", "--run", folder, "--deployment", "held", "--workers", 0)

    def held_at(n: int) -> None:
        """Wait until so many blocks have lists, and no more will."""
        wait_for(lambda: committed(folder, "neighbors") == n)

    def let(n: int) -> None:
        (tmp_path / "n").write_text(str(n))

    let(2)
    with prefect.worker() as worker:
        submitted = prefect.knnoise("submit", "train", source, *options)["id"]
        held_at(2)
        prefect.call("prefect", "flow-run", "cancel", submitted)
        prefect.wait(submitted, "Cancelled", "Failed", "Crashed")
        assert prefect.flow_run(submitted)["state_name"] == "Cancelled"
        told = f"prefect flow-run retry {submitted}"
        wait_for(lambda: told in prefect.log(submitted), 60, every=1.0)
        let(4)
        prefect.call(*told.split())
        held_at(4)
        for process in psutil.Process(worker.pid).children():  # of the flow run
            kill_tree(process.pid)
        prefect.wait(submitted, "Crashed")
        wait_for(lambda: prefect.log(submitted).count(told) == 2, 60, every=1.0)
        silent_runs_are_crashed(prefect, seconds=50)
        let(6)
        prefect.call(*told.split())
        held_at(6)
        kill_tree(worker.pid)
    kept = {file: file.stat().st_mtime_ns for file in (folder / "ledger").rglob("*.json")}
    assert prefect.flow_run(submitted)["state_name"] == "Running"
    assert not (folder / "report.json").exists()
    let(100)
    with prefect.worker():
        again = prefect.knnoise("submit", "train", source, *options)
        prefect.wait(submitted, "Crashed")
        prefect.wait(again["id"], "Completed", "Failed")
    assert prefect.flow_run(again["id"])["state_name"] == "Completed"
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    fit(source, tmp_path / "undisturbed", **BLOCKS)
    assert results(folder) == results(tmp_path / "undisturbed")


def silent_runs_are_crashed(prefect: Prefect, seconds: int) -> None:
    """The automation of deploy/automations.yaml, less patient."""
    config = yaml.safe_load((ROOT / "deploy" / "automations.yaml").read_text())
    config["automations"][0]["trigger"]["within"] = seconds
    file = prefect.folder / "automations.yaml"
    file.write_text(yaml.safe_dump(config))
    prefect.call("prefect", "automation", "create", "--from-file", file)


@pytest.fixture(scope="module")
def worker(prefect: Prefect) -> Iterator[None]:
    """A worker for the tests from here on, whose environment does not keep Python from importing
    what lies in the current folder; those above kill workers of their own."""
    bare = {name: value for name, value in prefect.env.items() if name != "PYTHONSAFEPATH"}
    with dataclasses.replace(prefect, env=bare).worker():
        yield


@pytest.mark.usefixtures("worker")
def test_cron_run_completes_and_imports_nothing_from_the_folder_of_the_data(
    prefect: Prefect, pool: PoolWriter, tmp_path: Path
) -> None:
    """Neither its process, which begins there, nor that of its worker."""
    (tmp_path / "data").mkdir()
    source, mark = pool(name="data/pool.npz"), plant(tmp_path / "data")
    (weekly,) = (found for found in DEPLOYMENTS if found["name"] == "weekly")
    variables = {**weekly["work_pool"]["job_variables"], "working_dir": str(tmp_path / "data")}
    run = f"{tmp_path}/run-{{date:%Y%m%d-%H%M}}"
    every_minute = prefect.copy(
        *("weekly", "every-minute"),
        parameters={"source": str(source), "run": run, **SMALL, "workers": 1},
        schedules=[{"schedule": {"cron": "* * * * *"}}],
        job_variables=variables,
    )
    wait_for(lambda: len(_completed_by_schedule(prefect)) > 0, 150, every=1.0)
    prefect.ask(f"deployments/{every_minute}/pause_deployment", {})
    (fired, *_) = _completed_by_schedule(prefect)
    minute = pd.Timestamp(fired["expected_start_time"])
    assert minute.second == 0
    begun = pd.Timestamp(fired["start_time"])
    assert (begun - minute).total_seconds() < 60
    assert not mark.exists(), mark.read_text()
    fit(source, tmp_path / "here")
    assert results(tmp_path / f"run-{minute:%Y%m%d-%H%M}") == results(tmp_path / "here")


def _completed_by_schedule(prefect: Prefect) -> list[dict[str, Any]]:
    runs = prefect.flow_runs()
    return [r for r in runs if r["auto_scheduled"] and r["state_name"] == "Completed"]


@pytest.mark.usefixtures("worker")
def test_run_from_a_script_then_new_files_scored(
    prefect: Prefect, pool: PoolWriter, tmp_path: Path
) -> None:
    page = (ROOT / "docs/use/operations.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    code = dedent(code).replace("/data/pool.parquet", str(pool()))
    code = code.replace('"/data/runs/new"', f'"{tmp_path}/run", "k": 10, "label_column": "y"')
    (tmp_path / "script.py").write_text(code)
    (tmp_path / "in").mkdir()
    pool(n=40, seed=3, name="in/a.npz")
    files, runs, out = (str(tmp_path / name) for name in ("in", "run*", "out"))
    script = [sys.executable, tmp_path / "script.py"]
    done = run(script, env=prefect.env, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "Completed", done.stderr
    score.fn(files, runs, out, new_files=True, workers=0, quiet=True)
    pool(n=50, seed=4, name="in/b.npz")
    where = ("--run", runs, "--out", out, "--workers", 0, "--watch")
    scored = prefect.knnoise("submit", "score", files, *where)
    bad = ("train", tmp_path / "none.npz", "--run", tmp_path / "bad", "--watch")
    refused = prefect.call("flows.cli", "submit", *bad, check=False)
    assert refused.returncode == 2, refused.stderr  # as the run itself
    assert "none.npz" in refused.stderr.splitlines()[-1]
    assert "Correct what the message names and run again." in refused.stderr  # its log
    assert scored["state"] == "Completed"
    assert scored["url"].endswith(f"/runs/flow-run/{scored['id']}")
    assert scored["parameters"]["new_files"] is True  # as the deployment has it
    assert len(pd.read_parquet(tmp_path / "out" / "b.npz.parquet")) == 50
    assert "1 new file, 1 skipped" in (prefect.folder / "worker.log").read_text()


@pytest.mark.usefixtures("worker")
def test_a_secret_is_in_no_state_and_no_log(
    prefect: Prefect, pool: PoolWriter, tmp_path: Path
) -> None:
    """Sent by the server's own API, which knows the types of parameters and nothing more."""
    hostile = prefect.copy("weekly", "hostile")
    parameters = {
        **SMALL,
        "source": "http://me:hunter2@127.0.0.1:9/pool.csv",
        "run": f"{tmp_path}/run",
    }
    run_id = prefect.ask(f"deployments/{hostile}/create_flow_run", {"parameters": parameters})["id"]
    prefect.wait(run_id, "Completed", "Failed", "Crashed")
    ended = prefect.flow_run(run_id)
    said = ended["state"]["message"]
    assert ended["state_name"] == "Failed", said
    assert "UnavailableError" in said
    assert "hunter2" not in said + prefect.log(run_id)
    assert not (tmp_path / "run").exists()
