"""A submitted run, followed to its end: its log, its states, and how it ended."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from shlex import quote
from typing import Any
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, Log
from prefect.events.subscribers import FlowRunSubscriber
from prefect.exceptions import ObjectNotFound
from websockets.exceptions import WebSocketException

from flows.orchestration.submit import Submitted, described, unreachable
from storage.errors import ClusterError, InputError, KnnoiseError, StorageError, UnavailableError

PATIENCE = 120.0
"""Seconds for which a server that is watched may be away."""
IDLE = 30.0
"""Seconds after which it is told that no worker takes a run that is due."""
_PAUSE = 5.0
_SOON = 0.5
"""Seconds between two looks at a run: as a rule, and when its stream told of its end."""
_LOST = (httpx.HTTPError, OSError, WebSocketException, ObjectNotFound)
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
        run = asyncio.run(_follow(UUID(submitted.id)))
    except _LOST as error:
        raise ClusterError(
            f"{unreachable(error)}; the run {submitted.name} may go on without it: "
            f"prefect flow-run watch {submitted.id}"
        ) from error
    ended = described(run, submitted.deployment)
    if run.state is None or not run.state.is_completed():
        raise _kind(ended.message)(
            f"run {run.name} ended {run.state_name}: {ended.message}; see {ended.url}"
        )
    return ended


def _kind(message: str | None) -> type[KnnoiseError]:
    """The error that ended a run, by the words of its last state."""
    named = re.search(r"exception: (?:\w+\.)*(\w+):", message or "")
    kinds = {kind.__name__: kind for kind in (InputError, StorageError, UnavailableError)}
    return kinds.get(named[1] if named else "", ClusterError)


async def _follow(run_id: UUID) -> FlowRun:
    """Log and changes of state, until the run is over.

    The run is asked for beside the stream, which tells nothing of what happened while it was away.
    Raises what is `_LOST` if the server is away for `PATIENCE`, or refuses.
    """
    stories = asyncio.create_task(_tell(run_id))
    heard, idle = time.monotonic(), False
    try:
        while True:
            try:
                async with get_client() as client:
                    run = await client.read_flow_run(run_id)
                    if not idle and (idle := _is_idle(run)):
                        print(await _why(client, run), file=sys.stderr)
                heard = time.monotonic()
                if run.state is not None and run.state.is_final():
                    await asyncio.wait([stories], timeout=_PAUSE)  # its last lines
                    return run
            except _LOST as error:
                answer = getattr(error, "response", None)
                refused = answer is not None and answer.is_client_error
                if refused or time.monotonic() - heard > PATIENCE:
                    raise
                print("the Prefect server does not answer; trying again", file=sys.stderr)
            done, _ = await asyncio.wait([stories], timeout=_PAUSE)
            if done:
                stories.result()
                await asyncio.sleep(_SOON)
    finally:
        stories.cancel()


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


async def _tell(run_id: UUID) -> None:
    """Show what the server tells of a run, up to its end; a stream that breaks is opened again."""
    while True:
        try:
            async with FlowRunSubscriber(flow_run_id=run_id) as stream:
                async for item in stream:
                    _show(item)
            return
        except _LOST:
            await asyncio.sleep(_PAUSE)


def _show(item: Any) -> None:
    if isinstance(item, Log):
        print(f"{item.timestamp:%H:%M:%S}  {item.message}", file=sys.stderr)
        return
    about, state = item.event.rsplit(".", 1)
    if about == "prefect.flow-run" and state.istitle():  # heartbeats and the like are not states
        print(f"{item.occurred:%H:%M:%S}  {state}", file=sys.stderr)
