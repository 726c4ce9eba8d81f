"""Candidate sets, one of which is each row's label."""

from __future__ import annotations

from flows.engine.collectives.rows import LABEL_ISSUES, export
from flows.engine.job import Job
from flows.intake.labels import refuse_for_candidates
from flows.kinds.base import LabeledGraph, Labels
from flows.options.params import TrainParams
from flows.report.compose import LabelsJudged
from flows.report.kinds import CandidateReport
from flows.steps.ingest.columns import CandidateCodes
from flows.steps.ingest.pool import Ingested
from flows.steps.sets.candidates import judge_candidates
from flows.steps.sets.features import prepare
from flows.steps.sets.verdicts import CandidatePool
from pipeline.blocks.metric import AS_SCALED
from storage.sources.base import Source


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

    def metric(self, params: TrainParams) -> str:
        return AS_SCALED

    def rates_read(self, params: TrainParams) -> bool:
        return False

    def judge(self, job: Job, of: LabeledGraph, source: Source) -> LabelsJudged:
        """c1 and T, and the verdicts on all rows."""
        values = of.ingested.label_values or []
        sets = CandidatePool(of.pool, tuple(values), of.params.seed)
        estimated, verdicts = job.task("candidates", judge_candidates, sets, of.graph, of.length)
        table = "label-issues", "labels", LABEL_ISSUES, values, "candidate_labels"
        job.task("export", export, *table)
        return LabelsJudged(CandidateReport, estimated, verdicts.issues, verdicts=verdicts)
