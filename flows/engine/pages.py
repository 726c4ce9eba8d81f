"""The pages of a local cluster's scheduler, for those who know their address.

Dask's pages have no password. They show tasks, logs and stacks, and relay requests to workers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from distributed import node
from distributed.http.routing import RoutingApplication
from tornado.web import ErrorHandler


class _Private(RoutingApplication):  # type: ignore[misc]
    """Answers only below `path`: Dask's own list of pages would tell where they are."""

    def __init__(self, *args: Any, path: str) -> None:
        super().__init__(*args)
        self._path = path

    def find_handler(self, request: Any, **more: Any) -> Any:
        if request.path.startswith(f"{self._path}/"):
            return super().find_handler(request, **more)
        return self.get_handler_delegate(request, ErrorHandler, {"status_code": 404})


@contextmanager
def private_pages() -> Iterator[str]:
    """A path that nobody can guess, below which a scheduler started meanwhile has its pages."""
    path = f"/{secrets.token_urlsafe(16)}"
    before = node.RoutingApplication
    node.RoutingApplication = partial(_Private, path=path)
    try:
        yield path
    finally:
        node.RoutingApplication = before
