"""The candidate sets of rows, sent to whoever has the rows as neighbors."""

from __future__ import annotations

import numpy as np

from flows.engine.collectives import PoolGraph, Sendings, SourceRows, over_rows
from flows.engine.job import Job
from pipeline.methods.partial_labels import Masks, reordered
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool, Rows

CANDIDATES = "candidates"
"""Name of a step."""


def neighbors_candidates(job: Job, graph: PoolGraph, requests: Sendings) -> Sendings:
    """The candidates of the rows that were asked for; the pool may be another run's."""
    return over_rows(job, graph, CANDIDATES, masks, requests=requests)


def masks(at: SourceRows) -> Arrays:
    """The candidates of some rows, if anybody asks for them."""
    return {"mask": read_candidates(at.pool, at.rows)} if at.wanted else {}


def read_candidates(pool: Pool, rows: Rows) -> Masks:
    """(row, word) uint64 candidate sets of some rows of a pool, by final codes."""
    codes: list[int] = pool.run.group(pool.path).attrs["candidate_codes"]  # type: ignore[assignment]
    return reordered(pool.read("candidates", rows), np.array(codes, np.int64))
