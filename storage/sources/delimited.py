"""CSV and tab-separated text, streamed."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from storage.errors import InputError
from storage.sources.dialect import Dialect, number_hint, separator_hint
from storage.sources.feed import csv_batches
from storage.sources.header import hint_of_encoding, opened, read_header
from storage.sources.look import Look
from storage.sources.paths import SourcePath, shown
from storage.sources.request import Request
from storage.sources.tables import Selection

_BAD_CELL = re.compile(r"column #(\d+): Row #(\d+): CSV conversion error to (\w+): ?(.*)", re.S)
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_BAD_VALUE = re.compile(r"invalid value '(.*)'", re.S)


@dataclass(frozen=True)
class CsvReader:
    """Rows of one file; every feature is read as float64, the label as text."""

    location: SourcePath
    columns: tuple[str, ...]
    """Names of all columns in file order."""
    selection: Selection
    dialect: Dialect
    blank_lines: int = 0
    has_header: bool = True
    watched: tuple[str, ...] = ()
    """Further columns in whose text a quote may be open."""
    n_rows: None = None
    """Only reading tells."""

    @property
    def features(self) -> tuple[str, ...]:
        """The stored columns that are features."""
        texts = self.selection.texts
        return tuple(name for name in self.selection.columns if name not in texts)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns read as text: label, ids, groups, those read as they are and those watched."""
        features = set(self.features)
        found = dict.fromkeys((*self.selection.columns, *self.watched))
        return tuple(name for name in found if name not in features)

    @property
    def block_bytes(self) -> int:
        """Bytes of text parsed at a time: 1 MiB, or more where a row may be longer."""
        return max(1 << 20, 40 * len(self.columns))

    def batches(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows from `start` on, in batches of about `block_bytes` of text; `rows` is unused."""
        stop = 0
        try:
            with (
                opened(self.location) as file,
                closing(csv_batches(file, self.dialect.encoding, *self._options())) as batches,
            ):
                for batch in batches:
                    self._check_quotes(batch, stop)
                    stop += batch.num_rows
                    if stop > start:
                        yield batch.slice(max(0, start - (stop - batch.num_rows)))
        except pa.ArrowInvalid as error:
            raise self._explain(str(error), stop) from error

    def _options(self) -> tuple[Any, ...]:
        """Arrow's, of reading, parsing and converting."""
        types = dict.fromkeys(self.features, pa.float64())
        return (
            pyarrow.csv.ReadOptions(
                use_threads=False,  # else the parser's errors do not tell the row
                block_size=self.block_bytes,
                skip_rows=self.blank_lines,
                column_names=self.columns,
                skip_rows_after_names=int(self.has_header),
            ),
            pyarrow.csv.ParseOptions(
                delimiter=self.dialect.separator(self.location.basename), newlines_in_values=True
            ),
            pyarrow.csv.ConvertOptions(
                column_types=types | dict.fromkeys(self.texts, pa.string()),
                true_values=[],  # no column is read as such; lists take memory in each column
                false_values=[],
                include_columns=[*self.features, *self.texts],
                strings_can_be_null=True,
                decimal_point=self.dialect.decimal,
            ),
        )

    def _check_quotes(self, batch: pa.RecordBatch, row: int) -> None:
        """Refuse text over several lines: a quote that is not closed swallows the rows below."""
        for name in self.texts:
            if name in self.selection.raw:
                continue
            broken = pyarrow.compute.match_substring(batch.column(name), "\n").fill_null(False)
            at = broken.index(True).as_py()
            if at >= 0:
                raise InputError(
                    f"{self.location.name}: column {name!r} holds a line break at row "
                    f"{row + at} (from 0); look for a quote that is not closed"
                )

    def _explain(self, message: str, row: int) -> InputError:
        """The parser's message in the terms of the source; `row` rows had been read."""
        name, before = self.location.name, 1 + self.blank_lines + self.has_header
        if found := _BAD_CELL.search(message):
            column, at, kind = self.columns[int(found[1])], int(found[2]) - before, found[3]
            if kind == "string":
                return InputError(
                    f"{name}: row {at} (from 0), column {column!r}: not UTF-8; "
                    f"{hint_of_encoding(self.location, self.dialect)}"
                )
            value = _BAD_VALUE.search(found[4])
            what = shown(value[1]) if value else found[4]
            return InputError(
                f"{name}: feature column {column!r} is not numeric: {what} at row {at} (from 0); "
                f"{number_hint(value[1] if value else '', column, self.dialect.decimal)}"
            )
        if found := _RAGGED.search(message):
            return InputError(
                f"{name}: row {int(found[1]) - before} (from 0) has {found[3]} cells, the header "
                f"has {found[2]}; check its separators and quotes"
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

    def reader(selection: Selection) -> CsvReader:
        return CsvReader(
            location,
            header.cells,
            selection,
            request.dialect,
            header.blank_lines,
            watched=tuple(name for name in header.cells if name == request.ignore),
        )

    kinds = dict.fromkeys(header.cells)
    hint = separator_hint(header.cells)
    return Look(location, kinds, header.cells, None, lambda name: None, reader, hint)
