"""A job: a run being made or resumed, and how its steps are executed part by part."""

from __future__ import annotations

import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from flows.engine.cluster import Machine, Workers, address_of
from flows.engine.deadline import Deadline
from flows.engine.parts import Part, count_workers, lost_cluster, run_parts
from flows.engine.progress import Reporter
from flows.engine.results import Outcome, as_json, result_of
from flows.engine.tasks import as_task
from pipeline.knn.threads import one_thread
from storage.errors import ClusterError, StorageError
from storage.files.durable import noted
from storage.runs.ledger import Record, digest
from storage.runs.run import Run


@dataclass(frozen=True)
class Output:
    written: Iterable[str]
    """Keys of the files or folders it wrote."""
    result: Any = None
    """For the steps to come; a function of the inputs alone."""
    kernel_seconds: float = 0.0


if TYPE_CHECKING:
    from distributed import Client

A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")
Do = Callable[[Run, Part[A]], Output]


def execute(run: Run, step: str, do: Do[A], part: Part[A]) -> Record:
    """Do one part and commit it; what is committed already is neither done nor written again."""

    def look() -> None:
        run.check_owned()
        done = run.ledger.get(step, part.name)
        if done is not None:
            raise _Done(done)

    start, on_worker = time.perf_counter(), _on_worker()
    if on_worker:
        from pipeline.graph.build import load_blas

        load_blas()
    try:
        look()
        with one_thread(), noted(look) as writes:
            output = do(run, part)
    except _Done as twin:
        return twin.record
    cost = {
        "seconds": time.perf_counter() - start,
        "kernel_seconds": output.kernel_seconds,
        "peak_rss_mb": peak_rss_mb(),
        "on_worker": float(on_worker),
    }
    result = as_json(output.result)
    return run.ledger.commit(step, part.name, output.written, result, cost, writes.files)


