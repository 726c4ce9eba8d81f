"""Keywords of `knnoise.train` and the like, for editors and type checkers; written by
`make formats` from the parameters of the command line, where each is described."""

from typing import Any, Literal, TypedDict


class ComputeOptions(TypedDict, total=False):
    """Computing, of several commands."""

    workers: int | None
    scheduler: str | None
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    performance_report: bool
    step_timeout: float
    quiet: bool


class ChosenOptions(TypedDict, total=False):
    """Columns, of several commands."""

    candidates: str | None
    by: str | None
    together: str | None
    corrections: str | None
    join_labels: bool
    annotations: Any
    annotator_column: str | None


class SelectedOptions(TypedDict, total=False):
    """Columns, of several commands."""

    id_column: str | None
    features: list[str] | None
    exclude: list[str] | None
    parse: list[str] | None


class GivenOptions(TypedDict, total=False):
    """Source and labels, of several commands."""

    labels: Any
    label_column: str | None


class WrittenOptions(TypedDict, total=False):
    """Text files, of several commands."""

    sep: str | None
    decimal: str | None
    encoding: str | None
    sheet: str | None


class PagedOptions(TypedDict, total=False):
    """The page, of several commands."""

    port: int
    reviewer: str | None
    show: str | None
    show_column: str | None
    image_root: str | None
    image_shape: str | None


class TrainOptions(
    ComputeOptions, ChosenOptions, SelectedOptions, GivenOptions, WrittenOptions, total=False
):
    """Of `knnoise train`."""

    encode: Literal["none", "one-hot"]
    impute: Literal["none", "median", "drop"]
    unlabeled: Literal["refuse", "predict"]
    preflight: Literal["fix", "warn", "off"]
    k: int | None
    noise: Literal["crossfit", "minmax"]
    rule: Literal["corrected", "rknn"]
    objective: str
    p0: float | None
    p1: float | None
    builder: Literal["auto", "join", "pynndescent", "exact"]
    block_rows: int | None
    scale: Literal["auto", "none", "range", "standard"]
    pca: int | None
    metric: Literal["auto", "as-scaled", "cosine", "weighted", "probabilities", "model"]
    model_probabilities: str | None
    candidate_features: Literal["raw", "averaged", "averaged-cube-root"]
    target_recall: float
    seed: int
    compare_with: str | None
    publish_review: int | None
    review_wait: float | None


class ScoreOptions(ComputeOptions, WrittenOptions, total=False):
    """Of `knnoise score`."""

    id_column: str | None
    exclude: list[str] | None
    candidates: str | None
    new_files: bool
    all_classes: bool


class CheckOptions(ChosenOptions, SelectedOptions, GivenOptions, WrittenOptions, total=False):
    """Of `knnoise check`."""


class CleanOptions(WrittenOptions, total=False):
    """Of `knnoise clean`."""

    how: Literal["drop", "relabel", "weight", "soft"]


class CertifyOptions(ComputeOptions, total=False):
    """Of `knnoise certify`."""

    delta: float
    k: int | None
    samples: int
    scores: str | None
    truth: str | None
    truth_column: str | None
    seed: int


class ReviewOptions(ComputeOptions, PagedOptions, total=False):
    """Of `knnoise review`."""

    budget: int
    random_share: float
    order: Literal["informative", "surest"]
    answers: str | None
    export_to: str | None
    import_from: str | None
    seed: int


class AcquireOptions(ComputeOptions, SelectedOptions, WrittenOptions, PagedOptions, total=False):
    """Of `knnoise acquire`."""

    budget: int
    label_column: str | None
    oracle: str | None
    answers: str | None
    page: bool
    label_values: list[str] | None
    mode: Literal["practical", "printed"]
    builder: Literal["auto", "join", "exact"]
    scale: Literal["auto", "none", "range", "standard"]
    target_recall: float
    seed: int
