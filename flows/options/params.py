"""Parameters of the flows: type, default, bound and help of each, said once.

The command line, the flows' signatures and Prefect's page all come from these models.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from pipeline.decision.threshold import cost_share
from pipeline.methods.rules import RULES
from storage.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from storage.sources.request import Columns, Dialect

P = TypeVar("P", bound="Params")
R = TypeVar("R")

STEP_TIMEOUT = 86_400.0
"""Seconds that one try of a step may take, unless the flow is given another number."""


@dataclass(frozen=True)
class Metavar:
    """The word that stands for an option's value on the command line."""

    word: str


@dataclass(frozen=True)
class Flags:
    """A parameter of a few words that is a flag for each on the command line, with its help."""

    help: dict[str, str]


def _address(value: Any) -> Any:
    """A path or URL as text, `~` in front being the user's folder."""
    text = os.path.expanduser(value) if isinstance(value, str | os.PathLike) else value
    if isinstance(text, str) and not text:
        raise ValueError("'': a path cannot be empty; check it")
    if isinstance(text, str) and "\0" in text:
        raise ValueError(f"{text!r}: a path cannot hold a zero byte; check it")
    return text


def _names(value: Any) -> Any:
    """One name or several, none for None."""
    if isinstance(value, str):
        return [value]
    return list(value) or None if isinstance(value, tuple | list) else value


Text = Annotated[str, BeforeValidator(_address)]
Folder = Annotated[Text, Metavar("DIR")]
File = Annotated[Text, Metavar("FILE")]
Pem = Annotated[Text, Metavar("PEM")] | None
Name = Annotated[str, Metavar("NAME")] | None
Names = Annotated[list[str] | None, BeforeValidator(_names), Metavar("NAMES")]
"""Names or patterns of columns; on the command line an option that may be given again."""
Rate = Annotated[float, Field(ge=0, lt=1), Metavar("RATE")] | None
Recall = Annotated[
    float, Field(gt=0, le=1, description="share of the true neighbors to find"), Metavar("R")
]
Seed = Annotated[int, Field(ge=0, lt=2**32, description="seed of everything random"), Metavar("N")]
Finished = Annotated[
    Folder,
    Field(description="folder of the finished training; of a pattern like `runs/pool-*` the last"),
]


if TYPE_CHECKING:
    RuleName = str
else:
    RuleName = Literal[tuple(RULES)]


class Params(BaseModel, frozen=True, extra="forbid", defer_build=True):
    """Parameters of one flow."""

    @classmethod
    def of(cls: type[P], *args: Any, **kwargs: Any) -> P:
        """Parameters from a call; the required ones may stand first, by position.

        Raises `InputError` for a value that makes no sense; the message names it as the command
        line does.
        """
        names = [name for name, field in cls.model_fields.items() if field.is_required()]
        if len(args) > len(names):
            raise TypeError(f"at most {len(names)} arguments by position: {', '.join(names)}")
        given = dict(zip(names, args, strict=False))
        if twice := sorted(set(given) & set(kwargs)):
            raise TypeError(f"{', '.join(twice)}: given by position and by name")
        try:
            return cls(**given, **kwargs)
        except ValidationError as error:
            problems = (_sentence(problem, cls.model_fields) for problem in error.errors())
            raise InputError("; ".join(problems)) from error

    def given(self, *names: str) -> Iterator[str]:
        """Those of some options that are not as by default, with their values."""
        for name in names:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                word = "--p0 and --p1" if name == "p0" else option(name)
                yield word if value is True else f"{word} {value}"

    @classmethod
    def signature(cls) -> inspect.Signature:
        """The signature of a function that takes these parameters as keywords."""
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    kinds[not field.is_required()],
                    default=inspect.Parameter.empty if field.is_required() else field.default,
                    annotation=field.rebuild_annotation(),
                )
                for name, field in sorted(
                    cls.model_fields.items(), key=lambda item: not item[1].is_required()
                )
            ],
            return_annotation=dict[str, Any],
        )

    heading: ClassVar[str]
    """Of the fields of a class in the command line's help."""

    def __init_subclass__(cls, heading: str = "This command") -> None:
        cls.heading = heading

    @classmethod
    def heading_of(cls, name: str | None) -> str:
        """The heading of a field, or of what all commands have."""
        owners = (c for c in cls.__mro__ if name in inspect.get_annotations(c))
        return str(getattr(next(owners, None), "heading", "This command"))

    @classmethod
    def help(cls) -> str:
        """One line per parameter, in the style of docstrings that Prefect reads."""
        return "\n".join(f"    {name}: {described(f)}" for name, f in cls.model_fields.items())


