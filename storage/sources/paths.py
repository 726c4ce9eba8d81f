"""Where a source lies (local path or fsspec URL), and its failures as `InputError`."""

import difflib
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from typing import IO, Any, cast

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from storage.errors import InputError, KnnoiseError
from storage.protocols import check_address
from storage.redaction import bare, remember
from storage.transient import no_credentials, reachable

LONGEST_REASON = 200
"""Characters of a parser's message that are shown: hostile content can be quoted in it."""
_WHOLE_ONLY = "its server gives files only as a whole; download it and give the local path"


def shown(value: object, limit: int = 40) -> str:
    """`repr` of a value for a message, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def listed(names: Iterable[object], limit: int = 12) -> str:
    """The first `limit` of several values for a message, and how many more there are."""
    values = list(names)
    more = f" and {len(values) - limit:,} more" if len(values) > limit else ""
    return ", ".join(shown(value) for value in values[:limit]) + more


def no_column(name: object, columns: Iterable[str]) -> str:
    """That there is no such column, which there are, and which may be meant."""
    there = list(columns)
    meant = difflib.get_close_matches(str(name), there, 1)
    more = f"; did you mean {meant[0]!r}?" if meant else ""
    return f"no column {name!r}; columns are {listed(there)}{more}"


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
        with reachable(name):
            yield
    except KnnoiseError:
        raise
    except Exception as error:
        raise _refused(name, error, problem, remedy) from error


def _refused(name: str, error: Exception, problem: str, remedy: str) -> InputError:
    """What is said of a failure to read that will not pass."""
    if (refused := no_credentials(error)) is not None:
        return InputError(f"{name}: {refused}")
    if isinstance(error, FileNotFoundError):
        unreached = _unreached(error) or "no such file or folder; check the path"
        return InputError(f"{name}: {unreached}")
    if isinstance(error, PermissionError):
        return InputError(f"{name}: permission denied; make it readable for this user")
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


def reason_of(error: BaseException) -> str:
    """What a parser says, cut to `LONGEST_REASON` characters, or else the kind of its error."""
    text = str(error).strip() or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."


def _before_pattern(text: str) -> str:
    """The folder that the first pattern of a path is in."""
    first = min(text.index(mark) for mark in "*?[" if mark in text)
    folder = text[:first].rpartition("/")[0]
    return folder or ("/" if text.startswith("/") else ".")


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
        remedy = "install it or copy the file here"
        with readable(bare(url), "no filesystem for this URL", remedy):
            fs, path = url_to_fs(url)
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

    @property
    def is_pattern(self) -> bool:
        """Whether the path is a pattern of several; never of an HTTP address, nor where a file or
        folder has this very name."""
        if "http" in self.fs.protocol or not has_magic(self.path):
            return False
        return not self.fs.exists(self.path)

    def before_pattern(self) -> "SourcePath":
        """The folder that all files lie below which this pattern matches."""
        fixed = (_before_pattern(text) for text in (self.path, self.name, self.url))
        return SourcePath(self.fs, *fixed)

    def entries(self) -> list[tuple["SourcePath", bool]]:
        """The direct children of this folder, ordered by name, and whether each is a folder."""
        listed = sorted(self.fs.ls(self.path, detail=True), key=lambda info: str(info["name"]))
        return [(self.child(info["name"]), info["type"] == "directory") for info in listed]

    def children(self) -> list["SourcePath"]:
        """The direct children of this folder, ordered by name."""
        return [self.child(path) for path in sorted(self.fs.ls(self.path, detail=False))]

    def open(self, cache_type: str = "readahead") -> IO[bytes]:
        """Open for reading bytes, as they lie.

        `cache_type` is fsspec's, for remote files: "none" suits a reader that buffers itself.
        Raises `InputError` if its server gives files only as a whole, or it is a device or a pipe,
        which may have no end.
        """
        if self.is_local and not stat.S_ISREG(os.stat(self.path).st_mode):
            raise InputError(f"{self.name}: no plain file; write what it gives to one first")
        options = {} if self.is_local else {"cache_type": cache_type}
        file = self.fs.open(self.path, "rb", **options)
        if getattr(file, "size", 0) is None:
            file.close()
            raise InputError(f"{self.name}: {_WHOLE_ONLY}")
        return cast(IO[bytes], file)

    def size(self) -> int:
        """Length in bytes; `InputError` if its server does not tell."""
        size = self.fs.info(self.path)["size"]
        if size is None:
            raise InputError(f"{self.name}: {_WHOLE_ONLY}")
        return int(size)

    def stamp(self) -> dict[str, Any]:
        """What tells a rewrite without reading: `size`, and `mtime_ns` and `ctime_ns`, which nobody
        sets back, or `tag` where the store has one."""
        if self.is_local:
            found = os.stat(self.path)
            times = {"mtime_ns": found.st_mtime_ns, "ctime_ns": found.st_ctime_ns}
            return {"size": found.st_size, **times}
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
