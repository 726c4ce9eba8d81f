"""Folders of runs that a schedule makes: one for each date, and the latest that is finished."""

from __future__ import annotations

import datetime
import re
from glob import has_magic
from pathlib import Path

from flows.engine.tasks import flow_run_context
from storage.errors import InputError
from storage.files.location import Location, check_name, open_url
from storage.runs.run import Run, runs_above
from storage.version import FORMAT_VERSION

_DATE = re.compile(r"\{date:((?:[^{}%]|%[A-Za-z%])+)\}")


def dated(run: str) -> str:
    """The name of a run, `{date:...}` in it replaced.

    `runs/pool-{date:%G-W%V}` becomes `runs/pool-2026-W47`: each week a folder, and all runs of a
    week resume the same. The date is UTC, and of a Prefect run the one it was scheduled for.

    Raises `InputError` where what is in braces is not a date and a format, or the name cannot be an
    address.
    """
    filled = _DATE.sub(lambda match: _scheduled().strftime(match[1]), run)
    if "{date" in filled:
        raise InputError(f"run {run}: cannot fill in the date; write it as {{date:%Y-%m-%d}}")
    check_name(filled)
    return filled


def to_make(run: str) -> str:
    """The folder of a run that is begun or gone on with: where an earlier version made that of a
    date, a new one beside it, which is later by name.

    Raises as `dated`, and where none can be made, or could be named afterwards: folders may be
    anything, new ones no patterns, nor in the folder of another run. A run that is there may be
    read-only: of one that is finished nothing is made.
    """
    name = _of_this_version(run)
    location = Location.of(name)
    made = [] if location.exists("run.json") else location.check_writable()
    if any(has_magic(part) for part in made):
        raise InputError(
            f"run {run}: there is no such folder, and *, ? and [ stand for patterns of runs; name "
            "it otherwise"
        )
    if homes := runs_above(Path(location.url)) if location.is_local else []:
        raise InputError(f"run {run}: lies in the folder of the run {homes[0]}; name one beside it")
    return name


def _of_this_version(run: str) -> str:
    """The dated name, of this version where an earlier one made the folder."""
    name = dated(run)
    begun = None if name == run else Run.of(name).read_json("run.json")
    version = FORMAT_VERSION if begun is None else begun.get("format_version")
    older = isinstance(version, int) and version < FORMAT_VERSION
    return f"{name}-format-{FORMAT_VERSION}" if older else name


def _scheduled() -> datetime.datetime:
    context = flow_run_context()
    run = None if context is None else context.flow_run
    start: datetime.datetime | None = None if run is None else run.expected_start_time
    return start or datetime.datetime.now(datetime.UTC)


def latest(run: str, *, other_than: str | None = None) -> str:
    """The folder of a run that is there; of a pattern such as `runs/pool-*` that is no folder, the
    last finished one by name.

    other_than : a folder that is left out of what matches

    Raises `InputError` where no finished run matches; and as `dated`.
    """
    beside, name = _of_this_version(run), dated(run)
    location = Location.of(name)
    if not has_magic(name) or location.exists():
        return beside if Location.of(beside).exists() else name
    record = "/ledger/report/all.json"  # which comes last
    fs, pattern = open_url(f"{location.url}{record}")
    folders = sorted(str(path).removesuffix(record) for path in fs.glob(pattern))
    if not location.is_local:
        folders = [str(fs.unstrip_protocol(path)) for path in folders]
    folders = [path for path in folders if path != other_than]
    if not folders:
        raise InputError(f"{run}: no finished run matches; train first")
    return folders[-1]
