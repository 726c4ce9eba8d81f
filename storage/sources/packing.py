"""Text files that are packed, unpacked as they are read."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from typing import IO, Any, cast

import pyarrow as pa

from storage.errors import InputError
from storage.sources.zips import open_member, open_zip

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
        found = self._content.read(len(buffer))
        buffer[: len(found)] = found
        self._taken += len(found)
        if self._taken > FREE_BYTES and self._taken > MOST_TIMES * self._packed.tell():
            raise InputError(
                f"{self._name}: unpacks to more than {MOST_TIMES} times its size; if that is "
                "meant, unpack it and give the unpacked file"
            )
        return len(found)


class _Xz(io.RawIOBase):
    """An `.xz` file of one stream or several, whose header cannot claim any memory it likes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._stream = file, self._new()

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            packed = b""
            if self._stream.eof:
                packed = self._stream.unused_data or self._file.read(1 << 16)
                if not packed.strip(b"\0"):
                    return 0
                self._stream = self._new()
            elif self._stream.needs_input:
                packed = self._file.read(1 << 16)
                if not packed:
                    raise EOFError("it ends too early")
            found = self._stream.decompress(packed, len(buffer))
            if found:
                buffer[: len(found)] = found
                return len(found)


def _zstandard(name: str, file: IO[bytes]) -> Any:
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


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
    ".zst": _zstandard,
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
