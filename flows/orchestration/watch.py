"""A submitted run, followed to its end: its log, its states, and how it ended."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from shlex import quote
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.orchestration.submit import Submitted, described, unreachable
from storage.errors import ClusterError, InputError, KnnoiseError, StorageError, UnavailableError

PATIENCE = 120.0
"""Seconds for which a server that is watched may be away."""
IDLE = 30.0
"""Seconds after which it is told that no worker takes a run that is due."""
_PAUSE = 2.0
"""Seconds between two looks at a run, after whose end its last lines come as late."""
_LATE = 100
"""Lines that are looked through once more, as processes send theirs one after the other."""
_LOST = (httpx.HTTPError, ObjectNotFound)
"""What a server that goes away, or comes back empty, raises."""


def watch(submitted: Submitted) -> Submitted:
    """Follow a run to its end, its log on stderr; what `submit` returned, with the final state.

    Raises
    ------
    InputError, StorageError
        it ended with such an error.
    ClusterError
        it did not complete for another reason, or the server stayed away; the message says how it
        ended.
    """
    try:
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}):  # we ask again ourselves
            run = asyncio.run(_follow(UUID(submitted.id)))
    except _LOST as error:
        raise ClusterError(
            f"{unreachable(error)}; the run {submitted.name} may go on without it: "
            f"prefect flow-run watch {submitted.id}"
        ) from error
    ended = described(run, submitted.deployment)
    if run.state is None or not run.state.is_completed():
        why = f": {ended.message.rstrip('.')}" if ended.message else ""  # not where people end it
        raise _kind(ended.message)(f"run {run.name} ended {run.state_name}{why}; see {ended.url}")
    return ended


def _kind(message: str | None) -> type[KnnoiseError]:
    """The error that ended a run, by the words of its last state."""
    named = re.search(r"exception: (?:\w+\.)*(\w+):", message or "")
    kinds = {kind.__name__: kind for kind in (InputError, StorageError, UnavailableError)}
    return kinds.get(named[1] if named else "", ClusterError)


async def _follow(run_id: UUID) -> FlowRun:
    """Log and changes of state, until the run is over.

    They are asked for now and then: of a stream of logs servers have none unless they are set to.
    Raises what is `_LOST` if the server is away for `PATIENCE`, or refuses.
    """
    heard, idle, over = time.monotonic(), False, False
    shown: set[UUID] = set()
    while True:
        try:
            async with get_client() as client:
                run = await client.read_flow_run(run_id)
                if not idle and (idle := _is_idle(run)):
                    print(await _why(client, run), file=sys.stderr)
                while await _tell(client, run_id, shown):
                    pass
            heard = time.monotonic()
            if over:
                return run
            over = run.state is not None and run.state.is_final()
        except _LOST as error:
            answer = getattr(error, "response", None)
            refused = answer is not None and answer.is_client_error
            if refused or time.monotonic() - heard > PATIENCE:
                raise
            print("the Prefect server does not answer; trying again", file=sys.stderr)
        await asyncio.sleep(_PAUSE)


def _is_idle(run: FlowRun) -> bool:
    """Whether the run should have begun a while ago."""
    waits = run.state is not None and run.state.is_scheduled()
    return waits and run.estimated_start_time_delta.total_seconds() > IDLE


async def _why(client: PrefectClient, run: FlowRun) -> str:
    """Why a run does not begin, and what to do."""
    if run.state_name == "AwaitingConcurrencySlot":
        return "another run of the deployment is under way; this one begins when that has ended"
    pool, queue = run.work_pool_name, run.work_queue_name
    if pool is None or queue is None:
        return "the run's work pool is gone: make it again, deploy, and submit again"
    if (await client.read_work_pool(pool)).is_paused:
        return f"the work pool is paused: prefect work-pool resume {quote(pool)}"
    if (await client.read_work_queue_by_name(queue, pool)).is_paused:
        return (
            "the work queue is paused: "
            f"prefect work-queue resume {quote(queue)} --pool {quote(pool)}"
        )
    return f"no worker takes the run; start one: prefect worker start --pool {quote(pool)}"


async def _tell(client: PrefectClient, run_id: UUID, shown: set[UUID]) -> bool:
    """Show the states and lines of a run that are new; whether there were any."""
    states = await client.read_flow_run_states(run_id)
    of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id]))
    lines = await client.read_logs(of_run, offset=max(0, len(shown) - _LATE))
    news = [(state.timestamp, state.id, state.name) for state in states]
    news += [(line.timestamp, line.id, line.message) for line in lines]
    news = [one for one in news if one[1] not in shown]
    for when, which, text in sorted(news):
        print(f"{when:%H:%M:%S}  {text}", file=sys.stderr)
        shown.add(which)
    return bool(news)
