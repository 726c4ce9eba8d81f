"""What is made of the labels once the graph stands: rates or a matrix and suspects, or verdicts on
candidate sets; and what groups of rows and several annotators add."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from flows.engine.collectives import PoolGraph
from flows.engine.job import Job
from flows.engine.tasks.as_task import as_task
from flows.options.params import TrainParams
from flows.report.compose import LabelsJudged
from flows.report.kinds import CandidateReport, ClassReport, TrainReport
from flows.steps.annotators.matrices import check_cells, find_consensus
from flows.steps.graph.partition import Blocks
from flows.steps.ingest.pool import Ingested
from flows.steps.labels.class_labels import find_class_issues
from flows.steps.labels.classes import Classes, ClassEstimates, count_classes, estimate_classes
from flows.steps.labels.groups import find_groups
from flows.steps.labels.odds import find_odds
from flows.steps.labels.rates import RateEstimates, count_labels, estimate_rates
from flows.steps.labels.verdicts import export_label_issues, find_label_issues
from flows.steps.sets.candidates import judge_candidates
from flows.steps.sets.verdicts import CandidatePool, export_candidates
from pipeline.labels import LabelSpace
from pipeline.methods.rules import RULES
from storage.errors import InputError
from storage.runs.pool import Pool
from storage.sources.base import Source


@dataclass(frozen=True)
class LabeledGraph:
    """A pool whose graph stands, and what is asked about its labels."""

    pool: Pool
    ingested: Ingested
    blocks: Blocks
    length: int
    """Neighbors in a list."""
    params: TrainParams

    @property
    def graph(self) -> PoolGraph:
        return PoolGraph(self.pool, len(self.blocks.sizes))

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of neighborhoods to choose from."""
        return RULES[self.params.rule].sizes(self.params.k, self.length)


def check_labels(source: Source, labels: LabelSpace, params: TrainParams) -> None:
    """`InputError` where a parameter is for two classes and there are more, or annotators and
    classes are too many for a matrix each."""
    given = {
        "--rule": params.rule if params.rule != "corrected" else None,
        "--noise": params.noise if params.noise != "crossfit" else None,
        "--objective": params.objective if params.objective != "accuracy" else None,
        "--p0 and --p1": params.p0,
    }
    for option, value in given.items():
        if labels.n_classes > 2 and value is not None:
            raise InputError(
                f"{option} {value} is for two classes, and the labels have "
                f"{labels.n_classes:,}; leave it out"
            )
    if source.annotations is not None:
        check_cells(len(source.annotations.annotators), labels.n_classes)


def judge(job: Job, of: LabeledGraph, source: Source) -> LabelsJudged:
    """All verdicts on the labels, written and told."""
    if source.candidates is not None:
        return _sets(job, of)
    kind, find = (
        (TrainReport, _two) if of.ingested.labels().n_classes == 2 else (ClassReport, _classes)
    )
    estimated, issues = find(job, of)
    values, counts = of.ingested.label_values or [], of.ingested.class_counts or []
    as_task("export", lambda: export_label_issues(job, values))
    consensus, groups = None, None
    if source.annotations is not None:
        consensus = as_task(
            "annotators",
            lambda: find_consensus(job, of.graph, values, counts, estimated=estimated),
        )
    if of.params.by is not None:
        groups = as_task(
            "groups",
            lambda: find_groups(job, of.graph, values, counts, estimated=estimated),
        )
    return LabelsJudged(kind, estimated, issues, groups, consensus)


def _two(job: Job, of: LabeledGraph) -> tuple[RateEstimates, int]:
    """Rates and threshold of two classes, and the number of suspect labels."""
    pool, grid, params = of.pool, of.grid, of.params
    counted = as_task("regression", lambda: count_labels(job, of.graph, grid, params.seed))
    own = None
    if RULES[params.rule].own_pass:
        own_pass = import_module(f"flows.steps.labels.{params.rule}")
        own = as_task("select", lambda: own_pass.select(job, of.graph, grid, params.k, params.seed))
    rates = as_task("rates", lambda: estimate_rates(job, pool, counted, grid, params, own))

    def label() -> int:
        odds = find_odds(job, of.graph, counted, rates, params.seed)
        return find_label_issues(job, of.graph, rates, odds)

    return rates, as_task("labels", label)


def _classes(job: Job, of: LabeledGraph) -> tuple[ClassEstimates, int]:
    """Matrix and rule of more than two classes, and the number of suspect labels."""
    graph, grid, params = of.graph, of.grid, of.params
    classes = Classes(of.pool, tuple(of.ingested.class_counts or ()), params.seed)
    counted = as_task("regression", lambda: count_classes(job, classes, graph, grid))
    estimates = as_task("rates", lambda: estimate_classes(job, classes, counted, grid, params))
    issues = as_task("labels", lambda: find_class_issues(job, classes, graph, counted, estimates))
    return estimates, issues


def _sets(job: Job, of: LabeledGraph) -> LabelsJudged:
    """c1 and T for candidate sets, and the verdicts on all rows."""
    sets = CandidatePool(of.pool, tuple(of.ingested.label_values or ()), of.params.seed)
    estimated, verdicts = as_task(
        "candidates", lambda: judge_candidates(job, sets, of.graph, of.length)
    )
    as_task("export", lambda: export_candidates(job, sets))
    return LabelsJudged(CandidateReport, estimated, verdicts.issues, verdicts=verdicts)
