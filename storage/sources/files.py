"""Where a source lies (local path or fsspec URL), its failures as `InputError`, what is packed, and
whether a file has changed since it was read: sizes and times first, digests where these differ."""

import bz2
import errno
import gzip
import hashlib
import io
import lzma
import os
import posixpath
import re
import stat
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import has_magic
from typing import IO, Any, TypeVar, cast

import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from storage.errors import (
    InputError,
    KnnoiseError,
    may_pass,
    misconfigured,
    patiently,
    reason_of,
    unreached,
    without_threads,
)
from storage.files.location import check_address, open_url
from storage.redaction import bare, remember

_WHOLE_ONLY = "its server gives files only as a whole; download it and give the local path"


@contextmanager
def readable(
    name: str,
    problem: str = "cannot be read",
    remedy: str = "it is damaged, incomplete or of another format",
) -> Iterator[None]:
    """Turn a failure to read `name` into an `InputError` that names it, the problem and the remedy.

    Any exception counts: parsers of damaged or hostile bytes raise whatever they stumble over.
    A failure that may pass becomes an `UnavailableError`.
    """
    try:
        yield
    except Exception as error:
        if may_pass(error):
            raise unreached(name, error) from error
        if isinstance(error, KnnoiseError) or without_threads(error):
            raise
        raise _refused(name, error, problem, remedy) from error


def _refused(name: str, error: Exception, problem: str, remedy: str) -> InputError:
    """What is said of a failure to read that will not pass."""
    if (refused := misconfigured(error)) is not None:
        return InputError(f"{name}: {refused}")
    if isinstance(error, FileNotFoundError):
        reason = _unreached(error) or "no such file or folder; check the path"
        return InputError(f"{name}: {reason}")
    if isinstance(error, PermissionError):
        return InputError(f"{name}: permission denied; make it readable for this user")
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return InputError(f"{name}: a link that leads back to itself; give the file it should name")
    if "range requests" in str(error):  # fsspec, of an HTTP server
        return InputError(f"{name}: {_WHOLE_ONLY}")
    return InputError(f"{name}: {problem} ({reason_of(error)}); {remedy}")


def _unreached(error: FileNotFoundError) -> str | None:
    """What a server said or why there was none, where fsspec calls that a file that is not there;
    None where the file is not there."""
    cause = error.__cause__
    status = getattr(cause, "status", None)
    if status in (401, 403):
        return f"its server refuses ({status}); is the address signed, and still valid?"
    if cause is None or status in (404, 410) or isinstance(cause, FileNotFoundError):
        return None
    return f"its server does not give it ({reason_of(cause)}); check the address"


