"""Faults of what a run uses: its workers, a scheduler of its own process, a Prefect server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from processes import committed, kill_tree, running, wait_for

from faults import checker
from faults.bench import Bench, Ended, command
from faults.families import Case, Trial, points, resume
from faults.injector import Fault
from faults.outcome import Outcome

PATIENCE = 180.0
"""Seconds that Prefect has patience with a server which is gone."""
TREE = Path(__file__).parents[2]


def every(bench: Bench) -> list[Case]:
    return [*workers(bench), *schedulers(bench), *servers()]


def workers(bench: Bench) -> list[Case]:
    """On a local cluster of two: whoever commits a part is killed before or after, or stops."""
    return [
        Case(f"worker {_WORDS[effect]}", f"worker {_WORDS[effect]}:{part}", _worker(fault), 15.0)
        for part, moment, op, key, _ in points(bench)
        if moment == "commit"
        for effect in _WORDS
        for fault in [Fault(op, key, effect)]
    ]


_WORDS = {"KILL": "killed before its commit", "then-KILL": "killed after its commit"}
_WORDS["PAUSE"] = "paused at its commit"


def _worker(fault: Fault) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.new()
        with tempfile.TemporaryDirectory() as place:
            planted = replace(fault, counter=f"{place}/count")
            ended = command(*bench.train(run, workers=2), fault=planted, root=run)
        again = lambda: command(*bench.train(run))  # noqa: E731
        resume(bench, outcome, run, bench.training(), {}, ended, again)

    return trial


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _begun(args: tuple[object, ...], place: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """A command as a process that shares nothing with this one."""
    with (place / "err").open("w") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *map(str, args)],
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=env,
        )


def _end(process: subprocess.Popen[bytes], place: Path, longest: float, outcome: Outcome) -> Ended:
    began = time.monotonic()
    try:
        status = process.wait(longest)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        status = process.wait()
        outcome.wrong.append("hangs")
    # Prefect's own lines are not ours to count.
    lines = (place / "err").read_text().splitlines()
    said = "\n".join(line for line in lines if line.startswith("knnoise: "))
    return Ended(status, time.monotonic() - began, "", said)


def _env(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    return {**clean, "PYTHONPATH": str(TREE), **more}


def _reach(process: subprocess.Popen[bytes], run: str, least: int) -> None:
    """Wait until so many parts are committed by a command that is under way."""
    wait_for(lambda: committed(Path(run)) >= least or process.poll() is not None, 120, every=0.002)
    assert process.poll() is None, "it ended before the fault"


def schedulers(bench: Bench) -> list[Case]:
    """kill -9 of a scheduler, and of the only worker, after each commit of a run."""
    n_commits = len(checker.records(bench.training()))
    return [
        Case(
            f"{victim} of a cluster killed",
            f"{victim} of a cluster:{after}",
            _remote(victim, after),
            60.0,
        )
        for victim in ("scheduler", "worker")
        for after in range(1, n_commits)
    ]


def _remote(victim: str, after: int) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.new()
        place, env, port = Path(tempfile.mkdtemp()), _env(), _port()
        address = f"tcp://127.0.0.1:{port}"
        scheduler = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port)
        worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", "1")
        local = ("--local-directory", place, "--no-dashboard")
        with (
            running(*scheduler, "--no-dashboard", log=place / "scheduler", env=env) as first,
            running(*worker, *local, log=place / "worker", env=env) as second,
        ):
            process = _begun(bench.train(run, "--scheduler", address, workers=None), place, env)
            _reach(process, run, after)
            kill_tree((first if victim == "scheduler" else second).pid)
            ended = _end(process, place, 90.0, outcome)
        again = lambda: command(*bench.train(run))  # noqa: E731
        resume(bench, outcome, run, bench.training(), {}, ended, again)

    return trial


def servers() -> list[Case]:
    """kill -9 of the Prefect server in mid-run; started again, or not."""
    return [
        Case(
            "Prefect server killed",
            f"Prefect server killed:{after}:{what}",
            _server(after, what == "back"),
            60.0,
        )
        for after in (3, 9, 15)
        for what in ("back", "gone")
    ]


def _server(after: int, back: bool) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        from prefect_service import answers

        run, place, port = bench.new(), Path(tempfile.mkdtemp()), _port()
        env = _env(
            PREFECT_HOME=str(place),
            PREFECT_API_URL=f"http://127.0.0.1:{port}/api",
            PREFECT_SERVER_ANALYTICS_ENABLED="false",
            DO_NOT_TRACK="1",
        )
        start = ("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port)
        log = place / "server.log"
        with running(*start, log=log, env=env) as server:
            wait_for(lambda: answers(port), 180, every=0.5)
            process = _begun(bench.train(run), place, env)
            _reach(process, run, after)
            kill_tree(server.pid)
            with ExitStack() as stack:
                if back:
                    stack.enter_context(running(*start, log=log, env=env))
                ended = _end(process, place, 240.0, outcome)
        # Prefect asks a server that is gone again for a minute, for each state it has to report.
        ended = replace(ended, seconds=max(0.0, ended.seconds - PATIENCE))
        if back and ended.status:
            outcome.wrong.append(f"ended with {ended.status}: {ended.err[-500:]!r}")
        again = lambda: command(*bench.train(run))  # noqa: E731
        resume(bench, outcome, run, bench.training(), {}, ended, again)

    return trial
