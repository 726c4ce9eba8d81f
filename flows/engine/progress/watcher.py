"""What those who watch a run are told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from storage.errors import amount
from storage.runs.ledger import Record

_MINUTE, _HOUR = 60.0, 3600.0


@dataclass
class Step:
    """State of a step."""

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
            if self.seconds_left:
                words.append(f"{spell(self.seconds_left)} left")
        if self.unit and self.n_workers is not None:
            words.append(amount(self.n_workers, "worker"))
        if self.recall is not None:
            words.append(f"recall {self.recall:.4f}")
        return ", ".join(words)

    def line(self) -> str:
        """All of it in one line."""
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
