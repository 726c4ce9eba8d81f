"""A source of tables: one file, or several with the same columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.blocks import Block
from storage.sources.columns import matches
from storage.sources.fingerprint import SourceFile
from storage.sources.look import Look, TableReader
from storage.sources.paths import SourcePath, listed, readable
from storage.sources.request import Request, choose_columns
from storage.sources.tables import Feature, Selection, is_list

_PIECE = 1 << 16
Constants = Mapping[str, str | float | None]
"""Columns that the path of a file gives."""


@dataclass(frozen=True)
class TablesReader:
    """The rows of several tables, one table after the other."""

    tables: tuple[TableReader, ...]
    features: tuple[Feature, ...]

    def blocks(self, start: int, rows: int) -> Iterator[Block]:
        """The rows from `start` on, in blocks of any length."""
        for selection, batch, where, first in self._batches(start, rows):
            with readable(where):
                block = selection.block(batch, where, first)
            yield block

    def cells(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The same rows as they are stored."""
        for selection, batch, _, _ in self._batches(start, rows):
            yield selection.complete(batch)

    def _batches(
        self, start: int, rows: int
    ) -> Iterator[tuple[Selection, pa.RecordBatch, str, int]]:
        """Batches with what is read of them, the name of their file and the number of their first
        row in it; tables before `start` are not read where their rows are known."""
        for number, table in enumerate(self.tables):
            if table.n_rows is not None and start >= table.n_rows:
                start -= table.n_rows
                continue
            with readable(table.location.name):
                known = table.n_rows is not None or number == len(self.tables) - 1
                at = start if known else 0
                for batch in table.batches(at, rows):
                    drop = 0 if known else min(start, batch.num_rows)
                    start -= drop
                    if drop < batch.num_rows:
                        yield table.selection, batch.slice(drop), table.location.name, at + drop
                    at += batch.num_rows
                start = 0 if known else start


def batches(table: Source) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The cells of a table as they are stored, and the number of the first line of each batch."""
    assert isinstance(table.reader, TablesReader)
    first = 0
    with readable(table.files[0]):
        for batch in table.reader.cells(0, _PIECE):
            yield first, batch
            first += batch.num_rows


def open_tables(
    kind: str,
    look: Callable[[SourcePath, Request], Look],
    files: Sequence[SourcePath],
    request: Request,
    root: SourcePath,
    constants: Sequence[Constants] = (),
) -> Source:
    """Tables with the same columns, in the order given.

    root : what the user named
    constants : of each file, the columns that its path gives

    Raises `InputError` where they have other columns than the first, or not those wanted.
    """
    first: Look | None = None
    tables: list[TableReader] = []
    for number, location in enumerate(files):
        found = _with(look(location, request), constants[number] if constants else {})
        if first is None:
            first, places = found, found.expanded(request)
            names, label, id_column, group = _chosen(found, list(found.names), places, request)
            _check_parse(found.location.name, found.names, request)
            features = tuple(places[name] for name in names)
        elif set(found.names) != set(first.names):
            raise InputError(
                f"{location.name}: columns {listed(found.names)} are not those of "
                f"{first.location.name}: {listed(first.names)}; give files of one table"
            )
        given = tuple(constants[number].items()) if constants else ()
        selection = Selection(features, label, number, given, id_column, group=group)
        if request.raw:
            selection = Selection((), None, number, given, raw=tuple(_stored(selection)))
        else:
            found.check(selection)
        tables.append(found.reader(selection))
    known = [table.n_rows for table in tables]
    n_rows = None if None in known else sum(filter(None, known))
    if n_rows == 0:
        raise InputError(f"{root.name}: no rows; give at least one")
    inside = [_inside(root, location) for location in files]
    label_kind = None if first is None or label is None else first.kinds.get(label)
    return Source(
        kind=kind,
        files=tuple(location.name for location in files),
        feature_names=names,
        label_name=label,
        n_rows=n_rows,
        parts=tuple(
            SourceFile("features", name, file) for name, file in zip(inside, files, strict=True)
        ),
        reader=TablesReader(tuple(tables), features),
        id_name=id_column,
        group_name=group,
        candidates="" if label_kind is not None and is_list(label_kind) else None,
    )


def _chosen(
    look: Look, stored: list[str], places: Mapping[str, Feature], request: Request
) -> tuple[tuple[str, ...], str | None, str | None, str | None]:
    """Feature names in the order wanted, and the columns of labels, ids and groups."""
    twice = len(set(stored)) < len(stored)
    try:
        return choose_columns(look.location.name, stored if twice else list(places), request)
    except InputError as error:
        if not look.hint:
            raise
        raise InputError(f"{error}{look.hint}") from error


def _check_parse(where: str, names: tuple[str, ...], request: Request) -> None:
    """`InputError` where nothing is to be parsed that was asked for."""
    for pattern, kind in request.coding.parse.items():
        if request.features is None and not any(matches(name, pattern) for name in names):
            raise InputError(
                f"{where}: --parse {pattern}={kind} matches no column; columns are {listed(names)}"
            )


def _stored(selection: Selection) -> list[str]:
    """The columns that are read, those that the path gives among them."""
    return replace(selection, constants=()).columns


def _with(look: Look, constants: Constants) -> Look:
    """A table with the columns that its path gives."""
    if not constants:
        return look
    kinds = {n: pa.string() if isinstance(v, str) else pa.float64() for n, v in constants.items()}
    return replace(
        look,
        kinds={**look.kinds, **kinds},
        names=(*look.names, *kinds),
        first=lambda name: constants[name] if name in constants else look.first(name),
    )


def _inside(root: SourcePath, file: SourcePath) -> str:
    """Path of a file relative to the source, so that a moved source is the same source."""
    folder = root.path.rstrip("/") + "/"
    return file.path[len(folder) :] if file.path.startswith(folder) else file.basename
