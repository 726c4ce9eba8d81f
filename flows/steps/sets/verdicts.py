"""The candidate sets of rows, sent to whoever has the rows as neighbors; predictions for them →
verdicts, in source order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job, Output
from pipeline.arrays import Int64, UInt64
from pipeline.decision.suspects import PORTION
from pipeline.labels import dtype_of
from pipeline.methods.partial_labels import AdaptiveParams, Masks, reordered, unpack
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run

CANDIDATES = "candidates"
"""Name of a step."""
MOST_PAIRS = 50


@dataclass(frozen=True)
class SetVerdicts:
    """What is said of some rows."""

    issues: int
    decided: int
    """Rows whose neighbors left one label."""
    single: int
    """Rows with one candidate."""
    predicted: list[int]
    """Rows by predicted label."""
    disambiguated: list[int]


@dataclass(frozen=True)
class Pair:
    """Rows that are taken for one class and could be another by their candidates."""

    label: int
    other: int
    rows: int


@dataclass(frozen=True)
class Verdicts(SetVerdicts):
    """What is said of all rows."""

    pairs: list[Pair]
    """Most rows first."""


def write_verdicts(
    job: Job, graph: PoolGraph, n_classes: int, judged: Sendings, how: AdaptiveParams
) -> Verdicts:
    """Write the group `labels`; what it says of all rows."""
    label, words = dtype_of(n_classes), -(-n_classes // 64)
    table = Table("labels", "candidate_labels", label.str, {"word": words})
    kernel = partial(verdicts, n_classes=n_classes, label=label)
    written = over_rows(job, graph, "labels", kernel, of=[judged], table=table)

    def finish(run: Run) -> Output:
        some = written.left(SetVerdicts)
        verdicts = Verdicts(
            sum(one.issues for one in some),
            sum(one.decided for one in some),
            sum(one.single for one in some),
            np.sum([one.predicted for one in some], axis=0).tolist(),
            np.sum([one.disambiguated for one in some], axis=0).tolist(),
            _pairs(written.drawn_by_part(), n_classes),
        )
        return Output(table.finish(run, graph.pool, asdict(how)), verdicts)

    return job.result("verdicts", finish, Verdicts)


def verdicts(at: SourceRows, n_classes: int, label: np.dtype[np.generic]) -> Facts:
    """Verdicts on some rows of the pool."""
    columns, own = dict(at.columns), read_candidates(at.pool, at.rows)
    for name in ("predicted_label", "disambiguated_label"):
        columns[name] = columns[name].astype(label)
    inside, mine = columns["in_candidates"], columns["disambiguated_label"].astype(np.int64)
    pair, rows = _pairs_of(own, mine, n_classes)
    counts = SetVerdicts(
        int((~inside).sum()),
        int((columns["n_labels"] == 1).sum()),
        int((np.bitwise_count(own).sum(axis=1) == 1).sum()),
        np.bincount(columns["predicted_label"], minlength=n_classes).tolist(),
        np.bincount(mine, minlength=n_classes).tolist(),
    )
    columns |= {"row": at.read("row"), "candidates": own, "is_label_issue": ~inside}
    return Facts(columns, drawn={"pair": pair, "rows": rows}, left=counts)


def _pairs_of(own: UInt64, label: Int64, n_classes: int) -> tuple[Int64, Int64]:
    """Pairs of a row's label and another of its candidates, and the rows with each."""
    pairs = []
    for start in range(0, len(own), PORTION):
        mine = label[start : start + PORTION]
        row, other = np.nonzero(unpack(own[start : start + PORTION], n_classes))
        apart = other != mine[row]
        pairs.append(mine[row[apart]] * n_classes + other[apart])
    pair, rows = np.unique(np.concatenate(pairs), return_counts=True)
    return pair, rows.astype(np.int64)


def _pairs(parts: Iterable[Arrays], n_classes: int) -> list[Pair]:
    """The pairs of most rows."""
    pair, rows = np.empty(0, np.int64), np.empty(0, np.int64)
    for more in parts:
        pair, place = np.unique(np.concatenate([pair, more["pair"]]), return_inverse=True)
        rows = np.bincount(place, np.concatenate([rows, more["rows"]])).astype(np.int64)
    most = np.lexsort([pair, -rows])[:MOST_PAIRS]
    return [Pair(int(pair[i]) // n_classes, int(pair[i]) % n_classes, int(rows[i])) for i in most]


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
