"""Run the parts of a step, on a Dask cluster, watched for whether it still has workers, or in this
process, on one thread or several."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from flows.engine.deadline import Deadline
from pipeline.knn.threads import one_thread
from storage.errors import ClusterError, StepTimeoutError
from storage.version import VERSION

if TYPE_CHECKING:
    from distributed import Client, Future

EVERY = 5.0
"""Seconds between looks."""
PATIENCE = 30.0
"""Seconds for which a cluster that had workers may have none, or may not answer."""
FIRST = 600.0
"""The same for a cluster that never had one: it may scale up when work comes."""
RETRIES = 2
"""Further tries of a part that failed on a cluster."""
_HAD_WORKERS: WeakSet[Client] = WeakSet()
"""Clusters that had workers in this step or one before."""


class Vigil:
    """Ends a wait that no worker is there to end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._alive = self._looked = time.monotonic()

    def worked(self) -> None:
        """A part is done: somebody works."""
        self._alive = time.monotonic()
        _HAD_WORKERS.add(self._client)

    def look(self) -> None:
        """Ask the scheduler now and then.

        Raises `ClusterError` where there has been no worker for too long.
        """
        if time.monotonic() < self._looked + EVERY:
            return
        present = count_workers(self._client)
        self._looked = time.monotonic()
        patience = PATIENCE if self._client in _HAD_WORKERS else FIRST
        if present:
            self.worked()
        elif self._looked > self._alive + patience:
            what = "the scheduler has not answered" if present is None else "there was no worker"
            raise ClusterError(
                f"{what} for {self._looked - self._alive:.0f} s; what is done is kept: start "
                "workers, and run again to resume"
            )


def count_workers(client: Client) -> int | None:
    """Workers of a cluster; None where its scheduler is mute."""
    if client.status != "running":
        return None
    try:
        return int(client.scheduler_info(n_workers=1)["n_workers"])
    except (OSError, TimeoutError, KeyError):
        return None


A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class Part(Generic[A]):
    """One future, one writer, one commit."""

    name: str
    args: A
    """What the part reads besides what its name says, and what all parts of a step get by
    `partial`: small values."""


def block_name(number: int) -> str:
    return f"block-{number:05d}"


def rows_name(number: int) -> str:
    return f"rows-{number:06d}"


def by_block(each: Iterable[A]) -> list[Part[A]]:
    """A part for each block, in their order."""
    return [Part(block_name(number), args) for number, args in enumerate(each)]


def by_rows(each: Iterable[A]) -> list[Part[A]]:
    """A part for some rows each, in order of the source."""
    return [Part(rows_name(number), args) for number, args in enumerate(each)]


def task_keys(step: str, parts: Sequence[Part[Any]]) -> list[str]:
    """Names of the tasks on the cluster, `neighbors-block-00017-1f3a…`.

    The dashboard groups and colors tasks by the words before the number, thus by step. The end is
    random: the scheduler takes tasks of equal name for the same, and other runs may be using it.
    """
    token = uuid.uuid4().hex[:12]
    return [f"{step}-{part.name}-{token}" for part in parts]


def of_version(version: str, do: Callable[[Part[A]], T], part: Part[A]) -> T:
    """What a part gives; raises `ClusterError` on a worker of another version, which may have
    joined after all were asked."""
    if version != VERSION:
        raise other_version(VERSION, version)
    return do(part)


def other_version(theirs: str, ours: str = VERSION) -> ClusterError:
    return ClusterError(
        f"a worker of the cluster has knnoise {theirs}, this process {ours}; install the same on "
        "all workers and start them again"
    )


