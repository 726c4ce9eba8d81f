"""A job for the time of one invocation: its folder, its cluster, its clock."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from flows.artifacts import Artifacts
from flows.cluster import Resources, Workers
from flows.job import Job
from flows.logs import RunLog, told
from flows.performance import Performance
from flows.progress import Reporter
from storage.errors import ClusterError
from storage.run import Run


class _Terminated(BaseException):
    """SIGTERM, as an exception that unwinds what is open."""


@contextmanager
def open_job(
    run: Run,
    resources: Resources,
    reporter: Reporter,
    *,
    compiled: bool,
    performance: bool = False,
) -> Iterator[Job]:
    """A job on its cluster, its log and, in a flow run, its artifacts.

    Interruption becomes a `ClusterError` that says how to resume. `performance`: Dask's
    performance report is kept with the run.
    """
    seconds = run.read_json("timings.json") or {}
    with watched(run, reporter) as artifacts:
        job = Job(run, Workers(resources, reporter, compiled=compiled), reporter, seconds)
        job.performance = Performance(run.location, reporter.say) if performance else None
        with _closing(job):
            yield job
        if artifacts is not None:
            artifacts.finish()


@contextmanager
def watched(run: Run, reporter: Reporter) -> Iterator[Artifacts | None]:
    """Keep a log with the run, and artifacts with the flow run if there is one; those."""
    log = RunLog(run.location, reporter.say)
    try:
        # The log outlives the artifacts, whose last words belong into it.
        with reporter.watched_by(log), Artifacts.opened(run, reporter.say) as artifacts:
            flow_run = {} if artifacts is None else {"flow_run": str(artifacts.flow_run)}
            place = {"location": run.location.url, "host": socket.gethostname()}
            log.event("run-started", **place, **flow_run)
            with reporter.watched_by(*([] if artifacts is None else [artifacts])):
                yield artifacts
    except BaseException as error:
        log.event("run-failed", error=told(error))
        raise
    else:
        log.event("run-done")
    finally:
        log.flush()


@contextmanager
def _closing(job: Job) -> Iterator[None]:
    """Keep the times and close the cluster, whatever happens."""
    run = job.run
    try:
        with _terminated_by_signal():
            yield
    except (KeyboardInterrupt, _Terminated) as error:
        raise ClusterError(
            f"interrupted; what is done is kept in {run.location.url}: run the same command again"
        ) from error
    finally:
        if run.location.exists("run.json"):
            run.location.replace("timings.json", json.dumps(job.seconds).encode())
        if job.performance is not None:
            job.performance.finish()
        job.workers.close()


def reopen(job: Job, *, compiled: bool) -> None:
    """Change to a cluster with compiled kernels where the job's has none."""
    if compiled and not job.workers.compiled:
        job.workers.close()
        job.workers = Workers(job.workers.resources, job.reporter, compiled=True)


@contextmanager
def _terminated_by_signal() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def memory(job: Job, driver_mb: float) -> Mapping[str, Any]:
    """Peak memory of the largest worker and of this process, from the records of all steps."""
    ledger = job.run.ledger
    workers = [
        record.cost["peak_rss_mb"]
        for step in ledger.steps()
        for record in ledger.records(step).values()
        if record.cost.get("on_worker")
    ]
    return {
        "peak_rss_mb": max(workers, default=driver_mb),
        "driver_peak_rss_mb": driver_mb,
    }
