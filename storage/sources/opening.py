"""Open a source of any kind."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from urllib.parse import unquote

import numpy as np
import pyarrow.compute as pc

from storage.errors import InputError, listed, no_column, patiently, shown
from storage.sources.base import Source
from storage.sources.files import FileOfSource, SourcePath, packed, readable
from storage.sources.formats import arrow, csv, jsonl, parquet, xlsx
from storage.sources.formats.arrays import ArrayRows, LabeledReader, check_labels, is_mask
from storage.sources.formats.csv import CsvTable, read_header
from storage.sources.formats.npy import is_npy, open_npy, open_npz, read_npy
from storage.sources.formats.tables import Constants, Look, Selection, TablesReader, open_tables
from storage.sources.formats.zarr import MARKS, open_zarr
from storage.sources.request import (
    ALL,
    PLAIN,
    PLAIN_NUMBERS,
    Beside,
    Coding,
    Columns,
    Dialect,
    Request,
    likely_separator,
)
from storage.sources.values.labels import number_or_text

TABLES: dict[str, tuple[tuple[str, ...], Callable[[SourcePath, Request], Look]]] = {
    "csv": (packed(".csv", ".tsv"), csv.look),
    "parquet": ((".parquet", ".pq"), parquet.look),
    "arrow": ((".feather", ".arrow", ".ipc"), arrow.look),
    "jsonl": (packed(".jsonl", ".ndjson"), jsonl.look),
    "xlsx": ((".xlsx", ".xlsm"), xlsx.look),
}
"""Kinds of tables: their extensions, and what looks at a file."""
ARRAYS = {".npy": open_npy, ".npz": open_npz}
"""What opens files of arrays, by extension."""
KNOWN = (
    ".csv, .tsv, .jsonl (also .gz, .bz2, .xz, .zst, .zip), .parquet, .feather, .arrow, .xlsx, "
    ".npy, .npz, a folder or pattern of tables, or a Zarr group"
)
TEXT = packed(".csv", ".tsv", ".txt")
"""Extensions of files of labels that are text."""
MISSING = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder that stands for none."""
_ROWS = 1 << 16
"""Rows whose ids are read at a time."""


def open_source(
    source: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    with_labels: bool = True,
    features: tuple[str, ...] | None = None,
    ignore: str | None = None,
    dialect: Dialect = PLAIN,
    columns: Columns = ALL,
    coding: Coding = PLAIN_NUMBERS,
    raw: bool = False,
    candidates: str | None = None,
) -> Source:
    """Open a path, a pattern or an fsspec URL; the format is told by the extension, or by what a
    folder holds.

    The labels are the column `label_column` of a table (required there), the array `y` (or
    `label_column`) of npz and Zarr, or the file `labels`, in which `label_column` may name one
    of several columns. All other columns of a table are features, in file order, as far as
    `columns` does not choose among them.

    To score, give `with_labels=False`, the `features` of training (tables are reordered by
    name; of arrays only the number can be checked) and the training's label column as
    `ignore`: it is no feature, if present.

    `dialect` is of text files, those of labels included; `coding` says what becomes of text columns
    and of gaps. A `raw` source of tables has columns of
    any type, to be looked at (`look_at`) and not to be read as features.

    `candidates` divides labels that are text into sets of candidates; those that are lists or a
    mask are such sets anyway.

    Raises `InputError` if the source cannot be opened as asked, and `UnavailableError` if it is
    out of reach after some tries; what only reading tells is raised by `Source.chunks`.
    """
    location = SourcePath.of(source)
    own_labels = with_labels and labels is None
    column = label_column if labels is None else None
    request = Request(column, own_labels, features, ignore, dialect, columns, coding, raw)

    def opened() -> Source:
        with readable(location.name):
            made = (_open_pattern if location.is_pattern else _open)(location, request)
            if with_labels and labels is not None:
                made = attach_labels(made, SourcePath.of(labels), label_column, dialect)
            sets = candidates if made.candidates is None else made.candidates
            return replace(made, dialect=dialect, coding=coding, candidates=sets)

    return patiently(opened)


def open_cells(
    path: str | os.PathLike[str],
    choose: Callable[[str, tuple[str, ...]], Sequence[str]],
    dialect: Dialect = PLAIN,
    ids: str | None = None,
) -> Source:
    """A table whose columns are read as they are stored, any of them of any type.

    choose : of the file and its columns, those that are read
    ids : the one of them that names rows, if it is there

    Raises `InputError` as `open_source`, and for what is no table.
    """
    whole = open_source(path, with_labels=False, dialect=dialect, raw=True)
    name = whole.files[0]
    if not isinstance(whole.reader, TablesReader):
        raise InputError(f"{name}: must be a table, such as .csv or .parquet")
    alone = dialect.fixed and dialect.sep is None and len(whole.feature_names) == 1
    if alone and (sep := likely_separator(whole.feature_names)):  # where commas are decimal
        dialect = replace(dialect, sep=sep)
        whole = open_source(path, with_labels=False, dialect=dialect, raw=True)
    keep = tuple(one for one in choose(name, whole.feature_names) if one != ids)
    columns = Columns(id=ids, keep=keep, id_needed=False)
    return open_source(path, with_labels=False, dialect=dialect, raw=True, columns=columns)


