"""Has a source changed since it was read? Sizes and times first, digests where these differ."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from storage.errors import InputError
from storage.transient import patiently

from .paths import SourcePath, readable

if TYPE_CHECKING:
    from .base import Source

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
    with _unwritten(parts):
        described = tuple(replace(part, known=part.describe(with_digest=True)) for part in parts)
        return described, read()


@contextmanager
def unchanged(recorded: dict[str, Any], source: "Source") -> Iterator[None]:
    """Raise `InputError` where a source that is read meanwhile is not what was `recorded`, or is
    written: what was read would be neither the one nor the other."""
    with _unwritten(source.parts):
        yield
        difference = same(recorded, source)
    if difference:
        raise InputError(f"{difference}: it was written since; run again")


@contextmanager
def _unwritten(parts: Parts) -> Iterator[None]:
    """Raise `InputError` where files that are read meanwhile are written; what their halves look
    like to a reader is no error of theirs."""
    before = [part.describe(with_digest=False) for part in parts]
    try:
        yield
    except InputError:
        _check_unwritten(parts, before)
        raise
    _check_unwritten(parts, before)


def _check_unwritten(parts: Parts, before: list[dict[str, Any]]) -> None:
    for part, old in zip(parts, before, strict=True):
        if part.describe(with_digest=False) != old:
            raise InputError(
                f"{part.location.name} was written while it was read; run again when it is complete"
            )


def same(old: dict[str, Any], source: "Source") -> str | None:
    """None if `source` is what `old` was taken of, else a sentence naming the difference.

    Equal size and modification time (or tag) are trusted. Otherwise contents are compared,
    if `old` holds digests; that reads the file.
    """
    if old["kind"] != source.kind:
        return f"the source is {source.kind}, it was {old['kind']}"
    if old.get("dialect") != source.dialect.as_json():
        return f"text is read as {source.dialect.as_json()}, it was as {old.get('dialect')}"
    before = {(entry["role"], entry["name"]): entry for entry in old["files"]}
    now = {(part.role, part.name): part for part in source.parts}
    for role, name in before:
        if (role, name) not in now:
            return f"{name} ({role}) is no longer part of the source"
    for key, part in now.items():
        if key not in before:
            return f"{part.name} ({part.role}) is new in the source"
        difference = changed(before[key], part)
        if difference:
            return difference
    if list(before) != list(now):
        return "the files of the source have another order"
    return None


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
