"""The first row of a text file, read in bounded memory."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from storage.errors import InputError
from storage.sources.dialect import Dialect, encoding_hint
from storage.sources.packing import unpacked
from storage.sources.paths import SourcePath, readable
from storage.sources.request import check_width

HEADER_CHARS = 4 << 20
"""Characters within which the first row has to end, blank lines before it included."""


@dataclass(frozen=True)
class Header:
    """The first row of a file."""

    cells: tuple[str, ...]
    """Without surrounding spaces."""
    blank_lines: int
    """Lines before it."""
    has_rows: bool
    """Whether anything follows it."""


@contextmanager
def opened(location: SourcePath) -> Iterator[IO[bytes]]:
    """The content of a text file, unpacked."""
    with location.open() as file, unpacked(location.name, location.basename, file) as content:
        yield content


def read_header(location: SourcePath, dialect: Dialect) -> Header:
    """Read the first row that is not blank; `InputError` if there is none."""
    separator = dialect.separator(location.basename)
    with readable(location.name), opened(location) as file:
        text = io.TextIOWrapper(file, dialect.codec, errors="surrogateescape", newline="")
        reader = csv.reader(_first_lines(location.name, text), delimiter=separator)
        blank_lines = 0
        try:
            for cells in reader:
                if cells:
                    stripped = tuple(cell.strip() for cell in cells)
                    "".join(stripped).encode()  # UnicodeEncodeError where it was not UTF-8
                    check_width(location.name, len(stripped))
                    return Header(stripped, blank_lines, _goes_on(text))
                blank_lines = reader.line_num
        except UnicodeError as error:
            raise InputError(
                f"{location.name}: the header cannot be read as text in {dialect.encoding}; "
                f"{hint_of_encoding(location, dialect)}"
            ) from error
        except csv.Error as error:
            raise InputError(f"{location.name}: the header cannot be read ({error})") from error
    raise InputError(f"{location.name}: the file is empty; give a header and rows")


def hint_of_encoding(location: SourcePath, dialect: Dialect) -> str:
    """What to do about a file that is not in the encoding of the dialect."""
    if dialect.encoding != "utf-8":
        return "give another --encoding"
    with readable(location.name), opened(location) as file:
        return encoding_hint(file.read(2))


def _first_lines(where: str, text: io.TextIOWrapper) -> Iterator[str]:
    """The lines of a text; `InputError` once they exceed `HEADER_CHARS` characters."""
    room = HEADER_CHARS
    while line := text.readline(room + 1):
        room -= len(line)
        if room < 0:
            raise InputError(
                f"{where}: its first row does not end within {HEADER_CHARS:,} characters; give a "
                "CSV file with a header, and look for a quote that is not closed"
            )
        yield line


def _goes_on(text: io.TextIOWrapper) -> bool:
    """Whether anything but blank lines follows."""
    while piece := text.read(1 << 16):
        if piece.strip("\r\n"):
            return True
    return False
