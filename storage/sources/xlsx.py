"""Sheets of Excel workbooks, streamed; openpyxl is needed, and an extra."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from math import nan
from typing import Any

import pyarrow as pa
import pyarrow.csv

from storage.errors import InputError

from .base import piece_rows
from .dialect import number_hint
from .look import Look
from .paths import SourcePath, listed, readable, shown
from .request import Request, check_width
from .tables import Selection
from .zips import open_zip

MEMBER_BYTES = 256 << 20
"""Largest part of a workbook, unpacked, besides its sheets: parts are held, sheets are streamed."""
CELL_BYTES = 100
"""About what a cell takes while it is read."""
MISSING = frozenset(
    [
        *pyarrow.csv.ConvertOptions().null_values,
        *("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"),
    ]
)
"""Texts that are no values: those of CSV, and the errors of formulas."""

Cells = tuple[Any, ...]


@dataclass(frozen=True)
class XlsxTable:
    """Rows of one sheet; every feature is read as float64, the rest as text."""

    location: SourcePath
    columns: tuple[str, ...]
    """Names of all columns in the order of the sheet."""
    selection: Selection
    sheet: str | None
    decimal: str
    n_rows: None = None
    """Only reading tells."""

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows from `start` on."""
        wanted = self.selection.columns
        place = {name: self.columns.index(name) for name in wanted}
        size = piece_rows(CELL_BYTES * len(self.columns), rows)
        with _rows(self.location, self.sheet) as found:
            next(found, None)
            below = islice(found, start, None)
            while piece := list(islice(below, size)):
                for row, cells in enumerate(piece, start):
                    self._check_length(cells, row)
                columns = [
                    self._column(name, [_at(cells, place[name]) for cells in piece], start)
                    for name in wanted
                ]
                yield pa.RecordBatch.from_arrays(columns, names=wanted)
                start += len(piece)

    def _check_length(self, cells: Cells, row: int) -> None:
        if len(cells) > len(self.columns):
            raise InputError(
                f"{self.location.name}: row {row} (from 0) has {len(cells)} cells, the header has "
                f"{len(self.columns)}; name the columns, or clear what stands beside the table"
            )

    def _column(self, name: str, cells: list[Any], start: int) -> pa.Array:
        if name in self.selection.texts:
            return pa.array([_text(cell) for cell in cells], pa.string())
        return pa.array(
            [self._number(cell, name, row) for row, cell in enumerate(cells, start)], pa.float64()
        )

    def _number(self, cell: Any, name: str, row: int) -> float:
        if isinstance(cell, bool | int | float):
            return float(cell)
        text = _text(cell)
        if text is None:
            return nan
        try:  # Python would take 1_000 for a number
            return float(text.replace(self.decimal, ".").replace("_", "?"))
        except ValueError as error:
            raise InputError(
                f"{self.location.name}: feature column {name!r} is not numeric: {shown(text)} at "
                f"row {row} (from 0); {number_hint(text, name, self.decimal)}"
            ) from error


def _at(cells: Cells, place: int) -> Any:
    return cells[place] if place < len(cells) else None


def _text(cell: Any) -> str | None:
    """A cell as CSV would have it; None for one that has no value."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime):
        at_midnight = cell == datetime(cell.year, cell.month, cell.day)
        return (cell.date() if at_midnight else cell).isoformat()
    text = cell.isoformat() if isinstance(cell, date) else str(cell)
    return None if cell is None or text.strip() in MISSING else text


def _sheets(location: SourcePath) -> list[str]:
    """Names of the sheets, in order."""
    with _book(location) as book:
        return [one.title for one in book.worksheets]


@contextmanager
def _rows(location: SourcePath, sheet: str | None) -> Iterator[Iterator[Cells]]:
    """The rows of a sheet that are not blank, without the empty cells at their end."""
    with _book(location) as book:
        table = _sheet(location.name, {one.title: one for one in book.worksheets}, sheet)
        table.reset_dimensions()  # some writers state too few
        whole = (_stripped(cells) for cells in table.iter_rows(values_only=True))
        yield (cells for cells in whole if cells)


@contextmanager
def _book(location: SourcePath) -> Iterator[Any]:
    """A workbook, to be read."""
    try:
        from openpyxl import load_workbook
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
    ):
        _check_size(location.name, file)
        file.seek(0)
        with closing(load_workbook(file, read_only=True, data_only=True)) as book:
            yield book


def _sheet(where: str, sheets: dict[str, Any], wanted: str | None) -> Any:
    """The sheet of a name, or the first."""
    if not sheets:
        raise InputError(f"{where}: no sheet with cells; give a table")
    if wanted is not None and wanted not in sheets:
        raise InputError(f"{where}: no sheet {wanted!r}; sheets are {listed(list(sheets))}")
    return next(iter(sheets.values())) if wanted is None else sheets[wanted]


def _check_size(where: str, file: Any) -> None:
    """`InputError` where a part that is held is larger than `MEMBER_BYTES`."""
    for info in open_zip(where, file).infolist():
        if info.file_size > MEMBER_BYTES and not info.filename.startswith("xl/worksheets/"):
            raise InputError(
                f"{where}: its part {shown(info.filename)} takes {info.file_size:,} bytes, "
                f"{MEMBER_BYTES:,} at most are read; save it as CSV or Parquet"
            )


def _stripped(cells: Cells) -> Cells:
    end = len(cells)
    while end and (cells[end - 1] is None or cells[end - 1] == ""):
        end -= 1
    return cells[:end]


def _header(location: SourcePath, sheet: str | None) -> tuple[tuple[str, ...], bool]:
    """The first row of a sheet as names, and whether there are rows below."""
    with _rows(location, sheet) as rows:
        header = next(rows, ())
        has_rows = next(rows, None) is not None
    return tuple("" if cell is None else str(cell).strip() for cell in header), has_rows


def look(location: SourcePath, request: Request) -> Look:
    """What a sheet with a header says it holds.

    Raises `InputError` if it has no rows.
    """
    sheet = request.dialect.sheet
    names, has_rows = _header(location, sheet)
    wanted = {*filter(None, (request.label, request.columns.id)), *(request.features or ())}
    if sheet is None and (not has_rows or not wanted <= set(names)):
        for other in _sheets(location)[1:]:
            there, rows = _header(location, other)
            if rows and wanted <= set(there):
                what = "no rows below a header" if not has_rows else "other columns than are wanted"
                raise InputError(
                    f"{location.name}: its first sheet has {what}, and sheet {other!r} has them; "
                    f"give --sheet {shlex.quote(other)}"
                )
    if not has_rows:
        raise InputError(
            f"{location.name}: no rows below a header in the sheet; give at least one, or --sheet"
        )
    check_width(location.name, len(names))

    def reader(selection: Selection) -> XlsxTable:
        return XlsxTable(location, names, selection, sheet, request.dialect.decimal)

    return Look(location, dict.fromkeys(names), names, None, lambda name: None, reader)
