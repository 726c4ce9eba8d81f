"""Rows as readers give them: blocks of any length, cut into chunks of equal length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from storage.sources.labels import Labels

Floats = npt.NDArray[np.float32]

PIECE_BYTES = 8 << 20
"""About how many bytes a reader takes at a time, whatever the chunk asked for."""


def piece_rows(row_bytes: int, rows: int) -> int:
    """How many rows to read at a time: `rows`, or fewer where these would be too many bytes."""
    return max(1, min(rows, PIECE_BYTES // max(1, row_bytes)))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a source."""

    start: int
    """Row number of the first row, counting from 0."""
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

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """`(row,)` positions in the source."""
        return np.arange(self.start, self.start + len(self.x)) if self.row is None else self.row


class Block(NamedTuple):
    """Rows as a reader finds them: of any number, in source order."""

    x: Floats
    label: Labels | None
    source_id: npt.NDArray[np.int32]
    id: Labels | None = None
    row: npt.NDArray[np.int64] | None = None
    group: Labels | None = None

    def cut(self, first: int, stop: int) -> "Block":
        """Rows `first` to `stop` of this block, as views."""
        columns: list[Any] = [None if column is None else column[first:stop] for column in self]
        return Block(*columns)

    def kept(self, keep: npt.NDArray[np.bool_], start: int) -> "Block":
        """The rows to keep; the first row is `start` of the source."""
        columns: list[Any] = [None if column is None else column[keep] for column in self]
        return Block(*columns)._replace(row=start + np.flatnonzero(keep))


class Reader(Protocol):
    """What a format implements."""

    def blocks(self, start: int, rows: int) -> Iterator[Block]:
        """The rows from `start` on, in blocks of any length; `rows` is the length wanted."""
        ...


def rechunk(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Cut blocks of any length into blocks of `rows` rows, the last one shorter."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        held.append(block)
        count += len(block.x)
        if count < rows:
            continue
        whole = join(held)
        stop = count - count % rows
        for first in range(0, stop, rows):
            yield whole.cut(first, first + rows)
        held = [whole.cut(stop, count)] if stop < count else []
        count -= stop
    if count:
        yield join(held)


def join(blocks: list[Block]) -> Block:
    """Concatenate blocks of one source."""
    if len(blocks) == 1:
        return blocks[0]
    labels = [block.label for block in blocks if block.label is not None]
    rows = [block.row for block in blocks if block.row is not None]
    ids = [block.id for block in blocks if block.id is not None]
    groups = [block.group for block in blocks if block.group is not None]
    return Block(
        np.concatenate([block.x for block in blocks]),
        join_labels(labels) if labels else None,
        np.concatenate([block.source_id for block in blocks]),
        np.concatenate(ids) if ids else None,
        np.concatenate(rows) if rows else None,
        join_labels(groups) if groups else None,
    )


def join_labels(labels: list[Labels]) -> Labels:
    """Concatenate label values; numbers and strings together stay what they are (object)."""
    kinds = {array.dtype.kind for array in labels}
    mixed = len(kinds) > 1 and not kinds <= set("iuf")
    return np.concatenate([array.astype(object) for array in labels] if mixed else labels)
