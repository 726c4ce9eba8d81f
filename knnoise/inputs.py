"""Sources that are in memory, as files for the time of a call; those of Dask part by part."""

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np

from storage.errors import NO_ROOM, InputError, KnnoiseError, StorageError, listed, reason_of

BATCH_ROWS = 1 << 16
_SETS = (list, tuple, set, frozenset, np.ndarray)
INDEX = "index"
"""Name of the ids that a data frame's index without a name gives."""
LABELS, ANNOTATIONS = "labels", "annotations"
"""What labels are called that are an array, and annotations that are a table."""


@dataclass(frozen=True)
class Source:
    """A source by path, and what its object says of itself."""

    path: str
    labels: str | None
    ids: dict[str, str]
    """`id_column`, made of a data frame's index; nothing where that only counts the rows."""
    index: Any
    """That of a data frame of pandas, else None."""
    types: dict[str, Any]
    """Those of its columns, but for objects, which Arrow tells apart, and for what becomes text."""
    annotations: Any = None
    """By path, where they are a table."""


@contextmanager
def as_files(
    source: Any, labels: Any = None, id_column: str | None = None, annotations: Any = None
) -> Iterator[Source]:
    """A source, its labels and annotations by path: a path as it is; a data frame (pandas, polars,
    Dask), an Arrow table or record batch reader, a Dataset of Hugging Face, an array (NumPy, Dask)
    and anything with an Arrow stream, such as a relation of DuckDB, as files that are removed
    afterwards.

    id_column : where the rows are named by a column, their index is left out

    Raises
    ------
    InputError
        neither a path nor one of these.
    """
    with TemporaryDirectory(prefix="knnoise-") as folder, in_words_of_python(folder, source):
        with _as_table(f"the {type(source).__name__}"), _with_room():
            path, index = _source(source, Path(folder), id_column)
        ids = {} if index is None else {"id_column": index}
        indexed = all(_is_of(one, "pandas") and hasattr(one, "index") for one in (source, labels))
        if indexed and len(source) == len(labels) and not source.index.equals(labels.index):
            raise InputError(
                "labels: their index is not that of the rows; give labels.reindex(rows.index), or "
                "labels.to_numpy() where they are in the order of the rows"
            )
        with _as_table(ANNOTATIONS), _with_room():
            if annotations is source:
                annotations = path
            elif hasattr(annotations, "columns") or hasattr(annotations, "__arrow_c_stream__"):
                (beside := Path(folder) / "beside").mkdir()
                written = Path(_source(annotations, beside, id_column)[0])
                annotations = str(written.rename(f"{folder}/{ANNOTATIONS}{written.suffix}"))
        with _as_table(LABELS), _with_room():
            labels = _labels(labels, Path(folder))
        is_frame = _is_of(source, "pandas") and hasattr(source, "columns")
        rows, types = (source.index, _types(source)) if is_frame else (None, {})
        yield Source(path, labels, ids, rows, types, annotations)


@contextmanager
def in_words_of_python(folder: str | None = None, source: Any = None) -> Iterator[None]:
    """Errors as who calls from Python knows things: parameters without dashes, and what is in
    memory by its type, not as a file in `folder`; with no trace of what lies below."""
    try:
        yield
    except KnnoiseError as error:
        message = str(error)
        if folder is not None:
            kind = f"the {type(source).__name__}"
            of_ours = rf"{re.escape(folder)}/([\w.]+)"
            if not isinstance(source, str | os.PathLike):  # as fingerprints name our files
                of_ours += rf"|(?<![\w/.-])((?:table|array|{ANNOTATIONS})\.(?:arrow|parquet|npy))\b"

            def named(file: re.Match[str]) -> str:
                stem = (file[1] or file[2]).partition(".")[0]
                return stem if stem in (LABELS, ANNOTATIONS) else kind

            message = re.sub(of_ours, named, message)
            message = re.sub(rf"labels? {LABELS!r}", LABELS, message)
        raise type(error)(in_python(message)) from None


