"""An object store: moto's server, and the runs of a bench in it."""

from __future__ import annotations

import os
import socket
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from processes import running, wait_for

from faults import conduct, damage
from faults.bench import Bench
from faults.families import Case, operations

BUCKET = "s3://knnoise-faults"


@contextmanager
def served() -> Iterator[None]:
    """A server of S3 that the environment of this process and of its children names."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = Path(tempfile.mkdtemp()) / "moto.log"
    with running("-m", "moto.server", "-H", "127.0.0.1", "-p", port, log=log):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _answers(url), 120, every=0.2)
        os.environ.update(
            AWS_ENDPOINT_URL=url,
            AWS_ACCESS_KEY_ID="testing",
            AWS_SECRET_ACCESS_KEY="testing",
            AWS_DEFAULT_REGION="us-east-1",
        )
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()  # of tests that had no credentials
        s3fs.S3FileSystem().mkdir(BUCKET)
        yield


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/moto-api/data.json", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def every(bench: Bench) -> list[Case]:
    """All that may go wrong with a folder on a disk, and the object store's own."""
    return [
        replace(
            case,
            family=f"S3: {case.family.partition(' at ')[0]}",
            name=f"S3:{case.name}",
            bench="S3",
            seconds=90.0,
        )
        for case in (*operations(bench), *conduct.every(bench), *damage.every(bench))
    ]


def installed() -> bool:
    """Whether the packages are there that this takes."""
    from importlib.util import find_spec

    return all(find_spec(name) for name in ("s3fs", "moto", "flask"))
