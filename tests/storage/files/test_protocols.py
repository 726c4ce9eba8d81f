"""Addresses reach fsspec only if their protocol is allowed."""

from __future__ import annotations

import fsspec
import pytest

from flows.orchestration.run_folders import dated, latest
from storage import InputError
from storage.export import read_schema, write_bytes
from storage.files.location import MORE, Location
from storage.sources.opening import list_sources, open_source

REFUSED = (
    "sftp://host/pool.csv",
    "ftp://host/pool.csv",
    "github://org:repo@main/pool.csv",
    "reference://pool.csv",
    "dask://host/pool.csv",
    "data:text/csv,a,y",
    "simplecache::s3://bucket/pool.csv",
    "simplecache::/data/pool.csv",
    "zip://pool.csv::file:///data/pool.zip",
    "filecache::memory://pool.csv",
    "S3://bucket/pool.csv",
)


@pytest.fixture(autouse=True)
def as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is allowed besides; whoever asks fsspec has lost."""

    def ask(*args: object, **more: object) -> None:
        raise AssertionError(f"fsspec was asked for {args}")

    monkeypatch.delenv(MORE, raising=False)
    monkeypatch.setattr(fsspec.core, "url_to_fs", ask)
    monkeypatch.setattr(fsspec, "open", ask)


@pytest.mark.parametrize("address", [*REFUSED, "memory://pool.csv"])
def test_other_protocols_are_refused_before_fsspec_is_asked(address: str) -> None:
    for use in (
        open_source,
        list_sources,
        Location.of,
        lambda url: latest(f"{url}*"),
        lambda url: write_bytes(url, b""),
        read_schema,
    ):
        with pytest.raises(InputError, match="is not allowed here") as error:
            use(address)
        assert MORE in str(error.value)


@pytest.mark.parametrize("address", ["http://host/run", "https://host/run"])
def test_http_is_only_read(address: str) -> None:
    with pytest.raises(InputError, match="is not allowed here"):
        Location.of(address)
    with pytest.raises(InputError, match="fsspec was asked"):
        open_source(f"{address}/pool.csv")


@pytest.mark.parametrize("address", ["s3://bucket/run", "abfs://c@a.host/run", "/data/run", "r"])
def test_stores_are_let_through(address: str) -> None:
    assert Location.of(address).url.endswith(address)


def test_configuration_adds_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MORE, "memory, simplecache")
    assert Location.of("memory://bucket/run").url == "memory://bucket/run"
    with pytest.raises(InputError, match="fsspec was asked"):
        open_source("simplecache::s3://bucket/pool.csv")
    with pytest.raises(InputError, match="sftp is not allowed"):
        open_source("simplecache::sftp://bucket/pool.csv")


@pytest.mark.parametrize(
    "run",
    [
        "runs/{date.__class__.__init__.__globals__}",
        "runs/{date.tzinfo}",
        "runs/{date!r}",
        "runs/{date[0]}",
        "runs/{date:{date}}",
        "runs/{date}",
        "runs/{date:%Y",
    ],
)
def test_names_of_runs_reach_no_attributes(run: str) -> None:
    with pytest.raises(InputError, match="write it as"):
        dated(run)


def test_names_of_runs_take_dates_and_leave_other_braces() -> None:
    assert len(dated("runs/{date:%Y-%m-%d}/{x}/{date:%H}")) == len("runs/2026-01-01/{x}/01")
