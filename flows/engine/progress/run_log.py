"""What happens in a run, as log records and as a file of JSON lines kept with the run."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from flows.engine.progress.watcher import Step, Watcher
from flows.engine.stdout import LOGGER
from flows.engine.tasks import flow_run_context, task_run_context
from storage.files.location import Location
from storage.redaction import redacted
from storage.runs.ledger import Record

_FLUSH_SECONDS = 30.0
Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]


class Logged(Watcher):
    """Sends news through `logging`: to Prefect's logger in a flow run, else to `knnoise`.

    Each record carries `event`, and where they apply `step` and `part`. Parts are at level DEBUG.
    """

    def __init__(self) -> None:
        self.by_prefect = flow_run_context() is not None
        self._logger: Logger
        if self.by_prefect:
            self._logger = _run_logger()
        else:
            self._logger = logging.getLogger(LOGGER)
            if not self._logger.handlers:
                self._logger.addHandler(logging.NullHandler())

    def _send(self, level: int, text: str, **fields: str) -> None:
        inside = self.by_prefect and task_run_context() is not None
        logger = _run_logger() if inside else self._logger
        logger.log(level, "%s", text, extra=fields)

    def advance(self, step: Step, record: Record | None) -> None:
        if record is not None and self._logger.isEnabledFor(logging.DEBUG):
            text = f"{record.step} {record.part}: {record.cost['seconds']:.2f} s"
            self._send(logging.DEBUG, text, event="part-done", step=step.name, part=record.part)

    def end(self, step: Step, error: BaseException | None) -> None:
        if error is None:
            self._send(logging.INFO, step.line(), event="step-done", step=step.name)
        else:
            text = f"{step.name}: ended by {error_text(error)} after {step.count() or step.pace()}"
            # Without Prefect the exception itself tells the caller.
            level = logging.ERROR if self.by_prefect else logging.INFO
            self._send(level, text, event="step-failed", step=step.name)

    def say(self, message: str) -> None:
        self._send(logging.INFO, message, event="message")


def _run_logger() -> Logger:
    from prefect.logging import get_run_logger

    return get_run_logger()


class RunLog(Watcher):
    """`logs/TIME-ID.jsonl` of a run, one file an invocation, one JSON object a line.

    Every line has time (UTC), run and event; lines of steps have step, those of parts also part,
    seconds and kernel_seconds. Written at the end of each step, at the end of the invocation and
    every half minute. A log that cannot be written is given up: it never ends a run.
    """

    def __init__(self, location: Location, complain: Callable[[str], None]) -> None:
        self._location, self._run = location, location.name.rsplit("/", 1)[-1]
        self._complain = complain
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self.key = f"logs/{stamp}-{uuid.uuid4().hex[:8]}.jsonl"
        self._lines: list[str] = []
        self._written = time.monotonic()
        self._lost = False
        self._lock = threading.Lock()

    def event(self, event: str, **fields: Any) -> None:
        """Add one line. Text is redacted."""
        clean = {n: redacted(v) if isinstance(v, str) else v for n, v in fields.items()}
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "run": redacted(self._run), "event": event, **clean}
        with self._lock:
            self._lines.append(json.dumps(line, default=str) + "\n")
        if time.monotonic() - self._written > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            lines, self._lines = self._lines, []
        self._written = time.monotonic()
        if not lines or self._lost:
            return
        try:
            self._location.append(self.key, "".join(lines).encode())
        except Exception as error:  # stores raise what they like
            self._lost = True
            self._complain(f"no log is kept with the run: {error_text(error)}")

    def begin(self, step: Step) -> None:
        self.event("step-started", step=step.name, total=step.total, resumed=step.resumed)

    def advance(self, step: Step, record: Record | None) -> None:
        if record is not None:
            cost = {name: round(record.cost[name], 4) for name in ("seconds", "kernel_seconds")}
            self.event("part-done", step=step.name, part=record.part, **cost)

    def end(self, step: Step, error: BaseException | None) -> None:
        fields = {"step": step.name, "done": step.done, "seconds": round(step.seconds, 3)}
        fields |= {"workers": step.n_workers, "recall": step.recall}
        fields = {name: value for name, value in fields.items() if value is not None}
        if error is None:
            self.event("step-done", **fields)
        else:
            self.event("step-failed", **fields, error=error_text(error))
        self.flush()

    def say(self, message: str) -> None:
        self.event("message", message=message)

    def link(self, name: str, url: str) -> None:
        self.event("link", name=name, url=url)


def error_text(error: BaseException) -> str:
    """An error in one line, without secrets."""
    return redacted(" ".join(f"{type(error).__name__}: {error}".split()))
