"""The reports of a training and of a scoring: every field typed, the whole versioned."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import BaseModel, computed_field, model_validator

from flows.engine.results import LabelValue, Outcome
from flows.intake.health import Health
from flows.steps.ingest.pool import CorrectionsUsed, Ingested
from flows.steps.ingest.transform import PcaUsed
from flows.steps.labels.verdicts import LabelVerdicts
from pipeline.arrays import Float64, Int8, Integers
from pipeline.blocks.metric import MetricChoice
from pipeline.blocks.partition import Halo
from pipeline.decision.choose_k import Choice
from pipeline.diagnostics.file_order import FileOrder
from pipeline.noise.annotator_verdicts import Annotators
from pipeline.noise.groups import Groups
from pipeline.noise.rates import Support
from pipeline.noise.regions import Regions
from pipeline.noise.segments import Segment
from storage.arrays.groups import read_array
from storage.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from flows.steps.queries.searching import ScoringRule
    from pipeline.methods.speculate_correct import Counts, Design
    from storage.runs.run import Run


VERSION = 1
Interval = tuple[float, float]
FULL = 100
"""Classes up to which a report holds the matrix; of more, the group `transition` of the run."""


def predicted(scored: Scoring | ScoredFile) -> str:
    """How many rows are predicted each class, in words, of the commonest three."""
    classes, rows = scored.classes, scored.n_predicted
    order = sorted(range(len(rows)), key=lambda code: (-rows[code], code))[:3]
    commonest = ", ".join(f"{rows[code]:,} predicted {classes[code]!r}" for code in order)
    return f"{commonest}, …" if len(rows) > len(order) else commonest


def where(*cases: tuple[object, str]) -> list[str]:
    """The sentences of the cases (condition, sentence) whose condition holds."""
    return [sentence for holds, sentence in cases if holds]


def span(interval: tuple[float, float], form: str) -> str:
    """An interval in words, its ends as `form` has it."""
    low, high = interval
    return f"{low:{form}} to {high:{form}}"


class Frozen(BaseModel, frozen=True, defer_build=True):
    """Values that do not change any more."""

    def as_json(self) -> dict[str, Any]:
        """The content of report.json, or what a command prints with `--json`."""
        return self.model_dump(mode="json")


class SourceFile(Frozen, extra="allow"):
    """One file of a source, as it was when the run began."""

    role: str
    name: str
    size: int
    digest: str


class SourceFiles(Frozen, extra="allow"):
    """A source by its files."""

    kind: str
    files: list[SourceFile]

    @property
    def written(self) -> dict[str, Any]:
        """How its text is written, where that is not as by default."""
        return (self.model_extra or {}).get("dialect") or {}


class RunConfig(Frozen, extra="allow"):
    """The content of run.json."""

    parameters: dict[str, Any]
    source: SourceFiles
    label_name: str | None
    feature_names: list[str]
    id_name: str | None = None
    health: Health | None = None
    """What a look at the source found before it was read; None where there was none."""
    coding: dict[str, Any] | None = None
    """What text columns and gaps become; None where nothing is coded."""
    versions: dict[str, str]

    @property
    def label_column(self) -> str | None:
        """Column of the source that holds the labels; None where a file beside it does."""
        beside = [file.name for file in self.source.files if file.role == "labels"]
        return None if self.label_name in beside else self.label_name


class Saved(Frozen):
    """A report that is saved with its run."""

    report_version: int = VERSION


class Report(Saved):
    """What the reports of a training and of a scoring hold."""

    n_rows: int
    k: int
    """Neighbors whose labels are averaged."""
    recall: float
    """Share of the true neighbors found, measured on a sample."""
    recall_interval: Interval
    recall_rows: int
    """Rows of that sample."""
    target_recall: float
    warnings: list[str]
    seconds: dict[str, float]
    """Wall time by step, over all invocations."""
    peak_rss_mb: float
    """Peak memory of the largest worker, MB."""
    driver_peak_rss_mb: float
    steps: dict[str, Outcome]
    n_filled: int = 0
    """Gaps filled."""
    n_dropped: int = 0
    """Rows left out for a gap."""
    n_unlabeled: int = 0
    """Rows of a training without a label, which vote for nobody."""
    n_repeated: int = 0
    """Lines that give the features of a row again."""
    since: list[str] = []
    """What changed since an earlier training."""
    unseen: dict[str, int] = {}
    """Rows without a value that has a feature, by encoded column."""


class Rate(NamedTuple):
    """How often labels of one class are wrong."""

    estimate: float
    interval: Interval
    reliable: bool
    """Whether a change of it means something."""
    meaning: str
    """What it is as a probability."""
    title: str
    """Its name in a table of what changed."""
    label: str
    """Its name in a figure."""
    rows: int = 0
    """Rows given the class; rates of most rows come first where not all are shown."""


class PoolReport(Report):
    """What a training found, whatever its labels are; a class for each kind of labels."""

    scored_as: ClassVar[type[Scoring]]
    """The report of a scoring with this training."""
    refused: ClassVar[dict[str, str]] = {}
    """Options for another kind of labels → why they are refused."""

    n_features: int
    label_name: str
    label_values: list[LabelValue]
    """The given label of each code."""
    classes: list[LabelValue]
    """The same; rows and columns of the matrix are in this order."""
    class_counts: list[int]
    """Rows given each class; of candidate sets, rows with each class among their candidates."""
    rule: str
    n_blocks: int
    largest_block_rows: int
    halo: Halo
    copies: float
    """Copies per row, the row at home included."""
    predicted_recall_ceiling: float
    builder: str
    builder_reason: str
    block_rows: int | None
    scale: str
    scale_reason: str = ""
    pca: PcaUsed | None = None
    """Principal components that stand for the features; None where all features are used."""
    metric: MetricChoice | None = None
    """How nearness was learned and chosen; None where features were taken as scaled, untried."""
    seed: int
    notes: list[str]
    n_label_issues: int
    n_wrong: float | None = None
    """Labels that are wrong, as their qualities have it; None where none are estimated, or where
    the training is of an earlier version."""
    n_contradicted: int | None = None
    """Labels that are not those predicted by their neighbors; None where labels are sets, or where
    the training is of an earlier version."""
    n_outliers: int = 0
    """Rows far from all others."""
    n_near_duplicates: int = 0
    """Rows with an equal or nearly equal neighbor."""
    n_contradicting: int = 0
    """Those among them with such a neighbor that was given another label."""
    order: FileOrder | None = None
    """How near in the source neighbors stand; None where they are too few to tell, or where the
    training is of an earlier version."""
    segments: list[Segment] = []
    """Where suspects are most frequent, the worst first; features are numbered as in
    `config.feature_names`."""
    config: RunConfig

    @property
    def rule_digest(self) -> str:
        """Digest of the step that found the rule, by which scores are made."""
        return (self.steps.get("rates") or self.steps["choice"]).digest

    @property
    def n_source_rows(self) -> int:
        """Rows of the source, those left out for a gap or without a label among them."""
        return self.n_rows + self.n_dropped + self.n_unlabeled + self.n_repeated

    @property
    def share_wrong(self) -> float | None:
        """Share of wrong labels; None where it is not estimated."""
        return None

    def refuse(self, what: str, value: object) -> None:
        """`InputError` where an option for another kind of labels has a value."""
        if value and what in self.refused:
            raise InputError(self.refused[what].format(value))

    @classmethod
    @abstractmethod
    def of(
        cls, common: dict[str, Any], run: Run, estimated: Any, ingested: Ingested, verdicts: Any
    ) -> PoolReport:
        """The report on what was estimated; `common` are the fields that reports share, `verdicts`
        what is said of rows where labels are sets."""

    @abstractmethod
    def single(self, name: str) -> Training:
        """This, a training on single labels; `InputError` that names the run where it is none."""

    @property
    @abstractmethod
    def scoring_rule(self) -> ScoringRule:
        """How the neighbors of a row in the training's pool become its scores."""

    @abstractmethod
    def lines(self) -> list[str]:
        """What the text says of rows, features and labels."""

    @abstractmethod
    def suspicion(self) -> str:
        """What is said of the suspect rows after their number, for a notebook."""

    def rates(self) -> dict[LabelValue, Rate]:
        """How often labels are wrong, by the name of each rate; nothing where that is not
        estimated."""
        return {}

    def plot_posterior(self, ax: Axes, issues: pd.DataFrame) -> None:
        """Draw how many rows have which label quality."""
        ax.hist(issues["label_quality"], bins=50, color="0.7")
        ax.set(xlabel="label quality", ylabel="rows")

    def came_out(self) -> dict[str, object]:
        """Estimates that only this kind of labels has, by name."""
        return {}

    def ones(self, n_predicted: list[int]) -> int | None:
        """Of two classes, the rows predicted 1 among the rows predicted each."""
        return None