@dataclass(frozen=True)
class SourcePath:
    """One file or folder of a filesystem."""

    fs: AbstractFileSystem
    path: str
    """Path as the filesystem wants it."""
    name: str
    """Path or URL as the user gave it but without secrets, for messages and records."""
    url: str
    """The same with them, to be opened again."""

    @classmethod
    def of(cls, source: str | os.PathLike[str]) -> "SourcePath":
        """Locate a path or URL; `InputError` if its protocol is not allowed or not installed."""
        url = remember(os.fspath(source))
        check_address(url, to_read=True)
        with readable(bare(url), "no filesystem for this URL", "copy the file here"):
            fs, path = open_url(url)
        return cls(fs, path, bare(url), url)

    @property
    def is_local(self) -> bool:
        """Whether the operating system can open `path`."""
        return isinstance(self.fs, LocalFileSystem)

    @property
    def basename(self) -> str:
        """Last component of the path, of an HTTP address without its query."""
        path = self.path.partition("?")[0] if "http" in self.fs.protocol else self.path
        return posixpath.basename(path.rstrip("/"))

    def child(self, path: str) -> "SourcePath":
        """A file below this folder, given by its full path."""
        inside = path.rstrip("/")[len(self.path.rstrip("/")) :].lstrip("/")
        name, url = (f"{folder.rstrip('/')}/{inside}" for folder in (self.name, self.url))
        return SourcePath(self.fs, path, name, url)

    def inside(self, root: "SourcePath") -> str:
        """The path relative to a folder, so that a moved source is the same source; the last
        component where it does not lie in it."""
        folder = root.path.rstrip("/") + "/"
        return self.path[len(folder) :] if self.path.startswith(folder) else self.basename

    @property
    def is_pattern(self) -> bool:
        """Whether the path is a pattern of several; never of an HTTP address, nor where a file or
        folder has this very name."""
        magic = "http" not in self.fs.protocol and has_magic(self.path)
        return magic and not self.fs.exists(self.path)

    def before_pattern(self) -> "SourcePath":
        """The folder that all files lie below which this pattern matches."""
        names = []
        for text in (self.path, self.name, self.url):
            folder = re.split(r"[*?[]", text)[0].rpartition("/")[0]
            names.append(folder or ("/" if text.startswith("/") else "."))
        return SourcePath(self.fs, *names)

    def matches(self) -> list["SourcePath"]:
        """The files and folders that this pattern matches, in order of name.

        Raises `InputError` for a local folder on its way that is not there or may not be read;
        fsspec leaves such out.
        """
        root, way = self.before_pattern(), self.path
        while self.is_local and has_magic(way):
            way = posixpath.dirname(way)
            for folder in self.fs.glob(way) if has_magic(way) else [way]:
                with readable(root.child(folder).name.rstrip("/")):
                    self.fs.ls(folder, detail=True)
        return [root.child(path) for path in sorted(self.fs.glob(self.path))]

    def entries(self) -> list[tuple["SourcePath", bool]]:
        """The direct children of this folder, ordered by name, and whether each is a folder
        or a link to one."""
        listed = sorted(self.fs.ls(self.path, detail=True), key=lambda info: str(info["name"]))
        return [
            (self.child(info["name"]), info["type"] != "file" and self.fs.isdir(info["name"]))
            for info in listed
        ]

    def open(self, cache_type: str = "readahead") -> IO[bytes]:
        """Open for reading bytes, as they lie.

        `cache_type` is fsspec's, for remote files: "none" suits a reader that buffers itself.
        Raises `InputError` if its server gives files only as a whole, or it is a device or a pipe,
        which may have no end.
        """
        self.check_plain()
        options = {} if self.is_local else {"cache_type": cache_type}
        file = self.fs.open(self.path, "rb", **options)
        if getattr(file, "size", 0) is None:
            file.close()
            raise InputError(f"{self.name}: {_WHOLE_ONLY}")
        return cast(IO[bytes], file)

    def check_plain(self) -> None:
        """Raise `InputError` for a local device or pipe, which has no size and may have no end."""
        if self.is_local and not stat.S_ISREG(os.stat(self.path).st_mode):
            raise InputError(f"{self.name}: no plain file; write what it gives to one first")

    def size(self) -> int:
        """Length in bytes; `InputError` if its server does not tell, and as `check_plain`."""
        self.check_plain()
        size = self.fs.info(self.path)["size"]
        if size is None:
            raise InputError(f"{self.name}: {_WHOLE_ONLY}")
        return int(size)

    def stamp(self) -> dict[str, Any]:
        """What tells a rewrite without reading: `size`, and `mtime_ns` and `ctime_ns`, which nobody
        sets back, or `tag` where the store has one."""
        if self.is_local:
            status = os.stat(self.path)
            times = {"mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}
            return {"size": status.st_size, **times}
        self.fs.invalidate_cache(self.path)
        size, info = {"size": self.size()}, self.fs.info(self.path)
        tag = info.get("ETag") or info.get("etag")
        if tag is None:
            if "http" in self.fs.protocol:  # whose ukey is a hash of the address, secrets and all
                return size
            try:
                tag = self.fs.ukey(self.path)
            except (NotImplementedError, OSError):
                return size
        return {**size, "tag": str(tag)}


DIRECTORY_BYTES = 1 << 20
"""Longest directory that is read: that of some 10,000 entries."""
_TAIL_BYTES = 66_000
"""Where the end record lies: 22 bytes and a comment of at most 65,535."""


def open_zip(where: str, file: IO[bytes]) -> zipfile.ZipFile:
    """A zip file; `InputError` if its directory is longer than `DIRECTORY_BYTES`."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read(_TAIL_BYTES)
    claimed = max(
        _field(tail, b"PK\x05\x06", 12, "<I"),
        _field(tail, b"PK\x06\x06", 40, "<Q"),  # of files beyond 4 GB
    )
    file.seek(0)
    if DIRECTORY_BYTES < claimed != 0xFFFFFFFF:
        raise InputError(
            f"{where}: its directory takes {claimed:,} bytes; write it with fewer members"
        )
    return zipfile.ZipFile(file)


def _field(tail: bytes, signature: bytes, offset: int, kind: str) -> int:
    """A number of the last record of its kind; 0 where there is none."""
    at = tail.rfind(signature)
    there = at >= 0 and at + offset + struct.calcsize(kind) <= len(tail)
    return int(struct.unpack_from(kind, tail, at + offset)[0]) if there else 0


def open_member(name: str, archive: zipfile.ZipFile, member: str) -> IO[bytes]:
    """A member of a zip file; `InputError` if it is encrypted or packed in an unknown way."""
    info = archive.getinfo(member)
    if info.flag_bits & 0x1:
        raise InputError(f"{name}: it is encrypted; save it without a password")
    try:
        return archive.open(info)
    except NotImplementedError as error:
        raise InputError(
            f"{name}: cannot be read ({error}; packed by method {info.compress_type}); "
            "write it with numpy.savez"
        ) from error


XZ_BYTES = 128 << 20
"""Memory that unpacking `.xz` may take; files packed with `xz -9` take 65 MB."""
MOST_TIMES, FREE_BYTES = 100, 512 << 20
"""How many times its size a packed file may unpack to, once it has unpacked to so many bytes."""


class _Unpacked(io.RawIOBase):
    """The content of a packed file, as long as it is not a bomb."""

    def __init__(self, name: str, packed: IO[bytes], content: Any) -> None:
        self._name, self._packed, self._content, self._taken = name, packed, content, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        self._taken += len(content)
        if self._taken > FREE_BYTES and self._taken > MOST_TIMES * self._packed.tell():
            raise InputError(
                f"{self._name}: unpacks to more than {MOST_TIMES} times its size; if that is "
                "meant, unpack it and give the unpacked file"
            )
        return len(content)


class _Xz:
    """An `.xz` file of one stream or several, whose header cannot claim any memory it likes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._stream = file, self._new()

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_BYTES)

    def read(self, size: int) -> bytes:
        """At most so many bytes of the content; none at its end."""
        while True:
            packed = b""
            if self._stream.eof:
                packed = self._stream.unused_data or self._file.read(1 << 16)
                if not packed.strip(b"\0"):
                    return b""
                self._stream = self._new()
            elif self._stream.needs_input:
                packed = self._file.read(1 << 16)
                if not packed:
                    raise EOFError("it ends too early")
            if content := self._stream.decompress(packed, size):
                return content


