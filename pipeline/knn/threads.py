"""Loops over rows in pieces, on threads of this process.

Where the pieces lie depends on the rows alone, and each is written by one thread: results have the
same bits on any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.arrays import AnyArray, Integers

PIECE_ROWS = 1 << 14
"""Rows of a piece: enough that its own arrays, some of them a byte per row of all, cost little."""

_LINE = 64
"""Bytes that come from memory together."""

Scalar = TypeVar("Scalar", bound=np.generic)


def _aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
    """An array whose values are undefined, at the beginning of a line: its rows lie in few."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + _LINE, np.uint8)
    first = -room.ctypes.data % _LINE
    return room[first : first + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class Threads:
    """How many threads share a loop whose body releases the interpreter."""

    number: int = 1

    def over(self, n: int, do: Callable[[int, int], object], piece: int = PIECE_ROWS) -> None:
        """Call `do(start, stop)` for every piece of n rows. Raises what one of the calls raised."""
        starts = range(0, n, piece)
        stops = [min(n, start + piece) for start in starts]
        if self.number == 1 or len(starts) < 2:
            for start, stop in zip(starts, stops, strict=True):
                do(start, stop)
            return
        contexts = [copy_context() for _ in starts]
        with ThreadPoolExecutor(min(self.number, len(starts))) as pool:
            for _ in pool.map(lambda own, *piece: own.run(do, *piece), contexts, starts, stops):
                pass

    def full(
        self, shape: tuple[int, ...], value: float, dtype: type[Scalar]
    ) -> npt.NDArray[Scalar]:
        """An array of one value; touching its memory first takes longest."""
        made: npt.NDArray[Scalar] = _aligned(shape, dtype)
        self.over(len(made), lambda start, stop: made[start:stop].fill(value))
        return made

    def take(self, values: npt.NDArray[Scalar], rows: Integers) -> npt.NDArray[Scalar]:
        """The rows of an array, in the order given."""
        taken: npt.NDArray[Scalar] = _aligned((len(rows), *values.shape[1:]), values.dtype)

        def do(start: int, stop: int) -> None:
            np.take(values, rows[start:stop], axis=0, out=taken[start:stop], mode="clip")

        self.over(len(rows), do)
        return taken


ALONE = Threads()
