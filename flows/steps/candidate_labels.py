"""Predictions for rows of candidate sets → verdicts, in source order."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import source_order
from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, Result
from flows.steps.candidate_masks import read_candidates
from pipeline.decision.suspects import PORTION
from pipeline.labels import dtype_of
from pipeline.methods.partial_labels import AdaptiveParams, unpack
from storage.convert import write_table
from storage.exchange import Exchange, Slice
from storage.groups import read_group, write_group
from storage.pool import ChunkWriter, Pool, Rows
from storage.run import Run

MOST_PAIRS = 50
KIND = "candidate_labels"
PREDICTIONS = "predictions"
"""Name of a step and of its exchange."""
TABLE = "label_issues.parquet"
COLUMNS = (
    *("row", "candidates", "predicted_label", "disambiguated_label", "in_candidates"),
    *("n_neighbors", "n_labels", "label_quality", "is_label_issue"),
)


@dataclass(frozen=True)
class CandidatePool:
    """A pool whose labels are candidate sets."""

    pool: Pool
    classes: tuple[LabelValue, ...]
    seed: int

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def label(self) -> np.dtype[np.generic]:
        """Type of a class code."""
        return dtype_of(self.n_classes)


@dataclass(frozen=True)
class Check:
    """Rows whose verdicts are written."""

    of: CandidatePool
    number: int
    rows: Rows
    slices: list[Slice]


@dataclass(frozen=True)
class Judged(Result):
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
class Pair(Result):
    """Rows that are taken for one class and could be another by their candidates."""

    label: int
    other: int
    rows: int


@dataclass(frozen=True)
class Verdicts(Judged):
    """What is said of all rows."""

    pairs: list[Pair]
    """Most rows first."""


def _writer(run: Run, of: CandidatePool) -> ChunkWriter:
    pool, words = of.pool, -(-of.n_classes // 64)
    return ChunkWriter(
        run, "labels", pool.part_rows, pool.n_rows, kind=KIND, label=of.label, word=words
    )


def write_verdicts(
    job: Job, of: CandidatePool, slices: list[list[Slice]], how: AdaptiveParams
) -> Verdicts:
    """Write the group `labels`; what it says of all rows."""
    _writer(job.run, of)
    parts = list(enumerate(of.pool.parts()))
    written = job.parts(
        "labels",
        label_part,
        [Part(f"rows-{i:06d}", Check(of, i, rows, slices[i])) for i, rows in parts],
    )

    def finish(run: Run) -> Output:
        some = [Judged.of(record) for record in written]
        verdicts = Verdicts(
            sum(one.issues for one in some),
            sum(one.decided for one in some),
            sum(one.single for one in some),
            np.sum([one.predicted for one in some], axis=0).tolist(),
            np.sum([one.disambiguated for one in some], axis=0).tolist(),
            _pairs(run, len(parts), of.n_classes),
        )
        return Output(_writer(run, of).finish(of.pool.n_rows, asdict(how)), verdicts)

    return Verdicts.of(job.once("verdicts", finish))


def label_part(run: Run, part: Part[Check]) -> Output:
    """Verdicts on the rows of one part of the pool."""
    check, of = part.args, part.args.of
    columns = Exchange(run.location, PREDICTIONS).receive(check.slices)
    order = source_order(columns["row"], check.rows, "predictions")
    columns = {name: column[order] for name, column in columns.items()}
    columns["row"] = of.pool.read("row", check.rows)
    for name in ("predicted_label", "disambiguated_label"):
        columns[name] = columns[name].astype(of.label)
    own, inside = read_candidates(of.pool, check.rows), columns["in_candidates"]
    written = _writer(run, of).chunk(
        check.number, candidates=own, is_label_issue=~inside, **columns
    )
    label = columns["disambiguated_label"].astype(np.int64)
    pair, rows = _pairs_of(own, label, of.n_classes)
    path = f"candidate-pairs/{check.number:06d}"
    write_group(run.scratch, path, "candidate_pairs", {"pair": pair, "rows": rows})
    counts = Judged(
        int((~inside).sum()),
        int((columns["n_labels"] == 1).sum()),
        int((np.bitwise_count(own).sum(axis=1) == 1).sum()),
        np.bincount(columns["predicted_label"], minlength=of.n_classes).tolist(),
        np.bincount(label, minlength=of.n_classes).tolist(),
    )
    return Output([*written, f"scratch.zarr/{path}"], counts)


def _pairs_of(
    own: npt.NDArray[np.uint64], label: npt.NDArray[np.int64], n_classes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of a row's label and another of its candidates, and the rows with each."""
    found = []
    for start in range(0, len(own), PORTION):
        mine = label[start : start + PORTION]
        row, other = np.nonzero(unpack(own[start : start + PORTION], n_classes))
        apart = other != mine[row]
        found.append(mine[row[apart]] * n_classes + other[apart])
    pair, rows = np.unique(np.concatenate(found), return_counts=True)
    return pair, rows.astype(np.int64)


def _pairs(run: Run, n_parts: int, n_classes: int) -> list[Pair]:
    """The pairs of most rows."""
    pair, rows = np.empty(0, np.int64), np.empty(0, np.int64)
    for number in range(n_parts):
        more = read_group(run.scratch, f"candidate-pairs/{number:06d}")
        pair, place = np.unique(np.concatenate([pair, more["pair"]]), return_inverse=True)
        rows = np.bincount(place, np.concatenate([rows, more["rows"]])).astype(np.int64)
    most = np.lexsort([pair, -rows])[:MOST_PAIRS]
    return [Pair(int(pair[i]) // n_classes, int(pair[i]) % n_classes, int(rows[i])) for i in most]


def export_candidates(job: Job, of: CandidatePool) -> None:
    """Write `label_issues.parquet`."""

    def export(run: Run) -> Output:
        target = run.location.path(TABLE)
        write_table(run, "labels", target, COLUMNS, ids="pool", classes=of.classes)
        return Output([TABLE])

    job.once("label-issues", export)