class _Done(Exception):
    """Another process has committed the part meanwhile."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


def _on_worker() -> bool:
    if "distributed" not in sys.modules:
        return False
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def peak_rss_mb() -> float:
    """Largest resident size of this process so far, MB."""
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


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
    step_timeout: float = math.inf
    """Seconds that a step may take."""

    def __post_init__(self) -> None:
        self._linked: Client | None = None
        self.reporter.count_workers(self._n_workers)

    def below(self, folder: str) -> Job:
        """The job of a run in a folder of this one's, on the same workers: begun if it is new, else
        verified."""
        run = self.run.below(folder)
        if run.is_new():
            run.begin(self.run.config())
        else:
            run.repair()
        job = copy(self)
        job.run, job.damaged = run, {}
        job.reporter.count_workers(job._n_workers)
        job.verify()
        return job

    def task(
        self, name: str, do: Callable[Concatenate[Job, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What a function of this job gives; in a flow run of Prefect, as a task of this name."""
        return as_task(name, partial(do, self, *args, **kwargs))

    def verify(self) -> None:
        """Check every committed byte against its digest; forget the parts that fail."""
        self.run.check_owned()
        ledger = self.run.ledger
        records: list[Record] = []
        for step in ledger.steps():
            for part, record in ledger.parts(step).items():
                if record is None:
                    self.reporter.say(f"{step} {part}: its record is damaged, will be made again")
                else:
                    records.append(record)
        for record, _ in ledger.damaged(records):
            self.reporter.say(
                f"{record.step} {record.part}: damaged or missing, will be made again"
            )
            if record.step != "report":  # which holds times, and may come out otherwise
                self.damaged[record.step, record.part] = record
            ledger.discard(record)

    def parts(
        self, step: str, do: Do[A], parts: Sequence[Part[A]], at_once: int | None = None
    ) -> list[Record]:
        """Run the parts of a step that are not committed, no more than `at_once` at the same time;
        records of all, in order of part name."""
        names = {part.name for part in parts}
        with Deadline(step, self.step_timeout).interrupting("records"):
            records = self.run.ledger.records(step)
        done = {name: record for name, record in records.items() if name in names}
        pending = [part for part in parts if part.name not in done]
        self.reporter.see(done.values())
        if pending:
            self.run.ledger.plan(step, [part.name for part in parts])
            before = list(done.values())
            with (
                self._clock(step),
                self.reporter.step(step, len(parts), before=before) as tick,
            ):
                work = partial(execute, self.run, step, do)
                for record in self.each(step, work, pending, at_once):
                    self.same_as_before(record)
                    done[record.part] = record
                    tick(record=record)
        return [done[name] for name in sorted(done)]

    @contextmanager
    def _clock(self, step: str) -> Iterator[None]:
        """Add the time spent inside to that of the step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start

    def _client(self) -> Client | None:
        """The cluster if there is one; the first time, its dashboard is made known."""
        client = self.workers.client()
        if client is not None and client is not self._linked:
            self._linked = client
            self.reporter.link("dask-dashboard", client.dashboard_link)
        return client

    def n_workers(self) -> int:
        """Worker processes of the cluster, once it has started; 0 where this process computes."""
        return 0 if self._client() is None else self._n_workers() or 0

    def machine(self) -> Machine:
        """What a part may take that has a machine to itself: of this one as many threads as parts
        have cores; of another cluster a worker."""
        client = self._client()
        if client is not None and address_of(self.workers.compute) is not None:
            if not self._n_workers():
                self.reporter.say("the cluster has no worker: waiting for one")
            return Machine.of_workers(client)
        return Machine.here(max(self.n_workers(), self.workers.compute.threads))

    def _n_workers(self) -> int | None:
        """Workers of the cluster; None where this process computes, or the scheduler is mute."""
        return None if self._linked is None else count_workers(self._linked)

    def each(
        self,
        step: str,
        do: Callable[[Part[A]], T],
        parts: Sequence[Part[A]],
        at_once: int | None = None,
    ) -> Iterator[T]:
        """What parts give, as they complete; they leave no record unless they commit one."""
        name = self.run.location.name.rsplit("/", 1)[-1]
        try:
            yield from run_parts(
                do,
                parts,
                self._client,
                step=step,
                deadline=Deadline(step, self.step_timeout),
                run=name,
                threads=self.workers.compute.threads,
                at_once=at_once,
            )
        except Exception as error:
            lost = lost_cluster(error)
            if lost is None:
                raise
            raise ClusterError(f"{step}: {lost}") from error

    def once(self, step: str, do: Callable[[Run], Output], *, shown: bool = True) -> Record:
        """A step of one part that runs in this process; `shown` unless `do` tells its progress."""
        with Deadline(step, self.step_timeout).interrupting("all"):
            done = self.run.ledger.get(step, "all")
            if done is not None:
                return done
            self.run.ledger.plan(step, ["all"])
            telling = self.reporter.step(step, None, "") if shown else nullcontext(None)
            with self._clock(step), telling as tick:
                record = execute(self.run, step, lambda run, _: do(run), Part("all", None))
                self.same_as_before(record)
                if tick is not None:
                    tick(record=record)
            return record

    def result(
        self, step: str, do: Callable[[Run], Output], kind: type[T], *, shown: bool = True
    ) -> T:
        """What such a step leaves, of a kind."""
        return result_of(self.once(step, do, shown=shown), kind)

    def same_as_before(self, record: Record) -> None:
        """Raise `StorageError` where a part that was damaged came out different."""
        old = self.damaged.pop((record.step, record.part), None)
        if old is not None and (old.files, old.result) != (record.files, record.result):
            raise StorageError(
                f"{record.step} {record.part} was damaged and came out different when made again; "
                "other library versions or hardware? Train anew in another folder"
            )


def outcomes(run: Run) -> dict[str, Outcome]:
    """What came of every step that has records."""
    return {
        step: Outcome(
            len(records),
            digest(records.values()),
            sum(record.cost["seconds"] for record in records.values()),
            sum(record.cost["kernel_seconds"] for record in records.values()),
        )
        for step in run.ledger.steps()
        if (records := run.ledger.records(step))
    }
