"""Counts → verdicts on the training labels, in source order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, Result
from flows.steps.ingest import certain
from flows.steps.lists import incoming, source_order
from flows.steps.rates import RateEstimates
from pipeline.decision.threshold import is_label_issue, label_quality
from pipeline.methods.rules import Rule
from storage.convert import write_table
from storage.exchange import Exchange, Slice
from storage.ledger import Record
from storage.pool import ChunkWriter, Pool, Rows
from storage.run import Run

COLUMNS = ("row", "given_label", "predicted_label", "label_quality", "is_label_issue", "eta_corr")
CLASS_COLUMNS = (*COLUMNS[:5], "likely_label", "given_share")
TABLE = "label_issues.parquet"


@dataclass(frozen=True)
class Check:
    """Rows whose labels are checked, by which rule."""

    pool: Pool
    number: int
    rows: Rows
    k: int
    column: int
    """Of the counts, that of k."""
    rule: Rule
    slices: list[Slice]


@dataclass(frozen=True)
class Checked(Result):
    """Suspect labels of a part."""

    issues: int


@dataclass(frozen=True)
class LabelIssues(Result):
    """Suspect labels in all."""

    n_label_issues: int


def find_label_issues(job: Job, pool: Pool, counted: list[Record], rates: RateEstimates) -> int:
    """Write the group `labels`; the number of suspect labels."""
    n_parts = len(pool.parts())
    slices = incoming(counted, n_parts)
    ChunkWriter(job.run, "labels", pool.part_rows, pool.n_rows)
    rule, k = rates.decision_rule, rates.k
    column = rates.k_curve.grid.index(k)
    judged = job.parts(
        "labels",
        label_part,
        [
            Part(f"rows-{i:06d}", Check(pool, i, rows, k, column, rule, slices[i]))
            for i, rows in enumerate(pool.parts())
        ],
    )

    def finish(run: Run) -> Output:
        writer = ChunkWriter(run, "labels", pool.part_rows, pool.n_rows)
        written = writer.finish(pool.n_rows, {"k": k, **asdict(rule)})
        n_issues = sum(Checked.of(record).issues for record in judged)
        return Output(written, LabelIssues(n_issues))

    return LabelIssues.of(job.once("verdicts", finish)).n_label_issues


def export_label_issues(job: Job, classes: Sequence[LabelValue]) -> None:
    """Write `label_issues.parquet`; `classes` are the labels in the order of their codes."""
    columns = COLUMNS if len(classes) == 2 else CLASS_COLUMNS

    def export(run: Run) -> Output:
        target = run.location.path(TABLE)
        write_table(run, "labels", target, columns, ids="pool", classes=classes)
        return Output([TABLE])

    job.once("label-issues", export)


def label_part(run: Run, part: Part[Check]) -> Output:
    """Verdicts on the rows of one part of the pool, from their neighbors without themselves."""
    check = part.args
    rows, pool, rule = check.rows, check.pool, check.rule
    columns = Exchange(run.location, "counts").receive(check.slices)
    count = columns["count"][source_order(columns["row"], rows, "counts"), check.column]
    given = pool.read("y", rows)
    eta = count / check.k
    issue = is_label_issue(eta, given, rule.p0, rule.p1)
    predicted = rule.predict(eta)
    quality = label_quality(eta, given, rule.p0, rule.p1).astype(np.float32)
    sure = certain(run, rows)
    issue[sure], predicted[sure], quality[sure] = False, given[sure], 1.0
    written = ChunkWriter(run, "labels", pool.part_rows, pool.n_rows).chunk(
        check.number,
        row=pool.read("row", rows),
        given_label=given,
        predicted_label=predicted,
        label_quality=quality,
        is_label_issue=issue,
        eta_corr=eta.astype(np.float32),
    )
    return Output(written, Checked(int(issue.sum())))
