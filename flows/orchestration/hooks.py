"""What a Prefect run says when it ended otherwise than well: what is kept, and how to go on."""

from __future__ import annotations

import shlex
from typing import Any

from prefect import Flow, State
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import flow_run_logger

from storage.errors import InputError
from storage.redaction import redacted


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
    kept = redacted(str(run))
    log.error("What is done is kept in %s. To go on from there: %s", kept, command(flow_run))


def command(flow_run: FlowRun) -> str:
    """The command that resumes a flow run."""
    if flow_run.deployment_id is None:
        return "run the same command again"
    return f"prefect flow-run retry {shlex.quote(str(flow_run.id))}"
