"""Nobody but the process that started a local cluster can talk to it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from distributed import Client
from planted import plant
from processes import running
from runs import PoolWriter

from flows.engine.cluster import Workers
from flows.engine.progress import Reporter
from flows.options.params import Compute

STRANGER = """
import asyncio, os, sys
from distributed import Security
from distributed.core import connect

kinds = (Security(), Security.temporary())
NOBODY = 65534
if os.getuid() == 0:  # a user of the host who is not the one of the cluster
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)

async def knock(address, security):
    try:
        args = security.get_connection_args("client")
        comm = await connect(address, timeout=5, **args)
        await comm.write({"op": "identity", "reply": True})
        return f"let in {address}: {await asyncio.wait_for(comm.read(), 5)}"
    except Exception as error:
        return f"refused {address}: {type(error).__name__}"

async def main():
    tries = [
        knock(address, security)
        for security in kinds
        for address in sys.argv[1:]
        if address.startswith("tcp") or security.tls_ca_file
    ]
    print(f"user {os.getuid()}", *await asyncio.gather(*tries), sep="\\n")

asyncio.run(main())
"""
PAGES = ("", "status", "health", "metrics", "sitemap.json", "info/main/workers.html", "statics")
PAGES += (
    "json/counts.json",
    "individual-plots.json",
    "api/v1",
    "graph",
    "statics/images/favicon.ico",
)


@pytest.fixture
def before() -> set[int]:
    """Ports of what other tests have started in this process."""
    return listening()


@pytest.fixture
def workers(before: set[int]) -> Iterator[Workers]:
    opened = Workers(Compute(workers=1), Reporter(quiet=True))
    try:
        yield opened
    finally:
        opened.close()


def client_of(workers: Workers) -> Client:
    client = workers.client()
    assert client is not None
    return client


def listening() -> set[int]:
    """Ports that this process and its children listen at."""
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    found = psutil.net_connections("tcp")
    return {c.laddr.port for c in found if c.pid in ours and c.status == psutil.CONN_LISTEN}


def test_others_reach_neither_scheduler_nor_workers_nor_pages(
    before: set[int], workers: Workers, tmp_path: Path
) -> None:
    """Every port is tried without a certificate and with one of the stranger's own."""
    client = client_of(workers)
    assert client.submit(os.getpid).result() != os.getpid()
    opened = listening() - before
    pages = {port for port in opened if speaks_http(port)}
    ports = opened - pages
    assert (len(ports), len(pages)) >= (3, 2)  # scheduler, nanny, worker; pages of two of them
    addresses = [f"{scheme}://127.0.0.1:{port}" for port in ports for scheme in ("tcp", "tls")]
    (tmp_path / "stranger.py").write_text(STRANGER)
    done = subprocess.run(
        [sys.executable, tmp_path / "stranger.py", *addresses],
        capture_output=True,
        text=True,
        check=True,
    )
    user, *told = done.stdout.splitlines()
    assert re.fullmatch("user [1-9][0-9]*", user)
    assert len(told) == len(addresses) + len(ports)
    assert all(line.startswith("refused") for line in told), done.stdout
    shown = [page for port in pages for page in PAGES if answers(f"http://127.0.0.1:{port}/{page}")]
    assert set(shown) <= {"sitemap.json"}, shown
    with urllib.request.urlopen(client.dashboard_link, timeout=30) as answer:
        assert b"docs_json" in answer.read()


def answers(url: str) -> bool:
    """Whether a page is there; a list of pages tells of no others."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.read() == b'{"paths": ["/sitemap.json"]}'
    except urllib.error.HTTPError:
        return False
    return True


def speaks_http(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        try:
            return connection.recv(4) == b"HTTP"
        except OSError:
            return False


def test_no_key_is_left_on_disk(workers: Workers) -> None:
    client_of(workers)
    folders = Path(tempfile.gettempdir()).glob("knnoise-*")  # others' may go while they are read
    files = [name for folder in folders for _, _, names in os.walk(folder) for name in names]
    assert [name for name in files if name.endswith(".pem")] == []


def test_nothing_is_imported_from_a_shared_folder_of_temporary_files(
    pool: PoolWriter, tmp_path: Path
) -> None:
    """Dask puts its scratch folder, of a name that everybody knows, first on the path."""
    temporary = Path(tempfile.mkdtemp(dir="/tmp"))  # the path of a socket must be short
    shared = temporary / "dask-scratch-space"
    shared.mkdir()
    mark = plant(shared)
    args = ("train", pool(), "--run", tmp_path / "run", "--k", 10, "--workers", 1)
    env = {**os.environ, "TMPDIR": str(temporary)}
    log = tmp_path / "log.txt"
    with running("-m", "flows.cli", *args, log=log, env=env) as process:
        assert process.wait(240) == 0, log.read_text()
    assert not mark.exists(), mark.read_text()
    left = [file.name for file in temporary.iterdir()]
    shutil.rmtree(temporary)
    assert [name for name in left if not re.match("dask-scratch-space|pymp-", name)] == []


def test_the_folder_of_temporary_files_is_closed_to_others(workers: Workers) -> None:
    folder = Path(client_of(workers).run(tempfile_of_worker).popitem()[1])
    base = next(p for p in folder.parents if p.name.startswith("knnoise-"))
    assert base.stat().st_mode & 0o077 == 0
    assert pwd.getpwuid(base.stat().st_uid).pw_uid == os.getuid()


def tempfile_of_worker(dask_worker: object) -> str:
    return str(dask_worker.local_directory)  # type: ignore[attr-defined]
