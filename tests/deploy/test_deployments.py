"""Deployments of deploy/prefect.yaml on a real server with a real worker."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from textwrap import dedent
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import yaml
from planted import plant
from prefect_service import POOL, ROOT, Prefect, environment, free_port, serving
from processes import committed, kill_tree, wait_for
from runs import PoolWriter, fit, results

from pipeline.simulate import sheets

DEPLOYMENTS = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())["deployments"]
SLOW = (
    *("--label-column", "y", "--k", 10, "--block-rows", 100, "--builder", "exact"),
    *("--metric", "as-scaled"),
)
"""Many small blocks, for a run of half a minute."""
SMALL: dict[str, Any] = {"k": 10, "workers": 0, "metric": "as-scaled"}
SUBMIT_BAD = """
from flows.orchestration.submit import submit
from storage import InputError

for name, value in [("noise", "guess"), ("target_recall", 1.5), ("p0", 1), ("knn", 5)]:
    try:
        submit("train", {name: value}, "manual")
    except InputError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running server with a process pool, asking for a password. It ends with these tests: one
    that waits is still busy."""
    folder = tmp_path_factory.mktemp("prefect")
    server = Prefect(folder, environment(folder, free_port()))
    with serving(server):
        server.call("prefect", "work-pool", "create", POOL, "--type", "process")
        yield server


@pytest.fixture(scope="module", autouse=True)
def deployed(prefect: Prefect) -> None:
    """The deployments of deploy/prefect.yaml, without their schedules; all in one call, which
    takes seconds. Runs of `planted` begin in the folder `data`."""
    weekly = dict.fromkeys(("manual", "killed", "cancelled", "hostile", "planted"), "weekly")
    (entry,) = (found for found in DEPLOYMENTS if found["name"] == "weekly")
    variables = {**entry["work_pool"]["job_variables"], "working_dir": str(data_of(prefect))}
    data_of(prefect).mkdir()
    own: dict[str, dict[str, Any]] = {
        "planted": {"work_pool": {**entry["work_pool"], "job_variables": variables}},
    }
    prefect.deploy({**weekly, "files": "nightly"}, own=own, schedules=[])


def data_of(prefect: Prefect) -> Path:
    return prefect.folder / "data"


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source to train on with SLOW, and a run on it that nothing disturbed."""
    folder = tmp_path_factory.mktemp("slow")
    x, y, _ = sheets(6000, 0)
    np.savez(folder / "pool.npz", X=x, y=y)
    fit(folder / "pool.npz", folder / "undisturbed", block_rows=100, builder="exact")
    return folder / "pool.npz", folder / "undisturbed"


def test_every_deployment_is_accepted(prefect: Prefect) -> None:
    template = ROOT / "deploy" / "k8s" / "job-template.json"
    create = ("prefect", "work-pool", "create")
    prefect.call(*create, "knnoise-docker", "--type", "docker")
    pool = (*create, "knnoise-kubernetes", "--type", "kubernetes")
    prefect.call(*pool, "--base-job-template", template)
    file = ROOT / "deploy" / "prefect.yaml"
    prefect.call("prefect", "--no-prompt", "deploy", "--prefect-file", file, "--all")
    found = {
        (deployment["name"], len(deployment["schedules"]))
        for deployment in prefect.post("deployments/filter", {})
        if deployment["name"].startswith(("weekly", "nightly"))
        and deployment["concurrency_options"]["collision_strategy"] == "ENQUEUE"
        and deployment["global_concurrency_limit"]["limit"] == 1
        and [schedule["active"] for schedule in deployment["schedules"]].count(True) == 1
    }
    kinds = ("", "-docker", "-kubernetes")
    assert found == {(f"weekly{kind}", 1) for kind in kinds} | {
        (f"nightly{kind}", 3) for kind in kinds
    }


