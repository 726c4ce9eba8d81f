"""One Prefect server for all tests of deployments."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from faults import running, wait_for
from prefect_service import POOL, ROOT, Prefect, answers


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running server with a process pool, asking for a password."""
    folder = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    env = {
        **clean,
        "PYTHONPATH": str(ROOT),
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_AUTH_STRING": "knnoise:in-tests",
        "PREFECT_SERVER_API_AUTH_STRING": "knnoise:in-tests",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "2",  # not the usual 10 and 30: tests do not wait
        "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
        "DO_NOT_TRACK": "1",
    }
    start = ("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port)
    with running(*start, log=folder / "server.log", env=env):
        wait_for(lambda: answers(port), 120, every=0.5)
        server = Prefect(folder, env)
        server.call("prefect", "work-pool", "create", POOL, "--type", "process")
        yield server
