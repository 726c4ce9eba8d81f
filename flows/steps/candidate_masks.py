"""The candidate sets of rows, sent to whoever has the rows as neighbors.

Blocks, and batches of queries, know the numbers of their neighbors and not where these lie: they
ask the parts of the pool, which answer with masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.steps.lists import Routed, incoming
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import distinct, places
from pipeline.methods.partial_labels import Masks, reordered
from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.groups import Arrays
from storage.ledger import Record
from storage.pool import Pool, Rows
from storage.run import Run

WANTED = "wanted"
CANDIDATES = "candidates"
"""Names of steps and of their exchanges."""


@dataclass(frozen=True)
class Answer:
    """Rows of the pool, and who wants to know their candidates."""

    pool: Pool
    rows: Rows
    n_askers: int
    wanted: list[Slice]


def ask(
    run: Run, producer: str, pool: Pool, neighbor: npt.NDArray[np.int64], asker: int
) -> tuple[str, Routed]:
    """Ask the pool for the candidates of all rows that occur; the key written, and what was
    sent."""
    exchange, row = Exchange(run.location, WANTED), distinct(neighbor)
    columns: Arrays = {"row": row, "asker": np.full(len(row), asker, np.int32)}
    sent = exchange.send(producer, pool.part_of(row), len(pool.parts()), columns)
    return exchange.key(producer), Routed(sent)


def answers(job: Job, pool: Pool, asked: list[Record], n_askers: int) -> list[list[Slice]]:
    """For each asker the slices of the exchange that hold what it asked for."""
    parts = pool.parts()
    wanted = incoming(asked, len(parts))
    answered = job.parts(
        CANDIDATES,
        answer_part,
        [
            Part(f"rows-{i:06d}", Answer(pool, rows, n_askers, wanted[i]))
            for i, rows in enumerate(parts)
        ],
    )
    return incoming(answered, n_askers)


def answer_part(run: Run, part: Part[Answer]) -> Output:
    """Send the candidates of some rows of the pool to those that want to know."""
    rows, pool, exchange = part.args.rows, part.args.pool, Exchange(run.location, CANDIDATES)
    row, asker = np.empty(0, np.int64), np.empty(0, np.int32)
    if part.args.wanted:
        asked = Exchange(run.location, WANTED).receive(part.args.wanted)
        row, asker = asked["row"], asked["asker"]
    columns: Arrays = {"row": row, "mask": read_candidates(pool, rows)[row - rows.start]}
    sent = exchange.send(part.name, asker, part.args.n_askers, columns)
    return Output([exchange.key(part.name)], Routed(sent))


def read_candidates(pool: Pool, rows: Rows) -> Masks:
    """(row, word) uint64 candidate sets of some rows of a pool, by final codes."""
    codes: list[int] = pool.run.group(pool.path).attrs["candidate_codes"]  # type: ignore[assignment]
    return reordered(pool.read("candidates", rows), np.array(codes, np.int64))


class Known:
    """The candidate sets that somebody asked for."""

    def __init__(self, run: Run, slices: list[Slice]) -> None:
        found = Exchange(run.location, CANDIDATES).receive(slices)
        self.row, self.mask = found["row"], found["mask"]

    def places(self, row: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The places of rows, of any shape, in `mask`; -1 in empty places.

        Raises
        ------
        StorageError
            a row was not answered for.
        """
        place = places(self.row, row)
        if ((place == ABSENT) & (row != ABSENT)).any():
            raise StorageError("candidates of some neighbors are unknown; run train again")
        return place
