"""A job: a run being made or resumed, and how its steps are executed part by part."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distributed import CancelledError, Client, get_worker
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker
from threadpoolctl import threadpool_limits

from flows.cluster import Workers
from flows.performance import Performance
from flows.progress import Reporter
from pipeline.blockwise import Part, run_parts
from storage.errors import ClusterError, StorageError
from storage.ledger import Record, digest
from storage.run import Run


@dataclass(frozen=True)
class Output:
    """What a part did."""

    written: Iterable[str]
    """Keys of the files or folders it wrote."""
    result: dict[str, Any] = field(default_factory=dict)
    """Small JSON values for the steps to come; a function of the inputs alone."""
    kernel_seconds: float = 0.0


Do = Callable[[Run, Part], Output]


def execute(run: Run, step: str, do: Do, part: Part) -> Record:
    """Do one part and commit it; what is committed already is not done again."""
    done = run.ledger.get(step, part.name)
    if done is not None:
        return done
    start = time.perf_counter()
    with threadpool_limits(1):
        output = do(run, part)
    cost = {
        "seconds": time.perf_counter() - start,
        "kernel_seconds": output.kernel_seconds,
        "peak_rss_mb": peak_rss_mb(),
        "on_worker": float(_on_worker()),
    }
    return run.ledger.commit(step, part.name, output.written, output.result, cost)


def _on_worker() -> bool:
    try:
        get_worker()
    except ValueError:
        return False
    return True


def peak_rss_mb() -> float:
    """Largest resident size of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass
class Job:
    """The context every step gets."""

    run: Run
    workers: Workers
    reporter: Reporter
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by step, over all invocations."""
    damaged: dict[tuple[str, str], Record] = field(default_factory=dict)
    """Records whose files were found damaged, by (step, part), until they are made again."""
    performance: Performance | None = None
    """Keeps Dask's performance report, where wanted."""

    def __post_init__(self) -> None:
        self._linked: Client | None = None
        self.reporter.count_workers(self._n_workers)

    def verify(self) -> dict[str, dict[str, Record]]:
        """Check every committed byte against its digest; forget the parts that fail."""
        ledger = self.run.ledger
        records = {step: ledger.records(step) for step in ledger.steps()}
        for record in ledger.damaged(r for parts in records.values() for r in parts.values()):
            self.reporter.say(
                f"{record.step} {record.part}: damaged or missing, will be made again"
            )
            self.damaged[record.step, record.part] = record
            ledger.discard(record)
            del records[record.step][record.part]
        return records

    def parts(
        self, step: str, do: Do, parts: Sequence[Part], *, compiled: bool = False
    ) -> list[Record]:
        """Run the parts of a step that are not committed; records of all, in order of part name.

        `compiled`: the step needs pynndescent, so it waits for workers that have it.
        """
        names = {part.name for part in parts}
        done = {n: r for n, r in self.run.ledger.records(step).items() if n in names}
        pending = [part for part in parts if part.name not in done]
        self.reporter.see(done.values())
        if pending:
            self.run.ledger.plan(step, [part.name for part in parts])
            if compiled:
                self._wait_for_kernels()
            before = list(done.values())
            with (
                self._clock(step),
                self.reporter.step(step, len(parts), before=before) as tick,
            ):
                for record in self._run(step, do, pending):
                    self._same_as_before(record)
                    done[record.part] = record
                    tick(record=record)
        return [done[name] for name in sorted(done)]

    @contextmanager
    def _clock(self, step: str) -> Iterator[None]:
        """Add the time spent inside to that of the step."""
        start = time.perf_counter()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start

    def _wait_for_kernels(self) -> None:
        """A step of its own for the wait, where workers still compile."""
        if self.workers.starting:
            with self._clock("compile"), self.reporter.step("compile", None, unit=""):
                self.workers.client()

    def _client(self) -> Client | None:
        """The cluster if it is ready; the first time, its dashboard is made known."""
        client = self.workers.client(wait=False)
        if client is not None and client is not self._linked:
            self._linked = client
            self.reporter.link("dask-dashboard", client.dashboard_link)
            if self.performance is not None:
                self.performance.start(client)
        return client

    def _n_workers(self) -> int | None:
        """Workers of the cluster; None where this process computes, or the scheduler is mute."""
        if self._linked is None or self._linked.status != "running":
            return None
        try:
            return int(self._linked.scheduler_info(n_workers=1)["n_workers"])
        except (OSError, TimeoutError, KeyError):
            return None

    def _run(self, step: str, do: Do, pending: list[Part]) -> Iterable[Record]:
        work, name = partial(execute, self.run, step, do), self.run.location.url.rsplit("/", 1)[-1]
        try:
            yield from run_parts(work, pending, self._client, step=step, run=name)
        except KilledWorker as error:
            raise ClusterError(
                f"{step}: a part killed its workers again and again ({error.task}); most often "
                "memory: lower --block-rows or give workers more; run again to resume"
            ) from error
        except (CommClosedError, CancelledError) as error:
            raise ClusterError(
                f"{step}: the scheduler is gone; what is done is kept: run again to resume"
            ) from error

    def once(self, step: str, do: Callable[[Run], Output], *, shown: bool = True) -> Record:
        """A step of one part that runs in this process; `shown` unless `do` tells its progress."""
        done = self.run.ledger.get(step, "all")
        if done is not None:
            return done
        self.run.ledger.plan(step, ["all"])
        telling = self.reporter.step(step, None, "") if shown else nullcontext(None)
        with self._clock(step), telling as tick:
            record = execute(self.run, step, lambda run, _: do(run), Part("all"))
            self._same_as_before(record)
            if tick is not None:
                tick(record=record)
        return record

    def _same_as_before(self, record: Record) -> None:
        old = self.damaged.pop((record.step, record.part), None)
        if old is not None and (old.files, old.result) != (record.files, record.result):
            raise StorageError(
                f"{record.step} {record.part} was damaged and came out different when made again; "
                "other library versions or hardware? Train anew in another folder"
            )


def outcomes(run: Run) -> dict[str, Any]:
    """Parts, digest and cost of every step that has records."""
    return {
        step: {
            "parts": len(records),
            "digest": digest(records.values()),
            "core_seconds": sum(record.cost["seconds"] for record in records.values()),
            "kernel_seconds": sum(record.cost["kernel_seconds"] for record in records.values()),
        }
        for step in run.ledger.steps()
        if (records := run.ledger.records(step))
    }


def intact(run: Run, steps: Mapping[str, Any]) -> bool:
    """Whether every step still has the outcome reported, and every byte of it is on disk."""
    records = {step: run.ledger.records(step) for step in run.ledger.steps()}
    if any(digest(records.get(s, {}).values()) != told["digest"] for s, told in steps.items()):
        return False
    return not run.ledger.damaged(r for parts in records.values() for r in parts.values())
