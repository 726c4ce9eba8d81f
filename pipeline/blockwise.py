"""Run the parts of a step, on a Dask cluster or in this process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from distributed import Client, as_completed, span

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """One future, one writer, one commit."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    """Small JSON values: what the part reads besides what its name says."""


def task_keys(step: str, parts: Sequence[Part]) -> list[str]:
    """Names of the tasks on the cluster, `neighbours-block-00017-1f3a…`.

    The dashboard groups and colours tasks by the words before the number, thus by step. The end is
    random: the scheduler takes tasks of equal name for the same, and other runs may be using it.
    """
    token = uuid.uuid4().hex[:12]
    return [f"{step}-{part.name}-{token}" for part in parts]


def run_parts(
    do: Callable[[Part], T],
    parts: Sequence[Part],
    client: Callable[[], Client | None],
    *,
    step: str,
    run: str = "knnoise",
    retries: int = 2,
) -> Iterator[T]:
    """Results of all parts, as they complete.

    `client` is asked before each part that would run here, so that a cluster which becomes ready
    meanwhile takes the rest. Parts are started in the order given: put long ones first. Dask's
    spans tell the tasks by `run`, then by `step`.

    Raises
    ------
    Whatever a part raised in its last try; distributed.scheduler.KilledWorker where workers died
    on it too often. Parts that are under way are then cancelled.
    """
    left = list(parts)
    while left:
        cluster = client()
        if cluster is None:
            yield do(left.pop(0))
            continue
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
            for future in as_completed(futures, loop=cluster.loop):
                yield future.result()
                future.release()
        finally:
            cluster.cancel(futures)
