"""One Prefect server for all tests of deployments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prefect_service import POOL, Prefect, environment, free_port, serving


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A running server with a process pool, asking for a password."""
    folder = tmp_path_factory.mktemp("prefect")
    server = Prefect(folder, environment(folder, free_port()))
    with serving(server):
        server.call("prefect", "work-pool", "create", POOL, "--type", "process")
        yield server
