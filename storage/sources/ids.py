"""Ids of rows: those of a source, and those that stand beside the rows of a stored group. Lines of
other tables are matched to rows by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zarr

from storage.arrays.groups import array, read_array, undamaged
from storage.sources.base import Source
from storage.sources.formats.tables import TablesReader
from storage.sources.request import PLAIN_NUMBERS
from storage.sources.values.labels import Labels
from storage.sources.values.texts import as_column

Numbers = npt.NDArray[np.int64]
_PIECE = 1 << 16


def id_column(name: str, columns: Sequence[str]) -> str:
    """The name of a column of ids beside others: the source's, unless another is called so."""
    return f"{name}_id" if name in columns else name


class RowIds(NamedTuple):
    """What lines of another table are matched by."""

    name: str
    """The column of ids in the source."""
    pieces: Callable[[], Iterator[tuple[Numbers, Labels]]]
    """Row numbers of the source, ascending, and their ids as text, some rows at a time."""
    repeats: bool = False
    """Whether an id may stand on several rows, of which the first counts."""

    @staticmethod
    def of_source(source: Source) -> RowIds | None:
        """The ids of a source, which are read again, alone; None where it has none."""
        if source.id_name is None:
            return None
        several = source.annotations
        alone = replace(
            source,
            coding=PLAIN_NUMBERS,
            annotations=None,
            corrections=None,
            candidates=None,
            label_name=None,
            group_name=None,
            only=None,
        )
        if isinstance(source.reader, TablesReader):
            alone = replace(alone, feature_names=(), reader=source.reader.of_ids())

        def pieces() -> Iterator[tuple[Numbers, Labels]]:
            for chunk in alone.chunks(_PIECE):
                assert chunk.id is not None
                yield chunk.rows, chunk.id

        return RowIds(source.id_name, pieces, several is not None and several.whole)

    def rows(self, ids: pa.Array, number: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """(line,) the row of each line of a table, and whether several rows have its id; of these
        it is the one that the line has the number of.

        ids : (line,) text; number : (line,) row numbers, -1 where a line has none. The row is -1
        where no row has the id, or several and none of them the number.
        """
        coded = ids.dictionary_encode()
        code = coded.indices.to_numpy()
        row = np.full(len(coded.dictionary), -1, np.int64)
        several, has_number = np.zeros(len(row), np.bool_), np.zeros(len(code), np.bool_)
        order = np.argsort(number, kind="stable")
        ascending = number[order]
        for rows, texts in self.pieces():
            which = pc.index_in(pa.array(texts, pa.string()), value_set=coded.dictionary)
            place = which.fill_null(-1).to_numpy()
            at = np.flatnonzero(place >= 0)
            some, first = np.unique(place[at], return_index=True)
            new = row[some] < 0
            row[some[new]] = rows[at[first[new]]]
            several[place[at[row[place[at]] != rows[at]]]] = True
            line = order[slice(*np.searchsorted(ascending, (rows[0], rows[-1] + 1)))]
            at = np.searchsorted(rows, number[line])
            has_number[line] = (rows[at] == number[line]) & (place[at] == code[line])
        shared = several[code] & (not self.repeats)
        return np.where(shared, np.where(has_number, number, -1), row[code]), shared


@dataclass(frozen=True)
class StoredIds:
    """The ids of a group's rows."""

    group: zarr.Group
    name: str
    """As the source calls their column."""
    whole: bool

    @classmethod
    def of(cls, group: zarr.Group) -> StoredIds | None:
        """None where the rows have no ids."""
        if "id" not in group:
            return None
        return cls(group, str(group.attrs["id_name"]), bool(group.attrs["id_whole"]))

    def read(self, places: slice) -> pa.Array:
        """(row,) ids of consecutive rows of the group, as a column of a table."""
        return as_column(read_array(self.group, "id", places), self.whole)

    def of_rows(self, rows: Sequence[int]) -> pa.Array:
        """(row,) ids of rows of the source, as a column of a table; null for those that are none of
        the group."""
        wanted, back = np.unique(np.asarray(rows, np.int64), return_inverse=True)
        ids = np.full(len(wanted), None, object)
        for start, numbers in self._numbers():
            at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
            here = np.flatnonzero(numbers[at] == wanted)
            if len(here):
                with undamaged(f"{self.group.store_path}/id"):
                    ids[here] = array(self.group, "id").oindex[start + at[here]]
        return as_column(ids[back], self.whole)

    def to_match(self) -> RowIds:
        """The same to match lines by."""

        def pieces() -> Iterator[tuple[Numbers, Labels]]:
            for start, numbers in self._numbers():
                yield numbers, read_array(self.group, "id", slice(start, start + len(numbers)))

        return RowIds(self.name, pieces)

    def _numbers(self) -> Iterator[tuple[int, Numbers]]:
        """The place of the first row of each chunk, and the row numbers in the source."""
        row = array(self.group, "row")
        for start in range(0, row.shape[0], row.chunks[0]):
            stop = start + row.chunks[0]
            yield start, read_array(self.group, "row", slice(start, stop))