def test_bad_parameters_are_refused_before_a_run(prefect: Prefect, tmp_path: Path) -> None:
    before = _submitted(prefect)
    submit = ("flows.cli", "submit", "train", "--run", tmp_path / "run", "--deployment", "manual")
    refused = prefect.call(*submit, "--k", 2, check=False)
    assert refused.returncode == 2
    assert "2 is less than the minimum of 5" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    other = prefect.call(*submit[:-1], "knnoise-score/nightly", check=False)
    assert (other.returncode, "is a deployment of score" in other.stderr) == (2, True)
    script = tmp_path / "bad.py"
    script.write_text(SUBMIT_BAD)
    done = run([sys.executable, script], env=prefect.env, capture_output=True, text=True)
    reasons = done.stdout.splitlines()
    assert "'guess' is not one of" in reasons[0], done.stderr
    assert "1.5 is greater than the maximum" in reasons[1]
    assert "greater than or equal to the maximum" in reasons[2]
    assert "no parameter knn" in reasons[3]
    assert _submitted(prefect) == before


def _submitted(prefect: Prefect) -> int:
    """Runs that somebody submitted; the server makes those of schedules whenever it likes."""
    return sum(not run["auto_scheduled"] for run in prefect.flow_runs())


def test_worker_killed_then_the_next_run_resumes(
    prefect: Prefect, slow: tuple[Path, Path], tmp_path: Path
) -> None:
    """The dead run is found by its silence; the next, which has waited for its place, resumes."""
    (source, undisturbed), folder = slow, tmp_path / "run"
    options = (*SLOW, "--run", folder, "--deployment", "killed", "--workers", 0)
    silent_runs_are_crashed(prefect, seconds=35)
    with prefect.worker() as worker:
        dead = prefect.knnoise("submit", "train", source, *options)
        wait_for(lambda: committed(folder, "neighbors") >= 2)
        kill_tree(worker.pid)
    kept = {file: file.stat().st_mtime_ns for file in (folder / "ledger").rglob("*.json")}
    assert prefect.flow_run(dead["id"])["state_name"] == "Running"
    assert not (folder / "report.json").exists()
    with prefect.worker():
        again = prefect.knnoise("submit", "train", source, *options)
        prefect.wait(dead["id"], "Crashed")
        prefect.wait(again["id"], "Completed", "Failed")
    assert prefect.flow_run(again["id"])["state_name"] == "Completed"
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert results(folder) == results(undisturbed)


def silent_runs_are_crashed(prefect: Prefect, seconds: int) -> None:
    """The automation of deploy/automations.yaml, less patient."""
    config = yaml.safe_load((ROOT / "deploy" / "automations.yaml").read_text())
    config["automations"][0]["trigger"]["within"] = seconds
    file = prefect.folder / "automations.yaml"
    file.write_text(yaml.safe_dump(config))
    prefect.call("prefect", "automation", "create", "--from-file", file)


def test_cancelled_and_crashed_runs_say_how_to_resume(
    prefect: Prefect, slow: tuple[Path, Path], tmp_path: Path
) -> None:
    (source, undisturbed), folder = slow, tmp_path / "run"
    options = (*SLOW, "--run", folder, "--deployment", "cancelled", "--workers", 0)
    with prefect.worker() as worker:
        submitted = prefect.knnoise("submit", "train", source, *options)["id"]
        wait_for(lambda: committed(folder, "neighbors") >= 2)
        prefect.call("prefect", "flow-run", "cancel", submitted)
        prefect.wait(submitted, "Cancelled", "Failed", "Crashed")
        assert prefect.flow_run(submitted)["state_name"] == "Cancelled"
        told = f"prefect flow-run retry {submitted}"
        wait_for(lambda: told in prefect.log(submitted), 60, every=1.0)
        begun = committed(folder)
        prefect.call("prefect", "flow-run", "retry", submitted)
        wait_for(lambda: committed(folder) > begun)
        for process in psutil.Process(worker.pid).children():  # of the flow run
            kill_tree(process.pid)
        prefect.wait(submitted, "Crashed")
        wait_for(lambda: prefect.log(submitted).count(told) == 2, 60, every=1.0)
        prefect.call("prefect", "flow-run", "retry", submitted)
        prefect.wait(submitted, "Completed")
    assert results(folder) == results(undisturbed)


@pytest.fixture(scope="module")
def worker(prefect: Prefect) -> Iterator[None]:
    """A worker for the tests from here on, whose environment does not keep Python from importing
    what lies in the current folder; those above kill workers of their own."""
    bare = {name: value for name, value in prefect.env.items() if name != "PYTHONSAFEPATH"}
    with dataclasses.replace(prefect, env=bare).worker():
        yield


