"""Loops over rows in pieces, on threads of this process; and libraries without threads and warnings
of theirs.

Where the pieces lie depends on the rows alone, and each is written by one thread: results have the
same bits on any number of threads.
"""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import LibController, ThreadpoolController

from pipeline.arrays import AnyArray, Integers

PIECE_ROWS = 1 << 12
"""Rows of a piece, at most: enough that its own arrays, some of them a byte per row of all, cost
little, and so few that no thread waits long for the last."""

LINE = 64
"""Bytes that come from memory together."""

Scalar = TypeVar("Scalar", bound=np.generic)


def _aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
    """An array whose values are undefined, at the beginning of a line: its rows lie in few."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + LINE, np.uint8)
    first = -room.ctypes.data % LINE
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


@contextmanager
def one_thread() -> Iterator[None]:
    """For the time of a block, one thread in every library that has threads of its own.

    Blocks of several threads of this process may overlap: all run with one, and the last to leave
    gives back what the first came upon.
    """
    libraries = _libraries(len(sys.modules))
    with libraries.select(user_api="openmp").limit(limits=1):  # a number of each calling thread
        _BLAS.enter(libraries.select(user_api="blas"))
        try:
            yield
        finally:
            _BLAS.leave()


@contextmanager
def quiet() -> Iterator[None]:
    """For the time of a block, no warnings of libraries.

    Filters are the whole process's, and blocks of several threads of this process may overlap, of
    libraries that set filters, too: the last to leave gives back what the first came upon.
    """
    _FILTERS.enter()
    try:
        yield
    finally:
        _FILTERS.leave()


class _Filters:
    """Holds the filters of warnings for as long as anyone is within."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._kept = ExitStack()

    def enter(self) -> None:
        with self._lock:
            if not self._within:  # recorded, as what libraries set forgets that all is ignored
                self._kept.enter_context(warnings.catch_warnings(record=True, action="ignore"))
            self._within += 1

    def leave(self) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                self._kept.close()


_FILTERS = _Filters()


class _OneThread:
    """Holds libraries whose number of threads is the whole process's to one, for as long as anyone
    is within."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._before: dict[str, tuple[LibController, int]] = {}
        """The libraries by their file, and how many threads they had."""

    def enter(self, libraries: ThreadpoolController) -> None:
        with self._lock:
            for library in libraries.lib_controllers:  # some were loaded since others came
                if library.filepath not in self._before:
                    self._before[library.filepath] = library, library.num_threads
                    _set(library, 1)
            self._within += 1

    def leave(self) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                for library, number in self._before.values():
                    _set(library, number)
                self._before.clear()


def _set(library: LibController, number: int) -> None:
    """Set the threads of a library, whichever thread did so before: threadpoolctl lets only that
    one, and ignores the others without a word."""
    library.clear_controlling_thread(force=True)
    library.set_num_threads(number)
    library.clear_controlling_thread(force=True)


_BLAS = _OneThread()


@lru_cache(1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """The libraries loaded; looked for again, which takes some milliseconds, when there are other
    modules."""
    return ThreadpoolController()
