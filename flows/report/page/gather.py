"""What the page shows beyond report.json, read from a finished run part by part."""

import numpy as np
import zarr

from flows.engine.results import result_of
from flows.report.model import PoolReport
from flows.steps.graph.building import Audited
from flows.steps.graph.partition import AUDIT, last_attempt
from flows.steps.ingest.pool import ingested
from flows.steps.ingest.transform import transform
from pipeline.arrays import Float32, Int64
from pipeline.blocks.sampling import Greatest
from pipeline.knn.lists import Recall, summarize
from storage.arrays.groups import read_array
from storage.runs.run import Run

PICTURE_ROWS = 3000
"""Rows in the picture of the pool; each is a mark of about 100 bytes on the page."""
SUSPECTS = 100
"""Rows listed."""
BINS = 40


class Tally:
    """What is found in the verdicts of all rows, part by part."""

    def __init__(self, seed: int) -> None:
        self.worst = [Greatest(SUSPECTS, seed)]
        """Rows of lowest label quality, the lowest first."""
        self.histogram = np.zeros(BINS, np.int64)
        """(bin,) rows by label quality."""

    @property
    def suspects(self) -> Int64:
        """(row,) rows of lowest label quality."""
        return np.concatenate([worst.row for worst in self.worst])

    def see(self, group: zarr.Group, rows: slice, quality: Float32) -> None:
        """Some rows of the group `labels`."""
        bins = np.minimum((quality * BINS).astype(int), BINS - 1)
        self.histogram += np.bincount(bins, minlength=BINS)
        every = np.arange(rows.start, rows.stop)
        self.worst[0].see(every, 1.0 - quality.astype(np.float64))


def scan(run: Run, tally: Tally, sampled: Int64) -> Float32:
    """Show the verdicts to a tally, in one pass; (row,) label quality of those `sampled`."""
    quality = np.empty(len(sampled), np.float32)
    group = run.group("labels")
    for rows in ingested(run).pool(run, "pool").parts():
        chunk = read_array(group, "label_quality", rows)
        tally.see(group, rows, chunk)
        here = np.flatnonzero((sampled >= rows.start) & (sampled < rows.stop))
        quality[here] = chunk[sampled[here] - rows.start]
    return quality


def sample(run: Run) -> tuple[Int64, Float32]:
    """Row numbers and scaled features of a uniform sample of the pool."""
    group = run.group("samples/partition")
    rows = slice(0, PICTURE_ROWS)
    x = transform(run, ingested(run).scaling).apply(read_array(group, "x", rows))
    return read_array(group, "row", rows), x


def block_recalls(run: Run, report: PoolReport) -> list[tuple[int, Recall]]:
    """Every block that anchors are at home in, with their recall, lowest first."""
    audit = last_attempt(AUDIT, report.steps)
    records = {} if audit is None else run.ledger.records(audit)
    recalls = {name: result_of(record, Audited).recall for name, record in records.items()}
    every = [
        (int(name.rsplit("-", 1)[1]), summarize(np.asarray(of_block, np.float64)))
        for name, of_block in recalls.items()
        if of_block
    ]
    return sorted(every, key=lambda block: (block[1].value, block[0]))