def list_sources(folder: str | os.PathLike[str]) -> list[str]:
    """Everything in a folder that can be a source of its own, in order of name; each as it has to
    be given to `open_source`, with the secrets in the folder's address.

    Names that begin with a dot or an underscore are left out, and files of unknown kinds and runs.

    Raises `InputError` if there is no such folder, or it is itself one source or a run.
    """
    return patiently(lambda: _list(SourcePath.of(folder)))


def _list(location: SourcePath) -> list[str]:
    with readable(location.name):
        if location.fs.info(location.path)["type"] != "directory":
            raise InputError(f"{location.name}: not a folder; give the folder that files come to")
        children = location.entries()
        if any(child.basename in MARKS for child, _ in children):
            raise InputError(
                f"{location.name}: a Zarr group is one source; give the folder it is in"
            )
        if _is_run(location):
            raise InputError(f"{location.name}: is a run; give the folder that files come to")
        return [
            child.url
            for child, is_folder in children
            if child.basename[:1] not in "._"
            and (is_folder or _table_kind(child) or child.basename.lower().endswith(tuple(ARRAYS)))
            and not (is_folder and _is_run(child))
        ]


def _is_run(folder: SourcePath) -> bool:
    """Whether a folder is that of a run, which is no source."""
    names = "run.json", "ledger"
    return all(folder.fs.exists(f"{folder.path.rstrip('/')}/{name}") for name in names)


def _open(location: SourcePath, request: Request) -> Source:
    info = location.fs.info(location.path)
    if info["type"] == "directory":
        return _open_folder(location, request)
    location.check_plain()
    if info["size"] == 0:
        raise InputError(f"{location.name}: the file is empty; give a header and rows")
    kind = _table_kind(location)
    if kind is not None:
        return open_tables(kind, TABLES[kind][1], {location: {}}, request, location)
    for extension, open_ in ARRAYS.items():
        if location.basename.lower().endswith(extension):
            return open_(location, request)
    raise InputError(f"{location.name}: unknown kind of file; give {KNOWN}")


def _table_kind(location: SourcePath) -> str | None:
    """The kind of a table by its extension; None for any other file."""
    lower = location.basename.lower()
    kinds = (kind for kind, (extensions, _) in TABLES.items() if lower.endswith(extensions))
    return next(kinds, None)


def _open_folder(location: SourcePath, request: Request) -> Source:
    children = [child for child, _ in location.entries()]
    if any(child.basename in MARKS for child in children):
        return open_zarr(location, request)
    partitioned = partitions(location)
    files = partitioned or {c: {} for c in children if c.basename[:1] not in "._"}
    kinds = {kind for file in files if (kind := _table_kind(file)) is not None}
    if len(kinds) > 1:
        raise InputError(
            f"{location.name}: files of several kinds in it ({', '.join(sorted(kinds))}); give one "
            f"kind by a pattern, such as {location.name.rstrip('/')}/*.parquet"
        )
    if kinds:
        (kind,) = kinds
        tables = {file: given for file, given in files.items() if _table_kind(file) == kind}
        return open_tables(kind, TABLES[kind][1], tables, request, location)
    what = "neither a Zarr group nor tables in it" if children else "the folder is empty"
    raise InputError(f"{location.name}: {what}; give {KNOWN}")


def _open_pattern(location: SourcePath, request: Request) -> Source:
    """The files that a pattern like `data/part-*.csv` matches, in order of name."""
    files = location.matches()
    if not files:
        raise InputError(f"{location.name}: no file matches; check the pattern")
    kinds = {_table_kind(file) for file in files}
    if len(kinds) > 1 or None in kinds:
        names = listed([file.basename for file in files])
        raise InputError(f"{location.name}: matches {names}; give tables of one kind")
    kind = str(kinds.pop())
    return open_tables(
        kind, TABLES[kind][1], {file: {} for file in files}, request, location.before_pattern()
    )


def partitions(root: SourcePath) -> dict[SourcePath, Constants]:
    """The files below folders named `key=value`, in order of name, with the values of their
    folders; none where the folder has no such folders.

    A key whose values are all numbers that need not be rounded is a column of numbers.
    """
    files = _below(root, {})
    if not any(values for _, values in files):
        return {}
    keys = set(files[0][1])
    for file, values in files:
        if set(values) != keys:
            raise InputError(
                f"{file.name}: lies in folders {sorted(values)}, {files[0][0].name} in "
                f"{sorted(keys)}; give one table"
            )
    columns = {key: _numbers_or_texts([values[key] for _, values in files]) for key in keys}
    return {
        file: {key: columns[key][at] for key in values} for at, (file, values) in enumerate(files)
    }