class Training(PoolReport):
    """What a training found on single labels, of any number of classes."""

    clean_prior: list[float | None]
    """Shares of the clean classes; of more than two, None for a class without support."""
    transition_matrix: list[list[float]] | None
    """P(given | true); a row per true class. Of more than 100 classes None: `results.zarr` has it
    in its group `transition`."""
    transition_interval: list[list[Interval]] | None
    """95 % interval of each entry; None where the matrix is."""
    class_noise: list[float]
    """Share of each true class' rows that are labeled as another."""
    class_noise_interval: list[Interval]
    class_support: list[Support]
    """The verdict of each true class."""
    noise: str
    """Method of the rates: crossfit, minmax, rknn or given."""
    support: Support
    """The verdict of the class worst off."""
    reason: str
    k_curve: Choice
    corrections: CorrectionsUsed | None = None
    """Labels that somebody checked; None where the training was given none."""
    groups: Groups | None = None
    """Whose labels are wrong; None where the training was given no `--by`."""
    n_together: int = 0
    """Groups of rows that belong together; 0 where the training was given no `--together`."""
    annotators: Annotators | None = None
    """Several labels per row; None where the training was given no `--annotations`."""

    scored_columns: ClassVar = ("vote_share", "posterior")
    """Of a table of scores, what its posteriors are checked by."""
    refused: ClassVar = {
        "candidates": "--candidates {} restricts what a training on candidate sets predicts, and "
        "this one is on single labels; leave it out"
    }

    @model_validator(mode="before")
    @classmethod
    def _by_class(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Fill in what reports of earlier versions hold in the matrix alone."""
        if "class_noise" in fields or "transition_interval" not in fields:
            return fields
        bounds = [row[at] for at, row in enumerate(fields["transition_interval"])]
        return {
            **fields,
            "class_noise": [1.0 - row[at] for at, row in enumerate(fields["transition_matrix"])],
            "class_noise_interval": [(1.0 - high, 1.0 - low) for low, high in bounds],
        }

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share_wrong(self) -> float | None:
        """Share of wrong labels by their qualities; or by the rates where qualities say less than
        the low ends of these, as they do of rows whose copies vouch for them, and for trainings of
        earlier versions. None where classes of known share have fewer than half of the rows."""
        by_rates, by_quality = self._over_classes(self.class_noise), self._by_quality
        return by_rates if by_rates is None or by_quality is None else by_quality

    @property
    def _by_quality(self) -> float | None:
        """Share of wrong labels by their qualities; None where there are none, or where these say
        less than the low ends of the rates."""
        share = None if self.n_wrong is None else self.n_wrong / self.n_rows
        return None if share is None or share < self.least_wrong else share

    @property
    def least_wrong(self) -> float:
        """Share of wrong labels by the low ends of the rates, with labels of unsupported classes
        taken as right."""
        pairs = zip(self.class_noise_interval, self.clean_prior, strict=True)
        return self._over_classes([0.0 if prior is None else low for (low, _), prior in pairs]) or 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share_wrong_interval(self) -> Interval | None:
        """Interval of the share, by the ends of the rates' intervals, which allow for mistakes that
        look like overlap of the classes. At the upper end, rows of unknown classes are as wrong as
        any of these may be.

        Where the true class is the likeliest label of its rows, no more labels are wrong than any
        prediction contradicts. Where it may not be, add how far another label may be ahead: by the
        end of the class' rate, or by all of its rows if the rate is unsupported. Where copies vouch
        for wrong labels (`share_wrong`), predictions say nothing.
        """
        share = self.share_wrong
        pairs = list(zip(self.class_noise_interval, self.clean_prior, strict=True))
        most = max((end for (_, end), prior in pairs if prior is None), default=0.0)
        ends = [most if prior is None else end for (_, end), prior in pairs]
        high = self._over_classes(ends)
        if high is None or share is None:
            return None
        if self.n_contradicted is not None and self._by_quality is not None:
            against = self.n_contradicted / self.n_rows
            error = math.sqrt(against * (1.0 - against) / self.n_rows)
            ahead = [
                1.0 if support == "unsupported" else max(0.0, 2.0 * end - 1.0)
                for end, support in zip(ends, self.class_support, strict=True)
            ]
            high = min(high, against + 2.0 * error + (self._over_classes(ahead) or 0.0))
        return min(self.least_wrong, share), max(high, share)

    def _over_classes(self, noise: list[float]) -> float | None:
        """Share of wrong labels over all rows, by shares ``noise`` of each true class. Classes of
        unknown clean share count with their given rows. Corrected labels are taken off, as rates
        are of labels before correction; those of earlier versions are of labels after it."""
        known = [at for at, share in enumerate(self.clean_prior) if share is not None]
        if 2 * sum(self.class_counts[at] for at in known) < self.n_rows:
            return None
        given = [count / self.n_rows for count in self.class_counts]
        shares = [b if a is None else a for a, b in zip(self.clean_prior, given, strict=True)]
        wrong = sum(a * b for a, b in zip(shares, noise, strict=True)) / sum(shares)
        if self.corrections is None or self.n_wrong is None:
            return wrong
        return max(0.0, wrong - self.corrections.n_changed / self.n_rows)

    def matrix(self, run: Run) -> Float64:
        """(class, class) P(given | true), of many classes from the results of their run."""
        if self.transition_matrix is None:
            return read_array(run.group("transition"), "matrix")
        return np.array(self.transition_matrix)

    @property
    @abstractmethod
    def tests(self) -> list[Regions | None]:
        """For each class, the test whether its mistakes depend on the features."""

    def single(self, name: str) -> Training:
        return self

    def verdicts(self) -> LabelVerdicts:
        """How the verdicts on the labels are read."""
        return LabelVerdicts()

    def rates(self) -> dict[LabelValue, Rate]:
        reliable = [s != "unsupported" and self.noise != "minmax" for s in self.class_support]
        return {
            name: Rate(
                self.class_noise[at],
                self.class_noise_interval[at],
                reliable[at],
                meaning=f"P(given another | true {name})",
                title=f"wrong in {name}",
                label=str(name),
                rows=self.class_counts[at],
            )
            for at, name in enumerate(self.classes)
        }

    def certified(
        self, counts: Counts, design: Design, delta: float, sizes: Sequence[int]
    ) -> dict[str, Any]:
        """What a certificate says of the training's own rule, as fields of its report.

        sizes : among which the labels chose k
        """
        reason = "certified for two classes only"
        none = dict.fromkeys(("threshold", "trained_rule", "clean_error"))
        return {**none, "clean_reason": reason}

    def outcomes(self, predicted: Integers, truth: Integers) -> tuple[Int8, Integers]:
        """(row,) the event, 0 or 1, whose chance a posterior is, as predicted and in truth: that
        the predicted class is the true one."""
        right = (predicted == truth).astype(np.int8)
        return np.ones_like(right), right

    def suspicion(self) -> str:
        return f"labels are suspect ({self.support}: {self.reason})"

    @property
    def grouped_classes(self) -> list[LabelValue]:
        """The classes whose rates are shown of each group: both of two."""
        return self.classes if len(self.classes) == 2 else []


def was_in_memory(source: str) -> bool:
    """Whether a path is that of the file that a frame or an array was while it was trained on."""
    ours = r"(^|/)knnoise-[a-z0-9_]{8}/(table|array|annotations)(\.(arrow|parquet|npy))?$"
    return re.search(ours, source) is not None


def fields_of(result: object, *names: str) -> dict[str, Any]:
    """Fields of a report that are those of a result, by the same names."""
    return {name: getattr(result, name) for name in names}


def by_class(matrix: Float64, low: Float64, high: Float64) -> dict[str, Any]:
    """Fields of a `Training`: P(given | true), (class, class), the ends of its interval, and of
    each true class the share labeled as another."""
    whole = len(matrix) <= FULL  # three million numbers of a thousand classes
    bounds = zip((1.0 - np.diag(high)).tolist(), (1.0 - np.diag(low)).tolist(), strict=True)
    return {
        "transition_matrix": matrix.tolist() if whole else None,
        "transition_interval": np.stack([low, high], axis=2).tolist() if whole else None,
        "class_noise": (1.0 - np.diag(matrix)).tolist(),
        "class_noise_interval": list(bounds),
    }


class Scoring(Report):
    """What a scoring found."""

    classes: list[LabelValue]
    n_predicted: list[int]
    """Rows predicted each class."""
    n_equal_to_training: int = 0
    """Rows equal to a training row."""
    n_near_training: int = 0
    """Rows equal or nearly equal to one."""
    n_far_from_training: int = 0
    """Rows as far from the training's as its outliers are from each other."""
    probes: float
    """Blocks searched per row."""
    rule: str
    out: str
    """Parquet file of the scores."""

    def decided(self) -> list[str]:
        """What else is said of the predictions."""
        return []


class ScoredFile(Frozen, extra="allow"):
    """What the scoring of one file of a folder found, besides the fields of its report."""

    source: str
    n_rows: int
    n_predicted: list[int]
    classes: list[LabelValue]
    n_predicted_1: int | None = None
    """Of two classes."""
    warnings: list[str]


class NewFilesReport(Frozen):
    """What the scoring of the new files of a folder found."""

    n_files: int
    n_scored: int
    n_skipped: int
    """Files whose scores were there already."""
    n_rows: int
    n_predicted: list[int]
    """Rows predicted each class."""
    n_predicted_1: int | None
    """Of two classes."""
    warnings: list[str]
    files: list[ScoredFile]
    run: str
    out: str
