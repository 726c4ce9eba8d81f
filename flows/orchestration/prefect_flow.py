"""The plain function of a command that computes, and the Prefect flow of it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from flows.engine.cluster import check_reachable
from flows.engine.spared import refuse_while_imported
from flows.options.extras import needs
from flows.options.params import Compute, as_keywords

if TYPE_CHECKING:
    from prefect import Flow

    Made = Flow[..., dict[str, Any]]

C = TypeVar("C", bound=Compute)
_RAISES = """

Raises:
    storage.errors.KnnoiseError: InputError, StorageError or ClusterError, each with a message
        for people.
"""


def computes(
    model: type[C], name: str
) -> Callable[[Callable[[C], dict[str, Any]]], Callable[..., dict[str, Any]]]:
    """`as_keywords` of a function that computes; it begins with what no run may begin without, and
    its docstring says what it raises."""

    def decorate(function: Callable[[C], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        @functools.wraps(function)
        def begun(params: C) -> dict[str, Any]:
            refuse_while_imported()
            check_reachable(params)
            return function(params)

        begun.__doc__ = inspect.cleandoc(function.__doc__ or "") + _RAISES
        return as_keywords(model, name)(begun)

    return decorate


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

        from flows.engine.under_prefect import private, tell_how_to_resume

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
