"""Artifacts of a Prefect flow run: progress of each step, the blocks, the result, links."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.context import FlowRunContext, TaskRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.engine.progress import Step, Watcher, error_text
from flows.engine.results import result_of
from flows.steps.graph.building import Audited
from flows.steps.graph.partition import AUDIT, BLOCKS, last_attempt
from storage.errors import amount
from storage.redaction import redacted, redacted_values
from storage.runs.ledger import Record
from storage.runs.run import Run

MOST_BLOCKS = 1000
"""Rows of the table of blocks; beyond, those of lowest recall are shown."""


def as_markdown(text: str) -> str:
    """A text as a list of its lines, those that are set in below the one before; what Markdown
    would take for markup stands as it is."""
    plain = re.sub(r"([\\`*_<\[\]~|#])", r"\\\1", text)
    return re.sub(r"^( *)(?=\S)", r"\1- ", re.sub(r"\n{2,}", "\n", plain), flags=re.M)


def block_table(run: Run) -> list[dict[str, Any]]:
    """A row for each block of a training: its rows, and recall where measured."""
    ledger = run.ledger
    steps = ledger.steps()  # attempts given up have none
    names = (last_attempt(step, steps) for step in (BLOCKS, AUDIT))
    sizes, audited = ({} if name is None else ledger.records(name) for name in names)
    rows = [
        {
            "block": name,
            "rows": result_of(sizes[name], int),
            "recall": _mean(audited.get(name)),
        }
        for name in sorted(sizes)
    ]
    if len(rows) > MOST_BLOCKS:
        rows.sort(key=lambda row: (row["recall"] is None, row["recall"] or 0.0))
    return rows[:MOST_BLOCKS]


def _mean(record: Record | None) -> float | None:
    measured = [] if record is None else result_of(record, Audited).recall
    return round(sum(measured) / len(measured), 4) if measured else None


_FIRST, _EVERY = 2.0, 5.0
"""Seconds from the begin of a step to its first artifact, and between updates."""
_PAUSE = 60.0
"""Seconds without a call after one that failed."""
_TIMEOUT = 5.0
"""Seconds that a call may take."""
_PATIENCE = 10.0
"""Seconds to wait at the end for calls that are not answered yet."""


@dataclass
class _Bar:
    task_run: UUID | None = None
    artifact: UUID | None = None


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
        self._bar = _Bar()
        self._next = 0.0
        self._muted_until = 0.0
        self._tabled = False
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

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
            artifacts = cls(run, context, client, complain)
            work = Thread(target=copy_context().run, args=(artifacts._work,), daemon=True)
            work.start()
            try:
                yield artifacts
            finally:
                artifacts._queue.put(None)
                work.join(_PATIENCE)

    def _work(self) -> None:
        """Ask the server, call by call, in a thread of its own: a run does not wait for answers.

        After a failure the server is left alone for a while.
        """
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
            while (call := self._queue.get()) is not None:
                if time.monotonic() < self._muted_until:
                    continue
                try:
                    call()
                except Exception as error:  # whatever it is: what is shown is not what is computed
                    self._muted_until = time.monotonic() + _PAUSE
                    self._complain(f"Prefect took no artifact: {error_text(error)}")

    def begin(self, step: Step) -> None:
        self._bar, self._next = _Bar(_task_run()), time.monotonic() + _FIRST

    def advance(self, step: Step, record: Record | None) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._tell(step, step.percent or 0.0)

    def end(self, step: Step, error: BaseException | None) -> None:
        self._tell(step, 100.0 if error is None else step.percent or 0.0)
        if error is None and step.name.startswith("audit"):
            self._queue.put(partial(self._table, _task_run()))

    def link(self, name: str, url: str) -> None:
        self._queue.put(partial(self._link, name, url, _task_run()))

    def finish(self) -> None:
        """The blocks if not told yet, the result and where it lies."""
        self._queue.put(self._result)

    def _tell(self, step: Step, percent: float) -> None:
        show = partial(self._show, self._bar, f"step-{step.name}", percent, step.line())
        self._queue.put(show)

    def _show(self, bar: _Bar, name: str, percent: float, text: str) -> None:
        if bar.artifact is None:
            bar.artifact = self._create(name, "progress", percent, text, bar.task_run)
        else:
            update = ArtifactUpdate(data=percent, description=redacted(text))
            self._client.update_artifact(bar.artifact, update)

    def _table(self, task_run: UUID | None) -> None:
        rows = block_table(self._run)
        if rows:
            blocks = amount(len(rows), "block")
            text = f"{blocks}: rows, recall at anchors"
            self._create("block-table", "table", rows, text, task_run)
            self._tabled = True

    def _result(self) -> None:
        if not self._tabled:
            self._table(None)
        location = self._run.location
        text = location.read("report.txt")
        if text is None:
            return
        self._create("result", "markdown", as_markdown(text.decode()), location.name, None)
        # The page if the run has one, else the text.
        name = "report.html" if location.exists("report.html") else "report.txt"
        path = location.path(name)
        self._link("report", Path(path).as_uri() if location.is_local else path, None)

    def _link(self, name: str, url: str, task_run: UUID | None) -> None:
        self._create(name, "markdown", f"[{url}]({url})", name.replace("-", " "), task_run)

    def _create(self, name: str, kind: str, data: Any, text: str, task_run: UUID | None) -> UUID:
        artifact = ArtifactCreate(
            key=re.sub("[^a-z0-9]+", "-", f"{self._flow}-{name}".lower()).strip("-"),
            type=kind,
            data=redacted_values(data),
            description=redacted(text),
            flow_run_id=self.flow_run,
            task_run_id=task_run,
        )
        return self._client.create_artifact(artifact).id


def _task_run() -> UUID | None:
    context = TaskRunContext.get()
    return None if context is None else context.task_run.id
