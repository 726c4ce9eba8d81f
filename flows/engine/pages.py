"""The pages of a local cluster's scheduler, for those who know their address.

Dask's pages have no password. They show tasks, logs and stacks, and relay requests to workers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from distributed import node
from distributed.http.routing import RoutingApplication
from tornado.web import ErrorHandler

PATH = f"/{secrets.token_urlsafe(16)}"
"""Where schedulers of this process have their pages; nobody can guess it."""


class _Private(RoutingApplication):  # type: ignore[misc]
    """Answers only below `PATH`: Dask's own list of pages would tell where they are."""

    def find_handler(self, request: Any, **more: Any) -> Any:
        if request.path.startswith(f"{PATH}/"):
            return super().find_handler(request, **more)
        return self.get_handler_delegate(request, ErrorHandler, {"status_code": 404})


def private() -> Callable[[], object]:
    """Let schedulers that are started from now on have their pages below `PATH` alone; what takes
    that back."""
    before, node.RoutingApplication = node.RoutingApplication, _Private
    return partial(setattr, node, "RoutingApplication", before)
