"""One Prefect server for all tests of flows as Prefect runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prefect.settings import PREFECT_API_URL


@pytest.fixture(scope="package")
def server() -> Iterator[str]:
    """A server on a database of its own; its address. It ends with the folder's last test."""
    from prefect.testing.utilities import prefect_test_harness  # its import takes three seconds

    with prefect_test_harness(server_startup_timeout=120):
        yield str(PREFECT_API_URL.value())
