"""Candidate sets: the reports of a training and of a scoring, and what is said of them."""

import math
from typing import Any, ClassVar

import numpy as np

from flows.engine.results import LabelValue
from flows.report.findings import findings
from flows.report.lines import SHOWN, about_data, classes_line
from flows.report.model import Frozen, PoolReport, Scoring, Training, fields_of
from flows.steps.ingest.pool import Ingested
from flows.steps.queries.class_scores import CandidateRule
from flows.steps.sets.candidates import CandidateEstimates, Verdicts
from pipeline.knn.lists import wilson
from pipeline.methods.partial_features import PIPELINES
from pipeline.methods.partial_labels import NAME, STOPS, AdaptiveParams
from storage.errors import InputError, amount
from storage.runs.run import Run

TWINS = 0.9
"""Share of the rows taken for a class, surely exceeded, that could be another by their candidates,
from which sets are said to hardly tell the two apart."""


class CandidatePair(Frozen):
    """Rows that are taken for one class and could be another by their candidates."""

    label: LabelValue
    other: LabelValue
    rows: int
    share: float
    """Of the rows taken for the class."""

    def text(self) -> str:
        """The pair as a sentence."""
        return (
            f"{self.share:.1%} of the rows taken for {self.label!r} have {self.other!r} among "
            f"their candidates, {amount(self.rows, 'row')}"
        )


class CandidateScoreReport(Scoring):
    """What a scoring with a training on candidate sets found."""

    c1: float
    n_decided: int
    """Rows whose neighbors left one label."""
    candidates: str | None = None
    """Column of the rows' own candidates, one of which is predicted; None for any class."""
    n_in_candidates: int | None = None
    """Rows whose neighbors say one of these."""

    def decided(self) -> list[str]:
        lines = [f"decided by their neighbors: {amount(self.n_decided, 'row')}"]
        if self.n_in_candidates is not None:
            lines.append(
                f"predictions are candidates of {self.candidates!r}; of {self.n_in_candidates:,} "
                f"rows ({self.n_in_candidates / self.n_rows:.1%}) also without being restricted"
            )
        return lines


