"""The label space: c named classes, their codes, and the code of a label that is missing.

A code is the place of a class among ``class_names``. Codes take one byte up to 256 classes and two
beyond. Two classes are int8 with -1 for a missing label; more classes are unsigned with the
type's greatest value for it, which 256 classes leave no room for in one byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import numpy as np
import numpy.typing as npt

ClassName = bool | int | float | str
Codes = npt.NDArray[np.integer]
MOST_CLASSES = 1000
"""Classes that a label space can hold."""


@dataclass(frozen=True)
class LabelSpace:
    """Classes by name, in the order of their codes.

    ValueError unless there are 2 to 1,000 classes with different names.
    """

    class_names: tuple[ClassName, ...]
    has_missing: bool = False
    """Whether rows may lack a label."""

    def __post_init__(self) -> None:
        n = len(self.class_names)
        if n < 2:
            classes = f"one class, {short(self.class_names[0])}" if n else "no class"
            raise ValueError(f"labels have {classes}: two classes are needed to learn from")
        if n > MOST_CLASSES:
            raise ValueError(
                f"labels have {n:,} classes: at most {MOST_CLASSES:,} are possible; "
                "is this column really a label? Else merge rare classes"
            )
        if len(set(self.class_names)) < n:
            twice = next(name for name in self.class_names if self.class_names.count(name) > 1)
            raise ValueError(
                f"class names: {short(twice)} occurs more than once (1 and True are equal)"
            )

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the codes: int8 for two classes, uint8 up to 256, else uint16."""
        return dtype_of(self.n_classes, self.has_missing)

    @property
    def absent(self) -> int:
        """The code of a missing label: -1 for two classes, else the greatest of its type.

        ValueError where all 256 codes of one byte are classes, as no label is missing then.
        """
        if self.n_classes == 2:
            return -1
        greatest = int(np.iinfo(self.dtype).max)
        if greatest < self.n_classes:
            raise ValueError("256 classes in one byte: no code is left for a missing label")
        return greatest

    def encode(self, labels: Sequence[Any] | npt.NDArray[Any]) -> Codes:
        """(row,) codes of labels (row,); None is a missing label.

        ValueError at the first label that is no class, or that is missing where none may be.
        """
        place = {name: code for code, name in enumerate(self.class_names)}
        if self.has_missing:
            place[None] = self.absent  # type: ignore[index]
        values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        try:
            return np.fromiter((place[label] for label in values), self.dtype, len(values))
        except KeyError as error:
            row, label = values.index(error.args[0]), error.args[0]
            known = ", ".join(map(short, self.class_names[:5]))
            more = f" and {self.n_classes - 5:,} more" if self.n_classes > 5 else ""
            raise ValueError(
                f"row {row} (from 0): label {short(label)} is none of the classes {known}{more}"
            ) from None

    def decode(self, codes: Codes) -> npt.NDArray[np.object_]:
        """(row,) class names of codes (row,), None where the label is missing."""
        names = np.empty(self.n_classes, object)
        names[:] = self.class_names
        known = self.is_known(codes)
        out = np.full(codes.shape, None, object)
        out[known] = names[codes[known].astype(np.int64)]
        return out

    def is_known(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Where a label is there; of the shape of ``codes``."""
        return np.asarray((codes >= 0) & (codes < self.n_classes))

    def class_counts(self, codes: Codes) -> npt.NDArray[np.int64]:
        """(class,) int64 rows of each class, missing labels left out; counts of blocks add up."""
        known = codes[self.is_known(codes)].astype(np.int64)
        return np.bincount(known.ravel(), minlength=self.n_classes).astype(np.int64)

    def check_counts(self, counts: npt.NDArray[np.int64]) -> None:
        """ValueError where a class has fewer than two rows: none has a neighbor of its class."""
        if len(counts) != self.n_classes:
            raise ValueError(f"{len(counts)} counts of {self.n_classes} classes")
        few = np.flatnonzero(counts < 2)
        if len(few):
            name, n = self.class_names[few[0]], int(counts[few[0]])
            more = f" ({len(few):,} such classes)" if len(few) > 1 else ""
            raise ValueError(
                f"class {short(name)} has {n} row{'' if n == 1 else 's'}{more}: "
                "at least 2 are needed; merge or drop it"
            )

    def to_json(self) -> dict[str, Any]:
        """The space as JSON values."""
        return {"class_names": list(self.class_names), "has_missing": self.has_missing}

    @staticmethod
    def from_json(record: dict[str, Any]) -> LabelSpace:
        """The space that ``to_json`` recorded."""
        return LabelSpace(tuple(record["class_names"]), bool(record["has_missing"]))


def dtype_of(n_classes: int, has_missing: bool = False) -> np.dtype[Any]:
    """Type of the codes of so many classes: int8 for two, uint8 up to 256 with that of a missing
    label if there is one, else uint16."""
    if n_classes == 2:
        return np.dtype(np.int8)
    return np.dtype(np.uint8 if n_classes + has_missing <= 256 else np.uint16)


def class_shares(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(class,) float64 shares of counts (class,), 0 everywhere where nothing was counted."""
    return np.asarray(counts / max(1, int(counts.sum())), np.float64)


def distinct_names(blocks: Iterable[Iterable[ClassName]]) -> tuple[ClassName, ...]:
    """The names that occur in any block, numbers before text: the same in any order of blocks."""
    names = {name for block in blocks for name in block}
    return tuple(sorted(names, key=_order))


def _order(name: ClassName) -> tuple[bool, float, str, str]:
    if isinstance(name, str):
        return True, 0.0, name.casefold(), name
    return False, float(name), "", ""