_OPTION = re.compile(
    r"(?<![\w-])--([a-z](?:[a-z0-9-]*[a-z0-9])?)( '[^']*'| (?:[^\s;:,?]|:(?!\s|$))+|  ?,)?"
)
_PLAIN_VALUE = re.compile(r"'.*|-?\d+(\.\d+)?")
_BEFORE, _PLAIN = (
    ("give", "or", "as", "with", "use", "take"),
    {"and", "or", "too", "as", "is", "if", "where", "which"},
)
"""Words before an option with its value, and words after one that are no value."""


def in_python(text: str) -> str:
    """A message of the command line as Python would have it: `--exclude a` is `exclude='a'`."""

    def in_words(match: re.Match[str]) -> str:
        name, value = match[1].replace("-", "_"), (match[2] or "").strip()
        before, after = text[: match.start()].split()[-1:], text[match.end() :][:1]
        given = before in ([word] for word in _BEFORE) or after == ":"
        if not value or value in _PLAIN or value.startswith(("--", "(")) or not given:
            return name + (match[2] or "")
        return f"{name}={value if _PLAIN_VALUE.fullmatch(value) else repr(value)}"

    return _OPTION.sub(in_words, text)


def _source(source: Any, folder: Path, id_column: str | None) -> tuple[str, str | None]:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source), None
    _refuse_dataset(source, "the Dataset")
    if _is_of(source, "xarray"):
        source = source.data
    if hasattr(source, "__array__") and not (hasattr(source, "columns") or _is_of(source, "dask")):
        source = np.asanyarray(source)  # a tensor of torch, a series
    if isinstance(source, np.ma.MaskedArray):
        source = np.ma.filled(source.astype(np.result_type(source, np.float32)), np.nan)
    if isinstance(source, np.ndarray):
        if source.dtype.hasobject:
            raise InputError("an array of objects cannot be read; give one of numbers")
        np.save(folder / "array.npy", source, allow_pickle=False)
        return str(folder / "array.npy"), None
    if _is_of(source, "dask") and hasattr(source, "columns"):
        return str(folder / "table"), write_frame(source, folder / "table", id_column)
    if _is_of(source, "dask") and hasattr(source, "chunks"):
        write_array(source, folder / "array.npy")
        return str(folder / "array.npy"), None
    if _is_of(source, "polars"):
        source = source.cast(_narrow())
    if _is_of(source, "polars") and hasattr(source, "sink_parquet"):  # lazy: streamed by itself
        source.sink_parquet(folder / "table.parquet")
        return str(folder / "table.parquet"), None
    table, index = _table(source, id_column)
    write_arrow(table, folder / "table.arrow")
    return str(folder / "table.arrow"), index


def _narrow() -> dict[Any, Any]:
    """Whole numbers of polars that Arrow has not, as those that hold them or fail."""
    import polars as pl

    wide = {"Int128": pl.Int64, "UInt128": pl.UInt64}
    return {getattr(pl, name): kind for name, kind in wide.items() if hasattr(pl, name)}


def _refuse_dataset(given: Any, what: str) -> None:
    """`InputError` for several arrays of xarray, which have no order as columns."""
    if _is_of(given, "xarray") and not hasattr(type(given), "data"):
        raise InputError(
            f"{what}: several arrays of xarray; give one of them, such as dataset['x'], or "
            "dataset.to_dataframe() where each is a column"
        )


def _is_of(source: Any, package: str) -> bool:
    """Whether an object is of a package, which need not be installed."""
    return type(source).__module__.partition(".")[0] == package


def write_arrow(table: Any, target: Path) -> None:
    """An Arrow table or record batch reader as an Arrow file, in batches of `BATCH_ROWS`."""
    import pyarrow as pa

    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_reader(BATCH_ROWS) if isinstance(table, pa.Table) else table:
            for first in range(0, batch.num_rows, BATCH_ROWS):
                writer.write_batch(batch.slice(first, BATCH_ROWS))


