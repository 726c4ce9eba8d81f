"""An object store: rclone's server, and the runs of a bench in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.object_store import rclone, store
from faults import conduct, damage
from faults.bench import Bench
from faults.families import Case, operations

BUCKET = "s3://knnoise-faults"


@contextmanager
def served() -> Iterator[None]:
    """A server of S3 that the environment of this process and of its children names."""
    with tempfile.TemporaryDirectory() as folder, store(Path(folder)):
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()  # of tests that had no credentials
        s3fs.S3FileSystem().mkdir(BUCKET)
        yield
        s3fs.S3FileSystem.clear_instance_cache()  # whose server is gone


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

    return find_spec("s3fs") is not None and rclone() is not None
