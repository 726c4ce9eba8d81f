"""What no run should begin with: a program without a main guard, which worker processes import and
which would begin its run again; too few file handles, or too little room in memory."""

from __future__ import annotations

import os
import resource
import sys

from storage.errors import ClusterError, StorageError

FEWEST_GB = 5
"""Gigabytes of addresses: the smallest run takes 4.2 with workers. Libraries map more than they
use, and those that get too few may wait for an end that does not come."""
FEWEST_HANDLES = 64
"""With fewer, event loops that cannot begin may be waited for."""

IMPORTED = 77
"""Exit status of a process that began a run while it imported the program."""
MESSAGE = (
    "worker processes import this program and would begin its run again; put the call below `if "
    '__name__ == "__main__":`, or give workers=0'
)


def check_handles() -> None:
    """Allow this process as many file handles as may be; `StorageError` where they are too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FEWEST_HANDLES:
        soft = FEWEST_HANDLES if hard == resource.RLIM_INFINITY else min(hard, FEWEST_HANDLES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < FEWEST_HANDLES:
        raise StorageError(
            f"this process may open {soft} files, which are too few: ulimit -n {FEWEST_HANDLES} or "
            "more"
        )


def check_addresses() -> None:
    """`ClusterError` where this process may not map what the smallest run does."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < FEWEST_GB * 10**9:
        raise ClusterError(
            f"this process may map {soft / 1e6:,.0f} MB (ulimit -v), too few for any run: allow "
            f"{FEWEST_GB} GB or more, or limit the memory that is used, as containers do"
        )


def refuse_while_imported() -> None:
    """End a process that multiprocessing has started, if it is still importing the program."""
    started = sys.modules.get("multiprocessing")
    if started and getattr(started.current_process(), "_inheriting", False):
        os._exit(IMPORTED)
