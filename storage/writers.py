"""What writes a table to a file, by the ending of its name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from storage.errors import InputError

MOST_IN_SHEET = (1 << 20) - 1
"""Rows of a sheet below its header."""
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that a workbook cannot hold."""


class Writer(Protocol):
    """What tables are handed to, one after the other."""

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        ...


class _Lines:
    """A JSON object a row and line."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write_table(self, table: pa.Table) -> None:
        for row in _short(table).to_pylist():
            plain = {name: None if value != value else value for name, value in row.items()}
            line = json.dumps(plain, ensure_ascii=False, default=str)
            self._sink.write(line.encode() + b"\n")


def _short(table: pa.Table) -> pa.Table:
    """A table whose float32 are the float64 of as few digits: 0.3, and not 0.30000001192."""
    for at, field in enumerate(table.schema):
        if field.type == pa.float32():
            column = table.column(at).cast(pa.string()).cast(pa.float64())
            table = table.set_column(at, field.name, column)
    return table


class _Sheet:
    """Rows of a sheet; text is text, also where it looks like a formula."""

    def __init__(self, sheet: Any) -> None:
        self._sheet = sheet

    def write_table(self, table: pa.Table) -> None:
        for row in zip(*(column.to_pylist() for column in _short(table).columns), strict=True):
            self.append(row)

    def append(self, row: tuple[Any, ...]) -> None:
        """Write one row."""
        from openpyxl.cell import WriteOnlyCell

        cells = []
        for value in row:
            is_text = isinstance(value, str)
            cell = WriteOnlyCell(self._sheet, _NO_XML.sub("\ufffd", value) if is_text else value)
            if is_text:
                cell.data_type = "s"
            cells.append(cell)
        self._sheet.append(cells)


@contextmanager
def _packed_csv(sink: Any, schema: pa.Schema) -> Iterator[Writer]:
    with (
        pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), "gzip") as packed,
        pyarrow.csv.CSVWriter(packed, schema) as writer,
    ):
        yield writer


@contextmanager
def _lines(sink: Any, schema: pa.Schema) -> Iterator[Writer]:
    yield _Lines(sink)


@contextmanager
def _workbook(sink: Any, schema: pa.Schema) -> Iterator[Writer]:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = _Sheet(book.create_sheet())
    sheet.append(tuple(schema.names))
    yield sheet
    book.save(sink)


Open = Callable[[Any, pa.Schema], Any]
FORMATS: dict[str, Open] = {
    ".parquet": pq.ParquetWriter,
    ".csv": pyarrow.csv.CSVWriter,
    ".csv.gz": _packed_csv,
    ".xlsx": _workbook,
    ".jsonl": _lines,
    ".arrow": pa.ipc.new_file,
    ".feather": pa.ipc.new_file,
}
"""What opens a writer, by the end of a name."""
FLAT = (".csv", ".csv.gz", ".xlsx")
"""Formats without lists."""


def ending(target: str) -> str:
    """The format of a table by the name of its file.

    Raises `InputError` for any other name, and for a workbook where openpyxl is not installed.
    """
    found = next((end for end in FORMATS if target.lower().endswith(end)), None)
    if found is None:
        raise InputError(f"{target}: tables are written as {', '.join(FORMATS)}; name the file so")
    if found == ".xlsx":
        try:
            import openpyxl  # noqa: F401
        except ImportError as error:
            raise InputError(
                f"{target}: writing Excel workbooks needs openpyxl; pip install 'knnoise[xlsx]', "
                "or name it .csv"
            ) from error
    return found


def open_writer(target: str, sink: Any, schema: pa.Schema) -> Any:
    """What writes tables of the format that the target's name tells."""
    return FORMATS[ending(target)](sink, schema)
