"""A job for the time of one invocation: its folder, its cluster, its clock; and what run.json says:
parameters, source and versions, compared when a run is resumed."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.engine.cluster import Workers, fitting
from flows.engine.deadline import GRACE, Terminated, no_gaps, terminated_by_signal
from flows.engine.job import Job
from flows.engine.progress import Reporter, RunLog, error_text
from flows.engine.tasks import flow_run_context
from flows.intake.health import Health
from flows.options.params import Compute, Method
from storage.errors import BusyError, ClusterError, InputError, without_threads
from storage.runs.lease import leased
from storage.runs.run import Run
from storage.sources.base import Source, same
from storage.version import VERSION

if TYPE_CHECKING:
    from flows.orchestration.artifacts import Artifacts


@contextmanager
def open_job(run: Run, compute: Compute, reporter: Reporter) -> Iterator[Job]:
    """A job on its cluster, its log and, in a flow run, its artifacts.

    Interruption becomes a `ClusterError` that says how to resume.
    """
    seconds = run.read_json("timings.json") or {}
    with watched(run, reporter) as artifacts:
        workers = Workers(compute, reporter, run.location)
        job = Job(run, workers, reporter, seconds, step_timeout=compute.step_timeout)
        with _closing(job), no_gaps(compute.step_timeout + GRACE):
            yield job
        if artifacts is not None:
            artifacts.finish()


@contextmanager
def job_of(
    run: Run,
    describe: Callable[[], Mapping[str, Any]],
    compute: Compute,
    work: float,
    reporter: Reporter,
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> Iterator[Job]:
    """The job of a run that is `claimed`, what is done of it verified, on what `work`, in core
    seconds, is worth."""
    with (
        claimed(run, describe, check, reporter) as owned,
        open_job(owned, fitting(compute, work), reporter) as job,
    ):
        job.verify()
        yield job


@contextmanager
def watched(run: Run, reporter: Reporter) -> Iterator[Artifacts | None]:
    """Keep a log with the run, and artifacts with the flow run if there is one; those."""
    log = RunLog(run.location, reporter.say)
    try:
        # The log outlives the artifacts, whose last words belong into it.
        with reporter.watched_by(log), _artifacts(run, reporter) as artifacts:
            flow_run = {} if artifacts is None else {"flow_run": str(artifacts.flow_run)}
            place = {"location": run.location.name, "host": socket.gethostname()}
            log.event("run-started", **place, **flow_run)
            with reporter.watched_by(*([] if artifacts is None else [artifacts])):
                yield artifacts
    except BaseException as error:
        log.event("run-failed", error=error_text(error))
        raise
    else:
        log.event("run-done")
    finally:
        log.flush()


def _artifacts(run: Run, reporter: Reporter) -> AbstractContextManager[Artifacts | None]:
    """The artifacts of the flow run under way; None outside one."""
    if flow_run_context() is None:
        return nullcontext()
    from flows.orchestration.artifacts import Artifacts

    return Artifacts.opened(run, reporter.say)


@contextmanager
def _closing(job: Job) -> Iterator[None]:
    """Keep the times and close the cluster, whatever happens."""
    run = job.run
    try:
        with terminated_by_signal():
            yield
    except (KeyboardInterrupt, Terminated) as error:
        raise ClusterError(
            f"interrupted; what is done is kept in {run.location.url}: run the same command again"
        ) from error
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not without_threads(error):
            raise
        raise ClusterError(
            f"this process has run out of memory or threads ({error_text(error)}); what is done is "
            f"kept in {run.location.name}: run the same command with more, or with a lower "
            "--block-rows in another --run folder"
        ) from error
    finally:
        with ExitStack() as last:  # in reverse order, each whatever becomes of the others
            last.callback(lambda: job.workers.close())
            last.callback(_keep_times, job)


def _keep_times(job: Job) -> None:
    """Write timings.json. A store that takes no more is reported: times never end a run."""
    location = job.run.location
    try:
        if location.exists("run.json"):
            job.run.check_owned()  # else whoever has the run now writes its times
            location.replace("timings.json", json.dumps(job.seconds).encode(), synced=False)
    except BusyError:
        pass
    except Exception as error:  # stores raise what they like
        job.reporter.say(f"no timings.json: {error_text(error)}")


@contextmanager
def claimed(
    run: Run,
    describe: Callable[[], Mapping[str, Any]],
    check: Callable[[Mapping[str, Any]], None],
    reporter: Reporter,
) -> Iterator[Run]:
    """The run, for this process alone; begun with `describe()` if it is new, else `check`ed.

    A run that this call began is removed where its input turns out to be bad, with the folders that
    were made for it. Anything else that was there stays.

    Raises `BusyError` where another process works on the run.
    """
    run.is_new()  # refuses a folder of something else before anything is written
    made = run.location.missing()
    there = made[-1].parent if made else Path(run.location.url)
    if run.location.is_local and not os.access(there, os.W_OK | os.X_OK):
        raise InputError(
            f"{there}: read-only, and what is made of a run is kept in it; copy the run to a "
            "folder of your own, and give that"
        )
    with leased(run.location, reporter.say) as lease:
        created = run.is_new()
        try:
            if created:
                run.begin(describe())
            else:
                run.repair()
                check(run.config())
            yield replace(run, fence=lease.fence)
        except InputError:
            if created and run.ledger.get("anchors", "all") is None:  # nothing of worth is lost
                lease.release(forget=True)
                run.location.clear(made)
            raise


RECORDED = ("numpy", "pynndescent", "scikit-learn", "zarr")
"""Packages besides ours whose versions are recorded with a run."""


def describe(
    params: Mapping[str, Any], source: Source, health: Health | None = None
) -> dict[str, Any]:
    """The content of run.json; `health` is what a look at the source found."""
    return {
        "parameters": dict(params),
        "source": source.fingerprint(with_digest=True),
        "label_name": source.label_name,
        "feature_names": list(source.feature_names),
        **({} if source.beside.id is None else {"id_name": source.beside.id}),
        **({} if health is None else {"health": health.model_dump(mode="json")}),
        **({} if source.coding.as_json() is None else {"coding": source.coding.as_json()}),
        "versions": {
            "knnoise": VERSION,
            **{name: importlib.metadata.version(name) for name in RECORDED},
        },
    }


def defaults() -> dict[str, Any]:
    """The default of each parameter that decides the results."""
    return {name: field.get_default() for name, field in Method.model_fields.items()}


_COMPARED = ("annotations", "corrections")
"""Files that are parts of the source, by whose content they are compared, wherever they lie."""


def check_same(
    before: Mapping[str, Any], params: Mapping[str, Any], default: Mapping[str, Any], source: Source
) -> None:
    """Raise `InputError` naming what differs from the run being resumed.

    default : what a parameter counts as in a run that was begun before there was such a one
    """
    old = {**default, **before["parameters"]}
    unknown = [name for name in old if name not in params]
    bought = "k" in default and "k" not in before["parameters"]  # by acquire, which has no such
    if bought or (unknown and before["versions"]["knnoise"] == VERSION):
        raise InputError("the run was begun by another command; use another --run folder")
    if unknown:
        raise InputError(
            f"the run was begun with parameters that this version does not know "
            f"({', '.join(unknown)}), by knnoise {before['versions']['knnoise']}; use that version"
        )
    differing = [
        f"{name} was {_shown(old.get(name))} and is {_shown(value)}"
        for name, value in params.items()
        if old.get(name) != value and name not in _COMPARED
    ]
    if before["label_name"] != source.label_name:
        differing.append(f"labels were {before['label_name']!r} and are {source.label_name!r}")
    changed = same(before["source"], source)
    if changed:
        differing.append(changed)
    if differing:
        raise InputError(
            f"the run was begun otherwise: {'; '.join(differing)}; use another --run folder"
        )


def _shown(value: object) -> str:
    return "not given" if value is None else repr(value)
