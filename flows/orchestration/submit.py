"""Submit a run to a Prefect deployment; the run's id and links."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from glob import has_magic
from os.path import exists
from posixpath import basename
from typing import Any

import httpx
from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL
from prefect.utilities.urls import url_for

from flows.engine.tasks import server_configured
from flows.orchestration.run_folders import dated
from storage.errors import ClusterError, InputError
from storage.redaction import secrets_of

DEPLOYMENTS = {"train": "knnoise-train/weekly", "score": "knnoise-score/nightly"}
"""Where a flow is submitted to unless a deployment is named; of deploy/prefect.yaml."""


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


def submit(flow: str, parameters: Mapping[str, Any], deployment: str | None = None) -> Submitted:
    """Submit a run, for a worker to pick up.

    Parameters
    ----------
    flow : train or score
    parameters : of the flow; those not given are the deployment's
    deployment : name of the deployment, or FLOW/NAME; None for that of `DEPLOYMENTS`

    Raises
    ------
    InputError
        no server is configured, it has no such deployment, or one of the other flow, or it refuses
        a parameter; or an address in a parameter holds a password.
    ClusterError
        the server does not answer.
    """
    for parameter, value in parameters.items():
        if isinstance(value, str) and secrets_of(value):
            raise InputError(
                f"{parameter} {value}: the server would keep the password or signature in it; give "
                "it to the worker, by its environment or fsspec's configuration"
            )
    if "run" in parameters:  # as the worker will refuse it
        run = dated(parameters["run"])
        if flow == "train" and has_magic(basename(run)) and not exists(run):
            raise InputError(f"run {run}: *, ? and [ stand for patterns of runs; name one folder")
    name = DEPLOYMENTS[flow]
    if deployment is not None:
        name = deployment if "/" in deployment else f"knnoise-{flow}/{deployment}"
        for other in DEPLOYMENTS:
            if other != flow and name.startswith(f"knnoise-{other}/"):
                raise InputError(f"{name}: is a deployment of {other}, and this submits {flow}")
    if not server_configured():
        raise InputError(
            "no Prefect server is configured; set PREFECT_API_URL (docs/use/operations.md says how)"
        )
    try:
        submitted = asyncio.run(_submit(name, dict(parameters)))
    except ObjectNotFound as error:
        raise InputError(
            f"no deployment {name} on {PREFECT_API_URL.value()}; deploy it with "
            "prefect deploy --prefect-file deploy/prefect.yaml"
        ) from error
    except PrefectHTTPStatusError as error:
        raise InputError(f"{name}: refused: {_reason(error.response)}") from error
    except httpx.HTTPError as error:
        raise unreachable(error) from error
    return described(submitted, name)


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
    return (
        f"{run.deployment}: run {run.name}, {run.state}\n"
        f"  id    {run.id}\n"
        f"  page  {run.url}\n"
        f"  watch it: prefect flow-run watch {run.id}\n"
    )
