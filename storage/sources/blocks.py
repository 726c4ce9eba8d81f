"""Rows as readers give them: blocks of any length, cut into chunks of equal length. What is known
of rows besides: that features are finite, labels that somebody checked, and several labels per
row by the keys of their rows, with their majority."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.errors import InputError, amount, listed, shown
from storage.sources.files import FileOfSource
from storage.sources.request import Gaps
from storage.sources.values.labels import Label, Labels, objects, places_of
from storage.sources.values.texts import WHOLE

Floats = npt.NDArray[np.float32]

PIECE_BYTES = 8 << 20
"""About how many bytes a reader takes at a time, whatever the chunk asked for."""


def piece_rows(row_bytes: int, rows: int) -> int:
    """How many rows to read at a time: `rows`, or fewer where these would be too many bytes."""
    return max(1, min(rows, PIECE_BYTES // max(1, row_bytes)))


class Chunk(NamedTuple):
    """Consecutive rows of a source: any number as a reader finds them, then the number wanted."""

    x: Floats
    """`(row, feature)` float32, C order."""
    label: Labels | None
    """`(row,)` label values as found (bool, int, float, str or object), None if not read; of a
    source of candidate sets tuples of them."""
    source_id: npt.NDArray[np.int32]
    """`(row,)` int32: index in `Source.files` of the file the row came from."""
    id: Labels | None = None
    """`(row,)` ids as text (object), None if not read."""
    row: npt.NDArray[np.int64] | None = None
    """`(row,)` positions in the source where rows were left out; None: from `start` on."""
    group: Labels | None = None
    """`(row,)` values of the column that says whose label it is, None if not read."""
    together: npt.NDArray[np.int64] | None = None
    """`(row,)` int64: `hashes` of the column that says which rows belong together, None if not
    read."""
    start: int = 0
    """Number of the first row among those that a source gives, counting from 0."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """`(row,)` positions in the source."""
        return np.arange(self.start, self.start + len(self.x)) if self.row is None else self.row

    def at(self, rows: slice | npt.NDArray[np.bool_]) -> "Chunk":
        """Some of the rows; of a slice views."""
        columns: list[Any] = [None if column is None else column[rows] for column in self[:-1]]
        return Chunk(*columns)


class Reader(Protocol):
    """What a format implements."""

    def blocks(self, start: int, rows: int) -> Iterator[Chunk]:
        """The rows from `start` on, in blocks of any length; `rows` is the length wanted."""
        ...


def rechunk(blocks: Iterable[Chunk], rows: int) -> Iterator[Chunk]:
    """Cut blocks of any length into blocks of `rows` rows, the last one shorter."""
    kept: list[Chunk] = []
    count = 0
    for block in blocks:
        kept.append(block)
        count += len(block.x)
        if count < rows:
            continue
        whole = join(kept)
        stop = count - count % rows
        for first in range(0, stop, rows):
            yield whole.at(slice(first, first + rows))
        kept = [whole.at(slice(stop, count))] if stop < count else []
        count -= stop
    if count:
        yield join(kept)


def join(blocks: list[Chunk]) -> Chunk:
    """Concatenate blocks of one source."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [
        [part for part in column if part is not None]
        for column in zip(*(block[:-1] for block in blocks), strict=True)
    ]
    joined: list[Any] = [join_values(column) if column else None for column in columns]
    return Chunk(*joined)


def join_values(labels: list[Labels]) -> Labels:
    """Concatenate values; those of several kinds together stay what they are (object)."""
    mixed = len({array.dtype.kind for array in labels}) > 1
    return np.concatenate([array.astype(object) for array in labels] if mixed else labels)


ROW = "row"
"""Column of row numbers, where there are no ids."""

Keys = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Corrections:
    """Rows whose labels are certain."""

    file: FileOfSource
    row: npt.NDArray[np.int64]
    """(row,) ascending."""
    label: npt.NDArray[np.int16]
    """(row,) codes among `values`."""
    values: tuple[Label, ...]
    n_conflicts: int
    """Rows left out, as reviewers disagree."""
    revoked: npt.NDArray[np.int64]
    """Rows that the same reviewer labels otherwise further up in the file; the last line counts."""

    def within(
        self, start: int, stop: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.object_]]:
        """Rows from `start` to `stop` of the source, and their labels."""
        first, last = np.searchsorted(self.row, (start, stop))
        return self.row[first:last], objects(self.values)[self.label[first:last]]

    def codes(self, values: Sequence[Label], n_rows: int) -> npt.NDArray[np.int64]:
        """(row,) places of the labels among the label values of the source.

        Raises `InputError` for a row that the source does not have, or a label it has nowhere.
        """
        name = self.file.location.name
        _check_rows(name, self.row, n_rows, "corrections")
        place = places_of(values)
        codes = np.array([place.get(label, -1) for label in self.values], np.int64)[self.label]
        if (codes < 0).any():
            at = int((codes < 0).argmax())
            label = shown(self.values[self.label[at]])
            raise InputError(
                f"{name}: label {label} of row {self.row[at]:,} occurs nowhere in the source, "
                f"whose labels are {listed(list(values))}; mend or drop it"
            )
        return codes


