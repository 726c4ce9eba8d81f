"""Groups in source order and small tables as files of other tools, streamed; the format is told by
the ending of the name."""

import gzip
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from storage.arrays.groups import Arrays, array, read_rows
from storage.errors import NO_ROOM, InputError, StorageError, stored
from storage.files import durable
from storage.files.location import OBJECT_STORES, Location, check_address
from storage.runs.run import Run
from storage.sources.ids import StoredIds, id_column
from storage.sources.values.labels import Label
from storage.sources.values.texts import EXACT_IN_SHEET, plain_values

MOST_IN_SHEET = (1 << 20) - 1
"""Rows of a sheet below its header."""
MOST_IN_CELL = 32_767
"""Characters of a cell, of which openpyxl leaves out what is beyond."""
NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML, and so a workbook, cannot hold."""


Write = Callable[[Any, pa.Schema, Iterable[pa.Table]], None]
"""Writes tables of a schema to an open file, one after the other."""


def _streamed(opened: Callable[[Any, pa.Schema], Any]) -> Write:
    """A format for which Arrow has a writer of tables."""

    def write(sink: Any, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
        with opened(sink, schema) as writer:
            for table in tables:
                writer.write_table(table)

    return write


def _parquet(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Dictionaries only where values recur: of numbers and distances they take time and room."""
    wide = (pa.int64(), pa.float32(), pa.float64())
    names = [field.name for field in schema if field.type not in wide]
    return pq.ParquetWriter(sink, schema, use_dictionary=names)


_csv = _streamed(pyarrow.csv.CSVWriter)


