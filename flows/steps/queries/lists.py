"""The lists of queries: where they lie, and what is asked of the rows in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from flows.engine.collectives import PoolGraph, Sendings
from flows.engine.collectives.sent import Passed, ask, receive_lists
from flows.engine.job import Job, Output
from flows.engine.parts import Part, rows_name
from pipeline.knn.lists import Neighbors
from pipeline.knn.places import distinct
from storage.arrays.exchange import Exchange, Slice
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run


@dataclass(frozen=True)
class Lists:
    """Where the neighbors of some queries lie."""

    at: Run
    slices: list[Slice]
    k: int
    """Length of the lists."""

    def of(self, rows: Rows) -> Neighbors:
        """The merged lists of these queries, which are all that the slices are of."""
        owners = np.arange(rows.start, rows.stop)
        return receive_lists(Exchange(self.at.location, "lists"), self.slices, owners, self.k)


@dataclass(frozen=True)
class Want:
    """Queries about whose nearest rows something is asked."""

    number: int
    rows: Rows
    lists: Lists
    pool: Pool
    """Of the rows in the lists."""
    nearest: int
    """How many of each list."""


def answers(
    job: Job,
    queries: Pool,
    lists: Sequence[Lists],
    pool: Pool,
    nearest: int,
    answer: Callable[[Job, PoolGraph, Sendings], Sendings],
) -> list[list[Slice]]:
    """For each part of the queries, where lies what a pool says of the nearest rows in their lists.

    answer : runs over the pool's rows, given which of them are wanted
    """
    wants = [
        Part(rows_name(i), Want(i, rows, some, pool, nearest))
        for i, (rows, some) in enumerate(zip(queries.parts(), lists, strict=True))
    ]
    requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want_part, wants))
    return answer(job, PoolGraph(pool, len(wants)), requests).slices("answers", len(wants))


def want_part(run: Run, part: Part[Want]) -> Output:
    """Ask for the nearest rows of some queries, each once."""
    want = part.args
    near = np.ascontiguousarray(want.lists.of(want.rows).row[:, : want.nearest])
    key, sent = ask(run.location, "wanted", part.name, want.number, want.pool, distinct(near))
    return Output([key], Passed({"asked": sent}))
