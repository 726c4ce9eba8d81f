"""CSV and tab-separated text, streamed.

Arrow's parser of CSV reads ahead in a thread of its own, and closing the parser does not wait for
it. A thread of C++ that wants the interpreter while that ends is killed in a way that aborts the
process: whatever it holds of Python's has to be gone before.
"""

import atexit
import bisect
import codecs
import csv
import io
import re
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from storage.errors import InputError, shown
from storage.sources.base import Source
from storage.sources.files import PACKED, SourcePath, readable, unpacked
from storage.sources.formats.tables import Look, TableRows, TablesReader
from storage.sources.request import Dialect, Request, check_width, number_hint, separator_hint
from storage.sources.values.texts import present

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
    """Whether anything but blank lines follows it."""


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
                    rest = iter(lambda: text.read(1 << 16), "")
                    return Header(stripped, blank_lines, any(piece.strip("\r\n") for piece in rest))
                blank_lines = reader.line_num
        except UnicodeError as error:
            raise InputError(
                f"{location.name}: the header cannot be read as text in {dialect.encoding}; "
                f"{hint_of_encoding(location, dialect)}"
            ) from error
        except csv.Error as error:
            raise InputError(f"{location.name}: the header cannot be read ({error})") from error
    raise InputError(f"{location.name}: the file is empty; give a header and rows")


_NO_TEXT = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that text has in no encoding but UTF-16, and packed or binary files soon."""


def hint_of_encoding(location: SourcePath, dialect: Dialect) -> str:
    """What to do about a file that is not in the encoding of the dialect."""
    if dialect.encoding != "utf-8":
        return "give another --encoding"
    saved = "save it as UTF-8, or as .xlsx" if dialect.fixed else ""
    with readable(location.name), opened(location) as file:
        start = file.read(512)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return f"it looks like UTF-16: {saved or 'give --encoding utf-16'}"
    if _NO_TEXT.search(start):
        return "it is no text: name it by what it is, such as .csv.gz, .xlsx or .parquet"
    return saved or "give --encoding cp1252 or another, or save it as UTF-8"


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


@dataclass(frozen=True)
class Lines:
    """Where the lines of a text lie that are not empty."""

    n: int
    line: tuple[int, ...]
    """Some of them, in order, the first included; each begins at the byte below."""
    byte: tuple[int, ...]

    def before(self, line: int) -> tuple[int, int]:
        """The last of these lines up to a given one, and where it begins."""
        at = bisect.bisect_right(self.line, line) - 1
        return self.line[at], self.byte[at]


_COUNTED_BYTES = 4 << 20
_LINE_END, _RETURN, _QUOTE = b'\n\r"'


def count_lines(file: IO[bytes], separator: str, block: int = _COUNTED_BYTES) -> Lines | None:
    """The lines of a text, of about one in each block where it begins; None where text goes on
    over the end of a line, a quote may be none, or a line ends without a line feed."""
    n, line, byte = 0, [0], [0]
    begins = read = n_quotes = 0
    before_quote = np.frombuffer(separator.encode() + b'\n"', np.uint8)
    last = _LINE_END  # the byte before
    while content := file.read(block):
        text = np.frombuffer(bytes([last]) + content, np.uint8)
        ends, quotes = (np.flatnonzero(text[1:] == one) for one in (_LINE_END, _QUOTE))
        returns = np.flatnonzero(text[:-1] == _RETURN)
        opening = quotes[n_quotes % 2 :: 2]
        inside = (n_quotes + np.searchsorted(quotes, ends)) % 2
        if (
            inside.any()
            or not np.isin(text[opening], before_quote).all()
            or (text[returns + 1] != _LINE_END).any()
        ):
            return None
        n_quotes += len(quotes)
        if len(ends):
            begin = np.append(begins, ends[:-1] + 1 + read)
            there = ends + read - begin > (text[ends] == _RETURN)
            line.append(n + int(there[0]))
            byte.append(int(ends[0]) + 1 + read)
            n += int(there.sum())
            begins = int(ends[-1]) + 1 + read
        read += len(content)
        last = content[-1]
    if last == _RETURN or n_quotes % 2:
        return None
    return Lines(n + (read > begins), tuple(line), tuple(byte))


_LONGEST = 30.0
"""Seconds to wait for a read that is under way."""


class _Feed:
    """The bytes of a file as UTF-8; none once it is stopped."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file, self._rest, self._stopped = file, b"", False
        self._decoder = None
        if encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(encoding)()
        self._lock = threading.Lock()
        self._given: list[weakref.ref[Any]] = []
        _FEEDS.add(self)

    def input(self) -> "_Input":
        """The feed as Arrow wants it, for Arrow alone."""
        given = _Input(self)
        self._given.append(weakref.ref(given))
        return given

    def read_buffer(self, n_bytes: int = 1 << 20) -> pa.Buffer:
        with self._lock:
            content = b"" if self._stopped else self._read(n_bytes)
            buffer = pa.py_buffer(content)
            self._given = [one for one in self._given if one() is not None]
            self._given.append(weakref.ref(buffer))
            return buffer

    def _read(self, n_bytes: int) -> bytes:
        if self._decoder is None:
            return self._file.read(n_bytes)
        ended = False
        while len(self._rest) < n_bytes and not ended:
            raw = self._file.read(n_bytes)
            ended = not raw
            self._rest += self._decoder.decode(raw, ended).encode()
        content, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return content

    def stop(self) -> None:
        """From now on the file is at its end; a read under way is done when this returns."""
        self._stopped = True
        self._is_free(_LONGEST)

    def wait(self) -> None:
        """Return when Arrow holds nothing of what it was given."""
        end = time.monotonic() + _LONGEST
        while not (_ended.is_set() or self._is_free(1.0)) and time.monotonic() < end:
            time.sleep(0.0005)

    def _is_free(self, seconds: float) -> bool:
        """Whether Arrow holds nothing, so that it will not read either; waits for the lock."""
        if not self._lock.acquire(timeout=seconds):
            return False
        try:
            return all(one() is None for one in self._given)
        finally:
            self._lock.release()


