"""Faults of processes: twins, two drivers, signals, limits, clocks, a minute of silence."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from faults import checker
from faults.bench import Bench, begin, command
from faults.families import Case, Trial, out_file, points, resume
from faults.injector import SIGNALS, Fault
from faults.outcome import Outcome

DAY = 86_400.0


def every(bench: Bench) -> list[Case]:
    cases = [*twins(bench), *drivers(), *silences(bench), *clocks(bench), *limits()]
    return [*cases, *moments()]


def twins(bench: Bench) -> list[Case]:
    """A part whose late twin writes all its files after the part is committed.

    The report has none: the driver writes it, which the lease keeps from having a twin.
    """
    parts = {part: None for part, *_ in points(bench) if not part.startswith("report/")}
    return [Case("late twin", f"late twin:{part}", _twin(part)) for part in parts]


def _twin(part: str) -> Trial:
    def late() -> None:
        import flows.engine.job as job
        import flows.steps.ingest.pool as ingest

        execute = job.execute

        def twice(run: Any, step: str, do: Any, one: Any) -> Any:
            record = execute(run, step, do, one)
            if f"{step}/{one.name}" == part:
                do(run, one)  # it looked before the commit, and nothing notes what it writes
            return record

        job.execute = twice
        ingest.execute = twice  # type: ignore[attr-defined]

    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.new()
        ended = command(*bench.train(run), before=late)
        if ended.status:
            outcome.wrong.append(f"ended with {ended.status}: {ended.err[-300:]!r}")
        again = lambda: command(*bench.train(run))  # noqa: E731
        resume(bench, outcome, run, bench.training(), {}, ended, again)

    return trial


def drivers() -> list[Case]:
    """Two processes on one run, with equal parameters or others, one some time after the other."""
    return [
        Case("two drivers", f"two drivers:{kind}:{after:g} s", _drivers(kind, after), 3.0)
        for kind in ("equal", "different", "equal, one killed")
        for after in (0.0, 0.05, 0.15, 0.3, 0.6, 1.0)
    ]


def _drivers(kind: str, after: float) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.new()
        one = begin(*bench.train(run))
        time.sleep(after)
        more = ("--seed", "7") if kind == "different" else ()
        other = begin(*bench.train(run, *more))
        if kind.endswith("killed"):
            time.sleep(0.3)
            os.killpg(one.pid, signal.SIGKILL)
        ends = [one.wait(), other.wait()]
        outcome.exit_seconds = max(ended.seconds for ended in ends)
        outcome.wrong += [wrong for ended in ends for wrong in ended.wrong]
        allowed = {"equal": {0, 4}, "different": {0, 2, 4}}.get(kind, {0, 4, -signal.SIGKILL})
        if not {ended.status for ended in ends} <= allowed:
            outcome.wrong.append(f"ended with {[ended.status for ended in ends]}")
        if kind != "equal, one killed" and all(ended.status for ended in ends):
            outcome.wrong.append("neither made the run")
        if kind == "different" and ends[0].status and not ends[1].status:
            bench.remove(run)  # the other one was first, and the run is its
            return
        found = checker.files(run)
        outcome.wrong += checker.after_fault(found, bench.training(), {})
        resumed = command(*bench.train(run))
        outcome.resume_seconds = resumed.seconds
        outcome.wrong += resumed.wrong
        outcome.wrong += checker.after_resume(checker.files(run), bench.training(), found)
        bench.remove(run)

    return trial


def moments() -> list[Case]:
    """A signal to a training, or to a scoring, at a random moment."""
    chance = random.Random(0)
    return [
        Case(f"signal {name} at random", f"{name} {after:.2f} s after the begin of {what}", trial)
        for name in ("KILL", "TERM", "INT")
        for what in ("train", "score")
        for after in [chance.uniform(0.1, 1.5) for _ in range(12)]
        for trial in [_signaled(name, what, after)]
    ]


def _signaled(name: str, what: str, after: float) -> Trial:
    def trial(bench: Bench, outcome: Outcome) -> None:
        scoring, out = what == "score", out_file()
        run = bench.copy(scored=False) if scoring else bench.new()
        reference = bench.reference if scoring else bench.training()
        args = bench.score(run, out) if scoring else bench.train(run)
        before = checker.files(run)
        child = begin(*args)
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, SIGNALS[name])
        below = bench.scoring if scoring else ""
        ended = child.wait()
        if name != "KILL" and ended.status not in (0, 4):
            outcome.wrong.append(f"ended with {ended.status}")
        resume(bench, outcome, run, reference, before, ended, lambda: command(*args), below)

    return trial


def silences(bench: Bench) -> list[Case]:
    """A minute without an answer, with a limit to the time that a step may take."""
    places = [
        (part, moment, Fault(op, key, "silent"))
        for part, moment, op, key, _ in points(bench)
        if moment in ("before", "write-middle", "use", "verify", "commit")
    ]
    return [
        Case("silence", f"silence:{part}:{moment}", _planted(fault, ("--step-timeout", "3")), 5.0)
        for part, moment, fault in places
    ]


def clocks(bench: Bench) -> list[Case]:
    """Killed at a commit with the clock a day off, and resumed with it off the other way."""
    return [
        Case(
            "clock off by a day",
            f"clock {shift:+.0f} s:{part}",
            _clock(Fault(op, key, "then-KILL"), shift),
        )
        for part, moment, op, key, _ in points(bench)
        if moment == "commit"
        for shift in (DAY, -DAY)
    ]


def _clock(fault: Fault, shift: float) -> Trial:
    def moved(seconds: float) -> Callable[[], None]:
        def move() -> None:
            now, now_ns = time.time, time.time_ns
            time.time = lambda: now() + seconds
            time.time_ns = lambda: now_ns() + int(seconds * 1e9)

        return move

    return _planted(fault, before=moved(shift), then=moved(-shift))


def limits() -> list[Case]:
    """Too little memory, too few file handles."""
    memory = [
        Case("memory limit", f"memory limit:{mb} MB more", _planted(None, before=_memory(mb)))
        for mb in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    ]
    handles = [
        Case("few file handles", f"file handles:{n}", _planted(None, before=_handles(n)))
        for n in (12, 16, 20, 24, 28, 32, 40, 48)
    ]
    return memory + handles


def _memory(mb: int) -> Callable[[], None]:
    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (mb << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return limit


def _handles(n: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


def _planted(
    fault: Fault | None,
    more: tuple[str, ...] = (),
    before: Callable[[], None] | None = None,
    then: Callable[[], None] | None = None,
) -> Trial:
    """A training with a fault, and its resumption."""

    def trial(bench: Bench, outcome: Outcome) -> None:
        run = bench.new()
        with tempfile.TemporaryDirectory() as place:
            planted = fault and replace(fault, counter=f"{place}/count")
            ended = command(*bench.train(run, *more), fault=planted, root=run, before=before)
        again = lambda: command(*bench.train(run), before=then)  # noqa: E731
        resume(bench, outcome, run, bench.training(), {}, ended, again)

    return trial
