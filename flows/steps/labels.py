"""Counts → verdicts on the training labels, in source order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import LabelValue, Result
from flows.steps.ingest import certain
from flows.steps.label_odds import SMOOTHED, First, LabelOdds
from flows.steps.lists import source_order
from flows.steps.rates import RateEstimates
from pipeline.decision.odds import OddsWeights, second_pass
from pipeline.methods.rules import Rule
from storage.convert import write_table
from storage.exchange import Exchange, Slice
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
    rule: Rule
    first: First
    second: OddsWeights
    counts: list[Slice]
    smoothed: list[Slice]


@dataclass(frozen=True)
class Checked(Result):
    """Suspect labels of a part."""

    issues: int


@dataclass(frozen=True)
class LabelIssues(Result):
    """Suspect labels in all."""

    n_label_issues: int


def find_label_issues(job: Job, pool: Pool, rates: RateEstimates, odds: LabelOdds) -> int:
    """Write the group `labels`; the number of suspect labels."""
    ChunkWriter(job.run, "labels", pool.part_rows, pool.n_rows)
    rule, k = rates.decision_rule, rates.k
    taken = k, rule, odds.first, odds.second
    judged = job.parts(
        "labels",
        label_part,
        [
            Part(f"rows-{i:06d}", Check(pool, i, rows, *taken, odds.counts[i], odds.smoothed[i]))
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
    """Verdicts on the rows of one part of the pool, predictions from their neighbors alone."""
    check = part.args
    rows, pool, rule = check.rows, check.pool, check.rule
    counted = Exchange(run.location, "counts").receive(check.counts)
    count = counted["count"][source_order(counted["row"], rows, "counts")]
    smoothed = Exchange(run.location, SMOOTHED).receive(check.smoothed)
    order = source_order(smoothed["row"], rows, "qualities")
    given = pool.read("y", rows)
    eta = count[:, check.first.grid.index(check.k)] / check.k
    predicted = rule.predict(eta)
    quality = second_pass(
        check.first.odds(count),
        smoothed["smoothed"][order],
        smoothed["reach"][order],
        given,
        check.first.assumed.correction(),
        check.second,
    )
    issue = quality < 0.5
    sure = certain(run, rows)
    issue[sure], predicted[sure], quality[sure] = False, given[sure], 1.0
    written = ChunkWriter(run, "labels", pool.part_rows, pool.n_rows).chunk(
        check.number,
        row=pool.read("row", rows),
        given_label=given,
        predicted_label=predicted,
        label_quality=quality.astype(np.float32),
        is_label_issue=issue,
        eta_corr=eta.astype(np.float32),
    )
    return Output(written, Checked(int(issue.sum())))
