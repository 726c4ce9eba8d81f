"""A run submitted to a Prefect deployment, its id and links; and followed to its end: its log, its
states, and how it ended."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.schemas.objects import FlowRun, Log
from prefect.deployments import arun_deployment
from prefect.events.subscribers import FlowRunSubscriber
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL
from prefect.utilities.urls import url_for
from websockets.exceptions import WebSocketException

from flows.engine.tasks import server_configured
from flows.orchestration.run_folders import dated
from storage.errors import ClusterError, InputError, KnnoiseError, StorageError, UnavailableError
from storage.redaction import secrets_of

DEPLOYMENTS = {"train": "knnoise-train/weekly", "score": "knnoise-score/nightly"}
"""Where a flow is submitted to unless a deployment is named; of deploy/prefect.yaml."""
PATIENCE = 120.0
"""Seconds for which a server that is watched may be away."""
_PAUSE = 5.0
_SOON = 0.5
"""Seconds between two looks at a run: as a rule, and when its stream told of its end."""
_LOST = (httpx.HTTPError, OSError, WebSocketException, ObjectNotFound)
"""What a server that goes away, or comes back empty, raises."""


@dataclass(frozen=True)
class Submitted:
    """A flow run of a deployment, as the server last described it."""

    id: str
    name: str
    deployment: str
    state: str | None
    message: str | None
    parameters: dict[str, Any]
    """JSON values, as the server holds them."""
    url: str | None
    """Its page."""
    api_url: str | None
    """Its record."""

    def as_json(self) -> dict[str, Any]:
        """What `submit --json` prints."""
        return asdict(self)


def submit(flow: str, parameters: Mapping[str, Any], deployment: str | None = None) -> Submitted:
    """Submit a run, for a worker to pick up.

    Parameters
    ----------
    flow : train or score
    parameters : of the flow; those not given are the deployment's
    deployment : name of the deployment, or FLOW/NAME; None for that of `DEPLOYMENTS`

    Raises `InputError` where no server is configured, it has no such deployment, or it refuses a
    parameter; or an address in a parameter holds a password; `ClusterError` where the server does
    not answer.
    """
    for parameter, value in parameters.items():
        if isinstance(value, str) and secrets_of(value):
            raise InputError(
                f"{parameter} {value}: the server would keep the password or signature in it; give "
                "it to the worker, by its environment or fsspec's configuration"
            )
    dated(parameters.get("run", ""))  # as the worker will refuse it
    name = DEPLOYMENTS[flow]
    if deployment is not None:
        name = deployment if "/" in deployment else f"knnoise-{flow}/{deployment}"
    if not server_configured():
        raise InputError(
            "no Prefect server is configured; set PREFECT_API_URL (docs/use/operations.md says how)"
        )
    try:
        run = asyncio.run(_submit(name, dict(parameters)))
    except ObjectNotFound as error:
        raise InputError(
            f"no deployment {name} on {PREFECT_API_URL.value()}; deploy it with "
            "prefect deploy --prefect-file deploy/prefect.yaml"
        ) from error
    except PrefectHTTPStatusError as error:
        raise InputError(f"{name}: refused: {_reason(error.response)}") from error
    except httpx.HTTPError as error:
        raise unreachable(error) from error
    return described(run, name)


async def _submit(name: str, parameters: dict[str, Any]) -> FlowRun:
    async with get_client() as client:
        deployment = await client.read_deployment_by_name(name)
    known = (deployment.parameter_openapi_schema or {}).get("properties", {})
    unknown = sorted(set(parameters) - set(known))  # which the server would let through
    if unknown:
        raise InputError(f"{name} has no parameter {', '.join(unknown)}")
    return await arun_deployment(deployment.id, parameters=parameters, timeout=0, as_subflow=False)


def described(run: FlowRun, deployment: str) -> Submitted:
    """A run of a deployment, as its server tells of it."""
    return Submitted(
        id=str(run.id),
        name=run.name,
        deployment=deployment,
        state=run.state_name,
        message=run.state.message if run.state else None,
        parameters=run.parameters,
        url=url_for(run),
        api_url=url_for(run, url_type="api"),
    )


def _reason(response: httpx.Response) -> str:
    """Why the server refused."""
    if response.status_code in (401, 403):
        return "the server wants credentials; set PREFECT_API_AUTH_STRING"
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}"


def unreachable(error: Exception) -> ClusterError:
    """What people are told of a server that does not answer."""
    return ClusterError(f"no Prefect server answers at {PREFECT_API_URL.value()}: {error}")


def submit_text(run: Submitted) -> str:
    """What was submitted, as a person reads it."""
    return (
        f"{run.deployment}: run {run.name}, {run.state}\n"
        f"  id    {run.id}\n"
        f"  page  {run.url}\n"
        f"  watch it: prefect flow-run watch {run.id}\n"
    )


def watch(submitted: Submitted) -> Submitted:
    """Follow a run to its end, its log on stderr; what `submit` returned, with the final state.

    Raises `InputError` or `StorageError` where it ended with such an error; `ClusterError` where it
    did not complete for another reason, or the server stayed away; the message says how it ended.
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
    heard = time.monotonic()
    try:
        while True:
            try:
                async with get_client() as client:
                    run = await client.read_flow_run(run_id)
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
