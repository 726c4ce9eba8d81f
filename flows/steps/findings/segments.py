"""Where labels are worst, from the sample of rows that was drawn while the source was read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.results import Result
from flows.steps.graph.lookup import pick
from flows.steps.sets.stages import as_read
from pipeline.diagnostics.segments import Segment, sample_rows, worst_segments
from storage.arrays.groups import read_array
from storage.runs.pool import Pool
from storage.runs.run import Run


@dataclass(frozen=True)
class Segments(Result):
    """Segments with most suspect labels, the worst first."""

    found: list[Segment]


def find_segments(job: Job, pool: Pool) -> list[Segment]:
    """Where suspect labels are most frequent, by features before scaling."""

    def find(run: Run) -> Output:
        sample, rows = (
            as_read(run).group("samples/partition"),
            slice(0, sample_rows(pool.n_features)),
        )
        x, row = read_array(sample, "x", rows), read_array(sample, "row", rows)
        order = np.argsort(row)
        suspect = np.empty(len(row), np.bool_)
        suspect[order] = pick(run, "labels", "is_label_issue", row[order])
        return Output([], Segments(list(worst_segments(x, suspect))))

    return Segments.of(job.once("segments", find)).found
