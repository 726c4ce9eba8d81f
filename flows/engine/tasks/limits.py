"""How often and how long Prefect tries a step."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State, TaskRun
from prefect.context import FlowRunContext
from prefect.tasks import Task, exponential_backoff

from flows.options.params import STEP_TIMEOUT
from storage.errors import StepTimeoutError, StorageError

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
