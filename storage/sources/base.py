"""A source: what files and folders of any kind are read as, chunk by chunk."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from storage.errors import InputError, Patience, UnavailableError
from storage.sources.blocks import Annotations, Chunk, Corrections, Reader, Repeats, rechunk
from storage.sources.files import FileOfSource, changed, readable, unwritten
from storage.sources.request import PLAIN, PLAIN_NUMBERS, Beside, Coding, Dialect, Gaps
from storage.sources.values.labels import Labels, are_there, as_sets


class Format(NamedTuple):
    """What follows from the format of files, whatever they hold."""

    content: Literal["texts", "tables", "arrays"]
    """Tables of text that may be numbers, tables whose columns have types, or arrays."""
    sought: bool = False
    """Whether it is read from any row on without reading those before, CSV where its lines have
    been counted."""
    spread: bool = False
    """Whether a look at some rows of several places takes about as long as one at the first."""


FORMATS = {
    "csv": Format("texts", sought=True),
    "xlsx": Format("texts"),
    "parquet": Format("tables", sought=True, spread=True),
    "arrow": Format("tables", spread=True),
    "jsonl": Format("tables"),
    "npy": Format("arrays", sought=True, spread=True),
    "npz": Format("arrays"),
    "zarr": Format("arrays", sought=True, spread=True),
}
"""By the kind of a source."""


@dataclass(frozen=True)
class Source:
    """Rows of features, and labels if asked for, that can be read again and again.

    Holds no open file, so it can be pickled.
    """

    kind: str
    """One of `FORMATS`."""
    files: tuple[str, ...]
    """Files the rows come from, in order; `Chunk.source_id` counts them."""
    feature_names: tuple[str, ...]
    """Names of the columns of `Chunk.x`; `x0`, `x1`... where the format has none."""
    label_name: str | None
    """Column, array or file of the labels; None if the source is read without them."""
    n_rows: int | None
    """Number of rows; None where only reading tells (CSV)."""
    parts: tuple[FileOfSource, ...]
    """Every file whose content matters, labels included."""
    reader: Reader
    dialect: Dialect = PLAIN
    """How its text files are read."""
    coding: Coding = PLAIN_NUMBERS
    """What becomes of gaps."""
    beside: Beside = field(default=Beside())
    """Columns or arrays that are read besides."""
    corrections: Corrections | None = None
    """Labels that are certain, whatever the source gives."""
    candidates: str | None = None
    """What divides the candidates in a label that is text, empty where labels are lists or a mask;
    None where labels are single."""
    annotations: Annotations | None = None
    """Several labels per row, whose majority is the label; None where the source has its own."""
    only: Literal["labeled", "unlabeled"] | None = None
    """Which rows are given: all, or those with or without a label."""

    @property
    def format(self) -> Format:
        return FORMATS[self.kind]

    def unlabeled(self) -> "Source":
        """The rows of a labeled source that have no label, as a source without labels."""
        alone = Beside(self.beside.id)
        return replace(self, only="unlabeled", label_name=None, n_rows=None, beside=alone)

    def labels(self, raw: Labels) -> Labels:
        """(row,) labels as they were found, or the candidate sets that they stand for."""
        return raw if self.candidates is None else as_sets(raw, self.candidates)

    @property
    def leaves_out(self) -> bool:
        """Whether some rows may not be given, so that those that are have their numbers."""
        return bool(self.coding.drop or self.only or self._repeats is not None)

    @property
    def _repeats(self) -> Repeats | None:
        """Which of its lines give a row again."""
        return None if self.annotations is None else self.annotations.repeats

    @property
    def divides(self) -> bool:
        """Whether several processes may read its chunks, each some: they can be sought, and what is
        made of a row depends on no row before. Of CSV `n_rows` says whether it can be sought."""
        alone = (self.annotations, self.candidates, self.beside.group)
        sought = self.format.sought and not self.leaves_out
        return sought and alone == (None,) * 3 and not self.coding.fills

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
        at, gaps = start, gaps or Gaps()
        while True:
            try:
                with readable(self.files[0]):
                    for block in rechunk(self._wanted(at, rows, gaps), rows):
                        x = np.ascontiguousarray(block.x)
                        yield block._replace(x=x, start=start)
                        start += len(x)
                        at = start if block.row is None else int(block.row[-1]) + 1
                        patience = Patience()
                return
            except UnavailableError as error:
                patience.wait(error)

    def _wanted(self, start: int, rows: int, gaps: Gaps) -> Iterator[Chunk]:
        """The blocks of the reader, gaps filled, rows that are not wanted left out."""
        fills, drop = self.coding.fills_of(self.feature_names), self.coding.drop
        for raw in self.reader.blocks(start, rows):
            block, n = raw, len(raw.x)
            if block.label is not None:
                block = block._replace(label=self.coding.join(self.labels(block.label)))
            if self.annotations is not None:
                block = self.annotations.labeled(block, start)
            new, repeats = slice(max(0, gaps.until - start), n), self._repeats
            keep = np.ones(n, np.bool_) if repeats is None else repeats.fresh(block, start, gaps)
            if self.only is not None:
                block = self._certain(block, start)
                assert block.label is not None
                other = keep & (are_there(block.label) != (self.only == "labeled"))
                keep = keep & ~other
                gaps.other += int(other[new].sum())
            if self.only == "unlabeled":
                block = block._replace(label=None, group=None, together=None)
            if fills is not None or drop:
                gap = ~np.isfinite(block.x) & keep[:, None]
                lost = np.asarray(gap.any(axis=1) & drop)
                keep &= ~lost
                gaps.dropped += int(lost[new].sum())
                gaps.filled += 0 if fills is None else int(gap[new].sum())
                block = block if fills is None else block._replace(x=np.where(gap, fills, block.x))
            gaps.until = max(gaps.until, start + n)
            if self.leaves_out:
                block = block.at(keep)._replace(row=start + np.flatnonzero(keep))
            yield block
            start += n

    def _certain(self, block: Chunk, start: int) -> Chunk:
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


@contextmanager
def unchanged(recorded: dict[str, Any], source: Source) -> Iterator[None]:
    """Raise `InputError` where a source that is read meanwhile is not what was `recorded`, or is
    written: what was read would be neither the one nor the other."""
    with unwritten(source.parts):
        yield
        difference = same(recorded, source)
    if difference:
        raise InputError(f"{difference}: it was written since; run again")


def same(old: dict[str, Any], source: Source) -> str | None:
    """None if `source` is what `old` was taken of, else a sentence naming the difference.

    Equal size and modification time (or tag) are trusted. Otherwise contents are compared,
    if `old` holds digests; that reads the file. A file that is alone may have another name.
    """
    if old["kind"] != source.kind:
        return f"the source is {source.kind}, it was {old['kind']}"
    if old.get("dialect") != source.dialect.as_json():
        return f"text is read as {source.dialect.as_json()}, it was as {old.get('dialect')}"
    before = {(entry["role"], entry["name"]): entry for entry in old["files"]}
    named = [(part.role, part.name) for part in source.parts]
    roles = [role for role, _ in before]
    if roles == [role for role, _ in named] and len({*roles}) == len(roles):
        named = [*before]
    now = dict(zip(named, source.parts, strict=True))
    for role, name in before:
        if (role, name) not in now:
            return f"{name} ({role}) is no longer part of the source"
    for key, part in now.items():
        if key not in before:
            return f"{part.name} ({part.role}) is new in the source"
        if difference := changed(before[key], part):
            gone = f"{key[1]} ({part.role}) is no longer part of the source"
            return difference if key[1] == part.name else gone
    if list(before) != list(now):
        return "the files of the source have another order"
    return None