class _Input:
    """A feed as Arrow wants it; not the feed itself, which traces of errors may keep."""

    closed = False

    def __init__(self, feed: _Feed) -> None:
        self.read = self.read_buffer = feed.read_buffer

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing: who opened the file closes it."""


_FEEDS: "weakref.WeakSet[_Feed]" = weakref.WeakSet()
_ended = threading.Event()


@atexit.register
def _stop_all() -> None:
    """Stop what somebody has begun to read and still holds when the interpreter ends."""
    for feed in list(_FEEDS):
        feed.stop()
        time.sleep(0.01)  # its thread leaves the interpreter
    _ended.set()


def csv_batches(file: IO[bytes], encoding: str, *options: Any) -> Generator[pa.RecordBatch]:
    """The record batches of a CSV file in any encoding, parsed with these options of Arrow's."""
    feed, reader, batch = _Feed(file, encoding), None, None
    try:
        reader = pyarrow.csv.open_csv(feed.input(), *options)
        for batch in reader:
            yield batch
    finally:
        feed.stop()
        del reader, batch
        feed.wait()


_BAD_CELL = re.compile(r"column #(\d+): Row #(\d+): CSV conversion error to (\w+): ?(.*)", re.S)
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_BAD_VALUE = re.compile(r"invalid value '(.*)'", re.S)


