"""CSV and tab-separated text, streamed."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from storage.errors import InputError

from .base import Block, Source
from .fingerprint import SourceFile
from .paths import SourcePath, readable, shown
from .request import Request, choose_columns
from .tables import to_block

_BAD_CELL = re.compile(r"column #(\d+): Row #(\d+): CSV conversion error to (\w+): ?(.*)", re.S)
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_BAD_VALUE = re.compile(r"invalid value '(.*)'", re.S)


@dataclass(frozen=True)
class Header:
    """The first row of a file."""

    cells: tuple[str, ...]
    """Without surrounding spaces."""
    blank_lines: int
    """Lines before it."""
    has_rows: bool
    """Whether anything follows it."""


def delimiter_of(location: SourcePath) -> str:
    """Tab for `.tsv`, else comma."""
    return "\t" if ".tsv" in location.basename.lower() else ","


def read_header(location: SourcePath) -> Header:
    """Read the first row that is not blank; `InputError` if there is none."""
    with readable(location.name), location.open("infer") as file:
        text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, delimiter=delimiter_of(location))
        blank_lines = 0
        try:
            for cells in reader:
                if cells:
                    stripped = tuple(cell.strip() for cell in cells)
                    "".join(stripped).encode()  # UnicodeEncodeError where it was not UTF-8
                    return Header(stripped, blank_lines, any(reader))
                blank_lines = reader.line_num
        except (csv.Error, UnicodeEncodeError) as error:
            raise InputError(
                f"{location.name}: the header cannot be read as text ({error}); "
                "give a CSV file in UTF-8"
            ) from error
    raise InputError(f"{location.name}: the file is empty; give a header and rows")


@dataclass(frozen=True)
class CsvReader:
    """Rows of one file; every feature is read as float64, the label as text."""

    location: SourcePath
    columns: tuple[str, ...]
    """Names of all columns in file order."""
    features: tuple[str, ...]
    label: str | None
    blank_lines: int = 0
    has_header: bool = True

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns read as text: those that are no features, as far as they matter."""
        if self.features:
            features = set(self.features)
            return tuple(name for name in self.columns if name not in features)
        return () if self.label is None else (self.label,)

    @property
    def block_bytes(self) -> int:
        """Bytes of text parsed at a time: 1 MiB, or more where a row may be longer."""
        return max(1 << 20, 40 * len(self.columns))

    def blocks(self, start: int, rows: int) -> Iterator[Block]:
        """The rows from `start` on, in blocks of about `block_bytes` of text; `rows` is unused."""
        stop = 0
        try:
            with self.location.open("infer") as file, self._open(file) as batches:
                for batch in batches:
                    self._check_quotes(batch, stop)
                    stop += batch.num_rows
                    if stop > start:
                        kept = batch.slice(max(0, start - (stop - batch.num_rows)))
                        yield to_block(kept, self.features, self.label, 0)
        except pa.ArrowInvalid as error:
            raise self._explain(str(error), stop) from error

    def _open(self, file: object) -> pyarrow.csv.CSVStreamingReader:
        types = dict.fromkeys(self.features, pa.float64())
        return pyarrow.csv.open_csv(
            file,
            pyarrow.csv.ReadOptions(
                use_threads=False,  # else the parser's errors do not tell the row
                block_size=self.block_bytes,
                skip_rows=self.blank_lines,
                column_names=self.columns,
                skip_rows_after_names=int(self.has_header),
            ),
            pyarrow.csv.ParseOptions(
                delimiter=delimiter_of(self.location), newlines_in_values=True
            ),
            pyarrow.csv.ConvertOptions(
                column_types=types | dict.fromkeys(self.texts, pa.string()),
                include_columns=[*self.features, *self.texts],
                strings_can_be_null=True,
            ),
        )

    def _check_quotes(self, batch: pa.RecordBatch, row: int) -> None:
        """Refuse text over several lines: a quote that is not closed swallows the rows below."""
        for name in self.texts:
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
                    f"{name}: row {at} (from 0), column {column!r}: not UTF-8; save it as UTF-8"
                )
            value = _BAD_VALUE.search(found[4])
            what = shown(value[1]) if value else found[4]
            return InputError(
                f"{name}: feature column {column!r} is not numeric: {what} at row {at} (from 0); "
                "drop the column or encode it as numbers"
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


def open_csv(location: SourcePath, request: Request) -> Source:
    """A `.csv` or `.tsv` file with a header, perhaps compressed."""
    header = read_header(location)
    features, label = choose_columns(location.name, list(header.cells), request)
    if not header.has_rows:
        raise InputError(f"{location.name}: no rows below the header; give at least one")
    return Source(
        kind="csv",
        files=(location.name,),
        feature_names=features,
        label_name=label,
        n_rows=None,
        parts=(SourceFile("features", location.basename, location),),
        reader=CsvReader(location, header.cells, features, label, header.blank_lines),
    )