def _zip(name: str, file: IO[bytes]) -> Any:
    """The only file of an archive."""
    archive = open_zip(name, file)
    members = [info.filename for info in archive.infolist() if not info.is_dir()]
    members = [member for member in members if not member.startswith("__MACOSX/")]
    if len(members) != 1:
        raise InputError(f"{name}: {len(members):,} files in the archive; give one with one file")
    return open_member(name, archive, members[0])


_OPENERS: dict[str, Callable[[str, IO[bytes]], Any]] = {
    ".gz": lambda name, file: gzip.GzipFile(fileobj=file),
    ".bz2": lambda name, file: bz2.BZ2File(file),
    ".xz": lambda name, file: _Xz(file),
    ".zst": lambda name, file: pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"),
    ".zip": _zip,
}
PACKED = ("", *_OPENERS)
"""Second extensions of text files."""


def packed(*extensions: str) -> tuple[str, ...]:
    """Extensions of text files, plain and packed."""
    return tuple(extension + more for extension in extensions for more in PACKED)


def unpacked(name: str, basename: str, file: IO[bytes]) -> IO[bytes]:
    """The content of a file, unpacked if the extension says it is packed.

    name : of the file, for messages
    """
    for extension, opener in _OPENERS.items():
        if basename.lower().endswith(extension):
            content = _Unpacked(name, file, opener(name, file))
            return cast(IO[bytes], io.BufferedReader(content, 1 << 16))
    return file


T = TypeVar("T")
Parts = tuple["FileOfSource", ...]

YOUNG_SECONDS = 2.0
"""Age below which a file may change again without another time: clocks of file systems tick."""
_TIMES = ("mtime_ns", "ctime_ns", "tag")


@dataclass(frozen=True)
class FileOfSource:
    """One file whose bytes belong to a source."""

    role: str
    """`features` or `labels`."""
    name: str
    """Path relative to the source, so that a moved source is the same source."""
    location: SourcePath
    known: dict[str, Any] | None = None
    """Its description when it was read as a whole; None for what is read again and again."""
    stamp: dict[str, Any] | None = None
    """What it was when it was first read, where nothing may change from then on."""

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
    before = [part.stamp or part.describe(with_digest=False) for part in parts]
    try:
        yield
    except InputError:
        _check(parts, before)
        raise
    _check(parts, before)


def stamped(parts: Parts) -> Parts:
    """Files with what they are now, so that `unwritten` tells of a change from now on."""
    return tuple(replace(part, stamp=part.describe(with_digest=False)) for part in parts)


def _check(parts: Parts, before: list[dict[str, Any]]) -> None:
    for part, old in zip(parts, before, strict=True):
        if part.describe(with_digest=False) != old:
            raise InputError(
                f"{part.location.name} was written while it was read; run again when it is complete"
            )


def changed(old: dict[str, Any], part: FileOfSource) -> str | None:
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
