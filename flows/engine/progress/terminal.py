"""A live line for each step on a terminal, one bar in a notebook; plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from flows.engine.progress.watcher import Step, Watcher, spell
from storage.runs.ledger import Record

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
        self._printed = 0.0
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
        self._printed = time.monotonic()
        if not self.live:
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
        elif not self.live and time.monotonic() - self._printed > _PLAIN_SECONDS:
            self._printed = time.monotonic()
            self.say(step.line())

    def end(self, step: Step, error: BaseException | None) -> None:
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
