"""A source behind a password, and where secrets of its address must not be."""

from __future__ import annotations

import base64
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from http_files import FilesHandler

PASSWORD, OTHER, SIGNATURE = "hunter2pass", "tiger3pass", "5d0c1f5d0c1f"
SECRETS = (PASSWORD, OTHER, SIGNATURE)


class GuardedFiles(FilesHandler):
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
        return self.send_content(file.read_bytes(), body)


@contextmanager
def guarded(folder: Path) -> Iterator[str]:
    """Host and port of a server with the files of a folder."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), GuardedFiles) as server:
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
