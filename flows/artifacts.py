"""Artifacts of a Prefect flow run: progress of each step, the blocks, the result, links."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.context import FlowRunContext, TaskRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.logs import told
from flows.markdown import block_table, result
from flows.watching import Step, Watcher
from storage.ledger import Record
from storage.redaction import redacted
from storage.run import Run

_FIRST, _EVERY = 2.0, 5.0
"""Seconds from the begin of a step to its first artifact, and between updates."""
_PAUSE = 60.0
"""Seconds without a call after one that failed."""
_TIMEOUT = 5.0
"""Seconds that a call may take."""


class Artifacts(Watcher):
    """Keeps the artifacts of one flow run. A server that does not take them never ends a run."""

    def __init__(
        self,
        run: Run,
        context: FlowRunContext,
        client: SyncPrefectClient,
        complain: Callable[[str], None],
    ) -> None:
        assert context.flow_run is not None
        self._run, self._client, self._complain = run, client, complain
        self.flow_run = context.flow_run.id
        self._flow = "knnoise" if context.flow is None else context.flow.name
        self._progress: UUID | None = None
        self._next = 0.0
        self._muted_until = 0.0
        self._tabled = False

    @classmethod
    @contextmanager
    def opened(cls, run: Run, complain: Callable[[str], None]) -> Iterator[Artifacts | None]:
        """For the flow run under way; None where there is none."""
        context = FlowRunContext.get()
        if context is None or context.flow_run is None:
            yield None
            return
        # A client of its own, so that impatience here does not touch Prefect's.
        with get_client(sync_client=True, httpx_settings={"timeout": _TIMEOUT}) as client:
            yield cls(run, context, client, complain)

    def begin(self, step: Step) -> None:
        self._progress, self._next = None, time.monotonic() + _FIRST

    def advance(self, step: Step, record: Record | None) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._tell(step, step.percent or 0.0)

    def end(self, step: Step, error: BaseException | None) -> None:
        self._tell(step, 100.0 if error is None else step.percent or 0.0)
        if error is None and step.name.startswith("audit"):
            self._table()

    def link(self, name: str, url: str) -> None:
        self._create(name, "markdown", f"[{url}]({url})", name.replace("-", " "))

    def finish(self) -> None:
        """The blocks if not told yet, the result and where it lies."""
        if not self._tabled:
            self._table()
        report = self._run.read_json("report.json")
        if report is not None:
            self._create("result", "markdown", redacted(result(report)), self._run.location.url)
            self.link("report", self._report_url())

    def _report_url(self) -> str:
        """The page if the run has one, else the text."""
        location = self._run.location
        name = "report.html" if location.exists("report.html") else "report.txt"
        return Path(location.path(name)).as_uri() if location.is_local else location.path(name)

    def _table(self) -> None:
        rows = block_table(self._run)
        if rows:
            text = f"{len(rows):,} blocks: rows with halo, seconds of building, recall at anchors"
            self._tabled = self._create("block-table", "table", rows, text) is not None

    def _tell(self, step: Step, percent: float) -> None:
        text = redacted(step.line())
        if self._progress is None:
            self._progress = self._create(f"step-{step.name}", "progress", percent, text)
        else:
            update = ArtifactUpdate(data=percent, description=text)
            self._call(self._client.update_artifact, self._progress, update)

    def _create(self, name: str, kind: str, data: Any, text: str) -> UUID | None:
        task = TaskRunContext.get()
        artifact = ArtifactCreate(
            key=f"{self._flow}-{name}".lower().replace("_", "-"),
            type=kind,
            data=data,
            description=redacted(text),
            flow_run_id=self.flow_run,
            task_run_id=None if task is None else task.task_run.id,
        )
        created = self._call(self._client.create_artifact, artifact)
        return None if created is None else created.id

    def _call(self, request: Any, *args: Any) -> Any:
        """Ask the server; after a failure it is left alone for a while."""
        if time.monotonic() < self._muted_until:
            return None
        try:
            with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
                return request(*args)
        except Exception as error:  # whatever it is: what is shown is not what is computed
            self._muted_until = time.monotonic() + _PAUSE
            self._complain(f"Prefect took no artifact: {told(error)}")
            return None
