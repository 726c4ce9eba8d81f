"""Folders on disk and in an object store: atomic creation, and missing chunks as errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import zarr

from storage.errors import StorageError
from storage.groups import array, create_group, read_array, write_group
from storage.location import Location


@pytest.fixture(params=["disk", "memory"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    if request.param == "disk":
        yield Location.of(tmp_path / "folder")
        return
    place = Location.of("memory://location-test/folder")
    yield place
    place.remove()


def test_create_is_exclusive_and_whole(location: Location) -> None:
    assert location.create("a/b.json", b"first")
    assert not location.create("a/b.json", b"second")
    assert location.read("a/b.json") == b"first"
    assert location.files("") == ["a/b.json"]


def test_one_of_many_racing_creators_wins(location: Location) -> None:
    contents = [bytes([i]) * 1000 for i in range(16)]
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda c: location.create("record", c), contents))
    assert sum(won) == 1
    assert location.read("record") == contents[won.index(True)]


def test_file_urls_are_local_paths(tmp_path: Path) -> None:
    assert Location.of(f"file://{tmp_path}/a/") == Location.of(tmp_path / "a")


def test_replace_read_remove(location: Location) -> None:
    assert location.read("x") is None
    assert location.digest("x") is None
    location.replace("x", b"one")
    location.replace("x", b"three")
    assert location.digest("x") == (5, f"{google_crc32c.value(b'three'):08x}")
    location.remove("x")
    assert not location.exists("x")


def test_missing_chunk_is_an_error_not_fill_values(location: Location) -> None:
    store = location.zarr_store("data.zarr")
    write_group(store, "g", "bounds", {"bound": np.arange(9.0)})
    group = zarr.open_group(store, path="g", mode="r")
    assert read_array(group, "bound").tolist() == list(range(9))
    location.remove("data.zarr/g/bound/c/0")
    with pytest.raises(StorageError, match="is missing"):
        read_array(group, "bound")


def test_chunk_of_fill_values_is_written_all_the_same(location: Location) -> None:
    store = location.zarr_store("data.zarr")
    group = create_group(store, "g", "bounds", {"row": 4}, rows_per_chunk=4)
    array(group, "bound")[...] = np.full(4, np.nan)
    assert location.exists("data.zarr/g/bound/c/0")


def test_flipped_bit_is_an_error(tmp_path: Path) -> None:
    location = Location.of(tmp_path)
    store = location.zarr_store("data.zarr")
    write_group(store, "g", "bounds", {"bound": np.random.default_rng(0).random(999)})
    chunk = tmp_path / "data.zarr/g/bound/c/0"
    content = bytearray(chunk.read_bytes())
    content[500] ^= 4
    chunk.write_bytes(content)
    with pytest.raises(StorageError, match="checksum"):
        read_array(zarr.open_group(store, path="g", mode="r"), "bound")
