"""Folders of runs that a schedule makes: one for each date, and the latest that is finished."""

from __future__ import annotations

import datetime
import posixpath
import re

import fsspec

from flows.engine.tasks.context import flow_run_context
from storage.errors import InputError
from storage.location import Location
from storage.run import Run
from storage.version import FORMAT_VERSION

_DATE = re.compile(r"\{date:((?:[^{}%]|%[A-Za-z%])+)\}")


def dated(run: str) -> str:
    """The folder of a run, `{date:...}` in its name replaced.

    `runs/pool-{date:%G-W%V}` becomes `runs/pool-2026-W47`: each week a folder, and all runs of a
    week resume the same. The date is UTC, and of a Prefect run the one it was scheduled for. Where
    an earlier version made the folder, the run is a new one beside it, which is later by name.

    Raises
    ------
    InputError
        what is in braces is not a date and a format.
    """
    filled = _DATE.sub(lambda found: _scheduled().strftime(found[1]), run)
    if "{date" in filled:
        raise InputError(f"run {run}: cannot fill in the date; write it as {{date:%Y-%m-%d}}")
    begun = None if filled == run else Run(Location.of(filled)).read_json("run.json")
    version = FORMAT_VERSION if begun is None else begun.get("format_version")
    older = isinstance(version, int) and version < FORMAT_VERSION
    return f"{filled}-format-{FORMAT_VERSION}" if older else filled


def _scheduled() -> datetime.datetime:
    context = flow_run_context()
    run = None if context is None else context.flow_run
    start: datetime.datetime | None = None if run is None else run.expected_start_time
    return start or datetime.datetime.now(datetime.UTC)


def latest(run: str, *, other_than: str | None = None) -> str:
    """The folder of a finished run; of a pattern such as `runs/pool-*` the last one by name.

    other_than : a folder that is left out of what matches

    Raises
    ------
    InputError
        no finished run matches.
    """
    if not any(mark in run for mark in "*?["):
        return run
    location = Location.of(run)
    fs, pattern = fsspec.core.url_to_fs(f"{location.url}/report.json")
    found = sorted(posixpath.dirname(str(path)) for path in fs.glob(pattern))
    if not location.is_local:
        found = [str(fs.unstrip_protocol(path)) for path in found]
    found = [path for path in found if path != other_than]
    if not found:
        raise InputError(f"{run}: no finished run matches; train first")
    return found[-1]
