"""Whether a cluster still has workers, watched while its parts are waited for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from weakref import WeakSet

from storage.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

EVERY = 5.0
"""Seconds between looks."""
PATIENCE = 30.0
"""Seconds for which a cluster that had workers may have none, or may not answer."""
FIRST = 600.0
"""The same for a cluster that never had one: it may scale up when work comes."""


_HAD_WORKERS: WeakSet[Client] = WeakSet()
"""Clusters that had workers in this step or one before."""


class Vigil:
    """Ends a wait that no worker is there to end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._alive = self._looked = time.monotonic()

    def worked(self) -> None:
        """A part is done: somebody works."""
        self._alive = time.monotonic()
        _HAD_WORKERS.add(self._client)

    def look(self) -> None:
        """Ask the scheduler now and then.

        Raises
        ------
        ClusterError
            there has been no worker for too long.
        """
        if time.monotonic() < self._looked + EVERY:
            return
        present = count_workers(self._client)
        self._looked = time.monotonic()
        patience = PATIENCE if self._client in _HAD_WORKERS else FIRST
        if present:
            self.worked()
        elif self._looked > self._alive + patience:
            what = "the scheduler has not answered" if present is None else "there was no worker"
            raise ClusterError(
                f"{what} for {self._looked - self._alive:.0f} s; what is done is kept: start "
                "workers, and run again to resume"
            )


def count_workers(client: Client) -> int | None:
    """Workers of a cluster; None where its scheduler is mute."""
    if client.status != "running":
        return None
    try:
        return int(client.scheduler_info(n_workers=1)["n_workers"])
    except (OSError, TimeoutError, KeyError):
        return None
