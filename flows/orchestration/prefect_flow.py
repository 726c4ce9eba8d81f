"""The Prefect flow of a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flows.options.extras import needs

if TYPE_CHECKING:
    from prefect import Flow


def as_flow(function: Callable[..., dict[str, Any]], name: str) -> Flow[..., dict[str, Any]]:
    """A flow of one of our functions; it checks its parameters itself, as the command line does.

    Raises `MissingExtra` where Prefect is not installed.
    """
    needs("prefect", f"the Prefect flow {name}")
    from prefect import flow

    from flows.engine.tasks.private_logs import private
    from flows.orchestration.hooks import tell_how_to_resume

    return flow(
        name=name,
        persist_result=False,
        validate_parameters=False,
        on_failure=[tell_how_to_resume],
        on_crashed=[tell_how_to_resume],
        on_cancellation=[tell_how_to_resume],
    )(private(function))
