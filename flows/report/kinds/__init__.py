"""The kinds of labels: the reports of a training and of a scoring on each, and what they say."""

from typing import Any

from flows.report.kinds.classes import ClassReport
from flows.report.kinds.sets import CandidateReport
from flows.report.kinds.two import TrainReport
from flows.report.model import PoolReport
from pipeline.methods.partial_labels import NAME as PL_AKNN

__all__ = ["CandidateReport", "ClassReport", "TrainReport", "kind_of"]


def kind_of(report: dict[str, Any]) -> type[PoolReport]:
    """The kind of labels that the JSON of a training's or of a scoring's report is about."""
    if report.get("rule") == PL_AKNN:
        return CandidateReport
    return ClassReport if len(report.get("classes") or ()) > 2 else TrainReport
