"""What is counted and coded of the columns of a source, chunk by chunk, while it is read: features
that are not finite, groups, and labels by their kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from pipeline.arrays import AnyArray, Int64, UInt64
from pipeline.labels import check_counts
from storage.errors import InputError, amount, listed, shown
from storage.sources.base import Source
from storage.sources.blocks import Chunk
from storage.sources.values.labels import MOST_CLASSES, Label, LabelCodes, Labels, sort_key

WORDS = 16
"""Words of 64 candidates to a row: room for all classes."""
_BITS = 64
IMPUTE = ", or give --impute median or --impute drop"
"""What a training can do about values that are not finite."""


class FiniteCheck:
    """Count NaN and infinite feature values, and remember the first.

    Empty cells of CSV and Parquet are NaN; numbers beyond float32 are infinite.
    """

    def __init__(self, feature_names: tuple[str, ...], files: tuple[str, ...]) -> None:
        """`files`: of the source, to be named."""
        self.feature_names, self.files = feature_names, files
        self.count = 0
        """Bad values."""
        self.first: tuple[str, int, str, float] | None = None
        """File, row, feature name and value of the first one."""

    def see(self, chunk: Chunk) -> None:
        bad = ~np.isfinite(chunk.x)
        n_bad = int(np.count_nonzero(bad))
        if n_bad and self.first is None:
            row, column = divmod(int(bad.argmax()), chunk.x.shape[1])
            file, value = self.files[chunk.source_id[row]], float(chunk.x[row, column])
            self.first = file, int(chunk.rows[row]), self.feature_names[column], value
        self.count += n_bad

    def raise_if_any(self, more: str = "") -> None:
        """Raise `InputError` with the count and the first position if any value was bad.

        more : what can be done besides mending the source
        """
        if self.first is None:
            return
        file, row, name, value = self.first
        values = amount(self.count, "NaN or infinite feature value")
        raise InputError(
            f"{file}: {values}; first at row {row} (from 0), column {name!r}: "
            f"{value}; fill or drop them{more} (empty cells are NaN, beyond 3.4e38 is infinite)"
        )


class GroupCodes(LabelCodes):
    """Codes of groups by first appearance; -1 where a row has none."""

    def __init__(self, name: str) -> None:
        super().__init__(f"--by {shown(name)}")
        self.name = name

    def about(self) -> dict[str, Any]:
        """For the attributes of the pool; `InputError` where no row has a group."""
        if not self.values:
            raise InputError(f"{self.where}: the column is empty; leave out --by")
        return {"group_name": self.name, "group_values": list(self.values)}

    def _refused(self, value: Label, row: int) -> InputError:
        return InputError(
            f"{self.where}: more than {MOST_CLASSES:,} values by row {row:,} (from 0), such as "
            f"{listed([*self.values, value][-3:])}, and at most {MOST_CLASSES:,} groups are "
            "compared; give a coarser column, such as the site or the month"
        )


class LabelsInAll(NamedTuple):
    """What all labels of a source came to."""

    values: list[Label] | None = None
    """The label of each code; None of a source without labels."""
    counts: list[int] | None = None
    """Rows with each."""
    columns: Mapping[str, AnyArray] = MappingProxyType({})
    """Of the pool, in whole."""
    about: Mapping[str, Any] = MappingProxyType({})
    """For the attributes of the pool."""


class Unlabeled:
    """What becomes of the labels of a source while it is read: here it has none."""

    optional: ClassVar[tuple[str, ...]] = ()
    """Columns of the pool that these labels take, and others do not."""

    def __init__(self, source: Source, classes: Sequence[Label] | None = None) -> None:
        """`classes` are the only candidates there may be; None for any."""

    def see(self, chunk: Chunk) -> None:
        """Take note of one chunk."""

    def merge(self, after: Any) -> None:
        """Take what another pass saw of the chunk that follows."""

    def coded(self, chunk: Chunk) -> Chunk:
        """The chunk with what is written of its labels, row by row, in place of these."""
        return chunk._replace(label=None)

    def in_all(self) -> LabelsInAll:
        """What they came to; `InputError` where they cannot be learned from."""
        return LabelsInAll()


class SingleCodes(Unlabeled):
    """Code single labels; they are few bytes a row, and written when all are known."""

    def __init__(self, source: Source, classes: Sequence[Label] | None = None) -> None:
        self.codes = LabelCodes(f"labels {source.label_name!r}")
        self.several = source.annotations
        self.labels: list[npt.NDArray[np.signedinteger]] = []

    def see(self, chunk: Chunk) -> None:
        assert chunk.label is not None
        self.labels.append(self.codes.encode(chunk.label, chunk.start))

    def merge(self, after: SingleCodes) -> None:
        code = self.codes.merge(after.codes)
        code = code.astype(np.int8) if len(code) <= 128 else code
        self.labels += [code[labels] for labels in after.labels]

    def in_all(self) -> LabelsInAll:
        if self.several is not None and self.codes.n_missing:
            raise self.several.missing(self.codes.n_missing, self.codes.first_missing)
        values, remap = self.codes.finish()
        counts = np.zeros(len(values), np.int64)
        for codes in self.labels:
            counts[remap] += np.bincount(codes, minlength=len(values))
        try:
            check_counts(values, counts)
        except ValueError as error:
            raise InputError(f"{self.codes.where}: {error}") from error
        return LabelsInAll(list(values), counts.tolist(), {"y": remap[np.concatenate(self.labels)]})


class CandidateCodes(Unlabeled):
    """Code candidate sets as bit masks, chunk by chunk; `in_all` tells what the bits mean. With
    `classes` no other candidate is known, and bit c is class c."""

    optional = ("candidates",)

    def __init__(self, source: Source, classes: Sequence[Label] | None = None) -> None:
        self.where = f"labels {source.label_name!r}"
        self.classes = classes
        self._codes: dict[Label, int] = {value: code for code, value in enumerate(classes or ())}
        self._rows: list[int] = [0] * len(self._codes)
        """Rows with each candidate, by code."""
        self.n_missing = 0
        self.first_missing: int | None = None

    def encode(self, sets: Labels, rows: Int64) -> UInt64:
        """`(row, WORDS)` masks of one chunk's sets, `as_sets`: the value that appears as number c
        is bit c % 64 of word c // 64.

        rows : `(row,)` their numbers, for messages

        Raises `InputError` at the first value too many, or that is none of the classes.
        """
        values = sets.tolist()
        kinds: dict[Any, int] = {}
        kind = np.fromiter((kinds.setdefault(one, len(kinds)) for one in values), np.int64)
        counts = np.bincount(kind, minlength=len(kinds)).tolist()
        masks = np.zeros((len(kinds), WORDS), np.uint64)
        for one, at in kinds.items():
            if one is None:
                self.n_missing += counts[at]
                if self.first_missing is None:
                    self.first_missing = int(rows[(kind == at).argmax()])
                continue
            for value in one:
                if self.classes is not None and value not in self._codes:
                    self._unknown(value, int(rows[(kind == at).argmax()]))
                code = self._codes.setdefault(value, len(self._codes))
                if code == MOST_CLASSES:
                    self._refuse(int(rows[(kind == at).argmax()]))
                if code == len(self._rows):
                    self._rows.append(0)
                self._rows[code] += counts[at]
                masks[at, code // _BITS] |= np.uint64(1) << np.uint64(code % _BITS)
        return masks[kind]

    def coded(self, chunk: Chunk) -> Chunk:
        assert chunk.label is not None
        return chunk._replace(label=self.encode(chunk.label, chunk.rows))

    def in_all(self) -> LabelsInAll:
        """The values in the order of their final codes, as for single labels; rows with each, and
        the final code of each bit.

        Raises `InputError` if rows have no candidate, or all the same one.
        """
        if self.n_missing:
            known = "fill them in, or score without this column and --candidates"
            new = "fill them in or drop these rows, or give --unlabeled predict"
            raise InputError(
                f"{self.where}: {amount(self.n_missing, 'row has', 'rows have')} no candidate; "
                f"first at row {self.first_missing} (from 0); "
                f"{new if self.classes is None else known}"
            )
        ordered = list(self.classes or sorted(self._codes, key=sort_key))
        if self.classes is None and len(ordered) < 2:
            raise InputError(
                f"{self.where}: the only candidate is {listed(ordered)}; two classes are "
                "needed to learn from"
            )
        place = {value: code for code, value in enumerate(ordered)}
        rows = [self._rows[self._codes[value]] for value in ordered]
        codes = [place[value] for value in self._codes]
        return LabelsInAll(ordered, rows, about={"candidate_codes": codes})

    def _unknown(self, value: Label, row: int) -> NoReturn:
        raise InputError(
            f"{self.where}: row {row} (from 0) has the candidate {value!r}, which is no class of "
            f"the training ({listed(list(self._codes))}); correct it, or score without "
            "this column and --candidates"
        )

    def _refuse(self, row: int) -> None:
        raise InputError(
            f"{self.where}: candidates are more than {MOST_CLASSES:,} values, such as "
            f"{listed(list(self._codes)[-3:])} (the last at row {row} (from 0)); are these labels, "
            "and is the separator right?"
        )
