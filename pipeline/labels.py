"""The label space: c named classes, and the type of their codes.

A code is the place of a class among ``class_names``.
"""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import numpy as np

from pipeline.arrays import Int64

ClassName = bool | int | float | str
MOST_CLASSES = 1000
"""Classes that a label space can hold."""


@dataclass(frozen=True)
class LabelSpace:
    """Classes by name, in the order of their codes.

    ValueError unless there are 2 to 1,000 classes with different names.
    """

    class_names: tuple[ClassName, ...]

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

    def check_counts(self, counts: Int64) -> None:
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


def dtype_of(n_classes: int) -> np.dtype[Any]:
    """Type of the codes of so many classes: int8 for two, uint8 up to 256, else uint16."""
    if n_classes == 2:
        return np.dtype(np.int8)
    return np.dtype(np.uint8 if n_classes <= 256 else np.uint16)
