"""Keywords of `knnoise.train` and the like, for editors and type checkers; written by
`make formats` from the parameters of the command line."""

from typing import Any, Literal, TypedDict


class ComputeOptions(TypedDict, total=False):
    """Computing, of several commands."""

    workers: int | None
    """local processes; auto is one per core, 0 computes in the flow's process (at least 0, at
    most 1,024)"""
    scheduler: str | None
    """address of a Dask scheduler; default DASK_SCHEDULER_ADDRESS"""
    tls_ca: str | None
    """authority of a tls:// scheduler; default Dask's configuration"""
    tls_cert: str | None
    """certificate to show to the scheduler"""
    tls_key: str | None
    """private key of that certificate"""
    performance_report: bool
    """keep Dask's performance report as performance.html in the run"""
    step_timeout: float
    """seconds that one try of a step may take (above 0)"""
    quiet: bool
    """print no progress on stderr"""


class ChosenOptions(TypedDict, total=False):
    """Columns, of several commands."""

    candidates: str | None
    """labels are sets of candidates, one of which is right: what divides them in text, such as |
    in cat|dog; columns of lists and masks are taken for such sets anyway"""
    by: str | None
    """column that says whose label each is (annotator, site, source, month), of at most 1,000
    values: no feature; how often each of them is wrong is reported"""
    corrections: str | None
    """labels that somebody checked, which count as certain: the answers of a review, or a CSV or
    Parquet file with the columns row and label"""
    join_labels: bool
    """labels that differ by case, spaces or accents alone are one class, written as most rows
    have it"""
    annotations: str | None
    """table of several labels per row, a line per row and annotator: columns named as --id-column
    (without one `row`, its number), annotator and label"""
    annotator_column: str | None
    """column of --annotations that names the annotator (default annotator)"""


class SelectedOptions(TypedDict, total=False):
    """Columns, of several commands."""

    id_column: str | None
    """column (or array) that names the rows: no feature, but in every output"""
    features: list[str] | None
    """columns that are features, by name or pattern (again for more); all else"""
    exclude: list[str] | None
    """columns that are no features, by name or pattern (again for more)"""
    parse: list[str] | None
    """columns of text that are numbers, by name or pattern: thousands, percent, datetime,
    boolean, or the format of a date such as %d.%m.%Y (again for more)"""


class GivenOptions(TypedDict, total=False):
    """Source and labels, of several commands."""

    labels: Any
    """file of labels, if the source has none"""
    label_column: str | None
    """column (or array) of the labels"""


class WrittenOptions(TypedDict, total=False):
    """Text files, of several commands."""

    sep: str | None
    """separator of text files, one character or tab or space; by default a tab in .tsv, else a
    comma"""
    decimal: str | None
    """decimal mark of text files, . (default) or ,"""
    encoding: str | None
    """encoding of text files, such as cp1252; by default utf-8"""
    sheet: str | None
    """sheet of an Excel workbook; by default the first"""


class PagedOptions(TypedDict, total=False):
    """The page, of several commands."""

    port: int
    """port of the page on this host; 0 takes a free one (at least 0, at most 65,535)"""
    reviewer: str | None
    """who answers; default the user of this process"""
    show: str | None
    """table with a row per training row, shown as it stands; default the source, where it is what
    it was"""
    show_column: str | None
    """the column of it to show: texts, or paths or URLs of images below --image-root"""
    image_root: str | None
    """folder or URL below which the images lie"""
    image_shape: str | None
    """show the features as a gray image of so many rows and columns"""


