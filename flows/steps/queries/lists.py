"""The lists of queries: where they lie, and what is asked of the rows in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.collectives import PoolGraph, Sendings
from flows.engine.collectives.sent import Passed, ask, receive_lists
from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_rows
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
    parts = queries.parts()
    wants = by_rows(zip(range(len(parts)), parts, lists, strict=True))
    want = partial(want_part, pool=pool, nearest=nearest)
    requests = Sendings.of(job.run.location, "wanted", job.parts("wanted", want, wants))
    return answer(job, PoolGraph(pool, len(parts)), requests).slices("answers", len(parts))


def want_part(run: Run, part: Part[tuple[int, Rows, Lists]], pool: Pool, nearest: int) -> Output:
    """Ask the pool for the nearest rows of some queries, each once."""
    number, rows, lists = part.args
    near = np.ascontiguousarray(lists.of(rows).row[:, :nearest])
    key, sent = ask(run.location, "wanted", part.name, number, pool, distinct(near))
    return Output([key], Passed({"asked": sent}))
