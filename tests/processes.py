"""Processes to be killed, and the moments to kill them at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


@contextmanager
def running(
    *args: object, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process, `python ARGS`, killed with all its children at the end."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, *map(str, args)],
            stdout=sink,
            stderr=sink,
            env=env,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_tree(process.pid)
        process.wait()


def kill_tree(pid: int) -> None:
    """SIGKILL to a process and all that came of it."""
    try:
        family = [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        kill(member.pid)


def kill(pid: int) -> None:
    """SIGKILL to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_for(happened: Callable[[], bool], seconds: float = 120.0, every: float = 0.01) -> None:
    """Poll until something has happened; times in seconds."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(every)


def committed(run: Path, step: str = "*") -> int:
    """Parts of a run that are committed."""
    return len(list((run / "ledger").glob(f"{step}/*.json")))


def killed_at(
    process: subprocess.Popen[bytes],
    run: Path,
    least: int = 1,
    step: str = "*",
    *,
    tree: bool = True,
) -> None:
    """SIGKILL to a command (`tree`: and to its workers) once so many parts are committed: it was
    alive until then, and has not finished."""
    wait_for(lambda: committed(run, step) >= least or process.poll() is not None)
    (kill_tree if tree else kill)(process.pid)
    assert process.wait() == -signal.SIGKILL, "it ended by itself"
    assert committed(run, step) >= least
    assert not (run / "report.json").exists(), "it was finished"


def forked(pid: int) -> list[int]:
    """Worker processes of a run: what its fork server has forked."""
    return [
        child.pid
        for server in psutil.Process(pid).children()
        if "forkserver" in " ".join(server.cmdline())
        for child in server.children()
    ]
