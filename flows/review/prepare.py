"""The list of rows to look at, made once per training and kept below its run."""

from __future__ import annotations

from flows.engine.collectives.graph import PoolGraph
from flows.engine.job import Job, Output, outcomes
from flows.engine.progress import Reporter
from flows.engine.results import Outcome
from flows.options.params import ReviewParams
from flows.orchestration.session import job_of
from flows.report import content as reports
from flows.report.model import Saved
from flows.report.review import FOLDER
from flows.scorings.scored import Trained
from flows.steps.findings.review import order_review
from pipeline.graph.resources import pass_seconds
from storage.errors import amount
from storage.runs.run import Run

LIST = {"budget", "random_share", "seed", "order"}
"""Parameters that a list depends on."""


class ListReport(Saved):
    """What a review's list was made of."""

    budget: int
    random_share: float
    seed: int
    order: str = "informative"
    n_rows: int
    """Rows on the list."""
    seconds: dict[str, float]
    steps: dict[str, Outcome]


def prepared(trained: Trained, params: ReviewParams, reporter: Reporter) -> Run:
    """The finished list, in a folder of its own below the training's; made where it is not there.

    Raises as `knnoise certify` does.
    """
    folder, config = trained.made_below(FOLDER, params.model_dump(include=LIST))
    if reports.finished(folder, ListReport.model_validate) is not None:
        return folder
    work = pass_seconds(trained.report.n_rows)
    with job_of(folder, lambda: config, params, work, reporter) as job:
        _prepare(job, trained, params)
    return folder


def _prepare(job: Job, trained: Trained, params: ReviewParams) -> None:
    report = trained.report
    graph, n_classes = PoolGraph(trained.pool(), report.n_blocks), len(report.label_values)
    job.task("order", order_review, graph, n_classes, report.k, report.verdicts(), params)

    def write(run: Run) -> Output:
        rows = run.group("review")["row"].shape[0]  # type: ignore[union-attr]
        made = ListReport(
            **params.model_dump(include=LIST),
            n_rows=rows,
            seconds=dict(job.seconds),
            steps=outcomes(run),
        )
        return Output(
            [*reports.save(run, made, f"{amount(rows, 'row')} to review\n"), *run.describe({})]
        )

    job.task("report", Job.once, "report", write)
