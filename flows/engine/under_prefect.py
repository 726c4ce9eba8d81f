"""What Prefect is told of a flow run besides artifacts: how often and how long it tries a step; its
logs and the ends of its tasks, redacted; and, where it ended otherwise than well, how to go on."""

from __future__ import annotations

import functools
import logging
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from prefect import Flow, State
from prefect.client.schemas.objects import FlowRun, TaskRun
from prefect.context import FlowRunContext
from prefect.logging.loggers import flow_run_logger
from prefect.tasks import Task, exponential_backoff

from flows.options.params import STEP_TIMEOUT
from storage.errors import ClusterError, InputError, KnnoiseError, StepTimeoutError, StorageError
from storage.redaction import redacted

R = TypeVar("R")
_LOGGERS = ("prefect", "prefect.flow_runs", "prefect.task_runs")
RETRIES = 2
BACKOFF_SECONDS = 10.0
"""Wait before the first retry; doubled for each further one, and spread by up to half."""
BACKSTOP = 4
"""Prefect's limit for a task, in limits of a step: a task has up to three steps, which end
themselves with the names of the parts that hang; this one catches what hangs between them."""
MAY_PASS = (OSError, StorageError, StepTimeoutError)
"""Errors worth another try: the network, the store, a step that took too long. Parts that are
committed are not done again. A lost scheduler is not among them: that takes a new run."""


def step_limits() -> dict[str, Any]:
    """Arguments of a Prefect task for a step of the flow run that is under way."""
    context = FlowRunContext.get()
    parameters = (context.parameters if context is not None else None) or {}
    return {
        "retries": RETRIES,
        "retry_delay_seconds": exponential_backoff(BACKOFF_SECONDS),
        "retry_jitter_factor": 0.5,
        "retry_condition_fn": _worth_another_try,
        "timeout_seconds": BACKSTOP * parameters.get("step_timeout", STEP_TIMEOUT),
    }


def _worth_another_try(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.result(raise_on_failure=False), MAY_PASS)


class _Redacting(logging.Filter):
    """Redacts message and trace of each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), ()
        if record.exc_info and isinstance(record.exc_info[1], httpx.TransportError):
            record.exc_info = None  # a server that does not answer: where we asked says nothing
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = redacted(record.exc_text)
        return True


class _Once(logging.Filter):
    """Passes each message once."""

    def __init__(self) -> None:
        super().__init__()
        self._messages: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        is_new = record.getMessage() not in self._messages
        self._messages.add(record.getMessage())
        return is_new


def tame_logs() -> None:
    """Redact what Prefect's handlers print and send to the server, from now on, and tell of a
    server that is away once: it would be told of each event that does not reach it, and with
    another line all that is in the event."""
    logging.getLogger("prefect._internal.concurrency").disabled = True  # it knows no levels
    events = logging.getLogger("prefect.events.clients")
    if not any(isinstance(one, _Once) for one in events.filters):
        events.addFilter(_Once())
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
        tame_logs()
        with redacted_errors():
            return function(*args, **kwargs)

    return call


def tell_how_to_resume(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Log how to resume a run that failed, crashed or was cancelled.

    Nothing needs to be undone: a part is committed or it does not exist, so that the next run
    with the same parameters takes up where this one stopped. Cancelled runs call this in the
    process of their worker, so it relies on nothing but the run's parameters.
    """
    log = flow_run_logger(flow_run, flow)
    run = flow_run.parameters.get("run")
    if state.is_failed() and isinstance(state.result(raise_on_failure=False), InputError):
        log.error("Correct what the message names and run again.")
        return
    kept, command = redacted(str(run)), "run the same command again"
    if flow_run.deployment_id is not None:
        command = f"prefect flow-run retry {shlex.quote(str(flow_run.id))}"
    log.error("What is done is kept in %s. To go on from there: %s", kept, command)
