"""Files that survive a power cut: what is synced, and in which order."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_AT_ONCE = 8
"""Files synced at once: a disk takes them together."""


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
    staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
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


def sync(path: Path) -> None:
    """Return when the bytes of a file, or the names in a folder, are on the disk."""
    if os.name != "posix" and path.is_dir():
        return  # Windows syncs no folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(files: Sequence[str], but: Container[str], root: Path) -> None:
    """Sync files, except for some, and then the folders they are all in, up to and with `root`."""
    parents = {parent for file in files for parent in Path(file).parents}
    folders = [folder for folder in parents if folder == root or root in folder.parents]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(sync, (Path(file) for file in files if file not in but)))
        list(threads.map(sync, folders))


def append(file: Path, content: bytes) -> None:
    """Add to the end of a file in one write, on the disk when this returns.

    Several processes may add to one file: the system keeps their writes apart. OSError where the
    disk took only a part of it.
    """
    handle = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        taken = os.write(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)
    if taken < len(content):
        raise OSError(errno.ENOSPC, "the disk is full", str(file))
