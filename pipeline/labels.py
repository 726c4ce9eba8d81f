"""Classes: the type of their names and of their codes, and counts of rows that are too small."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as short
from typing import Any

import numpy as np

from pipeline.arrays import Int64

ClassName = bool | int | float | str


def check_counts(class_names: Sequence[ClassName], counts: Int64) -> None:
    """ValueError where a class has fewer than two rows: none has a neighbor of its class."""
    few = np.flatnonzero(counts < 2)
    if len(few):
        name, n = class_names[few[0]], int(counts[few[0]])
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