@pytest.mark.usefixtures("worker")
def test_cron_run_fires_and_completes(prefect: Prefect, pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    prefect.deploy(
        {"every-minute": "weekly"},
        parameters={"source": str(source), "run": f"{tmp_path}/run-{{date:%Y%m%d-%H%M}}", **SMALL},
        schedules=[{"cron": "* * * * *"}],
    )
    wait_for(lambda: len(_completed_by_schedule(prefect)) > 0, 150, every=1.0)
    (fired, *_) = _completed_by_schedule(prefect)
    minute = pd.Timestamp(fired["expected_start_time"])
    assert minute.second == 0
    begun = pd.Timestamp(fired["start_time"])
    assert (begun - minute).total_seconds() < 60
    prefect.call("prefect", "deployment", "delete", "knnoise-train/every-minute")
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
    code = dedent(code).replace("/data/pool.parquet", str(pool())).replace('"weekly"', '"manual"')
    code = code.replace('"/data/runs/new"', f'"{tmp_path}/run", "k": 10, "label_column": "y"')
    (tmp_path / "script.py").write_text(code)
    (tmp_path / "in").mkdir()
    pool(n=40, seed=3, name="in/a.npz")
    score = ("submit", "score", tmp_path / "in", "--run", f"{tmp_path}/run*", "--workers", 0)
    script = [sys.executable, tmp_path / "script.py"]
    done = run(script, env=prefect.env, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "Completed", done.stderr
    where = ("--out", tmp_path / "out", "--deployment", "files", "--watch")
    first = prefect.knnoise(*score, *where)
    pool(n=50, seed=4, name="in/b.npz")
    second = prefect.knnoise(*score, *where)
    bad = ("train", tmp_path / "none.npz", "--run", tmp_path / "bad", "--deployment", "manual")
    refused = prefect.call("flows.cli", "submit", *bad, "--watch", check=False)
    assert refused.returncode == 2, refused.stderr  # as the run itself
    assert "none.npz" in refused.stderr.splitlines()[-1]
    assert first["state"] == second["state"] == "Completed"
    assert first["url"].endswith(f"/runs/flow-run/{first['id']}")
    assert first["parameters"]["new_files"] is True  # as the deployment has it
    assert len(pd.read_parquet(tmp_path / "out" / "b.npz.parquet")) == 50
    assert "1 new file, 1 skipped" in (prefect.folder / "worker.log").read_text()


@pytest.mark.usefixtures("worker")
def test_submitted_runs_import_nothing_from_the_folder_of_the_data(
    prefect: Prefect, pool: PoolWriter, tmp_path: Path
) -> None:
    data = data_of(prefect)
    source, mark = pool().rename(data / "pool.npz"), plant(data)
    options = ("--label-column", "y", "--run", tmp_path / "run", "--deployment", "planted")
    run = prefect.knnoise("submit", "train", source, *options, "--workers", 1)
    prefect.wait(run["id"], "Completed", "Failed", "Crashed")
    assert not mark.exists(), mark.read_text()
    assert prefect.flow_run(run["id"])["state_name"] == "Completed"


@pytest.mark.usefixtures("worker")
def test_a_secret_is_in_no_state_and_no_log(
    prefect: Prefect, pool: PoolWriter, tmp_path: Path
) -> None:
    """Sent by the server's own API, which knows the types of parameters and nothing more."""
    found = prefect.post("deployments/filter", {"deployments": {"name": {"any_": ["hostile"]}}})
    hostile = {
        **SMALL,
        "source": "http://me:hunter2@127.0.0.1:9/pool.csv",
        "run": f"{tmp_path}/run",
    }
    start = f"deployments/{found[0]['id']}/create_flow_run"
    run_id = prefect.post(start, {"parameters": hostile})["id"]
    prefect.wait(run_id, "Completed", "Failed", "Crashed")
    ended = prefect.flow_run(run_id)
    said = ended["state"]["message"]
    assert ended["state_name"] == "Failed", said
    assert "UnavailableError" in said
    assert "hunter2" not in said + prefect.log(run_id)
    assert not (tmp_path / "run").exists()
