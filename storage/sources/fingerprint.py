"""Has a file changed since it was read? Sizes and times first, digests where these differ."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from storage.errors import InputError
from storage.sources.paths import SourcePath, readable
from storage.transient import patiently

T = TypeVar("T")
Parts = tuple["SourceFile", ...]

YOUNG_SECONDS = 2.0
"""Age below which a file may change again without another time: clocks of file systems tick."""
_TIMES = ("mtime_ns", "ctime_ns", "tag")


@dataclass(frozen=True)
class SourceFile:
    """One file whose bytes belong to a source."""

    role: str
    """`features` or `labels`."""
    name: str
    """Path relative to the source, so that a moved source is the same source."""
    location: SourcePath
    known: dict[str, Any] | None = None
    """Its description when it was read as a whole; None for what is read again and again."""

    def describe(self, with_digest: bool) -> dict[str, Any]:
        """`role`, `name`, `size`, times or `tag`, and `digest` if asked for; beside a digest no
        times of a young file, whose content tells."""
        entry = self.known or {"role": self.role, "name": self.name, **patiently(self._stamp)}
        if with_digest and self.known is None:
            young = entry.get("ctime_ns", 0) > time.time_ns() - YOUNG_SECONDS * 1e9
            kept = {key: value for key, value in entry.items() if not (young and key in _TIMES)}
            return {**kept, "digest": self.digest()}
        return entry

    def _stamp(self) -> dict[str, Any]:
        with readable(self.location.name):
            return self.location.stamp()

    def digest(self) -> str:
        """blake2b of the bytes, 16 bytes as hexadecimal, streamed."""
        return patiently(self._digest)

    def _digest(self) -> str:
        with readable(self.location.name), self.location.open() as file:
            hashed = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))  # type: ignore[arg-type]
            return hashed.hexdigest()


def read_once(parts: Parts, read: Callable[[], T]) -> tuple[Parts, T]:
    """What a call reads of some files as a whole, and these with the description of what was read,
    whatever becomes of them afterwards.

    Raises `InputError` where they are written meanwhile.
    """
    with unwritten(parts):
        described = tuple(replace(part, known=part.describe(with_digest=True)) for part in parts)
        return described, read()


@contextmanager
def unwritten(parts: Parts) -> Iterator[None]:
    """Raise `InputError` where files that are read meanwhile are written; what their halves look
    like to a reader is no error of theirs."""
    before = [part.describe(with_digest=False) for part in parts]
    try:
        yield
    except InputError:
        _check(parts, before)
        raise
    _check(parts, before)


def _check(parts: Parts, before: list[dict[str, Any]]) -> None:
    for part, old in zip(parts, before, strict=True):
        if part.describe(with_digest=False) != old:
            raise InputError(
                f"{part.location.name} was written while it was read; run again when it is complete"
            )


def changed(old: dict[str, Any], part: SourceFile) -> str | None:
    """None if one file is what `old` describes, else a sentence naming the difference."""
    new = part.describe(with_digest=False)
    if new["size"] != old["size"]:
        return f"{part.name} has {new['size']:,} bytes, it had {old['size']:,}"
    stamps = [key for key in _TIMES if key in new and key in old]
    if stamps and all(new[key] == old[key] for key in stamps):
        return None
    if "digest" not in old:
        return f"{part.name} was written again since, and its content was not recorded"
    if (part.known or {"digest": part.digest()})["digest"] != old["digest"]:
        return f"{part.name} has other content than before (same size, other bytes)"
    return None