@dataclass(frozen=True)
class CsvTable(TableRows):
    """Rows of one file; every feature is read as float64, the label as text."""

    columns: tuple[str, ...]
    """Names of all columns in file order."""
    dialect: Dialect
    blank_lines: int = 0
    has_header: bool = True
    watched: tuple[str, ...] = ()
    """Further columns in whose text a quote may be open."""
    lines: Lines | None = None
    """Where rows begin, if they have been counted."""

    @property
    def _separator(self) -> str:
        return self.dialect.separator(self.location.basename)

    def counted(self) -> "CsvTable":
        """This reader, with the rows counted of a plain file of this host that can be sought."""
        plain = self.location.is_local and self.dialect.encoding == "utf-8"
        if not plain or self.location.basename.lower().endswith(PACKED[1:]):
            return self
        with readable(self.location.name), self.location.open() as file:
            lines = count_lines(file, self._separator)
        n_rows = None if lines is None else lines.n - self.has_header
        return replace(self, lines=lines, n_rows=n_rows)

    @property
    def features(self) -> tuple[str, ...]:
        """The stored columns that are features."""
        texts = self.selection.texts
        return tuple(name for name in self.selection.columns if name not in texts)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns read as text: label, ids, groups, those read as they are and those watched."""
        features = set(self.features)
        names = dict.fromkeys((*self.selection.columns, *self.watched))
        return tuple(name for name in names if name not in features)

    @property
    def block_bytes(self) -> int:
        """Bytes of text parsed at a time: 1 MiB, or more where a row may be longer."""
        return max(1 << 20, 40 * len(self.columns))

    def _place(self, row: int) -> tuple[int, int]:
        """The last line up to a row that reading can begin at, and where it begins."""
        return (0, 0) if self.lines is None else self.lines.before(row + self.has_header)

    def begin(self, start: int) -> int:
        return max(0, self._place(start)[0] - self.has_header)

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows from `start` on, in batches of about `block_bytes` of text; `rows` is unused."""
        line, byte = self._place(start)
        options = self._options(from_the_top=line == 0)
        try:
            with (
                opened(self.location) as file,
                closing(csv_batches(file, self.dialect.encoding, *options)) as batches,
            ):
                if line > 0:
                    file.seek(byte)
                for batch in batches:
                    self._check_quotes(batch, start)
                    start += batch.num_rows
                    yield batch if self.selection.beside.id is None else self._present(batch)
        except pa.ArrowInvalid as error:
            raise self._explain(str(error), start) from error

    def _options(self, *, from_the_top: bool) -> tuple[Any, ...]:
        """Arrow's, of reading, parsing and converting, from the first line on or a later one."""
        types = dict.fromkeys(self.features, pa.float64())
        return (
            pyarrow.csv.ReadOptions(
                use_threads=False,  # else the parser's errors do not tell the row
                block_size=self.block_bytes,
                skip_rows=self.blank_lines if from_the_top else 0,
                column_names=self.columns,
                skip_rows_after_names=int(self.has_header and from_the_top),
            ),
            pyarrow.csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(
                column_types=types | dict.fromkeys(self.texts, pa.string()),
                true_values=[],  # no column is read as such; lists take memory in each column
                false_values=[],
                include_columns=[*self.features, *self.texts],
                null_values=[*self.selection.missing(None)],
                strings_can_be_null=self.selection.beside.id is None,
                decimal_point=self.dialect.decimal,
            ),
        )

    def _present(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch whose gaps in text Arrow left, as there is an id, which may be any text."""
        missing, n = self.selection.missing, len(self.features)
        texts = [present(batch.column(n + at), missing(one)) for at, one in enumerate(self.texts)]
        return pa.RecordBatch.from_arrays([*batch.columns[:n], *texts], names=batch.schema.names)

    def _check_quotes(self, batch: pa.RecordBatch, row: int) -> None:
        """Refuse text over several lines: a quote that is not closed swallows the rows below."""
        watched = self.selection.aside if self.selection.raw else self.texts
        for name in (one for one in self.texts if one in watched):
            broken = pyarrow.compute.match_substring(batch.column(name), "\n").fill_null(False)
            at = broken.index(True).as_py()
            if at >= 0:
                raise InputError(
                    f"{self.location.name}: column {name!r} holds a line break at row "
                    f"{row + at} (from 0); look for a quote that is not closed, write it on one "
                    "line, or leave the column out"
                )

    def _explain(self, message: str, row: int) -> InputError:
        """The parser's message in the terms of the source; `row` rows had been read."""
        name, before = self.location.name, 1 + self.blank_lines + self.has_header
        if match := _BAD_CELL.search(message):
            column, at, kind = self.columns[int(match[1])], int(match[2]) - before, match[3]
            if kind == "string":
                return InputError(
                    f"{name}: row {at} (from 0), column {column!r}: not UTF-8; "
                    f"{hint_of_encoding(self.location, self.dialect)}"
                )
            value = _BAD_VALUE.search(match[4])
            what, cell = (shown(value[1]), value[1]) if value else (match[4], "")
            return InputError(
                f"{name}: feature column {column!r} is not numeric: {what} at row {at} (from 0); "
                f"{number_hint(cell, column, self.dialect.decimal, self.selection.use)}"
            )
        if match := _RAGGED.search(message):
            more = separator_hint(self.columns, self.dialect)
            return InputError(
                f"{name}: row {int(match[1]) - before} (from 0) has {match[3]} cells, the header "
                f"has {match[2]}; check its separators and quotes{more}"
            )
        if "straddling" in message:
            return InputError(
                f"{name}: some row after row {row} (from 0) does not end within "
                f"{self.block_bytes:,} bytes; look for a quote that is not closed"
            )
        return InputError(f"{name}: cannot be read as CSV after row {row} (from 0): {message}")


def look(location: SourcePath, request: Request) -> Look:
    """What a `.csv` or `.tsv` file with a header, perhaps packed, says it holds.

    Raises `InputError` if it has no rows.
    """
    header = read_header(location, request.dialect)
    if not header.has_rows:
        raise InputError(f"{location.name}: no rows below the header; give at least one")
    names, watched = header.cells, tuple(name for name in header.cells if name == request.ignore)
    table = CsvTable(location, None, names, request.dialect, header.blank_lines, watched=watched)
    return Look(table, names, hint=separator_hint(names, request.dialect))


def counted(source: Source) -> Source:
    """A source of CSV files with its rows counted, at a tenth of what it takes to read them, so
    that they are read from any row on; as it is where that cannot be."""
    reader = source.reader
    if not isinstance(reader, TablesReader):
        return source
    tables = tuple(
        table.counted() if isinstance(table, CsvTable) else table for table in reader.tables
    )
    rows = [table.n_rows for table in tables]
    if None in rows:
        return source
    n_rows = sum(filter(None, rows))
    return replace(source, n_rows=n_rows, reader=replace(reader, tables=tables))