def _packed_csv(sink: Any, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with gzip.GzipFile("", "wb", fileobj=sink, mtime=0) as packed:  # Arrow's would close the sink
        _csv(packed, schema, tables)


def _lines(sink: Any, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """A JSON object a row and line."""
    for table in tables:
        for row in _rows(table):
            plain = dict(zip(schema.names, map(_finite, row), strict=True))
            line = json.dumps(plain, ensure_ascii=False, default=str)
            sink.write(line.encode() + b"\n")


def _workbook(sink: Any, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """A sheet whose text is text, also where it looks like a formula."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    book: Any = Workbook(write_only=True)
    sheet = book.create_sheet()

    def cell(value: Any) -> WriteOnlyCell:
        # others, such as ids, are text
        if isinstance(value, (int, Decimal)) and not -EXACT_IN_SHEET <= value <= EXACT_IN_SHEET:
            value = str(value)
        elif getattr(value, "tzinfo", None) is not None:
            value = value.isoformat(" ")  # a time in a sheet is of no zone
        is_text = isinstance(value, str)
        if is_text and len(value) > MOST_IN_CELL:
            raise InputError(
                f"a cell of a sheet holds {MOST_IN_CELL:,} characters, and {value[:20]!r}… has "
                f"{len(value):,}; name the file .csv or .parquet"
            )
        made = WriteOnlyCell(sheet, NO_XML.sub("\ufffd", value) if is_text else value)
        if is_text:
            made.data_type = "s"
        return made

    try:
        sheet.append([cell(name) for name in schema.names])
        for table in tables:
            for row in _rows(table):
                sheet.append([cell(value) for value in row])
        book.save(sink)
    finally:
        if not sheet.closed:  # else it tells of it when the process ends
            sheet.close()


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*map(plain_values, _short(table).columns), strict=True)


def _finite(value: Any) -> Any:
    """A value without the numbers that JSON has not, within lists and structures, too."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value


def _short(table: pa.Table) -> pa.Table:
    """A table whose float32 are the float64 of as few digits: 0.3, and not 0.30000001192."""
    for at, field in enumerate(table.schema):
        if field.type == pa.float32():
            column = table.column(at).cast(pa.string()).cast(pa.float64())
            table = table.set_column(at, field.name, column)
    return table


FORMATS: dict[str, Write] = {
    ".parquet": _streamed(_parquet),
    ".csv": _csv,
    ".csv.gz": _packed_csv,
    ".xlsx": _workbook,
    ".jsonl": _lines,
    ".arrow": _streamed(pa.ipc.new_file),
    ".feather": _streamed(pa.ipc.new_file),
}
"""What writes tables, by the end of a name."""
FLAT = (".csv", ".csv.gz", ".xlsx")
"""Formats without lists."""


def ending(target: str, n_rows: int = 0) -> str:
    """The format of a table by the name of its file.

    Raises `InputError` for any other name, and for a workbook where openpyxl is not installed or
    the rows are too many for a sheet.
    """
    end = next((end for end in FORMATS if target.lower().endswith(end)), None)
    if end is None:
        raise InputError(f"{target}: tables are written as {', '.join(FORMATS)}; name the file so")
    if end == ".xlsx":
        try:
            import openpyxl  # noqa: F401
        except ImportError as error:
            raise InputError(
                f"{target}: writing Excel workbooks needs openpyxl; pip install 'knnoise[xlsx]', "
                "or name it .csv"
            ) from error
        if n_rows > MOST_IN_SHEET:
            raise InputError(
                f"{target}: {n_rows:,} rows, and a sheet holds {MOST_IN_SHEET:,}; name it .csv or "
                ".parquet"
            )
    return end


_COPY_BYTES = 16 << 20
_MASK_ROWS = 1 << 14
CANDIDATES = "candidates"
LABELS = "_label"
"""Ending of columns of labels."""


def write_table(
    run: Run,
    path: str,
    target: str,
    columns: tuple[str, ...],
    metadata: Mapping[str, str] | None = None,
    ids: str | None = None,
    classes: Sequence[Label] | None = None,
    more: tuple[Callable[[slice], Arrays], int] | None = None,
) -> None:
    """Columns of a group as one table, a chunk at a time; complete or not there at all.

    The end of the target's name tells the format, one of `FORMATS`.

    metadata : key-value pairs for the file's schema
    ids : group of the same rows whose ids, if it has any, are the first column
    classes : the label of each code. Columns `…_label` hold these labels, masks of
        `candidates` lists of them. Lists are left out of CSV and Excel
    more : what reads further columns of some rows, and how many rows at once

    Raises `StorageError` where the target cannot be written; `InputError` where its name has
    another end, or is of a protocol that is not allowed, or the rows are too many for a sheet.
    """
    group = run.group(path)
    arrays = {name: array(group, name) for name in columns}
    first = arrays[columns[0]]
    flat = ending(target, first.shape[0]) in FLAT
    beside = () if more is None else tuple(more[0](slice(0, 0)))
    named = None if ids is None else StoredIds.of(run.group(ids))
    coded = all(type(value) is int and value == code for code, value in enumerate(classes or ()))
    names = None if classes is None or coded else label_names(classes)

    def table(rows: slice) -> pa.Table:
        data = {name: read_rows(column, rows) for name, column in arrays.items()}
        data = {name: column for name, column in data.items() if column.ndim == 1 or not flat}
        made = {}
        if named is not None:
            made[id_column(named.name, (*columns, *beside))] = named.read(rows)
        made |= {
            name: _sets(column, classes) if name == CANDIDATES else _arrow(column, name, names)
            for name, column in data.items()
        }
        if more is not None:
            made |= {name: pa.array(column) for name, column in more[0](rows).items()}
        return pa.table(made)

    schema = table(slice(0, 0)).schema.with_metadata(dict(metadata) if metadata else None)
    step = first.chunks[0] if more is None else min(first.chunks[0], more[1])
    starts = range(0, first.shape[0], step)
    tables = (table(slice(start, min(start + step, first.shape[0]))) for start in starts)
    write_tables(target, schema, tables)


def write_tables(target: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Tables one after the other as one, by path or URL, in the format that its name tells;
    complete or not there at all.

    Raises `StorageError` where the target cannot be written; `InputError` where its name has
    another end, or it is of a protocol that is not allowed.
    """
    write = FORMATS[ending(target)]
    with _whole_file(target) as sink:
        write(sink, schema, (table.cast(schema) for table in tables))


def label_names(classes: Sequence[Label]) -> pa.Array:
    """The labels as an array, as text where some are or no type holds all; null at the end, for
    none."""
    if not any(isinstance(value, str) for value in classes):
        with suppress(pa.ArrowInvalid):  # of long whole numbers beside fractions
            return pa.array([*classes, None])
    return pa.array([*map(str, classes), None])


def _arrow(column: npt.NDArray[Any], name: str, names: pa.Array | None) -> pa.Array:
    """A column, a second dimension as lists; labels by name."""
    flat = column.ravel()
    if names is not None and name.endswith(LABELS):
        known = (flat >= 0) & (flat < len(names) - 1)
        values = names.take(pa.array(np.where(known, flat, len(names) - 1).astype(np.int64)))
    else:
        values = pa.array(flat)
    if column.ndim == 1:
        return values
    ends = np.arange(0, len(flat) + 1, column.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(ends, values)


def _sets(mask: npt.NDArray[np.uint64], classes: Sequence[Label] | None) -> pa.Array:
    """Masks (row, word) as lists of labels; a few rows at a time, as masks are wide unpacked."""
    assert classes is not None
    names, lists = label_names(classes), []
    for start in range(0, max(1, len(mask)), _MASK_ROWS):
        words = np.ascontiguousarray(mask[start : start + _MASK_ROWS]).astype("<u8")
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        row, code = np.nonzero(bits)
        ends = np.searchsorted(row, np.arange(len(words) + 1)).astype(np.int32)
        lists.append(pa.ListArray.from_arrays(ends, names.take(pa.array(code))))
    return pa.concat_arrays(lists)


def write_columns(target: str, columns: Mapping[str, pa.Array]) -> None:
    """A small table, as `write_tables` writes it."""
    table = pa.table(dict(columns))
    write_tables(target, table.schema, [table])


def write_bytes(target: str, content: bytes) -> None:
    """A file anywhere, by path or URL; complete or not there at all.

    Raises `StorageError` where the target cannot be written; `InputError` where it is of a protocol
    that is not allowed.
    """
    with _whole_file(target) as sink:
        sink.write(content)


PAGES = (".html", ".htm")


def check_target(
    target: str, page: bool = False, other: str | None = None, inputs: Iterable[object] = ()
) -> None:
    """Raise `InputError` where the system tells beforehand that no file can be written, its name is
    of another format than a table's or, if so, a page's, or it is one of the `inputs`, paths of
    files and folders that are read. Names that end with `other` are right, too."""
    check_address(target)
    for read in inputs:
        if isinstance(read, str | Path) and is_of(target, str(read)):
            what = "is what is read, and would be written over"
            if not os.path.exists(target):
                what = f"would be one of the files of {read} from then on"
            raise InputError(f"{target}: {what}; name another")
    if "://" not in target and os.path.exists(target) and not os.path.isfile(target):
        what = "a folder" if os.path.isdir(target) else "no plain file"
        raise InputError(f"{target}: is {what}; name a file")
    if not page:
        if other is None or not target.lower().endswith(other):
            ending(target)
    elif not target.lower().endswith(PAGES):
        raise InputError(f"{target}: a page is written as .html; name the file so")
    if "://" not in target:
        Location.of(Path(target).parent).check_writable()


def is_of(target: str, read: str, *, itself: bool = False) -> bool:
    """Whether a file or folder is another one, by whatever name or link, or, unless `itself`, is or
    would be one of the files that are read of that folder or pattern."""
    if "://" in target.removeprefix("file://") or "://" in read.removeprefix("file://"):
        return target == read
    file, path = (Path(one.removeprefix("file://")) for one in (target, read))
    if os.path.isdir(path) and not itself:
        whole, folder = file.resolve(), path.resolve()
        if folder not in whole.parents or file.name[:1] in "._":
            return False
        return all("=" in name for name in whole.relative_to(folder).parts[:-1])
    if not os.path.exists(file):  # or not to be seen
        if itself or not has_magic(read) or os.path.exists(path):
            return False
        folders = (Path(one).resolve() for one in glob(str(path.parent)))
        return fnmatch(file.name, path.name) and file.parent.resolve() in folders
    return any(file.samefile(one) for one in (path, *map(Path, glob(read))) if one.exists())


def read_schema(target: str) -> pa.Schema:
    """The schema of a Parquet file; an empty one where there is no whole Parquet file.

    Raises `InputError` for a protocol that is not allowed.
    """
    check_address(target)
    try:
        with fsspec.open(target, "rb") as file:
            return pq.read_schema(file)
    except (OSError, pa.ArrowException):
        return pa.schema([])


@contextmanager
def _whole_file(target: str) -> Iterator[Any]:
    """What a file is written to; raises as `write_bytes`."""
    check_address(target)
    try:
        if "://" not in target:
            with durable.whole(Path(os.path.realpath(target))) as sink:  # where a link leads
                yield sink
            return
        with tempfile.TemporaryFile() as staged:  # closing a remote file would publish half of it
            yield staged
            staged.seek(0)
            folders = target.partition("://")[0] not in OBJECT_STORES  # a bucket is not made
            with stored(target), fsspec.open(target, "wb", auto_mkdir=folders) as sink:
                shutil.copyfileobj(staged, sink, _COPY_BYTES)
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        # a protocol that fsspec does not know, or values that the format has not
        remedy = NO_ROOM.get(error.errno) if isinstance(error, OSError) and error.errno else None
        here = f" there, and in {tempfile.gettempdir()} for parts of sheets and uploads"
        room = f"; {remedy}{here}" if remedy else ""
        raise StorageError(f"cannot write {target}: {error}{room}") from error
