"""A flow called by name: on the Prefect server that is configured; as a plain function where none
is, and no server is started."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from flows.engine.spared import check_addresses, check_counts, started
from flows.engine.tasks import server_configured
from flows.options import params as models
from storage.errors import ClusterError
from storage.redaction import entrust

_UNREACHED = "Failed to reach API"
"""What Prefect says of a server that is away as a flow begins."""


def call(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """The report of the flow `name`, by its keywords.

    Raises `storage.errors.KnnoiseError` with a message for people.
    """
    getattr(models, f"{name.capitalize()}Params").of(**params)  # refused before slow imports
    check_addresses()
    check_counts()
    module = import_module(f"flows.{name}")
    started()
    run: Callable[..., dict[str, Any]]
    if not server_configured():
        run = getattr(module, f"run_{name}")
        return run(**params)
    import httpx
    from prefect.task_engine import TaskRunTimeoutError

    run = getattr(module, name)
    # The server keeps the parameters of its runs.
    params = {key: entrust(v) if isinstance(v, str) else v for key, v in params.items()}
    try:
        return run(**params)
    except TaskRunTimeoutError as error:
        raise ClusterError(
            f"a step took too long ({error}); what is done is kept: run again to resume"
        ) from error
    except (httpx.HTTPError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith(_UNREACHED):
            raise
        raise ClusterError(
            f"the Prefect server does not answer ({error}); what is done is kept: run again to "
            "resume, or without PREFECT_API_URL"
        ) from error
