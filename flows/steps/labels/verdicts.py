"""Counts → verdicts on the training labels, in source order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from flows.engine.collectives import Facts, PoolGraph, SourceRows, Table, over_rows
from flows.engine.job import Job, Output
from flows.engine.results import LabelValue, Result
from flows.steps.ingest.pool import certain
from flows.steps.labels.odds import First, LabelOdds
from flows.steps.labels.rates import RateEstimates
from pipeline.decision.odds import OddsWeights, second_pass
from pipeline.methods.rules import Rule
from storage.export import write_table
from storage.runs.run import Run

COLUMNS = ("row", "given_label", "predicted_label", "label_quality", "is_label_issue", "eta_corr")
CLASS_COLUMNS = (*COLUMNS[:5], "likely_label", "given_share")
TABLE = "label_issues.parquet"


@dataclass(frozen=True)
class Checked(Result):
    """Suspect labels of a part."""

    issues: int


@dataclass(frozen=True)
class LabelIssues(Result):
    """Suspect labels in all."""

    n_label_issues: int


def find_label_issues(job: Job, graph: PoolGraph, rates: RateEstimates, odds: LabelOdds) -> int:
    """Write the group `labels`; the number of suspect labels."""
    rule, k, table = rates.decision_rule, rates.k, Table("labels")
    kernel = partial(verdicts, k=k, rule=rule, first=odds.first, second=odds.second)
    of = [odds.counted, odds.smoothed]
    judged = over_rows(job, graph, "labels", kernel, of=of, table=table)

    def finish(run: Run) -> Output:
        written = table.finish(run, graph.pool, {"k": k, **asdict(rule)})
        return Output(written, LabelIssues(sum(part.issues for part in judged.left(Checked))))

    return LabelIssues.of(job.once("verdicts", finish)).n_label_issues


def export_label_issues(job: Job, classes: Sequence[LabelValue]) -> None:
    """Write `label_issues.parquet`; `classes` are the labels in the order of their codes."""
    columns = COLUMNS if len(classes) == 2 else CLASS_COLUMNS

    def export(run: Run) -> Output:
        target = run.location.path(TABLE)
        write_table(run, "labels", target, columns, ids="pool", classes=classes)
        return Output([TABLE])

    job.once("label-issues", export)


def verdicts(at: SourceRows, k: int, rule: Rule, first: First, second: OddsWeights) -> Facts:
    """Verdicts on some rows of the pool, predictions from their neighbors alone."""
    count, given = at.columns["count"], at.read("y")
    around, reach = at.columns["smoothed"], at.columns["reach"]
    eta = count[:, first.grid.index(k)] / k
    predicted = rule.predict(eta)
    by = first.assumed.correction()
    quality = second_pass(first.odds(count), around, reach, given, by, second)
    issue = quality < 0.5
    sure = certain(at.pool.run, at.rows)
    issue[sure], predicted[sure], quality[sure] = False, given[sure], 1.0
    columns = {
        "row": at.read("row"),
        "given_label": given,
        "predicted_label": predicted,
        "label_quality": quality.astype(np.float32),
        "is_label_issue": issue,
        "eta_corr": eta.astype(np.float32),
    }
    return Facts(columns, left=Checked(int(issue.sum())))
