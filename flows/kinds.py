"""How a training goes with each kind of labels: single ones of two classes, or of more, and
candidate sets. What is reported of each kind is in `flows.report.kinds`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.rows import LABEL_ISSUES, export
from flows.engine.job import Job
from flows.intake.labels import refuse_for_candidates
from flows.options.params import TrainParams
from flows.report.compose import LabelsJudged
from flows.report.kinds import CandidateReport, ClassReport, TrainReport
from flows.steps.annotators.matrices import check_cells, find_consensus
from flows.steps.ingest.columns import IMPUTE, CandidateCodes, SingleCodes, Unlabeled
from flows.steps.ingest.pool import Ingested, ingest
from flows.steps.labels.classes import (
    ClassEstimates,
    count_classes,
    estimate_classes,
    find_class_issues,
)
from flows.steps.labels.groups import find_groups
from flows.steps.labels.two import (
    RateEstimates,
    count_labels,
    estimate_rates,
    find_label_issues,
)
from flows.steps.labels.verdicts import LabelIssues
from flows.steps.sets.candidates import judge_candidates
from flows.steps.sets.features import prepare
from pipeline.blocks.metric import AS_SCALED
from pipeline.methods.rules import RULES
from storage.errors import InputError
from storage.sources.base import Source


@dataclass(frozen=True)
class LabeledGraph:
    """A pool whose graph stands, and what is asked about its labels."""

    graph: PoolGraph
    ingested: Ingested
    length: int
    """Neighbors in a list."""
    params: TrainParams

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of neighborhoods to choose from."""
        return RULES[self.params.rule].sizes(self.params.k, self.length)


class Labels(ABC):
    """What a training does with labels of one kind; a class for each kind."""

    read: type[Unlabeled]
    """What becomes of them while the source is read."""
    each_one: bool
    """Whether each row has one label, which others can contradict."""

    @abstractmethod
    def refuse(self, params: TrainParams) -> None:
        """`InputError` where a parameter is for another kind of labels."""

    def ingest(self, job: Job, source: Source, params: TrainParams) -> Ingested:
        """Write the pool."""
        scale, seed = params.scale, params.seed
        more: dict[str, Any] = {"labels": self.read, "pca": params.pca, "gaps": IMPUTE}
        return job.task("ingest", ingest, source, path="pool", scale=scale, seed=seed, **more)

    @abstractmethod
    def check(self, source: Source, ingested: Ingested, params: TrainParams) -> None:
        """`InputError` where the classes that were read do not allow what was asked."""

    def list_length(self, params: TrainParams, n_rows: int, builder: str) -> int:
        """Neighbors kept of each row."""
        return RULES[params.rule].list_length(params.k, n_rows, builder)

    @abstractmethod
    def metric(self, params: TrainParams) -> str:
        """How nearness is chosen, as `--metric` says it."""

    @abstractmethod
    def rates_read(self, params: TrainParams) -> bool:
        """Whether noise rates are read off the anchors' lists."""

    @abstractmethod
    def judge(self, job: Job, of: LabeledGraph, source: Source) -> LabelsJudged:
        """All verdicts on the labels, written and told."""


class CandidateSets(Labels):
    """Labels that are sets."""

    read = CandidateCodes
    each_one = False

    def refuse(self, params: TrainParams) -> None:
        refuse_for_candidates(params)

    def ingest(self, job: Job, source: Source, params: TrainParams) -> Ingested:
        if params.candidate_features == "raw":
            return super().ingest(job, source, params)
        return prepare(job, source, params)

    def check(self, source: Source, ingested: Ingested, params: TrainParams) -> None:
        pass

    def list_length(self, params: TrainParams, n_rows: int, builder: str) -> int:
        return params.k or super().list_length(params, n_rows, builder)  # T is no more

    def metric(self, params: TrainParams) -> str:
        return AS_SCALED

    def rates_read(self, params: TrainParams) -> bool:
        return False

    def judge(self, job: Job, of: LabeledGraph, source: Source) -> LabelsJudged:
        """c1 and T, and the verdicts on all rows."""
        values = of.ingested.label_values or []
        sets = of.graph, len(values), of.length
        estimated, verdicts = job.task("candidates", judge_candidates, *sets)
        table = "label-issues", "labels", LABEL_ISSUES, values, "candidate_labels"
        job.task("export", export, *table)
        return LabelsJudged(CandidateReport, estimated, verdicts.issues, verdicts=verdicts)


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
        n_classes = len(ingested.label_values or [])
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
        return params.reads_rates

    def judge(self, job: Job, of: LabeledGraph, source: Source) -> LabelsJudged:
        values, counts = of.ingested.label_values or [], of.ingested.class_counts or []
        find, kind, table = (
            (_two, TrainReport, "labels")
            if len(values) == 2
            else (_classes, ClassReport, "class_labels")
        )
        estimated, issues = find(job, of)
        job.task("export", export, "label-issues", "labels", LABEL_ISSUES, values, table)
        consensus, groups, about = None, None, (of.graph, values, counts)
        if source.annotations is not None:
            consensus = job.task("annotators", find_consensus, *about, estimated=estimated)
        if of.params.by is not None:
            groups = job.task("groups", find_groups, *about, estimated=estimated)
        return LabelsJudged(
            kind,
            estimated,
            n_issues=issues.n_label_issues,
            n_wrong=issues.n_wrong,
            n_contradicted=issues.n_contradicted,
            groups=groups,
            annotators=consensus,
        )


def _two(job: Job, of: LabeledGraph) -> tuple[RateEstimates, LabelIssues]:
    """Rates and threshold of two classes, and how many labels are suspect."""
    graph, grid, params = of.graph, of.grid, of.params
    counted = job.task("regression", count_labels, graph, grid)
    own = None
    if RULES[params.rule].own_pass:
        own_pass = import_module(f"flows.steps.labels.{params.rule}")
        own = job.task("select", own_pass.select, graph, grid, params.k)
    rates = job.task("rates", estimate_rates, graph, counted, grid, params, own)
    return rates, job.task("labels", find_label_issues, graph, counted, rates)


def _classes(job: Job, of: LabeledGraph) -> tuple[ClassEstimates, LabelIssues]:
    """Matrix and rule of more than two classes, and how many labels are suspect."""
    graph, grid, params = of.graph, of.grid, of.params
    given = of.ingested.class_counts or []
    counted = job.task("regression", count_classes, graph, len(given), grid)
    estimates = job.task("rates", estimate_classes, graph, given, counted, grid, params)
    issues = job.task("labels", find_class_issues, graph, counted, estimates)
    return estimates, issues


def labels_of(source: Source) -> Labels:
    """The kind of a source's labels."""
    return SingleLabels() if source.candidates is None else CandidateSets()