def run_parts(
    do: Callable[[Part[A]], T],
    parts: Sequence[Part[A]],
    client: Callable[[], Client | None],
    *,
    step: str,
    deadline: Deadline | None = None,
    run: str = "knnoise",
    threads: int = 1,
    at_once: int | None = None,
) -> Iterator[T]:
    """Results of all parts, as they complete; no more than `at_once` run at the same time.

    `client` is asked before each part that would run here, so that a cluster which becomes ready
    meanwhile takes the rest; with more than one of `threads` there is none, and they share the
    parts. Parts are started in the order given: put long ones first. Dask's
    spans tell the tasks by `run`, then by `step`.

    Raises whatever a part raised in its last try; distributed.scheduler.KilledWorker where workers
    died on it too often; `StepTimeoutError`, with the names of the parts that run, where the
    deadline has passed; `ClusterError` where the cluster has lost all workers. Parts that are under
    way are then cancelled.
    """
    deadline = deadline or Deadline(step)
    left = list(parts)
    most = len(left) if at_once is None else at_once
    threads = min(threads, most, len(left))
    if threads > 1:
        yield from run_threads(do, left, threads, deadline)
        return

    while left:
        cluster = client()
        if cluster is not None:
            yield from _on_cluster(cluster, run, do, left, most, deadline)
            return
        part = left.pop(0)
        with deadline.interrupting(part.name):
            result = do(part)
        yield result


def run_threads(
    do: Callable[[Part[A]], T], parts: Sequence[Part[A]], n_threads: int, deadline: Deadline
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


def _on_cluster(
    cluster: Client,
    run: str,
    do: Callable[[Part[A]], T],
    parts: list[Part[A]],
    at_once: int,
    deadline: Deadline,
) -> Iterator[T]:
    """The results of parts, `at_once` of them submitted at first and another with each that is
    done, until the deadline, or until there are no workers.

    A result is fetched before its future counts as completed: the worker that holds it may die in
    between, and asking a future for it would then wait without an end.
    """
    from distributed import CancelledError, as_completed, span

    def submit(some: list[Part[A]]) -> list[Future]:
        work, keys = partial(of_version, VERSION, do), task_keys(deadline.step, some)
        how = {"retries": RETRIES, "pure": False, "batch_size": 64}
        with span(run, deadline.step):
            return list(cluster.map(work, some, key=keys, **how))

    futures, left = submit(parts[:at_once]), parts[at_once:]
    completed = as_completed(futures, loop=cluster.loop, with_results=True)
    vigil = Vigil(cluster)
    try:
        while not completed.is_empty():
            if completed.has_ready():
                future, result = next(completed)
                if isinstance(result, CancelledError):
                    raise result
                vigil.worked()
                if left:
                    more = submit([left.pop(0)])
                    futures += more
                    completed.update(more)
                yield result
                future.release()
            elif not deadline.left:
                raise deadline.passed(*_under_way(cluster, futures, deadline.step))
            else:
                vigil.look()
                with completed.thread_condition:
                    completed.thread_condition.wait(0.1)
    finally:
        cluster.cancel(futures)


def _under_way(cluster: Client, futures: list[Future], step: str) -> list[str]:
    """Names of the parts that workers are at; of all that are not done, where nobody says."""
    pending = {future.key for future in futures if not future.done()}
    with suppress(OSError, TimeoutError):
        pending = pending & set(cluster.run_on_scheduler(_executing)) or pending
    return sorted(key.removeprefix(f"{step}-").rsplit("-", 1)[0] for key in pending)


def _executing(dask_scheduler: Any) -> list[str]:
    """Keys of the tasks that workers said they are at in their last heartbeat."""
    return [task.key for worker in dask_scheduler.workers.values() for task in worker.executing]


def lost_cluster(error: Exception) -> str | None:
    """What an error says of the cluster, and the remedy; None where it is about something else."""
    if "distributed" not in sys.modules:
        return None
    from distributed import CancelledError
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return (
            f"a part killed its workers again and again ({error.task}), or they import other "
            "code; most often it is memory: give workers more and run again to resume, or lower "
            "--block-rows in another --run folder"
        )
    if isinstance(error, (CommClosedError, CancelledError, ClosedClientError)):
        return (
            "the scheduler is gone; what is done is kept: start it and its workers, and run again "
            "to resume"
        )
    return None
