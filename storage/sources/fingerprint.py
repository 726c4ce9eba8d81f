"""Has a source changed since it was read? Sizes and times first, digests where these differ."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from storage.transient import patiently

from .paths import SourcePath, readable

if TYPE_CHECKING:
    from .base import Source


@dataclass(frozen=True)
class SourceFile:
    """One file whose bytes belong to a source."""

    role: str
    """`features` or `labels`."""
    name: str
    """Path relative to the source, so that a moved source is the same source."""
    location: SourcePath

    def describe(self, with_digest: bool) -> dict[str, Any]:
        """`role`, `name`, `size`, `mtime_ns` or `tag`, and `digest` if asked for."""
        entry: dict[str, Any] = {"role": self.role, "name": self.name, **patiently(self._stamp)}
        return {**entry, "digest": self.digest()} if with_digest else entry

    def _stamp(self) -> dict[str, Any]:
        with readable(self.location.name):
            return {"size": self.location.size(), **self.location.stamp()}

    def digest(self) -> str:
        """blake2b of the bytes, 16 bytes as hexadecimal, streamed."""
        return patiently(self._digest)

    def _digest(self) -> str:
        with readable(self.location.name), self.location.open() as file:
            hashed = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))  # type: ignore[arg-type]
            return hashed.hexdigest()


def fingerprint(kind: str, parts: tuple[SourceFile, ...], with_digest: bool) -> dict[str, Any]:
    """JSON-able identity of a source: its `kind` and what `SourceFile.describe` gives, per file."""
    return {"kind": kind, "files": [part.describe(with_digest) for part in parts]}


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
    stamps = [key for key in ("mtime_ns", "tag") if key in new and key in old]
    if stamps and all(new[key] == old[key] for key in stamps):
        return None
    if "digest" not in old:
        return f"{part.name} was written again since, and its content was not recorded"
    if part.digest() != old["digest"]:
        return f"{part.name} has other content than before (same size, other bytes)"
    return None
