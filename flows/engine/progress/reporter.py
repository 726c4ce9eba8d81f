"""How far a step is, and whom that is told: terminal, log, the run's own log, Prefect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from flows.engine.progress.run_log import Logged
from flows.engine.progress.terminal import Notebook, Terminal
from flows.engine.progress.watcher import Step, Watcher
from storage.redaction import redacted
from storage.runs.ledger import Record

_COUNT_SECONDS = 5.0
"""Workers are counted at most once in this time."""


class Tick(Protocol):
    """Reports that one more unit is done; `record` where a part was committed."""

    def __call__(self, record: Record | None = None) -> None: ...


@dataclass
class _Recall:
    """Recall so far, from the records of parts that measured any."""

    total: float = 0.0
    n_rows: int = 0

    def see(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record.result, dict) and "recall" in record.result:
                measured = record.result["recall"]
                self.total += sum(measured)
                self.n_rows += len(measured)

    @property
    def value(self) -> float | None:
        return self.total / self.n_rows if self.n_rows else None


@dataclass
class _Count:
    """Number of workers, asked for now and then."""

    ask: Callable[[], int | None]
    value: int | None = None
    counted_at: float = field(default=-_COUNT_SECONDS)

    def now(self) -> int | None:
        if self.value is None or time.monotonic() - self.counted_at >= _COUNT_SECONDS:
            self.value, self.counted_at = self.ask(), time.monotonic()
        return self.value


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
        self._count = _Count(lambda: None)
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
        self._count = _Count(ask)

    def say(self, message: str) -> None:
        """One line of news."""
        with nullcontext() if self._terminal is None else self._terminal.aside():
            for watcher in self._watchers:
                watcher.say(redacted(message))

    def see(self, records: Iterable[Record]) -> None:
        """Take note of what parts done earlier measured."""
        recall = _Recall()
        recall.see(records)
        self.recall = self.recall if recall.value is None else recall.value

    def link(self, name: str, url: str) -> None:
        """An address worth opening."""
        for watcher in self._watchers:
            watcher.link(name, redacted(url))

    @contextmanager
    def step(
        self, name: str, total: int | None, unit: str = "parts", *, before: Sequence[Record] = ()
    ) -> Iterator[Tick]:
        """Progress of one step; total None where only the end tells, `before`: what was done."""
        done = len(before)
        step = Step(name, total, unit, done, done, self._count.value, self.recall)
        recall = _Recall()
        recall.see(before)

        def tick(record: Record | None = None) -> None:
            step.done += 1
            step.n_workers = self._count.now()
            if record is not None:
                recall.see([record])
                step.recall = self.recall if recall.value is None else recall.value
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
