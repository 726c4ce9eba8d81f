"""Dask's performance report of a run, kept with it on demand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from flows.engine.progress.run_log import error_text
from storage.files.location import Location
from storage.redaction import without_known

if TYPE_CHECKING:
    from distributed import Client

KEY = "performance.html"


class Performance:
    """Records what a cluster does from `start` to `finish`, and writes `performance.html`."""

    def __init__(self, location: Location, complain: Callable[[str], None]) -> None:
        self._location, self._complain = location, complain
        self._client: Client | None = None
        self._recording = ExitStack()

    def start(self, client: Client) -> None:
        """Begin, unless begun already."""
        if self._client is not None:
            return
        from distributed import performance_report

        self._client = client
        folder = self._recording.enter_context(tempfile.TemporaryDirectory())
        page = Path(folder) / KEY
        self._recording.callback(lambda: self._location.replace(KEY, _clean(page)))
        self._recording.enter_context(client.as_current())
        # All that the page needs is in it: it can be opened without a network.
        self._recording.enter_context(performance_report(str(page), mode="inline"))

    def finish(self) -> None:
        """Write the page, where a cluster was used and still answers."""
        if self._client is None or self._client.status != "running":
            return
        try:
            self._recording.close()
        except Exception as error:  # a cluster that has just gone, a store that is full
            self._complain(f"no performance report: {error_text(error)}")


def _clean(page: Path) -> bytes:
    """The page without secrets: Dask quotes the code that called it."""
    return without_known(page.read_text()).encode()
