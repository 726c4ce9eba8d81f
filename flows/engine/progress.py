"""Progress of a run, reported step by step to a terminal or a notebook, to `logging`, to the run's
own log, and to Prefect."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from flows.engine.stdout import LOGGER
from flows.engine.tasks import flow_run_context
from storage.errors import amount
from storage.files.location import Location
from storage.redaction import redacted
from storage.runs.ledger import Record

_MINUTE, _HOUR = 60.0, 3600.0
_LONG_WAIT = 30.0


@dataclass
class Step:
    name: str
    total: int | None
    """Units in all; None where only the end tells."""
    unit: str
    """What is counted; empty where the step is one piece."""
    resumed: int = 0
    """Units that were done before this invocation."""
    done: int = 0
    n_workers: int | None = None
    recall: float | None = None
    """Share of true neighbors found, once measured."""
    started: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    """When the last unit was done, or the step began."""

    @property
    def seconds(self) -> float:
        """Wall time since the begin, seconds."""
        return time.monotonic() - self.started

    @property
    def rate(self) -> float | None:
        """Units a second; None before the first."""
        new = self.done - self.resumed
        return new / self.seconds if new and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the end at this rate."""
        if self.rate is None or self.total is None:
            return None
        return max(0, self.total - self.done) / self.rate

    @property
    def waited(self) -> float | None:
        """Seconds since the last unit, where that is so long that the rate foretells nothing: a
        worker may be stopped, or gone."""
        waited, new = time.monotonic() - self.last, self.done - self.resumed
        each = (self.last - self.started) * (self.n_workers or 1) / max(1, new)
        return waited if waited > max(_LONG_WAIT, 3 * each) else None

    @property
    def percent(self) -> float | None:
        return 100.0 * self.done / self.total if self.total else None

    def count(self) -> str:
        """Units done, and of how many."""
        if not self.unit:
            return ""
        if self.total is None:
            return amount(self.done, self.unit.removesuffix("s"))
        return f"{self.done:,} of {self.total:,} {self.unit}"

    def pace(self) -> str:
        """Time, rate, time left, workers and recall, as far as known."""
        words = [spell(self.seconds)]
        if self.unit and self.rate is not None:
            words.append(_rate(self.rate))
            if self.waited is not None:
                words.append(f"the last {spell(self.waited)} ago")
            elif self.seconds_left:
                words.append(f"{spell(self.seconds_left)} left")
        if self.unit and self.n_workers is not None:
            words.append(amount(self.n_workers, "worker"))
        if self.recall is not None:
            words.append(f"recall {self.recall:.4f}")
        return ", ".join(words)

    def line(self) -> str:
        return f"{self.name}: " + ", ".join(filter(None, (self.count(), self.pace())))


def spell(seconds: float) -> str:
    """A time span, rounded for people."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


def _rate(rate: float) -> str:
    if rate < 0.5:
        return f"{rate * _MINUTE:.1f}/min"
    return f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s"


class Watcher:
    """Is told what happens in a run, and by default ignores it. All text comes redacted."""

    def begin(self, step: Step) -> None:
        """A step begins."""

    def advance(self, step: Step, record: Record | None) -> None:
        """Some of a step is done; `record` where a part was committed."""

    def end(self, step: Step, error: BaseException | None) -> None:
        """A step has ended, by `error` if there is one."""

    def say(self, message: str) -> None:
        """One line of news."""

    def link(self, name: str, url: str) -> None:
        """An address worth opening."""


_PLAIN_SECONDS = 10.0
_REFRESH = 4  # times a second
_WORDS = 78
"""Columns of a terminal that the words of a line may need; the bar takes the rest."""


class _Words(ProgressColumn):
    """Count and pace of a step, fresh at every refresh."""

    def render(self, task: Task) -> Text:
        step: Step = task.fields["step"]
        return Text(", ".join(filter(None, (step.count(), step.pace()))))


class Terminal(Watcher):
    """Progress to stderr.

    `prefect_prints`: Prefect's logger prints to stderr what is said and how steps end; only the
    live line is left to do.
    """

    def __init__(self, *, prefect_prints: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.live = sys.stderr.isatty() and not self.console.is_dumb_terminal
        self._silent = prefect_prints
        self._progress: Progress | None = None
        self._ended = threading.Event()
        self._lock = threading.RLock()  # a cluster that starts speaks from a thread of its own

    def say(self, message: str) -> None:
        if self._silent:
            return
        if self.live:
            self.console.print(message, soft_wrap=True, markup=False)
        else:
            print(message, file=sys.stderr, flush=True)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the live line away while others print."""
        with self._lock:
            progress = self._progress if self._silent else None
            if progress is not None:
                progress.stop()
            yield
            if progress is not None:
                progress.start()

    def begin(self, step: Step) -> None:
        if not self.live:
            self._ended = threading.Event()
            threading.Thread(target=self._tell, args=(step, self._ended), daemon=True).start()
            return
        width = max(4, min(30, self.console.width - _WORDS))
        self._progress = Progress(
            TextColumn("{task.description:<15}"),
            BarColumn(width),
            _Words(table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=self.console,
            refresh_per_second=_REFRESH,
            transient=self._silent,
        )
        self._progress.add_task(step.name, total=step.total, completed=step.done, step=step)
        self._progress.start()

    def advance(self, step: Step, record: Record | None) -> None:
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=step.done)

    def _tell(self, step: Step, ended: threading.Event) -> None:
        """Print how far a step is, now and then: its only part may last for minutes."""
        while not ended.wait(_PLAIN_SECONDS):
            self.say(f"{step.line()} so far")

    def end(self, step: Step, error: BaseException | None) -> None:
        self._ended.set()
        if self._progress is not None:
            if error is None:
                full = max(step.done, 1)
                self._progress.update(self._progress.task_ids[0], completed=full, total=full)
            with self._lock:
                self._progress.stop()
                self._progress = None
        elif error is None:
            self.say(step.line())