def _check_rows(name: str, row: npt.NDArray[np.int64], n_rows: int, what: str) -> None:
    """`InputError` for ascending row numbers beyond those of a source."""
    if len(row) and row[-1] >= n_rows:
        raise InputError(
            f"{name}: has a label for row {row[-1]:,}, the source has rows 0 to {n_rows - 1:,}; "
            f"give the {what} of this source"
        )


class Votes(NamedTuple):
    """Annotations of some rows."""

    place: npt.NDArray[np.int64]
    """(annotation,) place of the row, ascending."""
    annotator: Codes
    label: Codes


class Repeats(NamedTuple):
    """Which lines of a table of rows and annotations give the features of a row again."""

    place: npt.NDArray[np.int32]
    """(line,) place of its id."""
    first: npt.NDArray[np.int64]
    """(id,) the first line that has it."""

    def fresh(self, block: Chunk, start: int, gaps: Gaps) -> npt.NDArray[np.bool_]:
        """(line,) which lines of a block, whose first is `start`, are the first of their row.

        Raises `InputError` for one that has other features than the first.
        """
        if gaps.features is None:
            gaps.features = np.zeros(len(self.first), np.uint64)
        line = np.arange(start, start + len(block.x))
        place = self.place[line]
        again, hashed = np.asarray(self.first[place] != line), feature_hash(block.x)
        gaps.features[place[~again]] = hashed[~again]
        other = np.flatnonzero(again & (hashed != gaps.features[place]))
        if len(other):
            assert block.id is not None
            at = other[0]
            raise InputError(
                f"id {shown(block.id[at])} has other features at row {line[at]:,} than at row "
                f"{self.first[place[at]]:,} (from 0): the lines of a row must have the same; mend "
                "them or --exclude what differs by line"
            )
        gaps.repeated += int(np.count_nonzero(again & (line >= gaps.until)))
        return ~again


@dataclass(frozen=True, eq=False)
class Annotations:
    """All annotations of a source, by row."""

    name: str
    """The file, for messages."""
    parts: tuple[FileOfSource, ...]
    label_name: str
    annotators: tuple[Label, ...]
    """Name of each code."""
    values: tuple[Label, ...]
    """Label of each code, in the order of classes."""
    row: npt.NDArray[np.int64]
    """(row,) number in the source, ascending."""
    start: npt.NDArray[np.int64]
    """(row + 1,) where the annotations of each row begin."""
    annotator: Codes
    """(annotation,) ascending within a row."""
    label: Codes
    majority: Codes
    """(row,) the commonest label; of several, one that depends on the row's id alone."""
    n_empty: int
    """Lines without a label, which are left out."""
    repeats: Repeats | None = None
    """Of a source that is the same table, with the features of a row on each of its lines."""

    def labeled(self, block: Chunk, start: int) -> Chunk:
        """A block, whose first row is `start`, with the majority's labels, None where there are no
        annotations."""
        at = self._places(np.arange(start, start + len(block.x)))
        label = objects((*self.values, None))[np.where(at >= 0, self.majority[at], -1)]
        return block._replace(label=label)

    def of(self, chunk: Chunk) -> Votes:
        """The annotations of the rows of a chunk."""
        at = self._places(chunk.rows)
        there = np.flatnonzero(at >= 0)
        length = np.diff(self.start)[at[there]]
        place = np.repeat(there, length)
        first = np.repeat(self.start[at[there]] - (np.cumsum(length) - length), length)
        item = first + np.arange(len(place))
        return Votes(place, self.annotator[item], self.label[item])

    def _places(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(row,) places among the rows that have annotations, -1 for others."""
        at = np.minimum(np.searchsorted(self.row, rows), len(self.row) - 1)
        return np.where(self.row[at] == rows, at, -1)

    def check(self, n_rows: int) -> None:
        """Raise `InputError` for an annotation of a row that the source does not have."""
        _check_rows(self.name, self.row, n_rows, "annotations")

    def missing(self, n_missing: int, first: int | None) -> InputError:
        """What is said of rows without any annotation."""
        return InputError(
            f"{self.name}: {amount(n_missing, 'row has', 'rows have')} no annotation; "
            f"first row {first} (from 0); have them annotated or drop them, "
            "or give --unlabeled predict"
        )


def keys(ids: pa.Array) -> Keys:
    """(row,) uint64 keys of ids: whole numbers are their own, of others a hash of 64 bits."""
    coded = ids.cast(pa.string()).dictionary_encode()
    texts = coded.dictionary
    whole = np.asarray(pc.match_substring_regex(texts, WHOLE))
    key = np.empty(len(texts), np.uint64)
    key[whole] = texts.filter(pa.array(whole)).cast(pa.int64()).to_numpy().view(np.uint64)
    for at in np.flatnonzero(~whole):
        digest = hashlib.blake2b(texts[int(at)].as_py().encode(), digest_size=8).digest()
        key[at] = int.from_bytes(digest, "little")
    return np.asarray(key[coded.indices.to_numpy()])


def feature_hash(x: npt.NDArray[np.floating]) -> Keys:
    """(row,) a hash of 64 bits of (row, feature) values; all gaps are alike, and so are zeros."""
    bits = np.ascontiguousarray(x + 0.0, np.float64)
    bits[np.isnan(bits)] = np.nan
    hashed = np.zeros(len(x), np.uint64)
    for column in bits.view(np.uint64).T:
        hashed = _mixed(hashed * np.uint64(0x9E3779B97F4A7C15) + column + np.uint64(1))
    return hashed


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
