"""Run the parts of a step, on a Dask cluster or in this process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from distributed import Client, as_completed

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """One future, one writer, one commit."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    """Small JSON values: what the part reads besides what its name says."""


def run_parts(
    do: Callable[[Part], T],
    parts: Sequence[Part],
    client: Callable[[], Client | None],
    *,
    step: str,
    retries: int = 2,
) -> Iterator[T]:
    """Results of all parts, as they complete.

    `client` is asked before each part that would run here, so that a cluster which becomes ready
    meanwhile takes the rest. Parts are started in the order given: put long ones first.

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
        token = uuid.uuid4().hex[:8]
        futures = cluster.map(
            do,
            left,
            key=[f"{step}-{part.name}-{token}" for part in left],
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