class Written(Params, heading="Text files"):
    """How text files are written, those of labels included."""

    sep: Annotated[str, Metavar("CHAR")] | None = Field(
        None,
        description="separator of text files, one character or tab or space; by default a tab in "
        ".tsv, else a comma",
    )
    decimal: Annotated[str, Metavar("MARK")] | None = Field(
        None, description="decimal mark of text files, . (default) or ,"
    )
    encoding: Name = Field(
        None, description="encoding of text files, such as cp1252; by default utf-8"
    )
    sheet: Name = Field(None, description="sheet of an Excel workbook; by default the first")

    def dialect(self, default: Dialect | None = None) -> Dialect:
        """The dialect of text files; what is not given is as in `default`.

        Raises `InputError` if there is no such dialect.
        """
        from storage.sources.request import Dialect  # imports Arrow: only where it is used

        given = {name: getattr(self, name) for name in Written.model_fields}
        return replace(
            default or Dialect(), **{name: v for name, v in given.items() if v is not None}
        )


class Given(Written, heading="Source and labels"):
    """A source and its labels."""

    source: Text = Field(
        description="CSV, JSON lines, Arrow, Parquet (file or folder), Excel, npy, npz or Zarr; a "
        "path or fsspec URL"
    )
    labels: File | None = Field(None, description="file of labels, if the source has none")
    label_column: Name = Field(None, description="column (or array) of the labels")


class Labeled(Given, heading="Source and labels"):
    """A labeled source and the run that learns from it."""

    run: Folder = Field(
        description="folder of the run, new or begun by the same call; "
        "`{date:%G-W%V}` in it is replaced"
    )


class Selected(Params, heading="Columns"):
    """Which columns of a source are features."""

    id_column: Name = Field(
        None, description="column (or array) that names the rows: no feature, but in every output"
    )
    features: Names = Field(
        None, description="columns that are features, by name or pattern (again for more); all else"
    )
    exclude: Names = Field(
        None, description="columns that are no features, by name or pattern (again for more)"
    )
    parse: Annotated[list[str] | None, BeforeValidator(_names), Metavar("COLUMN=KIND")] = Field(
        None,
        description="columns of text that are numbers, by name or pattern: thousands, percent, "
        "datetime, boolean, or the format of a date such as %d.%m.%Y (again for more)",
    )

    @field_validator("parse")
    @classmethod
    def _kinds(cls, given: list[str] | None) -> list[str] | None:
        from storage.sources.values.texts import KINDS

        for entry in given or []:
            column, _, kind = entry.rpartition("=")
            if not column or (kind not in KINDS and "%" not in kind):
                raise ValueError(
                    f"--parse {entry}: must be COLUMN=KIND, the kind one of {', '.join(KINDS)}, or "
                    "the format of a date such as %d.%m.%Y"
                )
        return given

    def parsing(self) -> dict[str, str]:
        """Kinds of text by name or pattern of their columns."""
        parts = (entry.rpartition("=") for entry in self.parse or ())
        return {column: kind for column, _, kind in parts}

    def columns(self, left_out: tuple[str, ...] = ()) -> Columns:
        """The choice among the columns of the source, without those left out."""
        from storage.sources.request import Columns

        keep, leave = tuple(self.features or ()), tuple(self.exclude or ())
        return Columns(self.id_column, keep, leave, left_out)


