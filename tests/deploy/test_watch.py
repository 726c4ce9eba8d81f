"""A submitted run that is watched while its server goes away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from prefect_service import POOL, Prefect, environment, free_port, serving
from processes import kill_tree, running, wait_for

WATCH = """
import sys
from flows.orchestration import watch
from storage import ClusterError

watch.PATIENCE, watch.IDLE = float(sys.argv[3]), 2.0
try:
    watch.watch(watch.Submitted(*sys.argv[1:3], "knnoise-train/slow", None, None, {}, None, None))
except ClusterError as error:
    print(f"ended: {error}")
"""


BEGUN = re.compile("Scheduled|Pending|Late")
"""States of a run that no worker takes up; which of them a watcher still sees is chance."""


@pytest.fixture
def server(tmp_path: Path) -> Prefect:
    """A server that is not running yet."""
    return Prefect(tmp_path, environment(tmp_path, free_port()))


@contextmanager
def watching(server: Prefect, run: dict[str, str], patience: float) -> Iterator[Path]:
    """The log of a process that watches a run; it has begun."""
    log, script = server.folder / "watch.log", server.folder / "watch.py"
    script.write_text(WATCH)
    with running(script, run["id"], run["name"], patience, log=log, env=server.env) as process:
        yield log
        assert process.wait(120) == 0, log.read_text()


def test_a_server_that_comes_back_is_found_and_one_that_does_not_is_said(server: Prefect) -> None:
    submit = ("submit", "train", "nothing.csv", "--run", "run", "--deployment", "slow")
    with ExitStack() as servers:
        first = servers.enter_context(serving(server))
        server.post("work_pools/", {"name": POOL, "type": "process"})
        server.deploy({"slow": "weekly"}, schedules=[])
        run = server.knnoise(*submit)  # which no worker takes up
        with watching(server, run, patience=120) as log:
            wait_for(lambda: BEGUN.search(log.read_text()), 120)
            wait_for(lambda: f"prefect worker start --pool {POOL}" in log.read_text(), 120)
            kill_tree(first.pid)
            wait_for(lambda: "does not answer" in log.read_text(), 120)
            second = servers.enter_context(serving(server))
            server.post(f"flow_runs/{run['id']}/set_state", {"state": {"type": "CANCELLING"}})
            wait_for(lambda: "ended:" in log.read_text(), 120)
        assert re.search(r"ended: run \S+ ended Cancell", log.read_text())
        log.write_text("")
        with watching(server, run, patience=120) as log:
            pass
        assert "ended Cancell" in log.read_text()  # before anybody watched
        log.write_text("")
        run = server.knnoise(*submit)
        with watching(server, run, patience=8) as log:
            wait_for(lambda: BEGUN.search(log.read_text()), 120)
            kill_tree(second.pid)
    told = log.read_text()
    assert told.count("ended:") == 1
    assert f"prefect flow-run watch {run['id']}" in told.splitlines()[-1]
    assert "Traceback" not in told
