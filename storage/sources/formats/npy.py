"""Arrays in npy files and in the members of npz files, read without loading them whole."""

import io
import shutil
import struct
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any
from zipfile import ZipExtFile

import numpy as np
from numpy.lib import format as npy_format

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.files import FileOfSource, Parts, SourcePath, open_member, open_zip, readable
from storage.sources.formats.arrays import ArrayRows, check_real, open_arrays
from storage.sources.request import Request

HEADER_BYTES = 1 << 16
"""Longest header of an array that is looked at; those of plain numbers have some 120 bytes."""
_LENGTH = {(1, 0): "<H", (2, 0): "<I", (3, 0): "<I"}
"""How each version of the format stores the length of its header."""


@dataclass(frozen=True)
class NpyRows(ArrayRows):
    """An npy file, or the npy member of a zip file."""

    location: SourcePath
    member: str | None
    by_column: bool
    """Fortran order."""
    offset: int
    """Bytes before the data."""

    def read(self, start: int, rows: int) -> Iterator[np.ndarray]:
        with ExitStack() as stack:
            stack.enter_context(readable(self.name))
            file = stack.enter_context(_open(self.location, self.member))
            if self.by_column and self.member:  # a member is slow to seek in
                packed, file = file, stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(packed, file, 1 << 20)
                file.seek(0)
            for first in range(start, self.shape[0], rows):
                yield self._piece(file, first, min(first + rows, self.shape[0]))
            if self.member and not self.by_column:
                file.read(1)  # reaching the end checks the sum

    def _piece(self, file: IO[bytes], first: int, stop: int) -> np.ndarray:
        """Some rows: one run of bytes, or a run of each column."""
        shape = stop - first, *self.shape[1:]
        piece = np.empty(shape, self.dtype, order="F" if self.by_column else "C")
        runs = piece.reshape(len(piece), -1, order="F").T if self.by_column else [piece]
        for number, run in enumerate(runs):
            before = number * self.shape[0] + first
            self._fill(file, run, before * (run.nbytes // len(piece)))
        return piece

    def _fill(self, file: IO[bytes], out: np.ndarray, at: int) -> None:
        """Fill a contiguous array from `at` bytes into the data."""
        view = memoryview(out.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        if isinstance(file, ZipExtFile):  # whose sum is not checked where it is sought in
            while (ahead := self.offset + at - file.tell()) > 0 and file.read(min(ahead, 1 << 20)):
                pass
        elif file.tell() != self.offset + at:
            file.seek(self.offset + at)
        filled = 0
        while filled < len(view):
            got = file.readinto(view[filled:])  # type: ignore[attr-defined]
            if not got:
                raise EOFError("it ends too early")
            filled += got


def _name(location: SourcePath, member: str | None) -> str:
    return location.name if member is None else f"{location.name}[{member.removesuffix('.npy')}]"


@contextmanager
def _open(location: SourcePath, member: str | None) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        file = stack.enter_context(location.open())
        if member is not None:
            archive = stack.enter_context(open_zip(location.name, file))
            name = _name(location, member)
            file = stack.enter_context(open_member(name, archive, member))
        yield file


def is_npy(location: SourcePath) -> bool:
    """Whether a file begins as arrays do, whatever its name."""
    with readable(location.name), location.open() as file:
        return file.read(len(npy_format.MAGIC_PREFIX)) == npy_format.MAGIC_PREFIX


def read_npy(location: SourcePath, member: str | None = None) -> NpyRows:
    """Read the header of an array; `InputError` if it is none or is cut short."""
    name = _name(location, member)
    with readable(name), _open(location, member) as file:
        with readable(name, "not a NumPy array", "write it with numpy.save"):
            shape, by_column, dtype = _read_header(file)
        array = NpyRows(name, shape, dtype, location, member, by_column, file.tell())
    check_real(name, dtype, "values", "biufSUcVmM")
    stored = location.size() if member is None else _member_sizes(location)[member]
    expected = array.offset + dtype.itemsize * int(np.prod(shape, dtype=object))
    if stored < expected:
        raise InputError(
            f"{name}: {stored:,} bytes where {expected:,} are expected; it is cut short, "
            "write it again"
        )
    return array


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and dtype; raises whatever NumPy stumbles over.

    Version 3 differs from 2 by UTF-8 in the names of fields, which plain numbers do not have.
    """
    version = npy_format.read_magic(file)
    if version not in _LENGTH:
        raise ValueError(f"its format has version {version[0]}.{version[1]}, known are 1 to 3")
    (length,) = struct.unpack(_LENGTH[version], file.read(struct.calcsize(_LENGTH[version])))
    if length > HEADER_BYTES:
        raise ValueError(f"a header of {length:,} bytes; those of arrays are shorter")
    header = io.BytesIO(struct.pack("<I", length) + file.read(length))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers as Python 2 wrote them
        shape, by_column, dtype = npy_format.read_array_header_2_0(header)
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"its shape is {shape}")
    return shape, by_column, dtype


def open_npy(location: SourcePath, request: Request) -> Source:
    """Features in an npy file; it holds no labels."""
    if request.with_labels:
        raise InputError(f"{location.name}: an array of features has no labels; give --labels")
    part = FileOfSource("features", location.basename, location)
    return open_arrays(
        "npy", location, ["X"], lambda _: read_npy(location), lambda *_: (part,), request
    )


def open_npz(location: SourcePath, request: Request) -> Source:
    """Features `X` and labels `y` (or the array `request.label`) in an npz file."""
    with readable(location.name):
        names = [name.removesuffix(".npy") for name in _member_sizes(location)]
    part = FileOfSource("features", location.basename, location)

    def read(name: str) -> NpyRows:
        return read_npy(location, f"{name}.npy")

    def files(role: str, name: str) -> Parts:
        return (part,) if role == part.role else ()

    return open_arrays("npz", location, names, read, files, request)


def _member_sizes(location: SourcePath) -> dict[str, int]:
    """Unpacked bytes of each member of a zip file."""
    with location.open() as file, open_zip(location.name, file) as archive:
        return {info.filename: info.file_size for info in archive.infolist()}
