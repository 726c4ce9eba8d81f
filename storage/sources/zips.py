"""Zip files, whose directory may lie about what they hold."""

import io
import struct
import zipfile
from typing import IO

from storage.errors import InputError

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
            f"{where}: its directory takes {claimed:,} bytes; write it with numpy.savez"
        )
    return zipfile.ZipFile(file)


def _field(tail: bytes, signature: bytes, offset: int, kind: str) -> int:
    """A number of the last record of its kind; 0 where there is none."""
    at = tail.rfind(signature)
    field = tail[at + offset : at + offset + struct.calcsize(kind)]
    return (
        int(struct.unpack(kind, field)[0]) if at >= 0 and len(field) == struct.calcsize(kind) else 0
    )


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
