"""Submit a run to a Prefect deployment; the run's id and links, and how it ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
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

from flows.tasks import server_configured
from storage.errors import ClusterError, InputError

DEPLOYMENTS = {"train": "knnoise-train/weekly", "score": "knnoise-score/nightly"}
"""Where a flow is submitted to unless a deployment is named; of deploy/prefect.yaml."""


def submit(
    flow: str, parameters: Mapping[str, Any], deployment: str | None = None
) -> dict[str, Any]:
    """Submit a run, for a worker to pick up.

    Parameters
    ----------
    flow : train or score
    parameters : of the flow; those not given are the deployment's
    deployment : name of the deployment, or FLOW/NAME; None for that of `DEPLOYMENTS`

    Returns
    -------
    id and name of the flow run, its state, the deployment, the parameters of the run, and links:
    `url` of its page, `api_url` of its record

    Raises
    ------
    InputError
        no server is configured, it has no such deployment, or it refuses a parameter.
    ClusterError
        the server does not answer.
    """
    name = DEPLOYMENTS[flow]
    if deployment is not None:
        name = deployment if "/" in deployment else f"knnoise-{flow}/{deployment}"
    if not server_configured():
        raise InputError(
            "no Prefect server is configured; set PREFECT_API_URL (docs/operations.md says how)"
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
        raise _unreachable(error) from error
    return describe(run, name)


async def _submit(name: str, parameters: dict[str, Any]) -> FlowRun:
    async with get_client() as client:
        deployment = await client.read_deployment_by_name(name)
    known = (deployment.parameter_openapi_schema or {}).get("properties", {})
    unknown = sorted(set(parameters) - set(known))  # which the server would let through
    if unknown:
        raise InputError(f"{name} has no parameter {', '.join(unknown)}")
    return await arun_deployment(deployment.id, parameters=parameters, timeout=0, as_subflow=False)


def describe(run: FlowRun, deployment: str) -> dict[str, Any]:
    """A flow run as JSON."""
    return {
        "id": str(run.id),
        "name": run.name,
        "deployment": deployment,
        "state": run.state_name,
        "message": run.state.message if run.state else None,
        "parameters": run.parameters,
        "url": url_for(run),
        "api_url": url_for(run, url_type="api"),
    }


def watch(submitted: Mapping[str, Any]) -> dict[str, Any]:
    """Follow a run to its end, its log on stderr; what `submit` returned, with the final state.

    Raises
    ------
    ClusterError
        it did not complete, or the server went away; the message says how it ended.
    """
    try:
        run = asyncio.run(_follow(UUID(submitted["id"])))
    except (httpx.HTTPError, OSError) as error:
        raise _unreachable(error) from error
    ended = describe(run, submitted["deployment"])
    if run.state is None or not run.state.is_completed():
        raise ClusterError(
            f"run {run.name} ended {run.state_name}: {ended['message']}; see {ended['url']}"
        )
    return ended


async def _follow(run_id: UUID) -> FlowRun:
    """Log and changes of state, until the run is over; a stream that breaks is opened again."""
    while True:
        async with FlowRunSubscriber(flow_run_id=run_id) as stream:
            async for item in stream:
                _show(item)
        async with get_client() as client:
            run = await client.read_flow_run(run_id)
        if run.state is not None and run.state.is_final():
            return run


def _show(item: Any) -> None:
    if isinstance(item, Log):
        print(f"{item.timestamp:%H:%M:%S}  {item.message}", file=sys.stderr)
        return
    about, state = item.event.rsplit(".", 1)
    if about == "prefect.flow-run" and state.istitle():  # heartbeats and the like are not states
        print(f"{item.occurred:%H:%M:%S}  {state}", file=sys.stderr)


def _reason(response: httpx.Response) -> str:
    """Why the server refused."""
    if response.status_code in (401, 403):
        return "the server wants credentials; set PREFECT_API_AUTH_STRING"
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}"


def _unreachable(error: Exception) -> ClusterError:
    return ClusterError(f"no Prefect server answers at {PREFECT_API_URL.value()}: {error}")


def submit_text(run: Mapping[str, Any]) -> str:
    """What was submitted, as a person reads it."""
    return (
        f"{run['deployment']}: run {run['name']}, {run['state']}\n"
        f"  id    {run['id']}\n"
        f"  page  {run['url']}\n"
        f"  watch it: prefect flow-run watch {run['id']}\n"
    )
