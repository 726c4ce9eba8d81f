"""What one part writes: looked at before it begins, and noted as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c

from storage.durable import sync
from storage.transient import stored

_AT_ONCE = 4
"""Files synced at once by one part."""

Digest = tuple[int, str]
"""(size in bytes, CRC-32C of all but the last four bytes and these four, in hex) of a file.

Stored chunks end with a CRC-32C of their own, and the CRC-32C of such a file is one and the same
whatever the chunk holds: over the whole file it could not tell a chunk from another of its size.
"""
_TAIL = 4


def digest_of(content: bytes) -> Digest:
    """The digest of a file by its content."""
    pieces = DigestOfPieces()
    pieces.update(content)
    return pieces.finish()


class DigestOfPieces:
    """The digest of a file that is read piece by piece."""

    def __init__(self) -> None:
        self._size, self._tail = 0, b""
        self._checksum = google_crc32c.Checksum()

    def update(self, piece: bytes) -> None:
        """Go on with the next bytes of the file."""
        self._size += len(piece)
        known = self._tail + piece
        self._checksum.update(known[:-_TAIL])
        self._tail = known[-_TAIL:]

    def finish(self) -> Digest:
        """The digest of all bytes there were."""
        return self._size, self._checksum.digest().hex() + self._tail.hex()


@dataclass(frozen=True)
class Writes:
    """The files that one part has written."""

    look: Callable[[], None]
    """Called before each group of writes; raises where the part may no longer write."""
    files: dict[str, Digest] = field(default_factory=dict)
    """Full path or URL of each file → digest of the bytes handed to the store."""
    syncing: list[Future[None]] = field(default_factory=list)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_AT_ONCE))

    def note(self, path: str, content: bytes) -> None:
        """Take note of one file, and sync it while the part writes the next."""
        self.files[path] = digest_of(content)
        if is_lasting(path):
            self.syncing.append(self.threads.submit(_sync, path))


def _sync(path: str) -> None:
    with stored(path):
        sync(Path(path))


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


def note(path: str, content: bytes) -> None:
    """Note one file as written with this content."""
    writes = _CURRENT.get()
    if writes is not None:
        writes.note(path, content)


def noting() -> bool:
    """Whether anybody wants to know what is written."""
    return _CURRENT.get() is not None
