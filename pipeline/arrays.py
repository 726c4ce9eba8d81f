"""The types of arrays, by what they hold; and what parts counted, added up."""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Floating = npt.NDArray[np.floating]
Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
UInt16 = npt.NDArray[np.uint16]
UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

T = TypeVar("T")


def plus(one: T, other: T) -> T:
    """Both together: numbers, arrays, lists of numbers, or dataclasses of such, field by field."""
    a: Any = one
    b: Any = other
    kind: Callable[..., T] = type(one)
    if is_dataclass(a):
        return kind(*(plus(getattr(a, of.name), getattr(b, of.name)) for of in fields(a)))
    return kind(np.add(a, b).tolist()) if isinstance(a, list | tuple) else a + b


def added(parts: Iterable[T]) -> T:
    """All together, in their order, of one at least."""
    return reduce(plus, parts)
