"""What is known of a row, sent to the blocks that have the row as a neighbor.

It goes by way of the part of the pool that holds the row: blocks know the row numbers of their
neighbors, not their homes. A block asks, the part of the pool answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.job import Output
from flows.steps.lists import Routed, Sent
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import distinct, places
from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.groups import Arrays
from storage.location import Location
from storage.pool import Pool, Rows
from storage.run import Run

WANTED = "wanted"
ANSWERS = "neighbors-answers"
"""Names of exchanges."""


@dataclass(frozen=True)
class Asked:
    """Rows of the pool that blocks ask for."""

    rows: Rows
    n_blocks: int
    wanted: list[Slice]


def ask(
    location: Location, producer: str, block: int, pool: Pool, neighbor: npt.NDArray[np.int64]
) -> tuple[str, Sent]:
    """Ask for the rows in a block's lists (row, rank); the key of what was written, and what was
    sent."""
    wanted, exchange = distinct(neighbor), Exchange(location, WANTED)
    columns: Arrays = {"row": wanted, "block": np.full(len(wanted), block, np.int32)}
    sent = exchange.send(producer, pool.part_of(wanted), len(pool.parts()), columns)
    return exchange.key(producer), sent


def answer(run: Run, producer: str, asked: Asked, told: Mapping[str, npt.NDArray[Any]]) -> Output:
    """Send what is `told` of the rows of a part, in source order, to the blocks that ask."""
    row, block = np.empty(0, np.int64), np.empty(0, np.int32)
    if asked.wanted:
        wanted = Exchange(run.location, WANTED).receive(asked.wanted)
        row, block = wanted["row"], wanted["block"]
    exchange = Exchange(run.location, ANSWERS)
    at = row - asked.rows.start
    columns = {"row": row, **{name: column[at] for name, column in told.items()}}
    sent = exchange.send(producer, block, asked.n_blocks, columns)
    return Output([exchange.key(producer)], Routed(sent))


class Answers:
    """What is told of the neighbors of one block's rows."""

    def __init__(self, run: Run, slices: list[Slice]) -> None:
        self.told: Arrays = Exchange(run.location, ANSWERS).receive(slices)
        self._row = self.told.pop("row")

    def places(self, neighbor: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Where each neighbor (row, rank) is in the columns; `ABSENT` in empty places."""
        at = places(self._row, neighbor)
        if ((at == ABSENT) & (neighbor != ABSENT)).any():
            raise StorageError("neighbors of a block are unknown; run train again to repair")
        return at
