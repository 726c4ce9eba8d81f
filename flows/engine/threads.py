"""The parts of a step on several threads of this process."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol, TypeVar

from flows.engine.deadline import Deadline
from pipeline.knn.threads import one_thread
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
