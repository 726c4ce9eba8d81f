"""A page on which people label rows, served from this process for as long as it is wanted."""

from __future__ import annotations

import getpass
import os
import secrets
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from flows.options.params import Paged
from flows.review.desk import Desk
from flows.review.source import Exhibit
from pipeline.arrays import Int64
from storage.errors import StorageError

if TYPE_CHECKING:
    import uvicorn


class Page:
    """The page of a desk, below a path that nobody can guess; its address is printed.

    Raises `InputError` where the port is taken.
    """

    def __init__(self, exhibit: Exhibit, desk: Desk, params: Paged) -> None:
        import uvicorn

        from flows.review.server import About, application, listening

        token, run = secrets.token_urlsafe(16), exhibit.features.run
        config, origin = run.config(), desk.file.answers.origin
        assert origin is not None
        about: About = {
            "run": run.location.name.rsplit("/", 1)[-1],
            "label_name": config["label_name"] or "label",
            "id_name": config.get("id_name"),
            "reviewer": params.reviewer or _user(),
            "answers": str(desk.file.path),
            "n_rows": origin.n_rows,
        }
        self._shown = exhibit.given
        app = application(desk, exhibit, about, token)
        self._listener = listening(params.port, run.location.url)
        self._server: uvicorn.Server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", access_log=False)
        )
        self._thread: threading.Thread | None = None
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/{token}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._listener.close()

    def show(self, rows: Int64) -> None:
        """Read what a file has of rows that are about to be asked for, and of their neighbors.

        rows : (any,) -1 in empty places. Raises `InputError` where the file is not as it should be.
        """
        if self._shown is not None:
            self._shown.read(rows[rows >= 0])

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        self._announce()
        with suppress(KeyboardInterrupt):  # the way a review ends
            self._server.run([self._listener])

    def start(self) -> None:
        """Serve beside what this process does."""
        work = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread = work
        self._announce()
        work.start()

    def _announce(self) -> None:
        print(f"review: {self.url}  (Ctrl-C ends it)", file=sys.stderr, flush=True)

    def check(self) -> None:
        """Raise `StorageError` where the page started has ended."""
        if self._thread is not None and not self._thread.is_alive():
            raise StorageError("the page has ended; what was answered is kept: run again to resume")


def _user() -> str:
    """Who is logged in; a container may know the number alone."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
