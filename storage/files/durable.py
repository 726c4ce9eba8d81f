"""Files that survive a power cut and show damage: whole or not there, synced and in which order,
noted as a part writes them, sealed with a digest."""

import errno
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import google_crc32c
import numpy as np

from storage.errors import stored

_AT_ONCE = 8
"""Files synced at once: a disk takes them together."""
LACKING = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
"""Errors of file systems that have no links or locks, or cannot sync a folder."""


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they are found again."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        sync(one.parent)


@contextmanager
def whole(
    target: Path, *, synced: bool = True, publish: Callable[[Path, Path], None] = os.replace
) -> Iterator[IO[bytes]]:
    """A file to write that is there at once and whole, or not at all; the folders above are made.

    synced : its bytes and its name survive a power cut from then on
    publish : what gives the file its name; by default an older one is written over
    """
    make_folder(target.parent)
    staged = target.with_name(f".{target.name[:40]}.{uuid.uuid4().hex}")  # of any length
    try:
        with staged.open("wb") as sink:
            yield sink
        if synced:
            sync(staged)
        publish(staged, target)
    finally:
        staged.unlink(missing_ok=True)
    if synced:
        sync(target.parent)


def name_new(staged: Path, target: Path) -> None:
    """Give a file a name that none has, at once; `FileExistsError` where one has. On file systems
    without links (FAT, many mounts of object stores) an empty file is there for a moment before."""
    try:
        os.link(staged, target)
    except OSError as error:
        if error.errno not in LACKING:
            raise
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            os.replace(staged, target)
        except OSError:
            target.unlink()
            raise


def sync(path: str | Path) -> None:
    """Return when the bytes of a file, or the names in a folder, are on the disk; the latter where
    the file system can tell."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in LACKING or not os.path.isdir(path):
            raise
    finally:
        os.close(handle)


def sync_all(files: Sequence[str], but: Container[str], root: str) -> None:
    """Sync files below `root`, except for some, and then all the folders from theirs to `root`."""
    folders = {root} if files else set[str]()
    for above in files:
        while (above := os.path.dirname(above)) not in folders:
            folders.add(above)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(sync, (file for file in files if file not in but)))
        list(threads.map(sync, folders))


def append(file: Path, content: bytes) -> None:
    """Add to the end of a file in one write, on the disk when this returns.

    Several processes may add to one file, one after the other. OSError, and the file as it was,
    where the disk took only a part of it.
    """
    handle = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:  # one write is whole without it, too, but where the disk is full
            if error.errno not in LACKING:
                raise
        before = os.fstat(handle).st_size
        taken = os.write(handle, content)
        if taken < len(content):
            os.ftruncate(handle, before)
        os.fsync(handle)
    finally:
        os.close(handle)
    if taken < len(content):
        raise OSError(errno.ENOSPC, "the disk is full", str(file))


_PART_AT_ONCE = 4
"""Files synced at once by one part."""

Digest = tuple[int, str]
"""(size in bytes, CRC-32C of all but the last four bytes and these four, in hex) of a file.

Stored chunks end with a CRC-32C of their own, and the CRC-32C of such a file is one and the same
whatever the chunk holds: over the whole file it could not tell a chunk from another of its size.
"""
_TAIL = 4


def digest_of(pieces: Iterable[bytes | memoryview]) -> Digest:
    """The digest of a file by its content, piece by piece."""
    size, tail, checksum = 0, b"", google_crc32c.Checksum()
    for piece in pieces:
        size += len(piece)
        if len(piece) < _TAIL:
            tail += piece
            checksum.update(tail[:-_TAIL])
            tail = tail[-_TAIL:]
        else:
            content = np.frombuffer(piece, np.uint8)  # which is sliced without a copy
            checksum.update(tail)
            checksum.update(content[:-_TAIL])
            tail = content[-_TAIL:].tobytes()
    return size, checksum.digest().hex() + tail.hex()


@dataclass(frozen=True)
class Writes:
    """The files that one part has written."""

    look: Callable[[], None]
    """Called before each group of writes; raises where the part may no longer write."""
    files: dict[str, Digest] = field(default_factory=dict)
    """Full path or URL of each file → digest of the bytes handed to the store."""
    syncing: list[Future[None]] = field(default_factory=list)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_PART_AT_ONCE))

    def note(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Take note of one file, and sync it while the part writes the next."""
        self.files[path] = digest_of(pieces)
        if is_lasting(path):
            self.syncing.append(self.threads.submit(_sync, path))


def _sync(path: str) -> None:
    with stored(path):
        sync(path)


_CURRENT: ContextVar[Writes | None] = ContextVar("writes", default=None)


@contextmanager
def noted(look: Callable[[], None]) -> Iterator[Writes]:
    """Note all that this thread writes to the stores of runs meanwhile; it is synced afterwards."""
    writes = Writes(look)
    before = _CURRENT.set(writes)
    try:
        with writes.threads:
            yield writes
    finally:
        _CURRENT.reset(before)
    for done in writes.syncing:
        done.result()


def is_lasting(path: str) -> bool:
    """Whether a file is to survive a power cut: what the next step alone reads is made again."""
    return "://" not in path and "/scratch.zarr/" not in path


def look_before_writing() -> None:
    """Raise where a part is under way that may no longer write."""
    writes = _CURRENT.get()
    if writes is not None:
        writes.look()


def note(path: str, pieces: Iterable[bytes | memoryview]) -> None:
    """Note one file as written with this content."""
    writes = _CURRENT.get()
    if writes is not None:
        writes.note(path, pieces)


_DIGEST = "digest"


def seal(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    """An object as JSON, with its digest added as the field `digest`."""
    plain = json.loads(json.dumps(content))  # as it will be read
    return json.dumps({**plain, _DIGEST: _digest(plain)}, indent=indent, sort_keys=True).encode()


def unseal(content: bytes | None) -> dict[str, Any] | None:
    """The object without its digest; None where the file is absent, garbled or changed."""
    try:
        fields = parsed(content or b"")
        digest = fields.pop(_DIGEST)
        return fields if digest == _digest(fields) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _digest(plain: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16).hexdigest()


def parsed(content: bytes) -> Any:
    """The value of a JSON document; ValueError for whatever else the content may be."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