class Notebook(Watcher):
    """Progress as one display of a notebook, which changes; what is said is printed."""

    def __init__(self) -> None:
        self._display: Any = None
        self._started, self._shown, self._ended = time.monotonic(), 0.0, 0

    @staticmethod
    def is_here() -> bool:
        """Whether this process is the kernel of a notebook."""
        ipython = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        return getattr(shell, "kernel", None) is not None

    def say(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def begin(self, step: Step) -> None:
        self._show(step)

    def advance(self, step: Step, record: Record | None) -> None:
        if time.monotonic() - self._shown > 1 / _REFRESH:
            self._show(step)

    def end(self, step: Step, error: BaseException | None) -> None:
        self._ended += error is None
        self._show(step, f"{self._ended} steps, {spell(time.monotonic() - self._started)}")

    def _show(self, step: Step, text: str = "") -> None:
        from IPython.display import display

        self._shown = time.monotonic()
        bar = "" if text else f'<progress max="{step.total or 1}" value="{step.done}"></progress> '
        text = text or step.line()
        shown = {"text/plain": text, "text/html": bar + escape(text)}
        if self._display is None:
            self._display = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._display.update(shown, raw=True)


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
        logger = _run_logger() if self.by_prefect and _in_task() else self._logger
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


def _in_task() -> bool:
    from prefect.context import TaskRunContext

    return TaskRunContext.get() is not None


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


_COUNT_SECONDS = 5.0
"""Workers are counted at most once in this time."""


class Tick(Protocol):
    """Reports that one more unit is done; `record` where a part was committed."""

    def __call__(self, record: Record | None = None) -> None: ...


def _recalls(records: Iterable[Record]) -> list[float]:
    """Recall of each row, of the records of parts that measured any."""
    results = (record.result for record in records if isinstance(record.result, dict))
    return [recall for result in results for recall in result.get("recall", ())]


class Reporter:
    """Tells what happens to all who watch; `quiet`: not to the terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        logged = Logged()
        self._watchers: list[Watcher] = [logged]
        self._terminal: Terminal | None = None
        if not quiet and Notebook.is_here():
            self._watchers.insert(0, Notebook())
        elif not quiet:
            self._terminal = Terminal(prefect_prints=logged.by_prefect)
            self._watchers.insert(0, self._terminal)
        self._ask: Callable[[], int | None] = lambda: None
        self._n_workers: int | None = None
        self._next_count = 0.0
        self.recall: float | None = None
        """Measured recall of the graph that a run has now."""

    @contextmanager
    def watched_by(self, *watchers: Watcher) -> Iterator[None]:
        """Tell others too, for a time."""
        self._watchers += watchers
        try:
            yield
        finally:
            self._watchers = [old for old in self._watchers if old not in watchers]

    def count_workers(self, ask: Callable[[], int | None]) -> None:
        """How to find the number of workers."""
        self._ask, self._n_workers = ask, None

    def _workers(self) -> int | None:
        """Their number, asked for now and then."""
        if self._n_workers is None or time.monotonic() >= self._next_count:
            self._n_workers, self._next_count = self._ask(), time.monotonic() + _COUNT_SECONDS
        return self._n_workers

    def say(self, message: str) -> None:
        """One line of news."""
        with nullcontext() if self._terminal is None else self._terminal.aside():
            for watcher in self._watchers:
                watcher.say(redacted(message))

    def see(self, records: Iterable[Record]) -> None:
        """Take note of what parts done earlier measured."""
        if recalls := _recalls(records):
            self.recall = sum(recalls) / len(recalls)

    def link(self, name: str, url: str) -> None:
        """An address worth opening."""
        for watcher in self._watchers:
            watcher.link(name, redacted(url))

    @contextmanager
    def step(
        self, name: str, total: int | None, unit: str = "parts", *, before: Sequence[Record] = ()
    ) -> Iterator[Tick]:
        """Progress of one step; total None where only the end tells, `before`: what was done."""
        done, recalls = len(before), _recalls(before)
        step = Step(name, total, unit, done, done, self._n_workers, self.recall)

        def tick(record: Record | None = None) -> None:
            step.done += 1
            step.last = time.monotonic()
            step.n_workers = self._workers()
            if record is not None and (more := _recalls([record])):
                recalls.extend(more)
                step.recall = sum(recalls) / len(recalls)
            for watcher in self._watchers:
                watcher.advance(step, record)

        with ExitStack() as stack:
            for watcher in self._watchers:
                stack.enter_context(_watching(watcher, step))
            yield tick
        self.recall = step.recall


@contextmanager
def _watching(watcher: Watcher, step: Step) -> Iterator[None]:
    """Tell one watcher of a step's begin and of its end, however it ends."""
    watcher.begin(step)
    try:
        yield
    except BaseException as error:
        watcher.end(step, error)
        raise
    watcher.end(step, None)
