"""A page on which people label rows, served from this process for as long as it is wanted."""

from __future__ import annotations

import getpass
import os
import secrets
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from flows.options.params import Paged
from pipeline.arrays import Int64
from storage.errors import InputError, StorageError
from storage.runs.run import Run

if TYPE_CHECKING:
    import uvicorn

    from flows.review.desk import Desk
    from flows.review.server import Exhibit
    from flows.review.source import SourceTable


@dataclass(frozen=True)
class PageRows:
    """The rows that a page shows."""

    run: Run
    """Its pool holds their features."""
    feature_names: list[str]
    n_rows: int
    label_name: str
    id_name: str | None = None
    source: SourceTable | None = None
    """Shows them where nobody asks for something else."""
    place: dict[int, int] | None = None
    """Where each row that is shown lies in the pool, if it is not numbered as in the source"""


class Page:
    """The page of a desk, below a path that nobody can guess; its address is printed.

    Raises `InputError` where the rows cannot be shown as asked, or the port is taken.
    """

    def __init__(self, rows: PageRows, desk: Desk, params: Paged) -> None:
        import uvicorn

        from flows.review.server import About, application, listening

        token = secrets.token_urlsafe(16)
        about: About = {
            "run": rows.run.location.name.rsplit("/", 1)[-1],
            "label_name": rows.label_name,
            "id_name": rows.id_name,
            "reviewer": params.reviewer or _user(),
            "answers": str(desk.file.path),
            "n_rows": rows.n_rows,
        }
        exhibit = exhibit_of(rows, params)
        self._shown = exhibit.given
        app = application(desk, exhibit, about, token)
        self._listener = listening(params.port, rows.run.location.url)
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


def exhibit_of(rows: PageRows, params: Paged) -> Exhibit:
    """What is shown of rows; `InputError` where they cannot be shown as asked."""
    from flows.report.rows import Features, shown_of
    from flows.review.server import Exhibit

    names, shape = rows.feature_names, None
    if params.image_shape is not None:
        height, width = map(int, params.image_shape.split("x"))
        if height * width != len(names):
            raise InputError(
                f"--image-shape {params.image_shape}: {height * width:,} pixels, rows have "
                f"{len(names):,} features"
            )
        shape = height, width
    shown = shown_of(rows.run, rows.n_rows, params.show, params.show_column, params.image_root)
    return Exhibit(Features(rows.run, rows.place, shape), names, shown, rows.source)
