"""The candidate sets of rows, sent to whoever has the rows as neighbors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.collectives import SourceRows
from flows.engine.collectives.sent import incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.steps.answers import Asked, answer
from pipeline.methods.partial_labels import Masks, reordered
from storage.exchange import Slice
from storage.groups import Arrays
from storage.ledger import Record
from storage.pool import Pool, Rows
from storage.run import Run

CANDIDATES = "candidates"
"""Name of a step."""


@dataclass(frozen=True)
class Answer(Asked):
    """Rows of a pool, and who wants to know their candidates."""

    pool: Pool


def answers(job: Job, pool: Pool, asked: list[Record], n_askers: int) -> list[list[Slice]]:
    """For each asker the slices of the exchange that hold what it asked for."""
    parts = pool.parts()
    wanted = incoming(asked, len(parts))
    answered = job.parts(
        CANDIDATES,
        answer_part,
        [
            Part(f"rows-{i:06d}", Answer(rows, n_askers, wanted[i], pool))
            for i, rows in enumerate(parts)
        ],
    )
    return incoming(answered, n_askers)


def answer_part(run: Run, part: Part[Answer]) -> Output:
    """Send the candidates of some rows of the pool to those that want to know."""
    of = part.args
    return answer(run, part.name, of, {"mask": read_candidates(of.pool, of.rows)})


def masks(at: SourceRows) -> Arrays:
    """The candidates of some rows."""
    return {"mask": read_candidates(at.pool, at.rows)}


def read_candidates(pool: Pool, rows: Rows) -> Masks:
    """(row, word) uint64 candidate sets of some rows of a pool, by final codes."""
    codes: list[int] = pool.run.group(pool.path).attrs["candidate_codes"]  # type: ignore[assignment]
    return reordered(pool.read("candidates", rows), np.array(codes, np.int64))
