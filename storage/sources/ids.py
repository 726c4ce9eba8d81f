"""Ids of rows: those of a source, and those that stand beside the rows of a stored group. Lines of
other tables are matched to rows by them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zarr

from storage.arrays.groups import array, read_array, undamaged
from storage.errors import InputError
from storage.sources.base import Source
from storage.sources.formats.tables import TablesReader
from storage.sources.values.labels import Labels
from storage.sources.values.texts import as_column

Numbers = npt.NDArray[np.int64]
_PIECE = 1 << 16
MOST_ID_BYTES = 1 << 30
"""Different ids of a table that are held in memory."""
_PIECE_BYTES = 1 << 24


def id_column(name: str, columns: Sequence[str]) -> str:
    """The name of a column of ids beside others: the source's, unless another is called so."""
    return f"{name}_id" if name in columns else name


class RowIds(NamedTuple):
    """What lines of another table are matched by."""

    name: str
    """The column of ids in the source."""
    pieces: Callable[[int], Iterator[tuple[Numbers, Labels]]]
    """Row numbers of the source, ascending, and their ids as text, about so many at a time."""
    repeats: bool = False
    """Whether an id may stand on several rows, of which the first counts."""
    whose: str = ""
    """What the rows are of, for messages, where it is not the whole source."""

    @staticmethod
    def of_source(source: Source) -> "RowIds | None":
        """The ids of a source, which are read again, alone; None where it has none."""
        if source.beside.id is None:
            return None
        reader, several = source.reader, source.annotations
        if isinstance(reader, TablesReader):
            reader = reader.of_ids()
        alone = Source(source.kind, source.files, (), None, source.n_rows, source.parts, reader)

        def pieces(rows: int) -> Iterator[tuple[Numbers, Labels]]:
            for chunk in alone.chunks(rows):
                assert chunk.id is not None
                yield chunk.rows, chunk.id

        return RowIds(source.beside.id, pieces, several is not None and several.repeats is not None)

    def match(self, ids: pa.DictionaryArray, number: Numbers) -> tuple[Numbers, Numbers, int]:
        """(line,) the rows of the lines of a table, -1 where no row has its id, or several and none
        of them its number; (line,) the second row that has its id, -1 for none; rows of the source.

        ids : (line,) text, each once in the dictionary; number : (line,) row numbers, -1 where a
        line has none, which say of several rows with its id which one it is
        """
        code, texts = ids.indices.to_numpy(), ids.dictionary
        first, again = np.full((2, len(texts)), -1, np.int64)
        has_number, n_rows = np.zeros(len(code), np.bool_), 0
        numbered = np.flatnonzero(number >= 0)
        order = numbered[np.argsort(number[numbered], kind="stable")]
        ascending = number[order]
        # looking rows up takes a pass over the texts, too, which so many rows are worth
        for rows, row_ids in self.pieces(max(_PIECE, len(texts) // 4)):
            n_rows += len(rows)
            which = pc.index_in(pa.array(row_ids, pa.string()), value_set=texts)
            place = which.fill_null(-1).to_numpy()
            at = np.flatnonzero(place >= 0)
            for known in (first, again):
                some, earliest = np.unique(place[at], return_index=True)
                new = known[some] < 0
                known[some[new]] = rows[at[earliest[new]]]
                at = at[known[place[at]] != rows[at]]
            line = order[slice(*np.searchsorted(ascending, (rows[0], rows[-1] + 1)))]
            at = np.searchsorted(rows, number[line])
            has_number[line] = (rows[at] == number[line]) & (place[at] == code[line])
        if self.repeats:
            again[:] = -1
        row = np.where(again[code] < 0, first[code], np.where(has_number, number, -1))
        return row, again[code], n_rows


class IdsOfLines:
    """Ids of the lines of a table, each different text held once."""

    def __init__(self, name: str) -> None:
        """name : the table, for messages"""
        self.name = name
        self._pieces = [pa.array([], pa.string()).dictionary_encode()]
        self._most = _PIECE_BYTES

    def see(self, ids: pa.DictionaryArray) -> None:
        """Further lines, as text; `InputError` where there are more ids than are held."""
        self._pieces.append(ids)
        if sum(piece.dictionary.nbytes for piece in self._pieces) <= self._most:
            return
        self._pieces = [self.coded()]
        size = self._pieces[0].dictionary.nbytes
        if size > MOST_ID_BYTES:
            raise InputError(f"{self.name}: ids of more than {MOST_ID_BYTES:,} bytes; split it")
        self._most = max(_PIECE_BYTES, size + size // 2)

    def coded(self) -> pa.DictionaryArray:
        """(line,) the ids of all lines."""
        return pa.concat_arrays(self._pieces)


@dataclass(frozen=True)
class StoredIds:
    """The ids of a group's rows."""

    group: zarr.Group
    name: str
    """As the source calls their column."""
    whole: bool

    @classmethod
    def of(cls, group: zarr.Group) -> "StoredIds | None":
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

        def pieces(_: int) -> Iterator[tuple[Numbers, Labels]]:
            for start, numbers in self._numbers():
                yield numbers, read_array(self.group, "id", slice(start, start + len(numbers)))

        return RowIds(self.name, pieces, whose=" of the run, which may have left it out")

    def _numbers(self) -> Iterator[tuple[int, Numbers]]:
        """The place of the first row of each chunk, and the row numbers in the source."""
        row = array(self.group, "row")
        for start in range(0, row.shape[0], row.chunks[0]):
            stop = start + row.chunks[0]
            yield start, read_array(self.group, "row", slice(start, stop))
