"""A run for one process: its lease, its begin, and what becomes of it where the input is bad."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flows.engine.progress.reporter import Reporter
from storage.errors import InputError
from storage.runs.lease import leased
from storage.runs.run import Run


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

    Raises
    ------
    BusyError
        another process works on the run.
    """
    run.is_new()  # refuses a folder of something else before anything is written
    made = run.location.missing()
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
