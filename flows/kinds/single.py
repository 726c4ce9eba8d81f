"""Single labels, of two classes or of more."""

from __future__ import annotations

from importlib import import_module

from flows.engine.collectives.rows import LABEL_ISSUES, export
from flows.engine.job import Job
from flows.kinds.base import LabeledGraph, Labels
from flows.options.params import TrainParams
from flows.report.compose import LabelsJudged
from flows.report.kinds import ClassReport, TrainReport
from flows.steps.annotators.matrices import check_cells, find_consensus
from flows.steps.ingest.columns import SingleCodes
from flows.steps.ingest.pool import Ingested
from flows.steps.labels.class_labels import find_class_issues
from flows.steps.labels.classes import Classes, ClassEstimates, count_classes, estimate_classes
from flows.steps.labels.groups import find_groups
from flows.steps.labels.rates import RateEstimates, count_labels, estimate_rates
from flows.steps.labels.verdicts import LabelIssues, find_label_issues, find_odds
from pipeline.methods.rules import RULES
from storage.errors import InputError
from storage.sources.base import Source


class SingleLabels(Labels):
    """A label for each row, though it may be wrong, or several."""

    read = SingleCodes
    each_one = True

    def refuse(self, params: TrainParams) -> None:
        if params.candidate_features != "raw":
            raise InputError(
                f"--candidate-features {params.candidate_features} is for candidate sets, and each "
                "row has one label; leave it out"
            )

    def check(self, source: Source, ingested: Ingested, params: TrainParams) -> None:
        """`InputError` where a parameter is for two classes and there are more, or annotators and
        classes are too many for a matrix each."""
        n_classes = ingested.labels().n_classes
        for given in params.given("rule", "noise", "objective", "p0"):
            if n_classes > 2:
                raise InputError(
                    f"{given} is for two classes, and the labels have {n_classes:,}; leave it out"
                )
        if source.annotations is not None:
            check_cells(len(source.annotations.annotators), n_classes)

    def metric(self, params: TrainParams) -> str:
        return params.metric

    def rates_read(self, params: TrainParams) -> bool:
        return params.noise == "crossfit" and params.p0 is None

    def judge(self, job: Job, of: LabeledGraph, source: Source) -> LabelsJudged:
        values, counts = of.ingested.label_values or [], of.ingested.class_counts or []
        find, kind, table = (
            (_two, TrainReport, "labels")
            if len(values) == 2
            else (_classes, ClassReport, "class_labels")
        )
        estimated, issues = find(job, of)
        job.task("export", export, "label-issues", "labels", LABEL_ISSUES, values, table)
        consensus, groups = None, None
        if source.annotations is not None:
            consensus = job.task(
                "annotators", find_consensus, of.graph, values, counts, estimated=estimated
            )
        if of.params.by is not None:
            groups = job.task("groups", find_groups, of.graph, values, counts, estimated=estimated)
        n_issues, n_wrong = issues.n_label_issues, issues.n_wrong
        return LabelsJudged(kind, estimated, n_issues, n_wrong, groups, consensus)


def _two(job: Job, of: LabeledGraph) -> tuple[RateEstimates, LabelIssues]:
    """Rates and threshold of two classes, and how many labels are suspect."""
    pool, grid, params = of.pool, of.grid, of.params
    counted = job.task("regression", count_labels, of.graph, grid, params.seed)
    own = None
    if RULES[params.rule].own_pass:
        own_pass = import_module(f"flows.steps.labels.{params.rule}")
        own = job.task("select", own_pass.select, of.graph, grid, params.k, params.seed)
    rates = job.task("rates", estimate_rates, pool, counted, grid, params, own)

    def label(job: Job) -> LabelIssues:
        odds = find_odds(job, of.graph, counted, rates, params.seed)
        return find_label_issues(job, of.graph, rates, odds)

    return rates, job.task("labels", label)


def _classes(job: Job, of: LabeledGraph) -> tuple[ClassEstimates, LabelIssues]:
    """Matrix and rule of more than two classes, and how many labels are suspect."""
    graph, grid, params = of.graph, of.grid, of.params
    classes = Classes(of.pool, tuple(of.ingested.class_counts or ()), params.seed)
    counted = job.task("regression", count_classes, classes, graph, grid)
    estimates = job.task("rates", estimate_classes, classes, counted, grid, params)
    issues = job.task("labels", find_class_issues, classes, graph, counted, estimates)
    return estimates, issues
