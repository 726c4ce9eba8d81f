"""Sheets of Excel workbooks, streamed; openpyxl is needed, and an extra."""

import io
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from math import nan
from typing import IO, Any
from xml.etree.ElementTree import XMLParser

import pyarrow as pa

from storage.errors import InputError, listed, shown
from storage.sources.blocks import piece_rows
from storage.sources.files import SourcePath, open_zip, readable
from storage.sources.formats.tables import Look, TableRows
from storage.sources.request import Request, check_width, number_hint
from storage.sources.values.labels import plain_number
from storage.sources.values.texts import EXACT_IN_SHEET, MISSING

PART_BYTES, TEXT_BYTES, ROW_BYTES = 16 << 20, 64 << 20, 2 << 20
"""Longest part of a workbook that is held, its shared texts, and a row of a sheet; unpacked."""
TEXT_PARTS = 1 << 16
"""Elements of a shared text at most: it has up to 32,767 characters."""
MOST_ROWS = 1 << 20
"""Rows of a sheet: as many as Excel writes."""
MOST_SHEETS = 16
"""Sheets that are looked through for a table."""
CELL_BYTES = 100
"""About what a cell takes while it is read."""
ERRORS = frozenset(["#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"])
"""Of formulas, which are no values."""

Cells = tuple[Any, ...]


@dataclass(frozen=True)
class XlsxTable(TableRows):
    """Rows of one sheet; every feature is read as float64, the rest as text."""

    columns: tuple[str, ...]
    """Names of all columns in the order of the sheet."""
    sheet: str | None
    decimal: str

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """All rows."""
        wanted = self.selection.columns
        place = {name: self.columns.index(name) for name in wanted}
        size = piece_rows(CELL_BYTES * len(self.columns), rows)
        with _book(self.location) as (_, of_sheet):
            every = of_sheet(self.sheet)
            next(every, None)
            while piece := list(islice(every, size)):
                for row, cells in enumerate(piece, start):
                    if len(cells) > len(self.columns):
                        raise InputError(
                            f"{self.location.name}: row {row} (from 0) has {len(cells)} cells, the "
                            f"header has {len(self.columns)}; name the columns, or clear what "
                            "stands beside the table"
                        )
                columns = []
                for name, at in place.items():
                    cells_there = [cells[at] if at < len(cells) else None for cells in piece]
                    columns.append(self._column(name, cells_there, start))
                yield pa.RecordBatch.from_arrays(columns, names=wanted)
                start += len(piece)

    def _column(self, name: str, cells: list[Any], start: int) -> pa.Array:
        if name in self.selection.texts:
            missing = ERRORS.union(self.selection.missing(name))
            return pa.array([_text(cell, missing) for cell in cells], pa.string())
        numbers = [self._number(cell, name, row) for row, cell in enumerate(cells, start)]
        return pa.array(numbers, pa.float64())

    def _number(self, cell: Any, name: str, row: int) -> float:
        if isinstance(cell, bool | int | float):
            return float(cell)
        text = _text(cell, ERRORS | MISSING)
        if text is None:
            return nan
        try:  # Python would take 1_000 for a number
            return float(text.replace(self.decimal, ".").replace("_", "?"))
        except ValueError as error:
            hint = number_hint(text, name, self.decimal, self.selection.use)
            raise InputError(
                f"{self.location.name}: feature column {name!r} is not numeric: {shown(text)} at "
                f"row {row} (from 0); {hint}"
            ) from error


