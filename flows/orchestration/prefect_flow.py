"""The Prefect flow of a plain function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flows.options.extras import needs

if TYPE_CHECKING:
    from prefect import Flow

    Made = Flow[..., dict[str, Any]]


def flow_of(function: Callable[..., dict[str, Any]]) -> Callable[[str], Made]:
    """The `__getattr__` of the module of one of our functions: it makes the flow `knnoise-NAME` of
    the function when NAME is asked for, as a plain run does not wait for Prefect to be imported.

    The flow checks its parameters itself, as the command line does. Raises `MissingExtra` where
    Prefect is not installed.
    """
    name, module = function.__name__, function.__module__

    def made(wanted: str) -> Made:
        if wanted != name:
            raise AttributeError(f"module {module!r} has no attribute {wanted!r}")
        needs("prefect", f"the Prefect flow knnoise-{name}")
        from prefect import flow

        from flows.engine.tasks.private_logs import private
        from flows.orchestration.hooks import tell_how_to_resume

        one = flow(
            name=f"knnoise-{name}",
            persist_result=False,
            validate_parameters=False,
            on_failure=[tell_how_to_resume],
            on_crashed=[tell_how_to_resume],
            on_cancellation=[tell_how_to_resume],
        )(private(function))
        setattr(sys.modules[module], name, one)
        return one

    return made
