"""Steps as Prefect tasks where a flow run is under way, as plain calls elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL

from flows.limits import step_limits

T = TypeVar("T")


def server_configured() -> bool:
    """True where the environment or a profile names a Prefect server."""
    return bool(PREFECT_API_URL.value())


def as_task(name: str, call: Callable[[], T]) -> T:
    """One Prefect task for a step; without a flow run just the call.

    The call takes no arguments: Prefect looks into arguments, and a job is not for it to look into.
    """
    if FlowRunContext.get() is None:
        return call()
    step = task(name=name, cache_policy=NO_CACHE, persist_result=False, **step_limits())(call)
    return step()