def _text(cell: Any, missing: frozenset[str]) -> str | None:
    """A cell as CSV would have it; None for one whose text is none."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, (int, float)) and abs(cell) > EXACT_IN_SHEET:
        # rounded by whoever saved it: as an id it is that of no row
        return str(cell) if isinstance(cell, float) else f"{Decimal(cell):e}"
    if isinstance(cell, float):
        cell = plain_number(cell)
    if isinstance(cell, datetime):
        at_midnight = cell == datetime(cell.year, cell.month, cell.day)
        return (cell.date() if at_midnight else cell).isoformat()
    text = cell.isoformat() if isinstance(cell, date) else str(cell)
    return None if cell is None or text.strip() in missing else text


@contextmanager
def _book(
    location: SourcePath,
) -> Iterator[tuple[list[str], Callable[[str | None], Iterator[Cells]]]]:
    """The names of a workbook's sheets, and what gives the rows of one that are not blank, without
    the empty cells at their end."""
    try:
        from openpyxl.reader.excel import ExcelReader
        from openpyxl.styles.stylesheet import apply_stylesheet
        from openpyxl.worksheet._reader import WorkSheetParser
        from openpyxl.xml.constants import SHARED_STRINGS
    except ImportError as error:
        raise InputError(
            f"{location.name}: reading Excel workbooks needs openpyxl; pip install "
            "'knnoise[xlsx]', or save it as CSV"
        ) from error
    remedy = "save it anew as .xlsx without a password, or as CSV"
    problem = "cannot be read as an Excel workbook"
    with (
        readable(location.name, problem, remedy),
        warnings.catch_warnings(action="ignore"),  # of styles and extensions, which do not matter
        location.open() as file,
        open_zip(location.name, file) as archive,
    ):
        reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        book: Any = archive
        opened, reader.archive = archive.open, archive

        def whole(name: str, room: int = PART_BYTES) -> _Part:
            return _Part(location.name, opened(name), room, archive.getinfo(name).file_size)

        book.open = lambda name, *_: whole(name)
        reader.read_manifest()
        texts = reader.package.find(SHARED_STRINGS)
        if texts is not None:
            part = whole(texts.PartName[1:], TEXT_BYTES)
            taken = XMLParser(target=_Texts(location.name))
            while piece := part.read(1 << 16):
                taken.feed(piece)
            reader.shared_strings = taken.close()
        reader.read_workbook()
        apply_stylesheet(archive, reader.wb)
        every = {one.name: rel.target for one, rel in reader.parser.find_sheets()}
        sheets = {name: at for name, at in every.items() if "/worksheets/" in at}

        def rows(sheet: str | None) -> Iterator[Cells]:
            part = _Part(location.name, opened(_sheet(location.name, sheets, sheet)), ROW_BYTES)
            parser = WorkSheetParser(
                part,
                reader.shared_strings,
                data_only=True,
                epoch=reader.wb.epoch,
                date_formats=reader.wb._date_formats,
                timedelta_formats=reader.wb._timedelta_formats,
            )
            return _filled(location.name, parser, part)

        yield list(sheets), rows


def _sheet(where: str, sheets: dict[str, str], wanted: str | None) -> str:
    """The part of the sheet of a name, or of the first."""
    if not sheets:
        raise InputError(f"{where}: no sheet with cells; give a table")
    if wanted is not None and wanted not in sheets:
        raise InputError(f"{where}: no sheet {wanted!r}; sheets are {listed(list(sheets))}")
    return next(iter(sheets.values())) if wanted is None else sheets[wanted]


class _Part(io.BufferedIOBase):
    """A part of a workbook, of which so much is read before room is made again, for the next row of
    a sheet; refused before it is read, where all of it is to be held and says itself to be
    larger."""

    def __init__(self, where: str, file: IO[bytes], room: int, size: int = 0) -> None:
        self._where, self._file, self.room = where, file, room
        self._check(room - size)

    def read(self, size: int | None = -1) -> bytes:
        most = self.room + 1
        content = self._file.read(most if size is None or size < 0 else min(size, most))
        self.room -= len(content)
        self._check(self.room)
        return content

    def _check(self, room: int) -> None:
        if room < 0:
            raise InputError(
                f"{self._where}: a row of its sheet, or a part that is held in memory, is too long "
                f"(a row has up to {ROW_BYTES:,} bytes); save it as CSV or Parquet"
            )


class _Texts:
    """The shared texts of a workbook, taken from a parser; a tree of them would take much more."""

    def __init__(self, where: str) -> None:
        self._where, self._parts = where, 0
        self._texts: list[str] = []
        self._open: list[str] = []
        self._pieces: list[str] = []

    def start(self, tag: str, _: object) -> None:
        self._open.append(tag.rpartition("}")[2])
        self._parts += 1
        if self._parts > TEXT_PARTS:
            raise InputError(
                f"{self._where}: a text of more than {TEXT_PARTS:,} parts; save it as CSV"
            )

    def data(self, text: str) -> None:
        if self._open[-1] == "t" and "rPh" not in self._open:  # no hints how to pronounce it
            self._pieces.append(text)

    def end(self, _: str) -> None:
        if self._open.pop() == "si":
            self._texts.append("".join(self._pieces).replace("x005F_", ""))
            self._pieces.clear()
            self._parts = 0

    def close(self) -> list[str]:
        return self._texts


def _filled(where: str, parser: Any, part: _Part) -> Iterator[Cells]:
    """The rows that hold anything, each up to its last cell that does."""
    for number, (_, row) in enumerate(parser.parse()):
        if number == MOST_ROWS:
            raise InputError(f"{where}: more than {MOST_ROWS:,} rows in a sheet; save it as CSV")
        filled = {cell["column"]: cell["value"] for cell in row if cell["value"] not in (None, "")}
        if filled:
            yield tuple(filled.get(place) for place in range(1, max(filled) + 1))
        parser.row_dimensions.clear()  # kept of each row
        part.room = ROW_BYTES


def _header(rows: Iterator[Cells]) -> tuple[tuple[str, ...], bool]:
    """The first row of a sheet as names, and whether there are rows below."""
    header = next(rows, ())
    names = tuple("" if cell is None else str(cell).strip() for cell in header)
    return names, next(rows, None) is not None


def look(location: SourcePath, request: Request) -> Look:
    """What a sheet with a header says it holds.

    Raises `InputError` if it has no rows.
    """
    sheet = request.dialect.sheet
    wanted = {*filter(None, (request.label, request.columns.id)), *(request.features or ())}
    with _book(location) as (sheets, of_sheet):
        names, has_rows = _header(of_sheet(sheet))
        if sheet is None and (not has_rows or not wanted <= set(names)):
            for other in sheets[1:MOST_SHEETS]:
                there, rows = _header(of_sheet(other))
                if rows and wanted <= set(there):
                    what = "other columns than are wanted" if has_rows else "no rows below a header"
                    raise InputError(
                        f"{location.name}: its first sheet has {what}, and sheet {other!r} has "
                        f"them; give --sheet {shlex.quote(other)}"
                    )
    if not has_rows:
        raise InputError(
            f"{location.name}: no rows below a header in the sheet; give at least one, or --sheet"
        )
    check_width(location.name, len(names))
    return Look(XlsxTable(location, None, names, sheet, request.dialect.decimal), names)
