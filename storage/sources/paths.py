"""Where a source lies (local path or fsspec URL), and its failures as `InputError`."""

import lzma
import os
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, cast

import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from storage.errors import InputError

DAMAGED = (
    EOFError,
    OSError,
    UnicodeDecodeError,
    lzma.LZMAError,
    pa.ArrowException,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the readers raise on bytes that are cut, corrupt or of another format."""


def shown(value: object, limit: int = 40) -> str:
    """`repr` of a value for a message, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def listed(names: Iterator[object] | list[Any] | tuple[Any, ...], limit: int = 12) -> str:
    """The first `limit` of several values for a message, and how many more there are."""
    values = list(names)
    more = f" and {len(values) - limit:,} more" if len(values) > limit else ""
    return ", ".join(shown(value) for value in values[:limit]) + more


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn a failure to read `name` into an `InputError` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{name}: no such file or folder; check the path") from error
    except PermissionError as error:
        raise InputError(f"{name}: permission denied; make it readable for this user") from error
    except DAMAGED as error:
        reason = str(error).strip() or type(error).__name__
        raise InputError(
            f"{name}: cannot be read ({reason}); it is damaged, incomplete or of another format"
        ) from error


@dataclass(frozen=True)
class SourcePath:
    """One file or folder of a filesystem."""

    fs: AbstractFileSystem
    path: str
    """Path as the filesystem wants it."""
    name: str
    """Path or URL as the user gave it, for messages and records."""

    @classmethod
    def of(cls, source: str | os.PathLike[str]) -> "SourcePath":
        """Locate a path or URL; `InputError` if its protocol is unknown or not installed."""
        name = os.fspath(source)
        try:
            fs, path = url_to_fs(name)
        except (ImportError, ValueError) as error:
            raise InputError(
                f"{name}: no filesystem for this URL ({error}); install it or copy the file here"
            ) from error
        return cls(fs, path, name)

    @property
    def is_local(self) -> bool:
        """Whether the operating system can open `path`."""
        return isinstance(self.fs, LocalFileSystem)

    @property
    def basename(self) -> str:
        """Last component of the path."""
        return posixpath.basename(self.path.rstrip("/"))

    def child(self, path: str) -> "SourcePath":
        """A file below this folder, given by its full path."""
        inside = path.rstrip("/")[len(self.path.rstrip("/")) :].lstrip("/")
        return SourcePath(self.fs, path, f"{self.name.rstrip('/')}/{inside}")

    def children(self) -> list["SourcePath"]:
        """The direct children of this folder, ordered by name."""
        return [self.child(path) for path in sorted(self.fs.ls(self.path, detail=False))]

    def open(self, compression: str | None = None, cache_type: str = "readahead") -> IO[bytes]:
        """Open for reading bytes; `compression="infer"` unpacks by the extension.

        `cache_type` is fsspec's, for remote files: "none" suits a reader that buffers itself.
        """
        options = {} if self.is_local else {"cache_type": cache_type}
        return cast(IO[bytes], self.fs.open(self.path, "rb", compression=compression, **options))

    def size(self) -> int:
        """Length in bytes."""
        return int(self.fs.info(self.path)["size"])

    def stamp(self) -> dict[str, int | str]:
        """What tells a rewrite without reading: `mtime_ns`, or `tag` where the store has one."""
        if self.is_local:
            return {"mtime_ns": os.stat(self.path).st_mtime_ns}
        info = self.fs.info(self.path)
        tag = info.get("ETag") or info.get("etag")
        if tag is None:
            try:
                tag = self.fs.ukey(self.path)
            except (NotImplementedError, OSError):
                return {}
        return {"tag": str(tag)}
