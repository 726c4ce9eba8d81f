"""Two classes: the reports of a training and of a scoring, and what is said of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from flows.engine.results import LabelValue
from flows.report.certificate import ErrorBound
from flows.report.lines import about_data, of_labels, predicted_by, varying_lines
from flows.report.model import (
    Interval,
    Rate,
    Scoring,
    Training,
    by_class,
    fields_of,
    span,
)
from flows.steps.graph.lookup import counts_as_given
from flows.steps.ingest.pool import Ingested
from flows.steps.labels.two import RateEstimates
from flows.steps.labels.verdicts import LabelVerdicts
from flows.steps.queries.class_scores import WEIGHED, TwoClassRule
from pipeline.arrays import Int8, Integers
from pipeline.decision.odds import WeighedVote
from pipeline.decision.tempering import Worth
from pipeline.decision.threshold import Decision
from pipeline.methods import speculate_correct as bounds
from pipeline.methods.rknn import FoldScores
from pipeline.methods.rules import Rule
from pipeline.methods.speculate_correct import Counts, Design
from pipeline.noise.rates import NoiseRates, clean_shares
from pipeline.noise.regions import Regions
from pipeline.noise.transition import of_rates
from storage.errors import amount
from storage.runs.run import Run

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

ALIKE = (
    "Label qualities take the same rate for both classes, as one is rare and mistakes stand around "
    "the other."
)
"""Added to a verdict where label qualities mostly use one rate for both classes."""


class ScoreReport(Scoring):
    """What a scoring with two classes found."""

    n_predicted_1: int
    threshold: float
    p0: float
    p1: float

    def decided(self) -> list[str]:
        return [] if self.rule == WEIGHED else [f"threshold: {self.threshold:.4f}"]


class TrainReport(Training):
    """What a training of two classes found."""

    p0: float
    p1: float
    p0_interval: Interval
    p1_interval: Interval
    threshold: float
    rate_k: int
    """Neighbors that the rates rest on, the row itself included; 0 if the rates were given."""
    folds: FoldScores | None
    """Cross-validation of RkNN's sizes, if that is the rule."""
    decision_rule: Rule
    decision: Decision
    weighed: WeighedVote | None = None
    """The vote of several sizes, and models, if that predicts; None: the vote of k at the
    threshold does."""
    worth: Worth | None = None
    """What it is worth compared with the vote of k; None where the user chose that, or the training
    is of an earlier version."""
    estimates: dict[str, NoiseRates]
    """Every estimate that was made, by method."""

    scored_as: ClassVar = ScoreReport
    scored_columns: ClassVar = ("eta_corr", "posterior")

    @classmethod
    def of(
        cls, common: dict[str, Any], run: Run, estimated: RateEstimates, ingested: Ingested, _: None
    ) -> "TrainReport":
        rates, class_counts = estimated.rates, ingested.class_counts or []
        matrix = of_rates(rates)
        assert matrix.interval is not None
        trusted = estimated.decision_rule if rates.doubtful else rates
        given = float(counts_as_given(run, class_counts)[1] / sum(class_counts))
        prior = clean_shares(trusted.p0, trusted.p1, given)
        reason = f"{rates.reason} {ALIKE}" if rates.alike(given) >= 0.5 else rates.reason
        return cls(
            **common,
            **fields_of(estimated, "k", "k_curve", "noise", "folds", "decision_rule", "decision"),
            **fields_of(estimated, "worth", "estimates"),
            **fields_of(rates, "p0", "p1", "p0_interval", "p1_interval", "rate_k"),
            support=rates.support,
            reason=reason,
            **by_class(matrix.matrix, matrix.interval[:, :, 0], matrix.interval[:, :, 1]),
            clean_prior=list(prior),
            class_support=list(matrix.class_support),
            weighed=estimated.taken,
            threshold=estimated.decision_rule.threshold,
        )

    @property
    def tests(self) -> list[Regions | None]:
        return self.estimates[self.noise].diagnostics.get("regions") or []

    @property
    def scoring_rule(self) -> TwoClassRule:
        return TwoClassRule(self.decision_rule, self.k, self.weighed)

    def verdicts(self) -> LabelVerdicts:
        return LabelVerdicts(self.decision_rule)

    def rates(self) -> dict[LabelValue, Rate]:
        reliable = self.support != "unsupported" and self.noise != "minmax"
        zero, one = self.label_values
        return {
            name: Rate(
                *(getattr(self, name), getattr(self, f"{name}_interval"), reliable),
                meaning=f"P(given {given} | true {true})",
                title=f"{name} P(given {given} | true {true})",
                label=f"{name}: truly {true}, given {given}",
            )
            for name, true, given in (("p0", zero, one), ("p1", one, zero))
        }

    def certified(
        self, counts: Counts, design: Design, delta: float, sizes: Sequence[int]
    ) -> dict[str, Any]:
        shapes = 2 if self.rule == "rknn" else 1  # its rule at exactly one half is free
        n_rules = shapes * sum(bounds.threshold_rules(k) for k in sizes)
        certificate = bounds.certify(counts, design, delta, n_rules=n_rules)
        clean, reason = None, f"the rates are {self.support}: nothing follows for clean labels"
        if self.noise == "given" or self.support == "supported":
            rates = self.p0_interval, self.p1_interval
            clean = bounds.clean_range(counts, design, delta, *rates, n_rules)
            reason = (
                "holds if mistakes depend on the class alone, and while the rates' intervals hold"
            )
        return {
            "threshold": self.threshold,
            "trained_rule": ErrorBound.of(certificate, n_rules),
            "clean_error": clean,
            "clean_reason": reason,
        }

    def outcomes(self, predicted: Integers, truth: Integers) -> tuple[Int8, Integers]:
        return predicted.astype(np.int8), truth

    def lines(self) -> list[str]:
        zero, one = self.label_values
        return [
            f"{self.n_rows:,} rows, {amount(self.n_features, 'feature')}, "
            f"label {self.label_name!r}: {zero!r} is 0, {one!r} is 1",
            *about_data(self),
            "",
            f"noise rates ({self.noise})",
            *(
                f"  {name} = {rate.meaning} = {rate.estimate:.3f}, "
                f"95 % interval {span(rate.interval, '.3f')}"
                for name, rate in self.rates().items()
            ),
            f"  {self.support}: {self.reason}",
            *varying_lines(self),
            f"threshold on the share of the {self.k} neighbors given {one}: {self.threshold:.4f}",
            f"  {served(self)}",
            *predicted_by(self.worth, self.weighed, self.n_rows),
            *of_labels(self),
        ]

    def ones(self, n_predicted: list[int]) -> int | None:
        return sum(n_predicted[1:])

    def came_out(self) -> dict[str, object]:
        return {"p0": f"{self.p0:.4f}", "p1": f"{self.p1:.4f}"}

    def plot_posterior(self, ax: "Axes", issues: "pd.DataFrame") -> None:
        ax.hist(issues["eta_corr"], bins=min(50, self.k + 1), color="0.7")
        ax.axvline(self.threshold, color="black", linestyle="--", label="threshold")
        ax.set(xlabel=f"share of the {self.k} neighbors given {self.label_values[1]}")
        ax.set_ylabel("rows")
        ax.legend(frameon=False)


def served(report: TrainReport) -> str:
    """What the threshold serves, and what that is worth, in words."""
    decision, (zero, one) = report.decision, report.label_values
    taken = f"a true {zero} taken for {one} and a true {one} taken for {zero}"
    costs = f"costs of {decision.objective} for {taken}"
    aim = {"accuracy": "accuracy", "balanced": "balanced accuracy"}.get(decision.objective, costs)
    aim_text = f"It serves {aim}. {decision.reason}"
    if not decision.gain or decision.gain_error is None or decision.balanced_gain is None:
        return aim_text
    rows, error = round(decision.gain), round(1.96 * decision.gain_error)
    return (
        f"{aim_text} Estimated beside the plain vote: {rows:+,} ± {error:,} training rows right, "
        f"balanced accuracy {decision.balanced_gain:+.3f}."
    )