def _table(source: Any, id_column: str | None) -> tuple[Any, str | None]:
    """An Arrow table or reader, and the column of the index."""
    import pyarrow as pa

    if isinstance(source, pa.Table | pa.RecordBatchReader):
        return source, None
    if _is_of(source, "pandas") and hasattr(source, "columns"):
        return of_pandas(source, id_column)
    if _is_of(source, "datasets") and getattr(source, "features", None) is not None:
        parts = source.with_format("arrow").iter(BATCH_ROWS)
        batches = (batch for part in parts for batch in part.to_batches())
        return pa.RecordBatchReader.from_batches(source.features.arrow_schema, batches), None
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source), None
    raise InputError(
        f"a source of type {type(source).__name__} cannot be read; give a path, a data frame, an "
        "Arrow table or stream, a relation of DuckDB or a NumPy array"
    )


def of_pandas(frame: Any, id_column: str | None) -> tuple[Any, str | None]:
    """The table of a data frame; its index names the rows, unless it only counts them or
    `id_column` is a column.

    Raises `InputError` where the index is called as a column is, or two columns alike.
    """
    import pandas as pd
    import pyarrow as pa

    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if double := [*frame.columns[frame.columns.duplicated()]]:
        raise InputError(f"column names occur twice: {listed(double)}; rename them")
    counts = frame.index.name is None and frame.index.equals(pd.RangeIndex(len(frame)))
    index = None
    if not (counts or id_column in [*frame.columns]):
        index = str(frame.index.name or INDEX)
        if index in frame.columns:
            raise InputError(
                f"the index of the rows is called {index!r}, as a column is; rename one of them, "
                "or give reset_index(drop=True)"
            )
        levels = frame.index.nlevels
        if levels > 1 or frame.index.dtype.kind == "f":
            what = f"of {levels} levels" if levels > 1 else frame.index.dtype
            raise InputError(
                f"the index of the rows is {what}, and ids are text or whole numbers; "
                "give reset_index(), or reset_index(drop=True) where it names nothing"
            )
        frame = frame.rename_axis(index).reset_index()
    if of_two := [name for name, kind in frame.dtypes.items() if kind.kind == "c"]:
        raise InputError(
            f"column {of_two[0]!r} holds complex numbers; give their real and imaginary parts as "
            "columns"
        )
    dense = {n: k.subtype for n, k in frame.dtypes.items() if isinstance(k, pd.SparseDtype)}
    frame = frame.astype(dict.fromkeys(_ranges(frame), "string") | dense)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return table.replace_schema_metadata(None), index


def _types(frame: Any) -> dict[str, Any]:
    kinds = {str(name): kind for name, kind in frame.dtypes.items()}
    objects = (name for name, kind in kinds.items() if kind == "object")
    return {name: kinds[name] for name in kinds.keys() - {*objects, *_ranges(frame)}}


def _ranges(frame: Any) -> list[str]:
    """Columns of intervals or periods, or categories of such, which become text."""
    kinds = {name: getattr(kind, "categories", kind) for name, kind in frame.dtypes.items()}
    named = {str(name): str(getattr(kind, "dtype", kind)) for name, kind in kinds.items()}
    return [name for name, kind in named.items() if kind.startswith(("interval", "period"))]


@contextmanager
def _as_table(what: str) -> Iterator[None]:
    """Turn any failure to read an object, whose library raises what it likes, into one line."""
    try:
        yield
    except KnnoiseError:
        raise
    except Exception as error:
        mixed = "Conversion failed for column" in str(error)
        remedy = "; give its values one type, by astype(float) or astype(str)" if mixed else ""
        raise InputError(f"{what} cannot be read as a table: {reason_of(error)}{remedy}") from error


_FULL = *map(os.strerror, NO_ROOM), "requested and"
"""What libraries say of a full disk or quota: NumPy's count of what was written among it."""


@contextmanager
def _with_room() -> Iterator[None]:
    """Raise `StorageError` where the temporary folder has no room for what is in memory."""
    try:
        yield
    except Exception as error:
        if not any(text in str(error) for text in _FULL):
            raise
        raise StorageError(
            f"{gettempdir()} has no room for what is in memory ({reason_of(error)}); make some, or "
            "set TMPDIR to a folder that has"
        ) from error


