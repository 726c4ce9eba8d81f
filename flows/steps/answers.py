"""What is known of a row, sent to whoever has the row as a neighbor.

It goes by way of the part of the pool that holds the row: blocks, and batches of queries, know the
numbers of their neighbors and not where these lie. They ask, the parts of the pool answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Routed, Sent
from flows.engine.job import Output
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import distinct, places
from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.groups import Arrays
from storage.pool import Pool, Rows
from storage.run import Run

WANTED = "wanted"
ANSWERS = "neighbors-answers"
"""Names of exchanges."""


@dataclass(frozen=True)
class Asked:
    """Rows of the pool, and who asks for them."""

    rows: Rows
    n_askers: int
    wanted: list[Slice]


def ask(
    wanted: Exchange, producer: str, asker: int, pool: Pool, neighbor: npt.NDArray[np.int64]
) -> tuple[str, Sent]:
    """Ask the pool for the rows that occur in lists, of any shape; the key of what was written, and
    what was sent."""
    row = distinct(neighbor)
    columns: Arrays = {"row": row, "asker": np.full(len(row), asker, np.int32)}
    sent = wanted.send(producer, pool.part_of(row), len(pool.parts()), columns)
    return wanted.key(producer), sent


def askers(
    wanted: Exchange, slices: Sequence[Slice]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """(item,) rows that were asked for, and the number of who asked."""
    if not slices:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    asked = wanted.receive(slices)
    return asked["row"], asked["asker"]


def answer(run: Run, producer: str, asked: Asked, told: Mapping[str, npt.NDArray[Any]]) -> Output:
    """Send what is `told` of the rows of a part, in source order, to those that ask."""
    row, asker = askers(Exchange(run.location, WANTED), asked.wanted)
    exchange, at = Exchange(run.location, ANSWERS), row - asked.rows.start
    columns = {"row": row, **{name: column[at] for name, column in told.items()}}
    sent = exchange.send(producer, asker, asked.n_askers, columns)
    return Output([exchange.key(producer)], Routed(sent))


class Answers:
    """What is told of the rows that somebody asked for."""

    def __init__(self, run: Run, slices: Sequence[Slice]) -> None:
        self.told: Arrays = Exchange(run.location, ANSWERS).receive(slices)
        self.row: npt.NDArray[np.int64] = self.told.pop("row")

    def places(self, neighbor: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Where each neighbor, of any shape, is in the columns; `ABSENT` in empty places.

        Raises
        ------
        StorageError
            a row was not answered for.
        """
        at = places(self.row, neighbor)
        if ((at == ABSENT) & (neighbor != ABSENT)).any():
            raise StorageError("what some neighbors are is unknown; run train again to repair")
        return at