class Chosen(Selected, heading="Columns"):
    """Which columns of a labeled source are features, and what is known of its labels."""

    candidates: Annotated[str, Metavar("SEPARATOR")] | None = Field(
        None,
        description="labels are sets of candidates, one of which is right: what divides them in "
        "text, such as | in cat|dog; columns of lists and masks are taken for such sets anyway",
    )
    by: Name = Field(
        None,
        description="column that says whose label each is (annotator, site, source, month), of at "
        "most 1,000 values: no feature; how often each of them is wrong is reported",
    )
    together: Name = Field(
        None,
        description="column that says which rows belong together and share a label (patient, "
        "video, document), of any number of values: no feature; such rows are left out of each "
        "other's neighbors",
    )
    corrections: File | None = Field(
        None,
        description="labels that somebody checked, which count as certain: the answers of a "
        "review, or a CSV or Parquet file with the columns row and label",
    )

    @field_validator("candidates")
    @classmethod
    def _divides(cls, given: str | None) -> str | None:
        if given is not None and (not given or re.search(r"[\w.+\-\"\n\r]", given)):
            raise ValueError(
                f"--candidates {given!r}: must be characters that stand in no label, such as | or ;"
            )
        return given

    join_labels: bool = Field(
        False,
        description="labels that differ by case, spaces or accents alone are one class, written as "
        "most rows have it",
    )
    annotations: File | None = Field(
        None,
        description="table of several labels per row, a line per row and annotator: columns "
        "named as --id-column (without one `row`, its number), annotator and label",
    )
    annotator_column: Name = Field(
        None, description="column of --annotations that names the annotator (default annotator)"
    )

    @model_validator(mode="after")
    def _several_labels(self) -> Self:
        if self.annotations is None and self.annotator_column is not None:
            raise ValueError("--annotator-column is a column of --annotations: give both")
        if self.annotations is not None and getattr(self, "labels", None) is not None:
            raise ValueError("--annotations holds the labels: leave out --labels")
        if self.annotations is not None and self.join_labels:
            raise ValueError("--join-labels is for the source's own labels: recode --annotations")
        return self

    def columns(self, left_out: tuple[str, ...] = ()) -> Columns:
        """The choice among the columns of the source, without those left out."""
        if self.annotations is not None and self.annotations == getattr(self, "source", None):
            own = self.annotator_column or "annotator", getattr(self, "label_column", None)
            left_out += own[0], own[1] or "label"
        return replace(super().columns(left_out), group=self.by, together=self.together)


