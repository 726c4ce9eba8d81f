"""Parquet: one file, or the files of a folder ordered by name."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.parquet as pq

from storage.errors import InputError

from .base import Block, Source, piece_rows
from .fingerprint import SourceFile
from .paths import SourcePath, listed, readable, shown
from .request import Request, choose_columns
from .tables import check_label_type, is_number, to_block

BUFFER_BYTES = 64 << 20
"""Bytes fetched ahead, over all columns; small requests are slow on object stores."""


@dataclass(frozen=True)
class ParquetReader:
    """Rows of several files with the same columns."""

    files: tuple[SourcePath, ...]
    groups: tuple[tuple[int, ...], ...]
    """Per file, the number of rows of each row group."""
    features: tuple[str, ...]
    label: str | None

    def blocks(self, start: int, rows: int) -> Iterator[Block]:
        """The rows from `start` on; row groups before it are not read."""
        for number, (location, groups) in enumerate(zip(self.files, self.groups, strict=True)):
            keep = 0
            while keep < len(groups) and start >= groups[keep]:
                start -= groups[keep]
                keep += 1
            if keep == len(groups):
                continue
            with readable(location.name):
                for block in self._file_blocks(number, keep, rows):
                    drop = min(start, len(block.x))
                    start -= drop
                    if drop < len(block.x):
                        yield block.cut(drop, len(block.x))

    def _file_blocks(self, number: int, first_group: int, rows: int) -> Iterator[Block]:
        columns = [*self.features, *([] if self.label is None else [self.label])]
        with (
            self.files[number].open(cache_type="none") as file,
            _open(file, len(columns)) as parquet,
        ):
            for batch in parquet.iter_batches(
                piece_rows(8 * len(columns), rows),
                row_groups=list(range(first_group, len(self.groups[number]))),
                columns=columns,
            ):
                yield to_block(batch, self.features, self.label, number)


def _open(file: object, columns: int = 1) -> pq.ParquetFile:
    """Read column chunks through buffers of `BUFFER_BYTES` in all, never whole."""
    buffer = min(max(BUFFER_BYTES // columns, 64 << 10), 4 << 20)
    return pq.ParquetFile(file, buffer_size=buffer, pre_buffer=False)


def open_parquet(files: list[SourcePath], request: Request, root: SourcePath) -> Source:
    """Parquet files with the same columns, in the order given; `root` is what the user named."""
    columns: list[str] | None = None
    features: tuple[str, ...] = ()
    label: str | None = None
    groups = []
    for location in files:
        with (
            readable(location.name),
            location.open(cache_type="none") as file,
            _open(file) as parquet,
        ):
            found = _columns(parquet)
            if columns is None:
                columns = found
                features, label = choose_columns(location.name, columns, request)
            elif set(found) != set(columns):
                raise InputError(
                    f"{location.name}: columns {listed(found)} are not those of "
                    f"{files[0].name}: {listed(columns)}; give files of one table"
                )
            _check_types(location.name, parquet, features, label)
            meta = parquet.metadata
            groups.append(tuple(meta.row_group(i).num_rows for i in range(meta.num_row_groups)))
    n_rows = sum(map(sum, groups))
    if n_rows == 0:
        raise InputError(f"{root.name}: no rows; give at least one")
    return Source(
        kind="parquet",
        files=tuple(location.name for location in files),
        feature_names=features,
        label_name=label,
        n_rows=n_rows,
        parts=tuple(SourceFile("features", location.basename, location) for location in files),
        reader=ParquetReader(tuple(files), tuple(groups), features, label),
    )


def _columns(parquet: pq.ParquetFile) -> list[str]:
    """Column names in file order, without the row index that pandas adds by itself."""
    schema = parquet.schema_arrow
    pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    index = {name for name in pandas.get("index_columns", []) if isinstance(name, str)}
    unnamed = {name for name in index if name.startswith("__index_level_")}
    return [name for name in schema.names if name not in unnamed]


def _check_types(
    where: str, parquet: pq.ParquetFile, features: tuple[str, ...], label: str | None
) -> None:
    schema = parquet.schema_arrow
    for name in features:
        if not is_number(schema.field(name).type):
            raise InputError(
                f"{where}: feature column {name!r} is {schema.field(name).type}, not numeric: "
                f"{_first(parquet, name)} at row 0; drop the column or encode it as numbers"
            )
    if label is not None:
        check_label_type(where, label, schema.field(label).type)


def _first(parquet: pq.ParquetFile, name: str) -> str:
    """The first value of a column, for a message."""
    for batch in parquet.iter_batches(1, columns=[name]):
        return shown(batch.column(name)[0].as_py())
    return "no rows"
