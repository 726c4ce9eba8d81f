"""The Dask cluster of a run: one given by address, a local one of processes, or none."""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import forkserver
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from flows.progress import Reporter
from flows.security import Tls, check_encrypted
from storage.errors import ClusterError, InputError

# For the fork server alone: where Numba runs in this process too, it refuses to change its number
# of threads once it has begun to use them, so nannies must not set it here.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NUMBA_THREADING_LAYER": "workqueue",  # OpenMP dies in forked processes
}


_LOCAL = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.comm.timeouts.connect": "60s",
}


@dataclass(frozen=True)
class Resources:
    """Where a run computes; no part of what it computes."""

    workers: int | None = None
    """Local worker processes; None for one a core; 0 computes in this process."""
    scheduler: str | None = None
    """Address of a running scheduler; DASK_SCHEDULER_ADDRESS where None."""
    tls: Tls = field(default_factory=Tls)
    """Certificates for an address that begins with tls://."""

    def check(self) -> None:
        """Raise `InputError` for what makes no sense, or would send data unprotected."""
        if self.workers is not None and self.workers < 0:
            raise InputError(f"--workers {self.workers}: must be 0 or more")
        self.tls.check()
        if self.address is not None:
            check_encrypted(self.address)

    @property
    def address(self) -> str | None:
        if self.scheduler is None and self.workers is None:
            return os.environ.get("DASK_SCHEDULER_ADDRESS") or None
        return self.scheduler


class Workers:
    """A cluster that may still be starting."""

    def __init__(self, resources: Resources, reporter: Reporter, *, compiled: bool) -> None:
        self.resources, self.reporter, self.compiled = resources, reporter, compiled
        self.started = time.monotonic()
        self._client: Client | None = None
        self._opened = ExitStack()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()
        if not self._in_background:
            self._thread.join()

    @property
    def _in_background(self) -> bool:
        """Only compiling is slow enough to compute here meanwhile."""
        return self.compiled and self.resources.address is None and self.resources.workers != 0

    @property
    def starting(self) -> bool:
        """Whether `client` would wait."""
        return self._thread.is_alive()

    def client(self, *, wait: bool = True) -> Client | None:
        """The cluster's client; None where there is no cluster, or not yet and `wait` is False.

        Raises
        ------
        ClusterError
            the cluster did not start or does not answer.
        """
        if wait and self._thread.is_alive():
            passed = time.monotonic() - self.started
            self.reporter.say(
                f"compiling pynndescent's kernels, once for all workers (about a minute; "
                f"{passed:.0f} s so far)"
            )
            self._thread.join()
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise ClusterError(
                f"no Dask cluster: {self._error}; see --scheduler and --workers"
            ) from self._error
        return self._client

    def _start(self) -> None:
        address = self.resources.address
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            if address is not None:
                security = self.resources.tls.security()
                self._client = Client(
                    address, timeout="10s", set_as_default=False, security=security
                )
            elif self.resources.workers != 0:
                # Nannies read these again whenever they restart a worker.
                self._opened.enter_context(dask.config.set(_LOCAL))
                _start_fork_server(compiled=self.compiled)
                cluster = self._opened.enter_context(_local_cluster(self.resources.workers))
                self._client = Client(cluster, set_as_default=False)
        except Exception as error:  # told by client(), in the thread that asks
            self._error = error
            return
        if self._client is not None:
            self._opened.enter_context(self._client)
            self.reporter.say(f"Dask dashboard: {self._client.dashboard_link}")

    def close(self) -> None:
        self._thread.join()
        self._opened.close()


@contextmanager
def open_workers(resources: Resources, reporter: Reporter, *, compiled: bool) -> Iterator[Workers]:
    """A cluster for the time of a run; `compiled`: with pynndescent ready on local workers."""
    workers = Workers(resources, reporter, compiled=compiled)
    try:
        yield workers
    finally:
        workers.close()


def _local_cluster(n_workers: int | None) -> LocalCluster:
    """Single-threaded worker processes."""
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", 8787)) == 0
    return LocalCluster(
        n_workers=n_workers or os.cpu_count() or 1,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=f"127.0.0.1:{0 if taken else 8787}",
        silence_logs="CRITICAL",  # errors reach the client; the rest is noise of closing
    )


def _start_fork_server(*, compiled: bool) -> None:
    """Start the process that workers are forked from; returns when it holds all they import.

    A server that runs already is kept unless it lacks the compiled kernels.
    """
    get_mp_context()  # its first call sets the server's imports, and would undo ours later
    server: Any = forkserver._forkserver
    modules = ["distributed", "flows.steps", *(["pipeline.compiled"] if compiled else [])]
    if not set(modules) <= set(server._preload_modules):
        server._stop()
        server.set_forkserver_preload(modules)
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    probe = multiprocessing.get_context("forkserver").Process(target=_nothing)
    probe.start()
    probe.join()
    if probe.exitcode != 0:
        raise ClusterError("the fork server died while it imported the project")


def _nothing() -> None:
    """What the first process forked runs."""