class Method(Chosen, heading="Method"):
    """What decides the results of a training, besides its source; recorded with the run."""

    encode: Literal["none", "one-hot"] = Field(
        "none",
        description="text columns: refused, or a feature of 0 and 1 for each value, of the 64 most "
        "frequent",
    )
    impute: Literal["none", "median", "drop"] = Field(
        "none", description="gaps: refused, filled with the column's median, or their rows left out"
    )
    unlabeled: Literal["refuse", "predict"] = Field(
        "refuse",
        description="rows without a label: refused, or without a vote and given labels, in "
        "unlabeled.parquet",
    )
    preflight: Literal["fix", "warn", "off"] = Field(
        "fix",
        description="what a look at the source does about columns wrong beyond doubt: leave them "
        "out and say so, only say so, or there is no look",
    )
    k: Annotated[int, Field(ge=5), Metavar("N")] | None = Field(
        None, description="neighbors per row; auto chooses by the leave-one-out score"
    )
    noise: Literal["crossfit", "minmax"] = Field(
        "crossfit", description="estimator of the noise rates; minmax is Reeve & Kabán's"
    )
    rule: RuleName = Field(
        "corrected",
        description="decision rule; rknn (Gao, Yang & Zhou) estimates the rates its own way",
    )
    objective: Annotated[str, Metavar("accuracy|balanced|C01:C10")] = Field(
        "accuracy",
        description="what the threshold of two classes serves: accuracy, balanced accuracy, or two "
        "costs, of predicting the second class where the first is true and of the opposite",
    )
    p0: Rate = Field(None, description="P(given 1 | true 0), if both rates are known")
    p1: Rate = Field(None, description="P(given 0 | true 1), if both rates are known")
    builder: Literal["auto", "join", "pynndescent", "exact"] = Field(
        "auto", description="how neighbors are found"
    )
    block_rows: Annotated[int, Metavar("N")] | None = Field(
        None, description="rows at home in a block; auto chooses by predicted cost"
    )
    scale: Literal["auto", "none", "range", "standard"] = Field(
        "auto",
        description="scaling of the features; auto is standard where columns are on different "
        "scales, and leaves embeddings as they are",
    )
    pca: Annotated[int, Field(ge=1), Metavar("D")] | None = Field(
        None,
        description="principal components, learned on the scaled training rows, that stand for the "
        "features; by default all features are used",
    )
    metric: Literal["auto", "as-scaled", "cosine", "weighted", "probabilities", "model"] = Field(
        "auto",
        description="what makes rows near: the features as scaled, their directions, standard "
        "scores weighted by what each tells of the given labels, or these and logits of a "
        "model that was not fitted on the row, or those of --model-probabilities; auto takes the "
        "one by which neighbors predict labels best",
    )
    model_probabilities: Annotated[str, Field(min_length=1), Metavar("PREFIX")] | None = Field(
        None,
        description="start of the names of columns with a model's probabilities, one a class, such "
        "as chance- for chance-cat and chance-dog; of a row by a model that was not fitted on it",
    )
    candidate_features: Literal["raw", "averaged", "averaged-cube-root"] = Field(
        "raw",
        description="features of rows with candidate sets: as they are, or preprocessed as by "
        "Errandonea et al.: centered (or cube roots), at unit length, averaged with neighbors, "
        "divided by the mean distance to near rows",
    )
    target_recall: Recall = 0.95
    seed: Seed = 0

    SHORTEST: ClassVar[int] = 50
    """Neighbors kept per row at least, if k is chosen."""

    def method(self) -> dict[str, Any]:
        """The parameters that decide the results, as run.json records them."""
        return {name: getattr(self, name) for name in Method.model_fields}

    @field_validator("objective")
    @classmethod
    def _is_objective(cls, given: str) -> str:
        try:
            cost_share(given)
        except ValueError as error:
            raise ValueError(f"--objective {error}") from error
        return given

    @model_validator(mode="after")
    def _together(self) -> Method:
        least = 2 * (self.k or self.SHORTEST)
        if self.block_rows is not None and self.block_rows < least:
            raise ValueError(
                f"--block-rows {self.block_rows}: must be {least} or more, twice the neighbors kept"
            )
        if self.candidate_features != "raw" and self.pca is not None:
            raise ValueError(
                f"--candidate-features {self.candidate_features} takes the features themselves: "
                "leave out --pca"
            )
        if self.encode != "none" and self.preflight == "off":
            raise ValueError("--encode needs to look at the source: leave out --preflight off")
        if self.join_labels and self.preflight == "off":
            raise ValueError("--join-labels needs to look at the source: leave out --preflight off")
        if (self.p0 is None) != (self.p1 is None):
            raise ValueError("--p0 and --p1 belong together: give both or none")
        if self.p0 is not None and self.p1 is not None and self.p0 + self.p1 >= 1:
            raise ValueError(
                f"--p0 and --p1: need rates in [0, 1) with p0 + p1 < 1, "
                f"not {self.p0:g} and {self.p1:g}"
            )
        if self.noise == "minmax" and self.p0 is not None:
            raise ValueError("--noise says how rates are estimated: leave it out, or --p0 and --p1")
        if self.by is not None and self.noise == "minmax":
            raise ValueError(
                "--by needs rates that are not read as plain extremes: leave out --noise minmax"
            )
        for given in self.given("noise", "rule") if self.together is not None else ():
            raise ValueError(
                f"--together needs rates that are not read as plain extremes: leave out {given}"
            )
        if self.rule == "rknn" and self.objective != "accuracy":
            raise ValueError("--rule rknn decides its own way: leave out --objective")
        if self.rule == "rknn" and self.p0 is not None:
            raise ValueError("--rule rknn estimates the rates its own way: leave out --p0 and --p1")
        return self

    @property
    def reads_rates(self) -> bool:
        """Whether noise rates are read off the anchors' lists."""
        return self.noise == "crossfit" and self.p0 is None


