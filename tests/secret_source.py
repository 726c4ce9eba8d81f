"""A source behind a password, and where secrets of its address must not be."""

from __future__ import annotations

import base64
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD, OTHER, SIGNATURE = "hunter2pass", "tiger3pass", "5d0c1f5d0c1f"
SECRETS = (PASSWORD, OTHER, SIGNATURE)


class Handler(http.server.BaseHTTPRequestHandler):
    """Files of a folder for those who know a password, or have a signature."""

    def answer(self, body: bool) -> None:
        path, _, query = self.path.partition("?")
        sent = self.headers.get("Authorization", "").removeprefix("Basic ")
        _, _, password = base64.b64decode(sent).decode().partition(":")
        if password not in (PASSWORD, OTHER) and f"sig={SIGNATURE}" not in query:
            return self.send_error(401)
        file: Path = self.server.folder / path.strip("/")  # type: ignore[attr-defined]
        if not file.is_file():
            return self.send_error(404)
        content = file.read_bytes()
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(found[1]), int(found[2] or len(content))) if found else (0, len(content))
        self.send_response(206 if found else 200)
        part = content[first : last + 1]
        if found:
            end = first + len(part) - 1
            self.send_header("Content-Range", f"bytes {first}-{end}/{len(content)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if body:
            self.wfile.write(part)

    def do_GET(self) -> None:
        self.answer(True)

    def do_HEAD(self) -> None:
        self.answer(False)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def guarded(folder: Path) -> Iterator[str]:
    """Host and port of a server with the files of a folder."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.folder = folder  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def kept(folder: Path) -> list[str]:
    """Files that hold a secret in their bytes or their names."""
    return [
        str(file)
        for file in folder.rglob("*")
        if any(
            s in str(file) or (file.is_file() and s.encode() in file.read_bytes()) for s in SECRETS
        )
    ]


def check(capfd: pytest.CaptureFixture[str], folder: Path | None = None) -> str:
    """What was printed, in which no secret is; nor in a folder."""
    text = "".join(capfd.readouterr())
    assert not [secret for secret in SECRETS if secret in text], text
    if folder is not None:
        assert kept(folder) == []
    return text
