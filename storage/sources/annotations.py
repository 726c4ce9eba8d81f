"""Several labels per row, by the keys of their rows, and their majority."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.errors import InputError

from .base import Block, Chunk, Source
from .coding import Gaps
from .fingerprint import SourceFile
from .ids import text_ids
from .labels import Label
from .many import TablesReader
from .paths import readable, shown

ROW = "row"
"""Column of row numbers, where there are no ids."""
_PIECE = 1 << 16
_WHOLE = "^(0|-?[1-9][0-9]{0,17})$"

Keys = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int16]


class Votes(NamedTuple):
    """Annotations of some rows."""

    place: npt.NDArray[np.int64]
    """(annotation,) place of the row, ascending."""
    annotator: Codes
    label: Codes


@dataclass(frozen=True, eq=False)
class Annotations:
    """All annotations of a source, by the keys of their rows."""

    name: str
    """The file, for messages."""
    parts: tuple[SourceFile, ...]
    votes: Source
    by: str | None
    """Column of ids; None: rows are told by their number in the source."""
    label_name: str
    annotators: tuple[Label, ...]
    """Name of each code."""
    values: tuple[Label, ...]
    """Label of each code, in the order of classes."""
    key: Keys
    """(row,) ascending."""
    start: npt.NDArray[np.int64]
    """(row + 1,) where the annotations of each row begin."""
    annotator: Codes
    """(annotation,) ascending within a row."""
    label: Codes
    majority: Codes
    """(row,) the commonest label; of several, one that depends on the row's key alone."""
    n_empty: int
    """Lines without a label, which are left out."""

    def joined(self, block: Block, start: int, gaps: Gaps) -> Block:
        """The block with the majority's labels, None where there are no annotations.

        Raises `InputError` for a row that was there before: whose annotations are they?
        """
        at = self._places(block.id, np.arange(start, start + len(block.x)))
        if gaps.annotated is None:
            gaps.annotated = np.zeros(len(self.key), np.bool_)
        new = np.arange(len(at)) >= gaps.until - start
        rows = np.flatnonzero(new & (at >= 0))
        found, first = np.unique(at[rows], return_index=True)
        twice = np.setdiff1d(np.arange(len(rows)), first)
        again = np.concatenate([rows[twice], rows[first[gaps.annotated[found]]]])
        if len(again):
            assert block.id is not None
            raise InputError(
                f"id {shown(block.id[again[0]])} occurs again at row {start + int(again[0]):,} "
                "(from 0): annotations need a row per id; give each row once"
            )
        gaps.annotated[found] = True
        values = np.empty(len(self.values) + 1, object)
        values[: len(self.values)] = self.values
        none = len(self.values)
        label = np.where(at >= 0, self.majority[at] if len(self.key) else none, none)
        return block._replace(label=values[label])

    def of(self, chunk: Chunk) -> Votes:
        """The annotations of the rows of a chunk."""
        at = self._places(chunk.id, chunk.rows)
        there = np.flatnonzero(at >= 0)
        length = np.diff(self.start)[at[there]]
        place = np.repeat(there, length)
        first = np.repeat(self.start[at[there]] - (np.cumsum(length) - length), length)
        item = first + np.arange(len(place))
        return Votes(place, self.annotator[item], self.label[item])

    def _places(
        self, ids: npt.NDArray[np.object_] | None, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """(row,) places among the keys, -1 where there are no annotations."""
        key = rows.astype(np.uint64) if self.by is None or ids is None else keys(pa.array(ids))
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where(self.key[at] == key, at, -1)

    def check(self, gaps: Gaps, n_rows: int) -> None:
        """Raise `InputError` for an annotation of a row that the source does not have.

        n_rows : rows that were read
        """
        seen = gaps.annotated
        wanted = self.key if seen is None else self.key[~seen]
        if not len(wanted):
            return
        for first, batch in batches(self.votes, self.name):
            text = text_ids(batch.column(self.by or ROW), self.name)
            at = np.flatnonzero(np.isin(keys(pa.array(text)), wanted))
            if len(at):
                raise InputError(
                    f"{self.name}: {self.by or ROW} {shown(text[at[0]])} at row "
                    f"{first + int(at[0]):,} (from 0) is none of the source's {n_rows:,} rows "
                    f"({len(wanted):,} such); mend or drop it"
                )

    def missing(self, n_missing: int, first: int | None) -> InputError:
        """What is said of rows without any annotation."""
        return InputError(
            f"{self.name}: {n_missing:,} rows of the source have no annotation; first row {first} "
            "(from 0); have them annotated or drop them, or give --unlabeled predict"
        )


def keys(ids: pa.Array) -> Keys:
    """(row,) uint64 keys of ids: whole numbers are their own, of others a hash of 64 bits."""
    coded = ids.cast(pa.string()).dictionary_encode()
    texts = coded.dictionary
    whole = pc.match_substring_regex(texts, _WHOLE).to_numpy(zero_copy_only=False)
    found = np.empty(len(texts), np.uint64)
    found[whole] = texts.filter(pa.array(whole)).cast(pa.int64()).to_numpy().view(np.uint64)
    for at in np.flatnonzero(~whole):
        digest = hashlib.blake2b(texts[int(at)].as_py().encode(), digest_size=8).digest()
        found[at] = int.from_bytes(digest, "little")
    return np.asarray(found[coded.indices.to_numpy()])


def batches(votes: Source, name: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The stored lines, and the number of the first of each batch."""
    assert isinstance(votes.reader, TablesReader)
    first = 0
    with readable(name):
        for batch in votes.reader.cells(0, _PIECE):
            yield first, batch
            first += batch.num_rows


def majority(key: Keys, start: npt.NDArray[np.int64], label: Codes) -> Codes:
    """(row,) the commonest label of each row; of several as common, one by a hash of the row's key
    and the label, so that neither a class nor an annotator is preferred."""
    row = np.repeat(np.arange(len(key)), np.diff(start))
    width = int(label.max()) + 1
    cell, count = np.unique(row * width + label, return_counts=True)
    row, value = cell // width, cell % width
    lot = _mixed(key[row] + _mixed(value.astype(np.uint64) + np.uint64(1)))
    order = np.lexsort((lot, -count, row))
    first = np.unique(row[order], return_index=True)[1]
    return np.asarray(value[order][first].astype(np.int16))


def _mixed(x: Keys) -> Keys:
    """A hash of 64 bits (the finalizer of splitmix64, Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
