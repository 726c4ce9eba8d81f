"""A submitted run that is watched while its server goes away."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from prefect_service import POOL, Prefect, environment, free_port, serving
from processes import kill_tree, running, wait_for

WATCH = """
import sys
from flows.orchestration import watch
from storage import ClusterError

watch.IDLE = 2.0
for run, patience in zip(sys.argv[1::2], sys.argv[2::2]):
    watch.PATIENCE = float(patience)
    try:
        watch.watch(watch.Submitted(run, "it", "knnoise-train/slow", None, None, {}, None, None))
    except ClusterError as error:
        print(f"ended: {error}", file=sys.stderr)
"""
"""Watches runs in turn, each with patience of its own."""


BEGUN = "Scheduled|Pending|Late"
"""States of a run that no worker takes up; which of them a watcher still sees is chance."""


def test_a_server_that_comes_back_is_found_and_one_that_does_not_is_said(tmp_path: Path) -> None:
    server = Prefect(tmp_path, environment(tmp_path, free_port()))
    log, script = tmp_path / "watch.log", tmp_path / "watch.py"
    script.write_text(WATCH)

    def said(text: str) -> None:
        """Wait until the log says so."""
        wait_for(lambda: re.search(text, log.read_text(), re.DOTALL) is not None)

    with ExitStack() as stack:
        first = stack.enter_context(serving(server))
        server.ask("work_pools/", {"name": POOL, "type": "process"})
        flow = server.ask("flows/", {"name": "knnoise-train"})["id"]
        slow = {"name": "slow", "flow_id": flow, "work_pool_name": POOL}
        start = f"deployments/{server.ask('deployments/', slow)['id']}/create_flow_run"
        one, other = (server.ask(start, {})["id"] for _ in range(2))  # which no worker takes up
        args = (one, 120, one, 120, other, 8)
        process = stack.enter_context(running(script, *args, log=log, env=server.env))
        said(BEGUN)
        said(f"prefect worker start --pool {POOL}")
        kill_tree(first.pid)
        said("does not answer")
        second = stack.enter_context(serving(server))
        server.ask(f"flow_runs/{one}/set_state", {"state": {"type": "CANCELLING"}})
        twice = r"(ended: run \S+ ended Cancell.*){2}"  # the second before anybody watched
        said(f"{twice}({BEGUN})")
        kill_tree(second.pid)
        assert process.wait(120) == 0, log.read_text()
    told = log.read_text()
    assert told.count("ended:") == 3
    assert told.count("ended Cancelled; see") == 2
    assert f"prefect flow-run watch {other}" in told.splitlines()[-1]
    assert "Traceback" not in told
