"""More than two classes: the reports of a training and of a scoring, and what is said of them."""

from collections import Counter
from typing import Any, ClassVar

import numpy as np

from flows.engine.results import LabelValue
from flows.report.lines import (
    SHOWN,
    about_data,
    classes_line,
    of_labels,
    predicted_by,
    varying_lines,
)
from flows.report.model import (
    Frozen,
    Interval,
    Scoring,
    Training,
    by_class,
    fields_of,
    span,
)
from flows.steps.ingest.pool import Ingested
from flows.steps.labels.classes import ClassEstimates, VoteRule
from flows.steps.queries.class_scores import ClassRule
from pipeline.decision.quality import Weights
from pipeline.decision.tempering import MatrixDecision, Worth
from pipeline.noise.rates import Support
from pipeline.noise.regions import Regions
from pipeline.noise.transition_fit import FEWEST_LABELS
from storage.arrays.groups import read_array
from storage.runs.run import Run

MOST_CONFUSIONS = 50
TWINS = 0.25
"""Share of each of two classes, labeled as the other, from which on the two look like one."""


class Confusion(Frozen):
    """Rows of one class that are labeled as another."""

    true: LabelValue
    given: LabelValue
    share: float
    """Of the rows of the true class."""
    interval: Interval
    rows: int
    """As estimated."""

    def text(self) -> str:
        """The confusion as a sentence."""
        return (
            f"{self.share:.1%} of the rows that are truly {self.true!r} are labeled {self.given!r} "
            f"(95 % interval {span(self.interval, '.1%')}), about {self.rows:,} rows"
        )


class ClassScoreReport(Scoring):
    """What a scoring with more than two classes found."""

    part: float
    """Part of the matrix that corrects votes; 0 is the plain vote."""


class ClassReport(Training):
    """What a training of more than two classes found."""

    decision: MatrixDecision
    """How far the matrix corrects votes."""
    weighed: Weights | None = None
    """The vote of several sizes, and models, if that predicts; None: the corrected vote of k does.
    """
    worth: Worth | None = None
    """What it is worth compared with the vote of k; None where the user chose that, or the training
    is of an earlier version."""
    confusions: list[Confusion]
    """The commonest, most rows first."""
    regions: list[Regions | None]
    """For each class, the test whether its mistakes depend on the features, where there are rows
    enough."""
    nowhere: tuple[LabelValue, ...] = ()
    """Labels that are the commonest of no rows, and count as mistakes wherever they are given."""
    twins: tuple[tuple[LabelValue, LabelValue], ...] = ()
    """Classes whose rows are given each other's labels."""

    scored_as: ClassVar = ClassScoreReport

    @classmethod
    def of(
        cls, common: dict[str, Any], run: Run, fitted: ClassEstimates, ingested: Ingested, _: None
    ) -> "ClassReport":
        group = run.group("transition")
        matrix, low, high = (read_array(group, name) for name in ("matrix", "low", "high"))
        names, given = ingested.label_values or [], np.asarray(ingested.class_counts)
        has_support = np.array([support != "unsupported" for support in fitted.class_support])
        size = np.where(has_support, ingested.n_rows * np.asarray(fitted.prior), given)
        rows = size[:, None] * matrix
        np.fill_diagonal(rows, 0.0)
        surely = np.where(low > 0.0, rows, 0.0)
        order = np.argsort(-surely, axis=None, kind="stable")[:MOST_CONFUSIONS]
        pairs = [(int(at // len(names)), int(at % len(names))) for at in order]
        return cls(
            **common,
            **fields_of(fitted, "k", "k_curve", "support", "reason", "class_support"),
            **fields_of(fitted, "decision", "worth", "regions"),
            clean_prior=[
                share if sure else None
                for share, sure in zip(fitted.prior, has_support, strict=True)
            ],
            **by_class(matrix, low, high),
            noise="crossfit",
            weighed=fitted.rule.weighed,
            nowhere=tuple(
                name
                for name, share, n in zip(names, fitted.prior, given.tolist(), strict=True)
                if n >= FEWEST_LABELS and not share
            ),
            twins=tuple(
                (names[a], names[b])
                for a, b in np.argwhere(np.triu(np.minimum(matrix, matrix.T), 1) >= TWINS).tolist()
                if min(given[a], given[b]) >= FEWEST_LABELS
            ),
            confusions=[
                Confusion(
                    true=names[a],
                    given=names[b],
                    share=float(matrix[a, b]),
                    interval=(float(low[a, b]), float(high[a, b])),
                    rows=round(float(rows[a, b])),
                )
                for a, b in pairs
                if surely[a, b] >= 0.5
            ],
        )

    @property
    def tests(self) -> list[Regions | None]:
        return self.regions

    @property
    def scoring_rule(self) -> ClassRule:
        n_classes = len(self.classes)
        return ClassRule(n_classes, VoteRule(self.k, n_classes, self.decision, self.weighed))

    def lines(self) -> list[str]:
        wrong = self.share_wrong
        share = "not known" if wrong is None else f"{wrong:.1%}"
        matrix = "report.json" if self.transition_matrix else "results.zarr/transition"
        counts = Counter(self.class_support)
        verdicts = ", ".join(f"{counts[v]} {v}" for v in ("supported", "weak", "unsupported"))
        return [
            classes_line(self),
            *about_data(self),
            "",
            f"labels given wrongly ({self.noise}): {share}; P(given | true) in {matrix}",
            f"  classes: {verdicts}; {self.reason}",
            *varying_lines(self),
            *(f"  {one}" for one in [*self.confused(SHOWN), *self.doubtful_names()]),
            f"vote of the {self.k} neighbors: {self.corrected()}",
            *predicted_by(self.worth, self.weighed, self.n_rows),
            *of_labels(self),
        ]

    def confused(self, most: int) -> list[str]:
        """The commonest confusions as sentences, with a word where nothing supports them."""
        support, some = self.support_of, self.confusions[:most]
        doubt = ["; unsupported" if support[one.true] == "unsupported" else "" for one in some]
        return [one.text() + word for one, word in zip(some, doubt, strict=True)]

    def doubtful_names(self) -> list[str]:
        """Labels that may be the name of no class, or of one that has another, as sentences."""
        nowhere = [
            f"{name!r} is the commonest label nowhere, and counts as a mistake wherever it is "
            "given: if it means that nobody knows, empty these labels and give --unlabeled "
            "predict; if it is another name of a class, give the class one"
            for name in self.nowhere[:SHOWN]
        ]
        return nowhere + [
            f"{a!r} and {b!r} are given to the same rows: if they are two names of one class, give "
            "it one in the source and train again"
            for a, b in self.twins[:SHOWN]
        ]

    @property
    def support_of(self) -> dict[LabelValue, Support]:
        """The verdict of each class."""
        return dict(zip(self.classes, self.class_support, strict=True))

    def corrected(self) -> str:
        """How far the matrix corrects votes, in words."""
        decision = self.decision
        if decision.part == 0:
            return "not corrected, as no correction surely pays on the held-out labels"
        return (
            f"corrected by {decision.part:.0%} of the matrix, which puts about "
            f"{decision.gain:,.0f} ± {1.96 * decision.gain_error:,.0f} of the sampled rows more "
            "right"
        )