class Compute(Params, heading="Computing"):
    """Where and how a flow computes; no part of what it computes."""

    workers: Annotated[int, Field(ge=0, le=1024), Metavar("N")] | None = Field(
        None, description="local processes; auto is one per core, 0 computes in the flow's process"
    )
    scheduler: Annotated[str, Field(min_length=1), Metavar("ADDRESS")] | None = Field(
        None, description="address of a Dask scheduler; default DASK_SCHEDULER_ADDRESS"
    )
    tls_ca: Pem = Field(
        None, description="authority of a tls:// scheduler; default Dask's configuration"
    )
    tls_cert: Pem = Field(None, description="certificate to show to the scheduler")
    tls_key: Pem = Field(None, description="private key of that certificate")
    performance_report: bool = Field(
        False, description="keep Dask's performance report as performance.html in the run"
    )
    step_timeout: Annotated[float, Field(gt=0), Metavar("SECONDS")] = Field(
        STEP_TIMEOUT, description="seconds that one try of a step may take"
    )
    quiet: bool = Field(False, description="print no progress on stderr")
    _threads: int = 1

    @property
    def threads(self) -> int:
        """Threads of this process that share parts, where it computes."""
        return self._threads

    def in_threads(self, n_threads: int) -> Self:
        """The same, in so many threads of this process."""
        made = self.model_copy(update={"workers": 0})
        made._threads = n_threads
        return made


class CheckParams(Chosen, Given):
    """Parameters of `check`."""


class TrainParams(Compute, Method, Labeled):
    """Parameters of `train`."""

    compare_with: Folder | None = Field(
        None,
        description="an earlier training (of a pattern like `runs/pool-*` the last by name): "
        "the report warns if the noise rates have drifted since",
    )
    publish_review: Annotated[int, Field(ge=1, le=10_000), Metavar("N")] | None = Field(
        None,
        description="write the N labels that are most worth checking to review/list.csv, and "
        "publish them as an artifact of the flow",
    )
    review_wait: Annotated[float, Field(gt=0), Metavar("SECONDS")] | None = Field(
        None,
        description="then pause the flow until somebody resumes it, or so long; if labels "
        "were checked, train again with them into DIR-checked",
    )

    @model_validator(mode="after")
    def _belong_to_another(self) -> TrainParams:
        given = self.model_probabilities
        if self.metric == "probabilities" and given is None:
            raise ValueError("--metric probabilities is by --model-probabilities: give both")
        if given is not None and self.metric not in ("auto", "probabilities"):
            raise ValueError(f"--model-probabilities is no part of --metric {self.metric}")
        if given is not None and self.pca is not None:
            raise ValueError("--pca would mix --model-probabilities with features: leave one out")
        if self.review_wait is not None and self.publish_review is None:
            raise ValueError("--review-wait is for --publish-review: give both")
        return self


class Unscored(Written, heading="Source and labels"):
    """New rows and the finished run that scores them; text is written as that of the training,
    where nothing else is given."""

    source: Text = Field(
        description="rows with the features of training; its label column, if any, is ignored"
    )
    run: Finished
    out: File = Field(
        description="file to write, .parquet, .csv, .csv.gz, .xlsx, .jsonl, .arrow or .feather, or "
        "on the command line - for CSV on stdout; a folder with new_files"
    )
    id_column: Name = Field(
        None, description="column that names the rows; default that of the training, if it is there"
    )
    exclude: Names = Field(
        None, description="columns that training had not, by name or pattern (again for more)"
    )
    candidates: Name = Field(
        None,
        description="column (or array) of candidate sets, written as in training: the predicted "
        "label is one of the row's candidates",
    )
    new_files: bool = Field(
        False, description="score every file of the folder SOURCE that has no scores in OUT yet"
    )
    all_classes: bool = Field(
        False, description="write the posterior of every class, too: a column posterior_CLASS each"
    )


class ScoreParams(Compute, Unscored):
    """Parameters of `score`."""


class CleanParams(Written):
    """Parameters of `clean`; text is written as that of the training, where nothing else is
    given."""

    source: Text = Field(description="what the run was trained on")
    run: Finished
    out: File = Field(
        description="table to write, .parquet, .csv, .csv.gz, .xlsx, .jsonl, .arrow or .feather"
    )
    how: Annotated[
        Literal["drop", "relabel", "weight", "soft"],
        Flags(
            {
                "drop": "leave out rows whose label is suspect (the default)",
                "relabel": "give them the likely label",
                "weight": "add a column sample_weight, the chance that the label is right",
                "soft": "add a column posterior_LABEL for each label, its chance to be the true "
                "one",
            }
        ),
    ] = Field("drop", description="what becomes of suspect labels: drop, relabel, weight or soft")