Texts = dict[str, str | None]


def _below(folder: SourcePath, values: Texts) -> list[tuple[SourcePath, Texts]]:
    files = []
    for child, is_folder in folder.entries():
        key, equals, value = child.basename.partition("=")
        if child.basename[:1] in "._":
            continue
        if not is_folder:
            files.append((child, values))
        elif equals:
            text = None if value == MISSING else unquote(value)
            files += _below(child, {**values, unquote(key): text})
    return files


def _numbers_or_texts(texts: Sequence[str | None]) -> Sequence[str | float | None]:
    try:  # Python would take 1_000 for a number
        numbers = [None if one is None else float(one.replace("_", "?")) for one in texts]
    except ValueError:
        return texts
    pairs = zip(texts, numbers, strict=True)
    rounded = any(one and isfinite(n or 0.0) and number_or_text(one) != n for one, n in pairs)
    return texts if rounded else numbers


@dataclass(frozen=True)
class TextRows(ArrayRows):
    """The label column of a text file."""

    reader: CsvTable

    def read(self, start: int, rows: int) -> Iterator[np.ndarray]:
        for block in TablesReader((self.reader,)).blocks(start, rows):
            assert block.label is not None
            yield block.label


def attach_labels(
    source: Source, location: SourcePath, column: str | None, dialect: Dialect
) -> Source:
    """The source with the labels of a file; `column` names one of several columns.

    A text file of one column may have a header: it has if it has one line more than the
    source has rows, whose text is on no other line. Raises `InputError` where the numbers of rows
    differ.
    """
    lower = location.basename.lower()
    with readable(location.name):
        try:
            empty = location.size() == 0
        except FileNotFoundError as error:
            if error.__cause__ is not None:  # a server's
                raise
            raise InputError(
                f"--labels {location.name}: no such file; check the path, or give --label-column "
                f"{location.name} where a column is called so"
            ) from error
        if source.n_rows is None:
            raise InputError(
                f"{location.name}: a {source.kind} source has its labels in a column of its own; "
                "give --label-column NAME instead of --labels"
            )
        if empty:
            raise InputError(f"{location.name}: the labels file is empty; give one label per row")
    labels: ArrayRows
    if lower.endswith(".npy") or is_npy(location):
        labels = read_npy(location)
    elif lower.endswith(TEXT):
        labels = _read_text(location, source.n_rows, column, dialect)
    else:
        raise InputError(f"{location.name}: labels must be a .npy, .csv, .tsv or .txt file")
    check_labels(labels, source.n_rows)
    if isinstance(labels, TextRows):
        _check_order(source, labels)
    return replace(
        source,
        label_name=column or location.basename,
        parts=(*source.parts, FileOfSource("labels", location.basename, location)),
        reader=LabeledReader(source.reader, labels),
        candidates="" if is_mask(labels) else None,
    )


def _check_order(source: Source, labels: TextRows) -> None:
    """`InputError` where a file of labels has the ids of the source's rows, in another order."""
    name, reader = source.beside.id, source.reader
    if name is None or name not in labels.reader.columns or not isinstance(reader, TablesReader):
        return
    beside = TablesReader((replace(labels.reader, selection=Selection(beside=Beside(name))),))
    ours, theirs = (
        chain.from_iterable(block.id for block in one.blocks(0, _ROWS) if block.id is not None)
        for one in (reader.of_ids(), beside)
    )
    for row, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            raise InputError(
                f"{labels.reader.location.name}: row {row} (from 0) is {name} {shown(other)}, and "
                f"that of {source.files[0]} {shown(one)}; bring both into one order, by {name}"
            )


def _read_text(location: SourcePath, n_rows: int, column: str | None, dialect: Dialect) -> TextRows:
    header = read_header(location, dialect)
    if column is None and len(header.cells) > 1:
        raise InputError(
            f"{location.name}: {len(header.cells)} columns; give --label-column, one of "
            f"{listed(header.cells)}"
        )
    if column is not None and column not in header.cells:
        raise InputError(f"{location.name}: {no_column(column, header.cells)}")
    names = ("label",) if column is None else header.cells
    lines, named = header.blank_lines, column is not None
    label = Selection(label=column or "label")
    reader = CsvTable(location, None, names, dialect, lines, has_header=named, selection=label)
    count = alike = 0
    with readable(location.name):
        for batch in reader.batches(0, 1):
            count += batch.num_rows
            alike += pc.sum(pc.equal(batch.column(0), header.cells[0])).as_py() or 0
    if column is None and count == n_rows + 1:
        if alike > 1:
            raise InputError(
                f"{location.name}: {count:,} lines for {n_rows:,} rows, and the first, "
                f"{shown(header.cells[0])}, is the label of others too; give one label per row, or "
                "name the label column if this is its header"
            )
        reader, count = replace(reader, has_header=True), n_rows
    return TextRows(location.name, (count,), np.dtypes.StringDType(), reader)
