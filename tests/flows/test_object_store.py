"""A run in an object store: rclone's server, as S3."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from faults import s3
from runs import PoolWriter, fit

from flows.acquire import run_acquire
from storage.arrays.exchange import Exchange, Slice
from storage.errors import InputError, StorageError
from storage.export import write_bytes
from storage.files.location import Location
from storage.runs.run import Run

pytestmark = pytest.mark.skipif(not s3.installed(), reason="needs knnoise[faults]")


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    before = dict(os.environ)
    with s3.served():
        yield
    os.environ.clear()
    os.environ.update(before)


def test_files_in_pieces_and_their_bytes() -> None:
    location = Location.of(f"{s3.BUCKET}/files")
    content = bytes(range(256)) * 100_000  # beyond what a store takes at once
    location.write("a", [content[:7], memoryview(content)[7:], b""])
    assert location.read("a") == content
    assert location.read("a", 100, 20_000) == content[100:20_000]
    assert location.read("a", len(content) - 3, len(content) + 9) == content[-3:]
    assert location.read("a", len(content) + 5, len(content) + 9) == b""
    assert location.read("b", 0, 9) is None
    location.write("c", [content])
    assert location.digest("a") == location.digest("c")


def test_a_bucket_that_is_not_there_is_not_made() -> None:
    with pytest.raises(StorageError, match=r"^s3://nowhere/scores\.csv: cannot be .*bucket"):
        write_bytes("s3://nowhere/scores.csv", b"row")
    with pytest.raises(StorageError, match=r"bucket does not exist\); mend that, or name another"):
        Location.of("s3://nowhere/run").create("lease", b"")
    write_bytes(f"{s3.BUCKET}/new/folder/scores.csv", b"row")
    assert Location.of(f"{s3.BUCKET}/new/folder").read("scores.csv") == b"row"
    with pytest.raises(InputError, match="labels that are bought are kept on this host"):
        run_acquire("pool.npz", f"{s3.BUCKET}/bought", budget=5)


def test_a_training_and_what_is_said_of_a_run_cut_short(pool: PoolWriter) -> None:
    run = Run.of(f"{s3.BUCKET}/run")
    report = fit(pool(), run.location.url, block_rows=300)
    assert report["n_blocks"] > 1
    route, rows = Exchange(run.location, "route"), report["n_rows"]
    assert len(route.receive([Slice("rows-000000", 0, rows)])["row"]) == rows
    assert len(route.receive([Slice("rows-000000", rows, rows)])["row"]) == 0
    key = route.key("rows-000000")
    content = run.location.read(key)
    assert content is not None
    for kept in (0, 3, 50, len(content) - 9):
        run.location.replace(key, content[:kept])
        with pytest.raises(StorageError, match=r"route/rows-000000\.run: damaged .* repair"):
            route.receive([Slice("rows-000000", 0, rows)])