def _labels(labels: Any, folder: Path) -> str | None:
    if labels is None or isinstance(labels, str | os.PathLike):
        return None if labels is None else os.fspath(labels)
    _refuse_dataset(labels, LABELS)
    if isinstance(labels, Mapping | Iterator):
        raise InputError(
            f"labels of type {type(labels).__name__}: give a list or an array, one for each row"
        )
    if _is_of(labels, "dask"):
        array = labels.to_dask_array(lengths=True) if hasattr(labels, "to_dask_array") else labels
        write_array(array, folder / LABELS)
        return str(folder / LABELS)
    if isinstance(labels, np.ma.MaskedArray):
        labels = np.ma.filled(labels.astype(object), "")
    try:
        values = np.asarray(labels)
        if values.dtype.kind == "f" and values.ndim == 1 and not isinstance(labels, np.ndarray):
            values = np.array([*labels], object)  # whole numbers beside one that is missing
    except ValueError:  # lists of several lengths
        values = np.empty(1, object)
        values[0] = ()
    if values.dtype.hasobject:
        if any(isinstance(one, _SETS) for one in values.ravel()):
            raise InputError(
                "labels that are sets: give a mask of bool, rows × classes, or a column of lists "
                "in a data frame"
            )
        values = np.array([_label(one) for one in values.ravel()], np.str_).reshape(values.shape)
    with (folder / LABELS).open("wb") as file:  # by its name, `.npy` would follow
        np.save(file, values, allow_pickle=False)
    return str(folder / LABELS)


def _label(one: Any) -> str:
    """A label as text, empty for what Python, NumPy and pandas have in the place of one."""
    text = str(one)
    return "" if not isinstance(one, str) and text in ("None", "nan", "<NA>", "NaT") else text


@dataclass(frozen=True)
class _Npy:
    """An array in a file, to be written from any process that sees it."""

    path: str

    def __setitem__(self, where: Any, block: np.ndarray) -> None:
        with _reached(self.path):
            stored = np.load(self.path, mmap_mode="r+")
        if stored.dtype.kind == "V":  # bfloat16, which NumPy does not know
            block = np.ascontiguousarray(block).view(stored.dtype)
        stored[where] = block


def write_array(array: Any, target: Path) -> None:
    """A Dask array as an array file of NumPy, chunk by chunk.

    Raises
    ------
    InputError
        its length is not known, it holds objects, or those who compute it do not see the file.
    """
    import dask.array as da

    if any(math.isnan(size) for size in array.shape):
        raise InputError("a Dask array of unknown length: call its compute_chunk_sizes() before")
    if array.dtype.hasobject:
        raise InputError(
            "a Dask array of objects: give numbers, and labels that are text as a column of a "
            "data frame"
        )
    np.lib.format.open_memmap(target, mode="w+", dtype=array.dtype, shape=array.shape)
    if hasattr(os, "posix_fallocate"):  # who writes to a page without room is killed
        with target.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, target.stat().st_size)
    da.store(array, _Npy(str(target)), lock=False)


def write_frame(frame: Any, folder: Path, id_column: str | None) -> str | None:
    """A Dask data frame as a folder of Arrow files, one for each partition that has rows; the name
    of its index, if it has one and `id_column` is no column.

    Raises
    ------
    InputError
        it has no rows, a partition is no table, or those who compute it do not see the folder.
    """
    import dask

    name = None if id_column in [*frame.columns] else frame.index.name
    folder.mkdir()
    write = dask.delayed(_write_partition)
    parts = enumerate(frame.to_delayed())
    written = (write(part, folder / f"part-{i:06d}.arrow", name is None) for i, part in parts)
    if not any(dask.compute(*written)):
        raise InputError("the Dask data frame has no rows; give at least one")
    return None if name is None else str(name)


def _write_partition(frame: Any, target: Path, counts: bool) -> int:
    """One partition, whose index only `counts` or names its rows; their number."""
    if len(frame):
        table, _ = of_pandas(frame.reset_index(drop=True) if counts else frame, None)
        with _reached(str(target)):
            write_arrow(table, target)
    return len(frame)


@contextmanager
def _reached(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"a worker that computes the collection cannot write {target} ({error}); set TMPDIR to "
            "a folder that all workers and this process see, or write the collection to Parquet "
            "and give its path"
        ) from error
