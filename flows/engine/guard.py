"""A program without a main guard: worker processes import it and would begin its run again."""

from __future__ import annotations

import multiprocessing
import os

IMPORTED = 77
"""Exit status of a process that began a run while it imported the program."""
MESSAGE = (
    "worker processes import this program and would begin its run again; put the call below `if "
    '__name__ == "__main__":`, or give workers=0'
)


def refuse_while_imported() -> None:
    """End a process that multiprocessing has started, if it is still importing the program."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(IMPORTED)
