"""What a flow run tells Prefect besides artifacts, its logs and the ends of its tasks, redacted."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from prefect.context import FlowRunContext

from storage.errors import ClusterError, KnnoiseError, StorageError
from storage.redaction import redacted

R = TypeVar("R")
_LOGGERS = ("prefect", "prefect.flow_runs", "prefect.task_runs")


class _Redacting(logging.Filter):
    """Redacts message and trace of each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = redacted(record.exc_text)
        return True


def redact_logs() -> None:
    """Redact what Prefect's handlers print and send to the server, from now on."""
    for name in _LOGGERS:
        for handler in logging.getLogger(name).handlers:
            if not any(isinstance(one, _Redacting) for one in handler.filters):
                handler.addFilter(_Redacting())


@contextmanager
def redacted_errors() -> Iterator[None]:
    """Prefect keeps the text of an error as a state: one that holds secrets becomes one of ours.

    The kind decides as before whether another try is worth it.
    """
    try:
        yield
    except KnnoiseError:
        raise
    except Exception as error:
        if redacted(str(error)) == str(error):
            raise
        kind = StorageError if isinstance(error, OSError) else ClusterError
        raise kind(f"{type(error).__name__}: {error}") from None


def private(function: Callable[..., R]) -> Callable[..., R]:
    """A flow's function whose logs and errors are redacted where Prefect runs it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        if FlowRunContext.get() is None:
            return function(*args, **kwargs)
        redact_logs()
        with redacted_errors():
            return function(*args, **kwargs)

    return call
