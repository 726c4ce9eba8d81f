"""Sources behind HTTP: with and without ranges, and with signed addresses."""

from __future__ import annotations

import gzip
import http.server
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from http_files import FilesHandler

from storage import errors
from storage.errors import InputError, UnavailableError
from storage.sources.opening import open_source

pytest.importorskip("aiohttp")

X = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 1, 0, 1])
SIGNED = "X-Amz-Signature=5d0c1f&X-Amz-Expires=60"


class Handler(FilesHandler):
    """Files of a dict; whether ranges are served, and whether every GET must be signed."""

    server: Server

    def answer(self, body: bool) -> None:
        path, _, query = self.path.partition("?")
        content = self.server.files.get(path.strip("/"))
        if self.server.signed and (query != SIGNED or not body):  # a signature is of one method
            return self.send_error(403)
        if content is None:
            return self.send_error(404)
        return self.send_content(content, body, self.server.ranges, self.server.sized)


class Server(http.server.ThreadingHTTPServer):
    files: dict[str, bytes]
    ranges = sized = True
    signed = False


def contents() -> dict[str, bytes]:
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y})
    text = "a,b,c,y\n" + "".join(f"{a},{b},{c},{y}\n" for (a, b, c), y in zip(X, Y, strict=True))
    npz, npy, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(npz, X=X, y=Y)
    np.save(npy, X)
    pq.write_table(table, parquet)
    return {
        "t.csv": text.encode(),
        "t.tsv": text.replace(",", "\t").encode(),
        "t.csv.gz": gzip.compress(text.encode()),
        "t.npz": npz.getvalue(),
        "x.npy": npy.getvalue(),
        "t.parquet": parquet.getvalue(),
    }


def large_npz() -> bytes:
    """One whose end is not read with its beginning."""
    npz = io.BytesIO()
    np.savez(npz, X=np.random.default_rng(0).normal(size=(4000, 3)), y=np.arange(4000) % 2)
    return npz.getvalue()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as found:
        found.files = contents()
        thread = threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield found
        found.shutdown()


def url(server: Server, name: str, query: str = "") -> str:
    host, port = server.server_address[:2]
    return f"http://{host!s}:{port}/{name}" + (f"?{query}" if query else "")


def options(name: str) -> dict[str, Any]:
    return {"with_labels": False} if name == "x.npy" else {"label_column": "y"}


@pytest.mark.parametrize("name", sorted(contents()))
@pytest.mark.parametrize("signed", [False, True])
def test_ranges(server: Server, name: str, signed: bool) -> None:
    server.signed = signed
    query = SIGNED if signed else ""
    source = open_source(url(server, name, query), **options(name))
    (chunk,) = source.chunks(9)
    np.testing.assert_array_equal(chunk.x, X)
    assert [part.name for part in source.parts] == [name]


def test_labels_at_a_signed_address(server: Server, tmp_path: Path) -> None:
    server.signed = True
    server.files["y.txt"] = b"0\n1\n0\n1\n"
    np.save(tmp_path / "x.npy", X)
    source = open_source(tmp_path / "x.npy", labels=url(server, "y.txt", SIGNED))
    (chunk,) = source.chunks(9)
    assert chunk.label is not None
    assert chunk.label.tolist() == Y.tolist()
    assert source.label_name == "y.txt"


def test_a_question_mark_in_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.npy?b.csv").write_text("a,y\n1,0\n2,1\n")
    assert open_source(tmp_path / "a.npy?b.csv", label_column="y").kind == "csv"


@pytest.mark.parametrize("name", ["t.npz", "x.npy", "t.parquet", "t.csv", "t.csv.gz"])
@pytest.mark.parametrize("sized", [True, False])
def test_no_ranges(server: Server, name: str, sized: bool) -> None:
    server.ranges, server.sized = False, sized
    if "csv" in name and sized:
        (chunk,) = open_source(url(server, name), **options(name)).chunks(9)
        np.testing.assert_array_equal(chunk.x, X)
        return
    server.files["t.npz"] = large_npz()
    with pytest.raises(InputError, match="download it") as caught:
        list(open_source(url(server, name), **options(name)).chunks(9))
    assert len(str(caught.value).splitlines()) == 1


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "FIRST_WAIT", 0.0)
    with pytest.raises(UnavailableError) as caught:
        open_source("http://127.0.0.1:9/t.csv", label_column="y")
    assert "no such file" not in str(caught.value)
    assert "127.0.0.1:9" in str(caught.value)
    assert "Connect" in str(caught.value)


def test_a_file_that_is_not_there(server: Server) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source(url(server, "none.csv"), label_column="y")
