"""Folders of runs that a schedule makes: one for each date, and the latest that is finished."""

from __future__ import annotations

import datetime
import posixpath

import fsspec
from prefect.runtime import flow_run

from storage.errors import InputError
from storage.location import Location


def dated(run: str) -> str:
    """The folder of a run, `{date:...}` in its name replaced.

    `runs/pool-{date:%G-W%V}` becomes `runs/pool-2026-W47`: each week a folder, and all runs of a
    week resume the same. The date is UTC, and of a Prefect run the one it was scheduled for.

    Raises
    ------
    InputError
        what is in braces is not a date.
    """
    if "{date" not in run:
        return run
    try:
        return run.format(date=_scheduled())
    except (ValueError, LookupError, AttributeError) as error:
        raise InputError(
            f"run {run}: cannot fill in the date ({error}); write it as {{date:%Y-%m-%d}}"
        ) from error


def _scheduled() -> datetime.datetime:
    start: datetime.datetime | None = flow_run.scheduled_start_time
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
