"""What a command prints: its results on stdout, where a reader that has gone is no error; and on
stderr what `--verbose` adds, each part of a step and the trace of an error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from storage.errors import StorageError
from storage.redaction import redacted

_COPY_BYTES = 1 << 20
LOGGER = "knnoise"


class Unread(BaseException):
    """Who read stdout has gone, as `head` goes after its lines."""


def print_anything() -> None:
    """From now on, print characters that the terminal's encoding has not as escapes, and nowhere
    what would go to a stream that was closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", errors="replace"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def put(text: str) -> None:
    """Print a text.

    Raises `Unread`, or `StorageError` where stdout is full.
    """
    with _read():
        print(text)
        sys.stdout.flush()


def put_file(path: str) -> None:
    """Print the bytes of a file.

    Raises `Unread`, or `StorageError` where stdout is full.
    """
    import shutil

    with open(path, "rb") as file, _read():
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            shutil.copyfileobj(file, sys.stdout.buffer, _COPY_BYTES)
        else:  # what somebody has put in its place, such as a StringIO
            shutil.copyfileobj(io.TextIOWrapper(file, "utf-8", newline=""), sys.stdout)
        sys.stdout.flush()


def flush() -> None:
    """Print what is not printed yet, where somebody reads it."""
    try:
        with _read():
            sys.stdout.flush()
    except (Unread, StorageError):
        pass


@contextmanager
def _read() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # What is left in the buffer has to go somewhere when the process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            raise Unread from error
        raise StorageError(
            f"stdout: cannot be written ({error.strerror}); what a run has done is kept: send "
            "it elsewhere"
        ) from error


@contextmanager
def in_detail() -> Iterator[None]:
    """Print each part that is done, and the trace of the error that ends the block."""
    import logging
    import traceback

    class Parts(logging.Handler):
        """Prints records of level DEBUG; of greater ones the terminal tells."""

        def filter(self, record: logging.LogRecord) -> bool:
            return record.levelno <= logging.DEBUG

        def emit(self, record: logging.LogRecord) -> None:
            print(redacted(record.getMessage()), file=sys.stderr, flush=True)

    logger, handler = logging.getLogger(LOGGER), Parts()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    except Exception as error:
        print(redacted("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        raise
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
