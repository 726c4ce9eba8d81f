"""Steps as Prefect tasks where a flow run is under way, as plain calls elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flows.engine.tasks.context import flow_run_context

T = TypeVar("T")


def as_task(name: str, call: Callable[[], T]) -> T:
    """One Prefect task for a step; without a flow run just the call.

    The call takes no arguments: Prefect looks into arguments, and a job is not for it to look into.
    """
    if flow_run_context() is None:
        return call()
    from prefect import task
    from prefect.cache_policies import NO_CACHE

    from flows.engine.tasks.limits import step_limits
    from flows.engine.tasks.private_logs import redacted_errors

    def redacted() -> T:
        with redacted_errors():
            return call()

    step = task(name=name, cache_policy=NO_CACHE, persist_result=False, **step_limits())(redacted)
    return step()