class TrainOptions(
    ComputeOptions, ChosenOptions, SelectedOptions, GivenOptions, WrittenOptions, total=False
):
    """Of `knnoise train`."""

    encode: Literal["none", "one-hot"]
    """text columns: refused, or a feature of 0 and 1 for each of at most 64 values"""
    impute: Literal["none", "median", "drop"]
    """gaps: refused, filled with the column's median, or their rows left out"""
    unlabeled: Literal["refuse", "predict"]
    """rows without a label: refused, or without a vote and given labels, in unlabeled.parquet"""
    preflight: Literal["fix", "warn", "off"]
    """what a look at the source does about columns wrong beyond doubt: leave them out and say so,
    only say so, or there is no look"""
    k: int | None
    """neighbors per row; auto chooses by the leave-one-out score (at least 5)"""
    noise: Literal["crossfit", "minmax"]
    """estimator of the noise rates; minmax is Reeve & Kabán's"""
    rule: Literal["corrected", "rknn"]
    """decision rule; rknn (Gao, Yang & Zhou) estimates the rates its own way"""
    objective: str
    """what the threshold of two classes serves: accuracy, balanced accuracy, or two costs, of
    predicting the second class where the first is true and of the opposite"""
    p0: float | None
    """P(given 1 | true 0), if both rates are known (at least 0, below 1)"""
    p1: float | None
    """P(given 0 | true 1), if both rates are known (at least 0, below 1)"""
    builder: Literal["auto", "join", "pynndescent", "exact"]
    """how neighbors are found"""
    block_rows: int | None
    """rows at home in a block; auto chooses by predicted cost"""
    scale: Literal["auto", "none", "range", "standard"]
    """scaling of the features; auto is standard where columns are on different scales, and leaves
    embeddings as they are"""
    pca: int | None
    """principal components, learned on the scaled training rows, that stand for the features; by
    default all features are used (at least 1)"""
    metric: Literal["auto", "as-scaled", "cosine", "weighted", "probabilities", "model"]
    """what makes rows near: the features as scaled, their directions, standard scores weighted by
    what each tells of the given labels, or these and logits of a model that was not fitted on the
    row, or those of --model-probabilities; auto takes the one by which neighbors predict labels
    best"""
    model_probabilities: str | None
    """start of the names of columns with a model's probabilities, one a class, such as chance-
    for chance-cat and chance-dog; of a row by a model that was not fitted on it"""
    candidate_features: Literal["raw", "averaged", "averaged-cube-root"]
    """features of rows with candidate sets: as they are, or preprocessed as by Errandonea et al.:
    centered (or cube roots), at unit length, averaged with neighbors, divided by the mean
    distance to near rows"""
    target_recall: float
    """share of the true neighbors to find (above 0, at most 1)"""
    seed: int
    """seed of everything random (at least 0, below 4,294,967,296)"""
    compare_with: str | None
    """an earlier training (of a pattern like `runs/pool-*` the last by name): the report warns if
    the noise rates have drifted since"""
    publish_review: int | None
    """write the N labels that are most worth checking to review/list.csv, and publish them as an
    artifact of the flow (at least 1, at most 10,000)"""
    review_wait: float | None
    """then pause the flow until somebody resumes it, or so long; if labels were checked, train
    again with them into DIR-checked (above 0)"""


class ScoreOptions(ComputeOptions, WrittenOptions, total=False):
    """Of `knnoise score`."""

    id_column: str | None
    """column that names the rows; default that of the training, if it is there"""
    exclude: list[str] | None
    """columns that training had not, by name or pattern (again for more)"""
    candidates: str | None
    """column (or array) of candidate sets, written as in training: the predicted label is one of
    the row's candidates"""
    new_files: bool
    """score every file of the folder SOURCE that has no scores in OUT yet"""
    all_classes: bool
    """write the posterior of every class, too: a column posterior_CLASS each"""


class CheckOptions(ChosenOptions, SelectedOptions, GivenOptions, WrittenOptions, total=False):
    """Of `knnoise check`."""


class CleanOptions(WrittenOptions, total=False):
    """Of `knnoise clean`."""

    how: Literal["drop", "relabel", "weight", "soft"]
    """what becomes of suspect labels: drop, relabel, weight or soft"""


class CertifyOptions(ComputeOptions, total=False):
    """Of `knnoise certify`."""

    delta: float
    """probability that a bound may fail (above 0, below 1)"""
    k: int | None
    """neighbors that vote; auto is the k of the training (at least 1)"""
    samples: int
    """random splits to sample, over all rows (at least 1)"""
    scores: str | None
    """scores of held-out rows with this run, whose bound stands beside"""
    truth: str | None
    """their labels: npy, csv, tsv, txt"""
    truth_column: str | None
    """column of these labels"""
    seed: int
    """seed of the sampling (at least 0, below 4,294,967,296)"""


class ReviewOptions(ComputeOptions, PagedOptions, total=False):
    """Of `knnoise review`."""

    budget: int
    """questions to ask, one for a group of alike suspects (at least 1, at most 10,000)"""
    random_share: float
    """share of the questions on rows drawn at random, which measure (at least 0, at most 1)"""
    order: Literal["informative", "surest"]
    """first the likely wrong labels that change most verdicts, or the likeliest"""
    answers: str | None
    """file of the answers, on this host; default review/answers.jsonl in DIR"""
    export_to: str | None
    """write the answers to a table, or questions as tasks of Label Studio (.json)"""
    import_from: str | None
    """take answers from a table or an export of Label Studio (.json), and end"""
    seed: int
    """seed of what is drawn at random (at least 0, below 4,294,967,296)"""


class AcquireOptions(ComputeOptions, SelectedOptions, WrittenOptions, PagedOptions, total=False):
    """Of `knnoise acquire`."""

    budget: int
    """labels to buy in all, those of earlier calls included (at least 1, at most 500,000)"""
    label_column: str | None
    """column that is held back and gives the labels (simulation)"""
    oracle: str | None
    """Python function that takes row numbers and gives their labels"""
    answers: str | None
    """labels that people gave: CSV, Parquet or the answers of a review"""
    page: bool
    """ask people on a page of this host, until all labels are bought"""
    label_values: list[str] | None
    """a label that people can give; the option may be given again"""
    mode: Literal["practical", "printed"]
    """a net that grows, or MARMANN with the constants of the paper"""
    builder: Literal["auto", "join", "exact"]
    """how neighbors are found"""
    scale: Literal["auto", "none", "range", "standard"]
    """scaling of the features; auto as in a training"""
    target_recall: float
    """share of the true neighbors to find (above 0, at most 1)"""
    seed: int
    """seed of everything random (at least 0, below 4,294,967,296)"""