class CertifyParams(Compute):
    """Parameters of `certify`."""

    run: Finished
    delta: Annotated[float, Field(gt=0, lt=1), Metavar("P")] = Field(
        0.05, description="probability that a bound may fail"
    )
    k: Annotated[int, Field(ge=1), Metavar("N")] | None = Field(
        None, description="neighbors that vote; auto is the k of the training"
    )
    samples: Annotated[int, Field(ge=1), Metavar("N")] = Field(
        10_000_000,
        description="random splits to sample, over all rows; fewer where more would narrow nothing",
    )
    scores: File | None = Field(
        None, description="scores of held-out rows with this run, whose bound stands beside"
    )
    truth: File | None = Field(None, description="their labels: npy, csv, tsv, txt")
    truth_column: Name = Field(None, description="column of these labels")
    seed: Seed = Field(0, description="seed of the sampling")


class Paged(Params, heading="The page"):
    """The page on which people label rows, and what it shows of them."""

    port: Annotated[int, Field(ge=0, le=65535), Metavar("P")] = Field(
        0, description="port of the page on this host; 0 takes a free one"
    )
    reviewer: Annotated[str, Field(min_length=1, max_length=80), Metavar("NAME")] | None = Field(
        None, description="who answers; default the user of this process"
    )
    show: File | None = Field(
        None,
        description="table with a row per training row, shown as it stands; default the source, "
        "where it is what it was",
    )
    show_column: Name = Field(
        None,
        description="the column of it to show: texts, or paths or URLs of images below "
        "--image-root",
    )
    image_root: Folder | None = Field(None, description="folder or URL below which the images lie")
    image_shape: (
        Annotated[str, Field(pattern=r"^[1-9]\d{0,3}x[1-9]\d{0,3}$"), Metavar("HxW")] | None
    ) = Field(None, description="show the features as a gray image of so many rows and columns")


class ReviewParams(Compute, Paged):
    """Parameters of `review`."""

    run: Finished
    budget: Annotated[int, Field(ge=1, le=10_000), Metavar("N")] = Field(
        200, description="questions to ask, one for a group of alike suspects"
    )
    random_share: Annotated[float, Field(ge=0, le=1), Metavar("SHARE")] = Field(
        0.2, description="share of the questions on rows drawn at random, which measure"
    )
    order: Literal["informative", "surest"] = Field(
        "informative",
        description="first the likely wrong labels that change most verdicts, or the likeliest",
    )
    answers: File | None = Field(
        None, description="file of the answers, on this host; default review/answers.jsonl in DIR"
    )
    export_to: File | None = Field(
        None,
        description="write the answers to a table, or questions as tasks of Label Studio (.json)",
    )
    import_from: File | None = Field(
        None, description="take answers from a table or an export of Label Studio (.json), and end"
    )
    seed: Seed = Field(0, description="seed of what is drawn at random")


class AcquireParams(Compute, Selected, Written, Paged):
    """Parameters of `acquire`."""

    source: Text = Field(description="rows without labels, or with a column that is held back")
    run: Folder = Field(description="folder of the run, new or begun by the same call")
    budget: Annotated[int, Field(ge=1, le=500_000), Metavar("N")] = Field(
        description="labels to buy in all, those of earlier calls included"
    )
    label_column: Name = Field(
        None, description="column that is held back and gives the labels (simulation)"
    )
    oracle: Annotated[str, Metavar("MODULE:FUNCTION")] | None = Field(
        None, description="Python function that takes row numbers and gives their labels"
    )
    answers: File | None = Field(
        None, description="labels that people gave: CSV, Parquet or the answers of a review"
    )
    page: bool = Field(
        False, description="ask people on a page of this host, until all labels are bought"
    )
    label_values: Names = Field(
        None, description="a label that people can give; the option may be given again"
    )
    mode: Literal["practical", "printed"] = Field(
        "practical", description="a net that grows, or MARMANN with the constants of the paper"
    )
    builder: Literal["auto", "join", "exact"] = Field("auto", description="how neighbors are found")
    scale: Literal["auto", "none", "range", "standard"] = Field(
        "auto", description="scaling of the features; auto as in a training"
    )
    target_recall: Recall = 0.95
    seed: Seed = 0


