"""A Dask cluster of separate processes, as users start one."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from distributed import Client
from processes import kill_tree, running

WORKER = "distributed.cli.dask_worker"


@contextmanager
def separate_cluster(folder: Path, n_workers: int, n_threads: int = 1) -> Iterator[str]:
    """A scheduler and workers, each a process of its own; the scheduler's address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port)
    with ExitStack() as stack:
        stack.enter_context(running(*scheduler, "--no-dashboard", log=folder / "scheduler.log"))
        for i in range(n_workers):
            stack.enter_context(separate_worker(folder, address, i, n_threads))
        with Client(address, timeout="60s", set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=120)
        yield address


@contextmanager
def separate_worker(
    folder: Path, address: str, number: int, n_threads: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of a scheduler, without a nanny: who is killed stays away."""
    name = f"worker-{number}"
    worker = ("-m", WORKER, address, "--nthreads", n_threads, "--no-dashboard", "--no-nanny")
    local = ("--local-directory", folder / name, "--name", name)
    with running(*worker, *local, log=folder / f"{name}.log") as process:
        yield process


def kill_worker(address: str) -> None:
    """SIGKILL to a worker of a scheduler."""
    ours = psutil.Process().children()
    kill_tree(next(one.pid for one in ours if {*one.cmdline()} >= {WORKER, address}))
