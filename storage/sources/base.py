"""A source and its chunks: any reader's blocks cut into chunks of equal length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from storage.errors import UnavailableError
from storage.transient import Patience

from .candidates import as_sets
from .coding import PLAIN_NUMBERS, Coding, Gaps
from .columns import is_place
from .dialect import PLAIN, Dialect
from .fingerprint import SourceFile
from .labels import Labels as Labels
from .labels import are_there
from .paths import readable

if TYPE_CHECKING:
    from .annotations import Annotations
    from .corrections import Corrections

Floats = npt.NDArray[np.float32]

PIECE_BYTES = 8 << 20
"""About how many bytes a reader takes at a time, whatever the chunk asked for."""


_SOUGHT = ("npy", "parquet", "zarr")
"""Kinds that are read from any row on without reading those before."""
EMBEDDING = 64
"""Features from which an array is taken for an embedding."""


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
    dialect: Dialect = PLAIN
    """How its text files are read."""
    coding: Coding = PLAIN_NUMBERS
    """What becomes of gaps."""
    id_name: str | None = None
    """Column or array of the ids; None if the source is read without them."""
    group_name: str | None = None
    """Column or array that says whose label each is; None if the source is read without it."""
    corrections: "Corrections | None" = None
    """Labels that are certain, whatever the source gives."""
    candidates: str | None = None
    """What divides the candidates in a label that is text, empty where labels are lists or a mask;
    None where labels are single."""
    annotations: "Annotations | None" = None
    """Several labels per row, whose majority is the label; None where the source has its own."""
    only: Literal["labeled", "unlabeled"] | None = None
    """Which rows are given: all, or those with or without a label."""

    def unlabeled(self) -> "Source":
        """The rows of a labeled source that have no label, as a source without labels."""
        return replace(self, only="unlabeled", label_name=None, group_name=None, n_rows=None)

    @property
    def embedded(self) -> npt.NDArray[np.bool_]:
        """(feature,) which features are parts of an embedding: places of a column of lists, and all
        of an array of `EMBEDDING` features or more."""
        if self.kind in ("npy", "npz", "zarr"):
            names = self.feature_names
            return np.full(len(names), len(names) >= EMBEDDING)
        lists = self.kind in ("parquet", "arrow")
        return np.array([lists and is_place(name) for name in self.feature_names], np.bool_)

    @property
    def encoded(self) -> npt.NDArray[np.bool_]:
        """(feature,) which features are categories of an encoded column."""
        found = np.zeros(len(self.feature_names), np.bool_)
        for places in self.coding.groups(self.feature_names).values():
            found[places] = True
        return found

    @property
    def leaves_out(self) -> bool:
        """Whether some rows may not be given, so that those that are have their numbers."""
        repeats = self.annotations is not None and self.annotations.whole
        return bool(self.coding.drop or self.only or repeats)

    @property
    def divides(self) -> bool:
        """Whether several processes may read its chunks, each some: they can be sought, and what is
        made of a row depends on no row before."""
        alone = (self.annotations, self.candidates, self.group_name)
        fills = self.coding.fills_of(self.feature_names)
        return (
            self.kind in _SOUGHT and not self.leaves_out and alone == (None,) * 3 and fills is None
        )

    @property
    def n_bytes(self) -> int:
        """Stored bytes of all parts, as compressed as they lie."""
        return sum(part.location.size() for part in self.parts)

    def chunks(self, rows: int, first: int = 0, gaps: Gaps | None = None) -> Iterator[Chunk]:
        """Yield chunks of exactly `rows` rows, the last one shorter, in source order.

        `first` chunks are skipped: by seeking in npy, Parquet and Zarr, by reading on in CSV
        and npz. Holds about two chunks and one block of the reader at a time. Gaps are filled, or
        rows with gaps left out, as the coding says, and rows with or without a label, as `only`
        says; `gaps` counts them.

        Where the source cannot be reached, reading goes on after a wait, from the last row given.

        Raises `InputError` where the source cannot be read or is not numeric, and
        `UnavailableError` where it is out of reach for too long.
        """
        if rows < 1 or first < 0:
            raise ValueError(f"rows={rows}, first={first}: need rows >= 1 and first >= 0")
        if first and self.leaves_out:
            raise ValueError("rows are left out: chunks cannot be skipped")
        start, patience = rows * first, Patience()
        at = start
        while True:
            try:
                with readable(self.files[0]):
                    for block in rechunk(self._wanted(at, rows, gaps or Gaps()), rows):
                        x = np.ascontiguousarray(block.x)
                        yield Chunk(start, x, *block[1:])
                        start += len(x)
                        at = start if block.row is None else int(block.row[-1]) + 1
                        patience = Patience()
                return
            except UnavailableError as error:
                patience.wait(error)

    def _wanted(self, start: int, rows: int, gaps: Gaps) -> Iterator[Block]:
        """The blocks of the reader, gaps filled, rows that are not wanted left out."""
        fills, drop = self.coding.fills_of(self.feature_names), self.coding.drop
        for found in self.reader.blocks(start, rows):
            block, n = self._as_sets(found), len(found.x)
            if block.label is not None:
                block = block._replace(label=self.coding.join(block.label))
            fresh = None
            if self.annotations is not None:
                block, fresh = self.annotations.joined(block, start, gaps)
            new = slice(max(0, gaps.until - start), n)
            keep = np.ones(n, np.bool_) if fresh is None else fresh
            if self.only is not None:
                block = self._certain(block, start)
                assert block.label is not None
                other = keep & (are_there(block.label) != (self.only == "labeled"))
                keep = keep & ~other
                gaps.other += int(other[new].sum())
            if self.only == "unlabeled":
                block = block._replace(label=None, group=None)
            if fills is not None or drop:
                gap = np.isnan(block.x) & keep[:, None]
                lost = np.asarray(gap.any(axis=1) & drop)
                keep &= ~lost
                gaps.dropped += int(lost[new].sum())
                gaps.filled += 0 if fills is None else int(gap[new].sum())
                block = block if fills is None else block._replace(x=np.where(gap, fills, block.x))
            gaps.until = max(gaps.until, start + n)
            yield block.kept(keep, start) if self.leaves_out else block
            start += n

    def _as_sets(self, block: Block) -> Block:
        """The block with a tuple of candidates for each label, if that is what labels are."""
        if self.candidates is None or block.label is None:
            return block
        return block._replace(label=as_sets(block.label, self.candidates))

    def _certain(self, block: Block, start: int) -> Block:
        """The block with the labels that somebody checked in place of missing ones."""
        if self.corrections is None or block.label is None:
            return block
        row, label = self.corrections.within(start, start + len(block.x))
        missing = ~are_there(block.label[row - start])
        if not missing.any():
            return block
        labels = block.label.astype(object)
        labels[row[missing] - start] = label[missing]
        return block._replace(label=labels)

    def fingerprint(self, with_digest: bool = False) -> dict[str, Any]:
        """JSON-able identity of the content: its `kind`, what `SourceFile.describe` gives of each
        part, and the `dialect` if it is not the default."""
        files = [part.describe(with_digest) for part in self.parts]
        written = self.dialect.as_json()
        dialect = {} if written is None else {"dialect": written}
        return {"kind": self.kind, "files": files, **dialect}


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
