"""Folders on disk and in an object store: atomic creation, and missing chunks as errors."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import google_crc32c
import numpy as np
import pytest
import zarr

from storage.arrays.groups import array, create_group, read_array, write_group
from storage.errors import StorageError
from storage.files.durable import append, digest_of
from storage.files.location import Location


def refusing(error: int) -> Callable[..., None]:
    """A call of the system that fails."""

    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    return refuse


def poor(monkeypatch: pytest.MonkeyPatch, link_error: int = errno.EPERM) -> None:
    """A file system without links, as FAT and mounts of object stores, or locks, as some of a
    cluster's, that syncs no folders, as shares of Windows."""

    def sync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            refusing(errno.EINVAL)()

    monkeypatch.setattr(os, "link", refusing(link_error))
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOSYS))
    monkeypatch.setattr(os, "fsync", sync)


@pytest.fixture(params=["disk", "poor", "memory"])
def location(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Location]:
    if request.param != "memory":
        if request.param == "poor":
            poor(monkeypatch)
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


def test_other_errors_of_links_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poor(monkeypatch, errno.EIO)
    with pytest.raises(StorageError, match="Input/output error"):
        Location.of(tmp_path).create("a/b.json", b"first")
    assert os.listdir(tmp_path / "a") == []


def test_a_name_that_was_taken_in_vain_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refusing(errno.ENOSPC))
        with pytest.raises(StorageError, match="No space left"):
            Location.of(tmp_path).create("a.json", b"first")
    assert Location.of(tmp_path).create("a.json", b"second")


