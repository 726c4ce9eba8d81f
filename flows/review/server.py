"""The page of a review, served from this process for as long as it is wanted: loopback only, and
only below a path that nobody can guess."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import sys
import threading
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field

from flows.options.params import Paged
from flows.report.rows import IMAGES, is_url
from flows.review.desk import Desk, Filters, pairs
from flows.review.source import Exhibit
from storage.errors import InputError, KnnoiseError, StorageError

HERE = Path(__file__).parent / "page"
SCRIPTS = ("main.js", "card.js", "desk.js")
PORTS = range(20_000, 30_000)
MOST_BYTES = 1 << 16
"""Of what a page sends."""
NO_TOKEN = "this page is opened by the address that was printed last, with its token"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GivenAnswer(_Body):
    """An answer as the page sends it."""

    id: str = Field(min_length=8, max_length=64)
    row: int
    label: int | None
    reviewer: str = Field(min_length=1, max_length=80)
    group: bool = False


class Undone(_Body):
    """The answer that is taken back."""

    id: str = Field(min_length=1, max_length=64)
    reviewer: str = Field(min_length=1, max_length=80)


def listening(port: int, run: str = "") -> socket.socket:
    """A socket on this host alone; `InputError` where the port is taken.

    Port 0 takes one that goes with the name of the run, else a free one: what a browser keeps, it
    keeps by port, and a page opened again should find it.
    """
    own = [PORTS.start + zlib.crc32(os.fsencode(run)) % len(PORTS)] if run else []
    for tried in [port] if port else [*own, 0]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", tried))
            listener.listen()  # whoever comes before the server is ready waits
        except OSError as error:
            listener.close()
            reason = error.strerror
        else:
            return listener
    raise InputError(f"--port {port}: cannot be used ({reason}); give another, or none")


def application(desk: Desk, exhibit: Exhibit, about: dict[str, Any], token: str) -> FastAPI:
    """The page and its interface, below `/token/`; `about` the run."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(_routes(desk, exhibit, about), prefix=f"/{token}")
    pictures = "data: blob:"
    if exhibit.shown is not None and is_url(exhibit.shown.root):
        pictures += " " + "/".join(exhibit.shown.root.split("/")[:3])
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        f"img-src 'self' {pictures}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    @app.middleware("http")
    async def guard(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        """Refuse whoever has no token, or comes from another page by a name of its own."""
        host = request.headers.get("host", "").rsplit(":", 1)[0]
        origin = request.headers.get("origin")
        parts = request.url.path.split("/", 2)
        known = len(parts) == 3 and secrets.compare_digest(parts[1].encode(), token.encode())
        own = host in ("127.0.0.1", "localhost")
        same = origin in (None, f"http://{request.headers.get('host', '')}")
        length = request.headers.get("content-length", "0")
        if "transfer-encoding" in request.headers or int(length) > MOST_BYTES:
            return PlainTextResponse(
                f"at most {MOST_BYTES:,} bytes, of a length that is said\n", 413
            )
        if not (known and own and same):
            return PlainTextResponse(f"{NO_TOKEN}\n", 403)
        response = await call(request)
        response.headers.update(
            {
                "Content-Security-Policy": policy,
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
            }
        )
        return response

    @app.exception_handler(KnnoiseError)
    async def failed(request: Request, error: KnnoiseError) -> Response:
        return JSONResponse({"error": str(error)}, 422 if isinstance(error, InputError) else 500)

    @app.exception_handler(RequestValidationError)
    async def unusable(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "request"
        return JSONResponse({"error": f"{where}: {first['msg']}"}, 422)

    return app


def _routes(desk: Desk, exhibit: Exhibit, about: dict[str, Any]) -> APIRouter:
    routes = APIRouter()
    pages = Environment(
        loader=PackageLoader("flows.review", "page"), autoescape=True, undefined=StrictUndefined
    )
    base = Path(__file__).parents[1] / "report/page/templates/style.css"
    style = base.read_text() + (HERE / "review.css").read_text()
    config = {
        **about,
        "labels": [str(label) for label in desk.labels],
        "features": exhibit.names,
        "columns": exhibit.columns,
        "watched": exhibit.source is not None,
        "pairs": pairs(desk.queue),
        "optional": desk.optional,
    }

    @routes.get("/")
    def page() -> Response:
        shown = pages.get_template("review.html").render(config=config, about=about)
        return HTMLResponse(shown.encode(errors="backslashreplace"))

    @routes.get("/review.css")
    def stylesheet() -> Response:
        return Response(style, media_type="text/css")

    @routes.get("/{script}.js")
    def script(script: str) -> Response:
        if f"{script}.js" not in SCRIPTS:
            return PlainTextResponse("no such file\n", 404)
        return FileResponse(HERE / f"{script}.js", media_type="text/javascript")

    @routes.get("/api/next")
    def following(
        tab: Annotated[str, Query(min_length=1, max_length=64)],
        filters: Annotated[Filters, Depends()],
        n: Annotated[int, Query(ge=1, le=48)] = 1,
        known: Annotated[str, Query(max_length=4000, pattern=r"^[0-9 ]*$")] = "",
    ) -> dict[str, Any]:
        here = {int(row) for row in known.split()}
        return {"cards": _with_content(desk.next(n, tab, filters, here))}

    def _with_content(cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = [card["row"] for card in cards]
        others = [row for card in cards for row in card["alike"]]
        near = [one["row"] for card in cards for one in card["neighbors"]]
        as_images = exhibit.features.shape is not None
        content = exhibit.of(list(dict.fromkeys([*near, *others])), with_features=as_images)
        content |= exhibit.of(rows, with_features=True)
        for card in cards:
            card["content"] = content[card["row"]]
            card["alike"] = [{"row": row, "content": content[row]} for row in card["alike"]]
            for one in card["neighbors"]:
                one["content"] = content[one["row"]]
        return cards

    @routes.post("/api/answer")
    def answer(given: GivenAnswer) -> dict[str, Any]:
        kept = desk.answer(given.id, given.row, given.label, given.reviewer, given.group)
        return {"kept": kept, **desk.state(given.reviewer)}

    @routes.post("/api/undo")
    def undo(undone: Undone) -> dict[str, Any]:
        card = desk.undo(undone.id)
        cards = _with_content([card] if card else [])
        return {"cards": cards, **desk.state(undone.reviewer)}

    @routes.post("/api/leave")
    def leave(tab: Annotated[str, Query(min_length=1, max_length=64)]) -> dict[str, Any]:
        desk.leave(tab)
        return {}

    @routes.get("/api/state")
    def state(reviewer: str = "") -> dict[str, Any]:
        return desk.state(reviewer)

    @routes.get("/api/source")
    def source() -> dict[str, Any]:
        if exhibit.source is None:
            return {"columns": exhibit.columns, "trouble": ""}
        exhibit.source.look()
        return {"columns": exhibit.columns, "trouble": exhibit.source.trouble}

    @routes.get("/api/row/{row}")
    def again(row: int) -> dict[str, Any]:
        return {"cards": _with_content([desk.card_of(row)])}

    @routes.get("/api/content/{row}")
    def content(row: int) -> dict[str, Any]:
        if row not in desk:
            raise InputError(f"row {row} is on no page of this review; reload the page")
        return exhibit.of([row], with_features=True)[row]

    @routes.get("/image/{row}")
    def image(row: int) -> Response:
        path = exhibit.shown.file(row) if exhibit.shown is not None else None
        if path is None:
            return PlainTextResponse("no image of this row\n", 404)
        return FileResponse(path, media_type=IMAGES[path.suffix.lower()])

    return routes


class Page:
    """The page of a desk, below a path that nobody can guess; its address is printed.

    Raises `InputError` where the port is taken.
    """

    def __init__(self, exhibit: Exhibit, desk: Desk, params: Paged) -> None:
        token, run = secrets.token_urlsafe(16), exhibit.features.run
        config = run.config()
        about: dict[str, Any] = {
            "run": run.location.name.rsplit("/", 1)[-1],
            "label_name": config["label_name"] or "label",
            "id_name": config.get("id_name"),
            "reviewer": params.reviewer or _user(),
            "answers": str(desk.file.path),
        }
        app = application(desk, exhibit, about, token)
        self._listener = listening(params.port, run.location.url)
        # A lifespan would print a traceback at a second Ctrl-C.
        how: dict[str, Any] = {"log_level": "warning", "access_log": False, "lifespan": "off"}
        self._server = uvicorn.Server(uvicorn.Config(app, **how))
        self._thread: threading.Thread | None = None
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/{token}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._listener.close()

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