def as_keywords(model: type[P], name: str) -> Callable[[Callable[[P], R]], Callable[..., R]]:
    """Turn a function of one model into a function of the model's fields, called `name`.

    The signature and the docstring list the fields, for Python, Prefect's page and its checks.
    """

    def decorate(function: Callable[[P], R]) -> Callable[..., R]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            return function(model.of(*args, **kwargs))

        call.__signature__ = model.signature()  # type: ignore[attr-defined]
        call.__annotations__, call.__name__, call.__qualname__ = {}, name, name
        text = inspect.cleandoc(function.__doc__ or "")
        call.__doc__ = text.replace("\n\n", f"\n\nArgs:\n{model.help()}\n\n", 1)
        del call.__wrapped__
        return call

    return decorate


def option(name: str) -> str:
    """A parameter as the command line spells it."""
    return "--" + name.replace("_", "-")


def is_many(field: FieldInfo) -> bool:
    """Whether a parameter is a list."""
    return any(get_origin(arg) is list for arg in (field.annotation, *get_args(field.annotation)))


def _notes(field: FieldInfo) -> Iterator[Any]:
    """What is said of a parameter's value, by itself or by its type."""
    yield from field.metadata
    for part in (field.annotation, *get_args(field.annotation)):
        for note in get_args(part) if get_origin(part) is Annotated else ():
            yield from (note, *getattr(note, "metadata", ()))


def described(field: FieldInfo) -> str:
    """What a parameter is for, and the bounds of its value."""
    words = {"ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}"}
    bounds = [
        words[name].format(f"{getattr(note, name):,}")
        for note in _notes(field)
        for name in words
        if getattr(note, name, None) is not None
    ]
    return f"{field.description} ({', '.join(bounds)})" if bounds else str(field.description)


def choices(field: FieldInfo) -> tuple[str, ...] | None:
    """The values a parameter may have, where they are few."""
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else None


def bare_type(field: FieldInfo) -> type:
    """The type of a parameter without None and without bounds; str for a few words."""
    kind: Any = field.annotation
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
    return kind if isinstance(kind, type) else str


def metavar(field: FieldInfo) -> str | None:
    """The word for a parameter's value, from its metadata or those of its type."""
    return next((note.word for note in _notes(field) if isinstance(note, Metavar)), None)


def _sentence(problem: Any, known: Iterable[str]) -> str:
    """What pydantic found, in terms of the command line."""
    context = problem.get("ctx", {})
    if problem["type"] == "value_error":
        return str(context["error"])
    name, value = option(str(problem["loc"][0])), problem["input"]
    if problem["type"] == "missing":
        return f"{name} is missing"
    if problem["type"] == "extra_forbidden":
        more = did_you_mean(problem["loc"][0], known, written=option)
        return f"{name}: there is no such parameter{more}"
    if problem["type"] == "literal_error":
        words = context["expected"].replace("'", "")
        more = did_you_mean(value, re.split(", | or ", words), "; ")
        return f"{name} {value}: must be one of {words}{more}"
    if problem["type"] == "string_too_short":
        return f"{name} {value!r}: must not be empty"
    bounds = {
        "int_parsing": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_parsing": "must be a number",
        "greater_than_equal": "must be {ge} or more",
        "greater_than": "must be above {gt}",
        "less_than_equal": "must be {le} or less",
        "less_than": "must be below {lt}",
        "string_pattern_mismatch": "must be two whole numbers such as 28x28",
        "bool_parsing": "must be true or false",
    }
    if problem["type"].endswith("_parsing") and value == "auto":  # as the command line calls it
        return f"{name} auto: must be a number, or None for auto"
    if problem["type"] in bounds:
        return f"{name} {value}: {bounds[problem['type']].format(**context)}"
    if problem["type"] == "string_type" and hasattr(value, "columns"):
        return f"{name} of type {type(value).__name__}: give the path of a file it is written to"
    is_plain = isinstance(value, str | int | float)
    given = repr(value) if is_plain else f"of type {type(value).__name__}"
    if problem["type"] == "string_type":
        return f"{name} {given}: must be text" + (f", such as {str(value)!r}" if is_plain else "")
    return f"{name} {given}: {problem['msg'][0].lower()}{problem['msg'][1:]}"