@pytest.mark.parametrize("call", ["fsync", "flock"])
def test_other_errors_of_the_disk_are_told(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").touch()
    monkeypatch.setattr(os if call == "fsync" else fcntl, call, refusing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        append(tmp_path / "a.jsonl", b"first\n")


def test_answers_are_kept_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poor(monkeypatch)
    (tmp_path / "a.jsonl").touch()
    append(tmp_path / "a.jsonl", b"first\n")
    append(tmp_path / "a.jsonl", b"second\n")
    assert (tmp_path / "a.jsonl").read_bytes() == b"first\nsecond\n"


def test_a_file_that_cannot_be_synced_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", refusing(errno.EINVAL))
    with pytest.raises(StorageError, match="Invalid argument"):
        Location.of(tmp_path).replace("a.json", b"first")


def test_a_store_needs_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poor(monkeypatch)
    store = Location.of(tmp_path).zarr_store("s.zarr")
    group = zarr.open_group(store, mode="a", path="above/below", zarr_format=3)
    group.create_array("x", data=np.arange(3))
    assert sorted(zarr.open_group(store, mode="r")["above"].group_keys()) == ["below"]
    assert [file for file in Location.of(tmp_path).files("") if "partial" in file] == []


def test_one_of_many_racing_creators_wins(location: Location) -> None:
    contents = [bytes([i]) * 100_000 for i in range(8)]
    for attempt in range(30):
        key = f"record-{attempt}"
        start = Barrier(8)

        def create(content: bytes, key: str = key, start: Barrier = start) -> bool:
            start.wait()
            return location.create(key, content)

        with ThreadPoolExecutor(8) as threads:
            won = list(threads.map(create, contents))
        assert sum(won) == 1
        assert location.read(key) == contents[won.index(True)]


def test_reader_never_sees_half_a_file(location: Location) -> None:
    contents = [bytes([i]) * 300_000 for i in range(2)]
    location.replace("file", contents[0])
    done = Event()

    def write() -> None:
        for i in range(100):
            location.replace("file", contents[i % 2])
        done.set()

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        while not done.is_set():
            assert location.read("file") in contents
        writing.result()


def test_file_urls_are_local_paths(tmp_path: Path) -> None:
    assert Location.of(f"file://{tmp_path}/a/") == Location.of(tmp_path / "a")


def test_replace_read_remove(location: Location) -> None:
    assert location.read("x") is None
    assert location.digest("x") is None
    location.replace("x", b"one")
    location.replace("x", b"three")
    assert location.digest("x") == (5, f"{google_crc32c.value(b't'):08x}{b'hree'.hex()}")
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
    group, _ = create_group(store, "g", "bounds", {"row": 4}, rows_per_chunk=4)
    array(group, "bound")[...] = np.full(4, np.nan)
    assert location.exists("data.zarr/g/bound/c/0")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("left", [None, "", '{"sha', "{}"])
def test_metadata_that_a_power_cut_took_are_written_again(tmp_path: Path, left: str | None) -> None:
    """Chunks stay, and nobody is told."""
    store, path = Location.of(tmp_path).zarr_store("data.zarr"), ("g", "bounds", {"row": 4})
    create_group(store, *path, rows_per_chunk=4)[1]["bound"][...] = np.arange(4.0)
    metadata = tmp_path / "data.zarr/g/bound/zarr.json"
    metadata.unlink() if left is None else metadata.write_text(left)
    _, arrays = create_group(store, *path, rows_per_chunk=4)
    assert np.array_equal(arrays["bound"][:], np.arange(4.0))


def test_flipped_bit_is_an_error(tmp_path: Path) -> None:
    location = Location.of(tmp_path)
    store = location.zarr_store("data.zarr")
    write_group(store, "g", "bounds", {"bound": np.random.default_rng(0).random(999)})
    chunk = tmp_path / "data.zarr/g/bound/c/0"
    content = bytearray(chunk.read_bytes())
    content[500] ^= 4
    chunk.write_bytes(content)
    with pytest.raises(StorageError, match="damaged"):
        read_array(zarr.open_group(store, path="g", mode="r"), "bound")


def test_failed_write_leaves_nothing_to_list(tmp_path: Path) -> None:
    location = Location.of(tmp_path)
    location.create("record", b"x")
    location.create("record", b"y")
    assert [file.name for file in tmp_path.iterdir()] == ["record"]


def test_staged_leftovers_are_not_listed(tmp_path: Path) -> None:
    location = Location.of(tmp_path)
    location.create("a/file", b"x")
    (tmp_path / "a" / ".file.123").write_bytes(b"half")
    assert location.files("") == ["a/file"]


def test_files_are_those_below_the_folder_alone(location: Location) -> None:
    for key in ("a/x", "a/b/y", "ab/z", "a.json"):
        location.create(key, b"")
    assert location.files("a") == ["a/b/y", "a/x"]
    assert location.files("a/x") == ["a/x"]
    assert location.files("nothing") == []


def test_folder_is_no_file(location: Location) -> None:
    location.create("a/x", b"")
    assert location.read("a") is None
    assert location.digest("a") is None
    assert location.read("a/x/below") is None


def test_folder_is_removed_with_all_below(location: Location) -> None:
    for key in ("a/x", "a/b/y", "c"):
        location.create(key, b"")
    location.remove("a")
    location.remove("a")
    assert location.files("") == ["c"]


def test_relative_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("run") == Location.of(tmp_path / "run")


@pytest.mark.parametrize(
    "root",
    [
        "disk",
        "memory",
    ],
)
def test_brackets_in_a_folder_name_are_no_pattern(tmp_path: Path, root: str) -> None:
    """`run[1]` as a pattern means `run1`."""
    base = str(tmp_path) if root == "disk" else "memory://location-test/patterns"
    mine, other = Location.of(f"{base}/run[1]"), Location.of(f"{base}/run1")
    for location in (mine, other):
        location.replace("x", b"")
    mine.remove("x")
    assert (mine.exists("x"), other.exists("x")) == (False, True)


def test_missing_description_is_no_chunk(location: Location) -> None:
    """Only chunks are missed: Zarr asks for metadata that need not be there."""
    with pytest.raises(FileNotFoundError):
        zarr.open_group(location.zarr_store("nothing.zarr"), mode="r")


def test_read_only_store_refuses_writes(location: Location) -> None:
    write_group(location.zarr_store("data.zarr"), "g", "bounds", {"bound": np.arange(9.0)})
    group = zarr.open_group(location.zarr_store("data.zarr", read_only=True), path="g", mode="r")
    with pytest.raises(ValueError, match="read-only"):
        array(group, "bound")[...] = 0


WRITING = {
    "replace": lambda folder: folder.replace("a/0", b"x"),
    "append": lambda folder: folder.append("a/0", b"x"),
    "set": lambda folder: write_group(folder.zarr_store(""), "g", "bounds", {"bound": BOUND}),
}
READING = {
    "read": lambda folder: folder.read("a/0"),
    "digest": lambda folder: folder.digest("a/0"),
    "get": lambda folder: read_array(zarr.open_group(folder.zarr_store(""), path="g"), "bound"),
}
BOUND = np.arange(9.0)


@pytest.mark.parametrize("what", ["folder", "pipe"])
@pytest.mark.parametrize("use", [*WRITING, *READING])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path, what: str, use: str) -> None:
    folder, path = Location.of(tmp_path), tmp_path / "a/0"
    write_group(folder.zarr_store(""), "g", "bounds", {"bound": BOUND})
    if use in ("get", "set"):
        path = tmp_path / "g/bound/c/0"
        path.unlink()
    path.mkdir(parents=True) if what == "folder" else path.parent.mkdir(exist_ok=True)
    if what == "folder":
        (path / "file").write_text("")
    else:
        os.mkfifo(path)
    if what == "folder" and use in READING:  # is damaged, and written anew
        if use != "get":
            assert READING[use](folder) is None
        return
    said = "a folder, no file" if what == "folder" else "no regular file"
    with pytest.raises(StorageError, match=f"^{path} is {said}; remove it and run again$"):
        (WRITING | READING)[use](folder)
    assert not [*path.parent.glob(".*")]


def test_large_file_is_checked_in_pieces(tmp_path: Path) -> None:
    """One Parquet file of a large run does not fit into memory."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(200 << 20)
    tracemalloc.start()
    size, checksum = Location.of(tmp_path).digest("large") or (0, "")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 200 << 20
    assert peak < 64 << 20
    assert checksum == digest_of([bytes(200 << 20)])[1]


def test_digests_tell_chunks_that_end_with_their_own_checksum_apart(tmp_path: Path) -> None:
    """The CRC-32C of a file that ends with its CRC-32C is a constant."""
    location = Location.of(tmp_path)
    chunks = [part + google_crc32c.value(part).to_bytes(4, "little") for part in (b"one", b"two")]
    assert len({google_crc32c.value(chunk) for chunk in chunks}) == 1
    for key, chunk in zip("ab", chunks, strict=True):
        location.replace(key, chunk)
    assert location.digest("a") != location.digest("b")
    pieces = (chunks[0][at : at + 1] for at in range(len(chunks[0])))
    assert digest_of(pieces) == location.digest("a") == digest_of(chunks[:1])
