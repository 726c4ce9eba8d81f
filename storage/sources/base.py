"""A source and its chunks: any reader's blocks cut into chunks of equal length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .fingerprint import SourceFile, fingerprint
from .paths import readable

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[Any]

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
    """`(row,)` label values as found (bool, int, float, str or object), None if not read."""
    source_id: npt.NDArray[np.int32]
    """`(row,)` int32: index in `Source.files` of the file the row came from."""


class Block(NamedTuple):
    """Rows as a reader finds them: of any number, in source order."""

    x: Floats
    label: Labels | None
    source_id: npt.NDArray[np.int32]

    def cut(self, first: int, stop: int) -> "Block":
        """Rows `first` to `stop` of this block, as views."""
        label = None if self.label is None else self.label[first:stop]
        return Block(self.x[first:stop], label, self.source_id[first:stop])


class Reader(Protocol):
    """What a format implements."""

    def blocks(self, start: int, rows: int) -> Iterator[Block]:
        """The rows from `start` on, in blocks of any length; `rows` is the length wanted."""
        ...


@dataclass(frozen=True)
class Source:
    """Rows of features, and labels if asked for, that can be read again and again.

    Holds no open file, so it can be pickled.
    """

    kind: str
    """`csv`, `parquet`, `npy`, `npz` or `zarr`."""
    files: tuple[str, ...]
    """Files the rows come from, in order; `Chunk.source_id` counts them."""
    feature_names: tuple[str, ...]
    """Names of the columns of `Chunk.x`; `x0`, `x1`... where the format has none."""
    label_name: str | None
    """Column, array or file of the labels; None if the source is read without them."""
    n_rows: int | None
    """Number of rows; None where only reading tells (CSV)."""
    parts: tuple[SourceFile, ...]
    """Every file whose content matters, labels included."""
    reader: Reader

    @property
    def n_bytes(self) -> int:
        """Stored bytes of all parts, as compressed as they lie."""
        return sum(part.location.size() for part in self.parts)

    def chunks(self, rows: int, first: int = 0) -> Iterator[Chunk]:
        """Yield chunks of exactly `rows` rows, the last one shorter, in source order.

        `first` chunks are skipped: by seeking in npy, Parquet and Zarr, by reading on in CSV
        and npz. Holds about two chunks and one block of the reader at a time.

        Raises `InputError` where the source cannot be read or is not numeric.
        """
        if rows < 1 or first < 0:
            raise ValueError(f"rows={rows}, first={first}: need rows >= 1 and first >= 0")
        start = rows * first
        with readable(self.files[0]):
            for block in rechunk(self.reader.blocks(start, rows), rows):
                yield Chunk(start, np.ascontiguousarray(block.x), block.label, block.source_id)
                start += len(block.x)

    def fingerprint(self, with_digest: bool = False) -> dict[str, Any]:
        """What identifies the content: `fingerprint.fingerprint` of all parts."""
        return fingerprint(self.kind, self.parts, with_digest)


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
    return Block(
        np.concatenate([block.x for block in blocks]),
        join_labels(labels) if labels else None,
        np.concatenate([block.source_id for block in blocks]),
    )


def join_labels(labels: list[Labels]) -> Labels:
    """Concatenate label values; numbers and strings together stay what they are (object)."""
    kinds = {array.dtype.kind for array in labels}
    mixed = len(kinds) > 1 and not kinds <= set("iuf")
    return np.concatenate([array.astype(object) for array in labels] if mixed else labels)
