"""The parts of a step on several threads of this process."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol, TypeVar

from threadpoolctl import LibController, ThreadpoolController

from flows.engine.deadline import Deadline
from storage.errors import StepTimeoutError

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_MEMORY = Path("/sys/fs/cgroup/memory.max")


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)
T = TypeVar("T")


def n_cores(quota: Path = _QUOTA) -> int:
    """CPUs that this process may use at once, by its affinity and the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with suppress(OSError, ValueError):
        most, period = quota.read_text().split()
        return max(1, min(cores or 1, int(most) // int(period)))
    return cores or 1


def machine_memory(limit: Path = _MEMORY) -> int:
    """Bytes of memory of this machine, or of its container."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        return min(memory, int(limit.read_text()))
    return memory


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


def run_threads(
    do: Callable[[N], T], parts: Sequence[N], n_threads: int, deadline: Deadline
) -> Iterator[T]:
    """Results of all parts, as they complete, begun in the order given; libraries that have threads
    of their own get one.

    When a part fails, or nobody wants more, those that are under way are waited for and no other is
    begun. After the deadline nothing is waited for.

    Raises whatever a part raised; `StepTimeoutError`, with the names of the parts that run.
    """
    left, running = deque(parts), dict[str, None]()
    done: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        while left:
            with suppress(IndexError):  # another thread took the last
                part = left.popleft()
                running[part.name] = None
                try:
                    done.put((do(part), None))
                except BaseException as error:  # raised where results are awaited
                    left.clear()
                    done.put((None, error))
                del running[part.name]

    threads: list[threading.Thread] = []
    wait = True
    with one_thread():
        try:
            for _ in range(n_threads):
                thread = threading.Thread(target=copy_context().run, args=[work], daemon=True)
                thread.start()
                threads.append(thread)
            for _ in parts:
                with deadline.interrupting(", ".join(list(running))):
                    result, error = done.get()
                if error is not None:
                    raise error
                yield result  # type: ignore[misc]
        except StepTimeoutError:
            wait = False
            raise
        finally:
            left.clear()
            for thread in threads if wait else []:
                thread.join()
