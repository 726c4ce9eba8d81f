"""Labels in a file of their own: npy, or text with one label a line."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.delimited import CsvReader
from storage.sources.dialect import Dialect
from storage.sources.fingerprint import SourceFile
from storage.sources.header import read_header
from storage.sources.npy import read_npy
from storage.sources.packing import packed
from storage.sources.paths import SourcePath, listed, no_column, readable
from storage.sources.rows import LabeledReader, Rows, check_labels, is_mask
from storage.sources.tables import Selection

TEXT = packed(".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class TextRows:
    """The label column of a text file."""

    reader: CsvReader
    shape: tuple[int, ...]
    dtype: ClassVar[np.dtype[Any]] = np.dtypes.StringDType()

    @property
    def name(self) -> str:
        """The file, for messages."""
        return self.reader.location.name

    def read(self, start: int, rows: int) -> Iterator[np.ndarray]:
        """The labels from `start` on."""
        with readable(self.name):
            selection = self.reader.selection
            for batch in self.reader.batches(start, rows):
                label = selection.block(batch, self.name).label
                assert label is not None
                yield label


def attach_labels(
    source: Source, location: SourcePath, column: str | None, dialect: Dialect
) -> Source:
    """The source with the labels of a file; `column` names one of several columns.

    A text file of one column may have a header: it has if it has one line more than the
    source has rows. Raises `InputError` where the numbers of rows differ.
    """
    if source.n_rows is None:
        raise InputError(
            f"{location.name}: a {source.kind} source has its labels in a column of its own; "
            "name the label column instead of a labels file"
        )
    lower = location.basename.lower()
    with readable(location.name):
        if location.size() == 0:
            raise InputError(f"{location.name}: the labels file is empty; give one label per row")
    labels: Rows
    if lower.endswith(".npy"):
        labels = read_npy(location)
    elif lower.endswith(TEXT):
        labels = _read_text(location, source.n_rows, column, dialect)
    else:
        raise InputError(f"{location.name}: labels must be a .npy, .csv, .tsv or .txt file")
    check_labels(labels, source.n_rows)
    return replace(
        source,
        label_name=column or location.basename,
        parts=(*source.parts, SourceFile("labels", location.basename, location)),
        reader=LabeledReader(source.reader, labels),
        candidates="" if is_mask(labels) else None,
    )


def _read_text(location: SourcePath, n_rows: int, column: str | None, dialect: Dialect) -> TextRows:
    header = read_header(location, dialect)
    if column is None and len(header.cells) > 1:
        raise InputError(
            f"{location.name}: {len(header.cells)} columns; name the label column: one of "
            f"{listed(header.cells)}"
        )
    if column is not None and column not in header.cells:
        raise InputError(f"{location.name}: {no_column(column, header.cells)}")
    names = ("label",) if column is None else header.cells
    reader = CsvReader(
        location,
        names,
        Selection((), column or "label"),
        dialect,
        header.blank_lines,
        has_header=column is not None,
    )
    with readable(location.name):
        count = sum(batch.num_rows for batch in reader.batches(0, 1))
    if column is None and count == n_rows + 1:
        return TextRows(replace(reader, has_header=True), (n_rows,))
    return TextRows(reader, (count,))
