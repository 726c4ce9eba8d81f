"""What a person sees while a step runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_PLAIN_SECONDS = 10.0


class Tick(Protocol):
    """Reports that one more unit is done."""

    def __call__(self, amount: int = 1) -> None: ...


class Reporter:
    """Progress to stderr; nothing where `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    def say(self, message: str) -> None:
        """One line of news."""
        if self.console.is_terminal:
            self.console.print(message, soft_wrap=True, markup=False)
        elif not self.quiet:
            print(message, file=sys.stderr, flush=True)

    @contextmanager
    def step(self, name: str, total: int | None, unit: str = "parts") -> Iterator[Tick]:
        """Progress of one step; total None where only the end tells."""
        with (self._live if self.console.is_terminal else self._plain)(name, total, unit) as tick:
            yield tick

    @contextmanager
    def _plain(self, name: str, total: int | None, unit: str) -> Iterator[Tick]:
        start = last = time.monotonic()
        done = 0

        def tick(amount: int = 1) -> None:
            nonlocal done, last
            done += amount
            if time.monotonic() - last > _PLAIN_SECONDS:
                last = time.monotonic()
                self.say(f"{name}: {done:,} of {total or '?'} {unit}, {last - start:.0f} s")

        yield tick
        self.say(f"{name}: {done:,} {unit}, {time.monotonic() - start:.1f} s")

    @contextmanager
    def _live(self, name: str, total: int | None, unit: str) -> Iterator[Tick]:
        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(name, total=total)

            def tick(amount: int = 1) -> None:
                progress.advance(task, amount)

            yield tick
