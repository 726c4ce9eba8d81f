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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache, partial
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

T = TypeVar("T")
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

    @contextmanager
    def beside(self, call: Callable[[], T]) -> Iterator[Callable[[], T]]:
        """What returns the result of a call, which is made beside a block where there are threads,
        as the block may leave some idle, and else when the result is taken."""
        if self.number == 1:
            yield call
            return
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(copy_context().run, call).result

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


class Process:
    """What the whole process has one of, changed for as long as any of several threads is within:
    the last to leave gives back what the first came upon."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._undone: dict[str, Callable[[], object]] = {}
        """What takes a change back, by its name."""

    @contextmanager
    def changed(self, changes: Mapping[str, Callable[[], Callable[[], object]]]) -> Iterator[None]:
        """A block within which all has been changed, each by a call that returns what undoes it;
        once, whoever else is within."""
        with self._lock:
            for name in changes.keys() - self._undone.keys():
                self._undone[name] = changes[name]()
            self._within += 1
        try:
            yield
        finally:
            with self._lock:
                self._within -= 1
                while self._undone and not self._within:
                    self._undone.popitem()[1]()


_BLAS, _FILTERS = Process(), Process()


@contextmanager
def one_thread() -> Iterator[None]:
    """For the time of a block, one thread in every library that has threads of its own.

    Blocks of several threads of this process may overlap: all run with one.
    """
    libraries = _libraries(len(sys.modules))
    blas = libraries.select(user_api="blas").lib_controllers  # some were loaded since others came
    with (
        libraries.select(user_api="openmp").limit(limits=1),  # a number of each calling thread
        _BLAS.changed({one.filepath: partial(_alone, one) for one in blas}),
    ):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """For the time of a block, no warnings of libraries, whose filters are the whole process's.

    Blocks of several threads of this process may overlap, of libraries that set filters, too.
    """
    with _FILTERS.changed({"filters": _ignored}):
        yield


def _ignored() -> Callable[[], object]:
    """Recorded, as libraries that set filters anew forget that all is ignored."""
    before = warnings.catch_warnings(record=True, action="ignore")
    before.__enter__()
    return partial(before.__exit__, None, None, None)


def _alone(library: LibController) -> Callable[[], object]:
    number = library.num_threads
    _set(library, 1)
    return partial(_set, library, number)


def _set(library: LibController, number: int) -> None:
    """Set the threads of a library, whichever thread did so before: threadpoolctl lets only that
    one, and ignores the others without a word."""
    library.clear_controlling_thread(force=True)
    library.set_num_threads(number)
    library.clear_controlling_thread(force=True)


@lru_cache(1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """The libraries loaded; looked for again, which takes some milliseconds, when there are other
    modules."""
    return ThreadpoolController()