class CandidateReport(PoolReport):
    """What a training on candidate sets found; it estimates no noise rates."""

    candidate_features: str = "raw"
    """How features were preprocessed."""
    mean_set_size: float
    """Candidates of a row."""
    n_single: int
    """Rows with one candidate."""
    c1: float
    """Margin of a label that is dropped; `k` is T, the most neighbors looked at."""
    delta: float
    c1_tried: list[float]
    stops_tried: list[int]
    agreement: list[list[float]]
    """Share of sampled rows whose answer is among their own candidates, by c1 and T."""
    n_decided: int
    """Rows whose neighbors left one label."""
    n_predicted: list[int]
    """Rows predicted each class."""
    n_disambiguated: list[int]
    """Rows by the likeliest of their candidates."""
    pairs: list[CandidatePair]
    """The commonest, most rows first."""

    scored_as: ClassVar = CandidateScoreReport
    refused: ClassVar = {
        "all_classes": "--all-classes is for posteriors, which candidate sets have not",
        "truth": "--scores and --truth are for posteriors, which candidate sets have not",
        "rates": "{}: trained on candidate sets, which have no noise rates",
    }

    @classmethod
    def of(
        cls,
        common: dict[str, Any],
        run: Run,
        fitted: CandidateEstimates,
        ingested: Ingested,
        judged: Verdicts,
    ) -> "CandidateReport":
        names, taken = ingested.label_values or [], judged.disambiguated
        pairs = [
            CandidatePair(
                label=names[pair.label],
                other=names[pair.other],
                rows=pair.rows,
                share=pair.rows / taken[pair.label],
            )
            for pair in judged.pairs
        ]
        warnings = [
            *common["warnings"],
            *_length_warning(fitted, ingested.n_rows),
            *_twins_warning(pairs),
        ]
        if judged.single == ingested.n_rows:
            warnings.append(
                "every row has one candidate alone: does what --candidates names divide them? "
                "Single labels train without --candidates, and have noise rates"
            )
        if not judged.decided:
            warnings.append(
                "no row's neighbors leave one label: sets that are all alike tell no classes "
                "apart, and predictions mean nothing"
            )
        return cls(
            **{**common, "rule": NAME, "warnings": warnings},
            **fields_of(fitted, "k", "c1_tried", "stops_tried", "agreement"),
            mean_set_size=sum(ingested.class_counts or []) / ingested.n_rows,
            n_single=judged.single,
            c1=fitted.params.c1,
            delta=fitted.params.delta,
            n_decided=judged.decided,
            n_predicted=judged.predicted,
            n_disambiguated=taken,
            pairs=pairs,
        )

    def single(self, name: str) -> Training:
        raise InputError(
            f"{name}: trained on candidate sets, for which there are train, score and report "
            "alone; give a training on single labels, such as disambiguated_label of its "
            "label_issues.parquet"
        )

    @property
    def scoring_rule(self) -> CandidateRule:
        return CandidateRule(len(self.classes), AdaptiveParams(self.c1, self.delta, self.k))

    def lines(self) -> list[str]:
        n = self.n_rows
        return [
            classes_line(self),
            *about_data(self),
            "",
            f"candidates: {self.mean_set_size:.2f} a row, one alone in "
            f"{amount(self.n_single, 'row')} ({self.n_single / n:.1%}); "
            "no noise rates are estimated for sets",
            *self.preprocessed(),
            self.choice(),
            f"decided by their neighbors: {amount(self.n_decided, 'row')} "
            f"({self.n_decided / n:.1%}), the others by the label that came closest",
            *(f"  {pair.text()}" for pair in self.pairs[:SHOWN]),
            f"predicted none of their own candidates: {amount(self.n_label_issues, 'row')} "
            f"({self.n_label_issues / n:.1%}), listed in label_issues.parquet",
            f"outliers: {self.n_outliers:,}; rows with near duplicates: "
            f"{self.n_near_duplicates:,}: data_issues.parquet",
            *findings(self),
            *self.since,
        ]

    def suspicion(self) -> str:
        return "rows are predicted none of their candidates"

    def preprocessed(self) -> list[str]:
        """What became of the features before neighbors were searched; nothing where they were taken
        as they are."""
        how = PIPELINES.get(self.candidate_features)
        if how is None:
            return []
        first = "signed cube roots" if how.cube_root else "centered"
        return [
            f"features: {first}, at unit length, averaged with {how.n_smooth} neighbors "
            f"(weight {how.alpha:g}), divided by the mean distance to {how.n_density}"
        ]

    def choice(self) -> str:
        """The c1 and T that were chosen."""
        return (
            f"PL A-kNN with c1 = {self.c1:g} and T = {self.k}, chosen from the sets: what the "
            f"neighbors answer is among a row's own candidates in {self.agreed():.1%} of the rows "
            "looked at"
        )

    def agreed(self) -> float:
        """Share of sampled rows whose answer is among their own candidates, as chosen."""
        cell = self.c1_tried.index(self.c1), self.stops_tried.index(self.k)
        return float(np.array(self.agreement)[cell])


def _twins_warning(pairs: list[CandidatePair]) -> list[str]:
    """A warning where nearly all rows taken for one class could be another, which so never trails
    it among neighbors."""
    twins = [pair for pair in pairs if wilson(pair.share, pair.rows / pair.share)[0] > TWINS]
    if not twins:
        return []
    some = ", ".join(f"{pair.label!r} from {pair.other!r}" for pair in twins[:SHOWN])
    return [
        f"sets hardly tell {some}: nearly all rows taken for the first have the second among their "
        "candidates, and rows of the first may be taken for the second"
    ]


def _length_warning(fitted: CandidateEstimates, n_rows: int) -> list[str]:
    """A warning where the answers agree surely better up to the end of the lists, and these could
    be longer."""
    k, longest = fitted.k, min(STOPS[-1], n_rows // 4)
    before, last = fitted.agreement[fitted.c1_tried.index(fitted.params.c1)][-2:]
    error = math.sqrt(last * (1 - last) / max(1, fitted.sampled))
    if k < fitted.stops_tried[-1] or k >= longest or last - before < error:
        return []
    return [
        f"T = {k} is the most that lists of {k} neighbors allow, and more would predict better: "
        f"give --k {min(2 * k, longest)}"
    ]
