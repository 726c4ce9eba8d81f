"""Run the parts of a step, on a Dask cluster or in this process."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flows.engine.deadline import Deadline
from flows.engine.threads import run_threads
from flows.engine.vigil import Vigil

if TYPE_CHECKING:
    from distributed import Client, Future

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class Part(Generic[A]):
    """One future, one writer, one commit."""

    name: str
    args: A
    """What the part reads besides what its name says: small values."""


def block_name(number: int) -> str:
    return f"block-{number:05d}"


def rows_name(number: int) -> str:
    return f"rows-{number:06d}"


def task_keys(step: str, parts: Sequence[Part[Any]]) -> list[str]:
    """Names of the tasks on the cluster, `neighbors-block-00017-1f3a…`.

    The dashboard groups and colors tasks by the words before the number, thus by step. The end is
    random: the scheduler takes tasks of equal name for the same, and other runs may be using it.
    """
    token = uuid.uuid4().hex[:12]
    return [f"{step}-{part.name}-{token}" for part in parts]


def run_parts(
    do: Callable[[Part[A]], T],
    parts: Sequence[Part[A]],
    client: Callable[[], Client | None],
    *,
    step: str,
    deadline: Deadline | None = None,
    run: str = "knnoise",
    retries: int = 2,
    threads: int = 1,
) -> Iterator[T]:
    """Results of all parts, as they complete.

    `client` is asked before each part that would run here, so that a cluster which becomes ready
    meanwhile takes the rest; with more than one of `threads` there is none, and they share the
    parts. Parts are started in the order given: put long ones first. Dask's
    spans tell the tasks by `run`, then by `step`.

    Raises
    ------
    Whatever a part raised in its last try; distributed.scheduler.KilledWorker where workers died
    on it too often; StepTimeoutError, with the names of the parts that run, where the deadline has
    passed; ClusterError where the cluster has lost all workers. Parts that are under way are then
    cancelled.
    """
    deadline = deadline or Deadline(step)
    left = list(parts)
    if threads > 1 and len(left) > 1:
        yield from run_threads(do, left, min(threads, len(left)), deadline)
        return
    while left:
        cluster = client()
        if cluster is None:
            part = left.pop(0)
            with deadline.interrupting(part.name):
                result = do(part)
            yield result
            continue
        from distributed import span

        with span(run, step):
            futures = cluster.map(
                do,
                left,
                key=task_keys(step, left),
                retries=retries,
                pure=False,
                batch_size=64,
            )
        left = []
        try:
            for future, result in _completed(cluster, futures, deadline):
                yield result
                future.release()
        finally:
            cluster.cancel(futures)


def _completed(
    cluster: Client, futures: list[Future], deadline: Deadline
) -> Iterator[tuple[Future, Any]]:
    """The futures with their results, until the deadline, or until there are no workers.

    A result is fetched before its future counts as completed: the worker that holds it may die in
    between, and asking a future for it would then wait without an end.
    """
    from distributed import CancelledError, as_completed

    completed = as_completed(futures, loop=cluster.loop, with_results=True)
    vigil = Vigil(cluster)
    while not completed.is_empty():
        if completed.has_ready():
            future, result = next(completed)
            if isinstance(result, CancelledError):
                raise result
            vigil.worked()
            yield future, result
        elif not deadline.left:
            raise deadline.passed(*_under_way(cluster, futures, deadline.step))
        else:
            vigil.look()
            with completed.thread_condition:
                completed.thread_condition.wait(0.1)


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
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return (
            f"a part killed its workers again and again ({error.task}); most often memory: lower "
            "--block-rows or give workers more; run again to resume"
        )
    if isinstance(error, (CommClosedError, CancelledError)):
        return "the scheduler is gone; what is done is kept: run again to resume"
    return None
