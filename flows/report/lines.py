"""Lines of the text of a training that kinds of labels share."""

import numpy as np

from flows.report import metric
from flows.report.findings import findings
from flows.report.labelers import annotator_lines, group_lines
from flows.report.model import PoolReport, Training, span
from flows.steps.ingest.pool import CorrectionsUsed
from pipeline.decision.tempering import Worth
from pipeline.noise.regions import RegionRates
from storage.errors import amount
from storage.sources.request import is_place, stem

SHOWN = 5
"""Confusions and regions that the text lists."""


def of_labels(report: Training) -> list[str]:
    """The rows that are suspect, and who labeled them."""
    return [
        *_wrong_in_all(report),
        f"labels suspected wrong: {report.n_label_issues:,} "
        f"({report.n_label_issues / report.n_rows:.1%}), listed in label_issues.parquet",
        f"outliers: {report.n_outliers:,}; rows with near duplicates: "
        f"{report.n_near_duplicates:,}, {report.n_contradicting:,} of them with another label: "
        "data_issues.parquet",
        *findings(report),
        *_corrections(report.corrections),
        *report.since,
        *group_lines(report),
        *annotator_lines(report),
    ]


def predicted_by(worth: Worth | None) -> dict[str, str]:
    """How new rows are predicted and what that is worth, under its name; nothing where it was asked
    for."""
    if worth is None:
        return {}
    error = 1.96 * float(np.hypot(worth.gain_error, worth.matrix_error))
    more = "more" if worth.gain >= 0 else "fewer"
    rows = f"{abs(worth.gain):,.0f} ± {error:,.0f} {more} of the sampled rows right, as estimated"
    if worth.taken:
        by = "new rows are predicted by several sizes of neighborhoods together, not by one k"
        by += "" if worth.gain >= 0 else ", which is not surely better"
    else:
        by = "new rows are predicted by one k, beside which several sizes together may lose"
    return {"predictions": f"{by}: {rows}"}


def _wrong_in_all(report: Training) -> list[str]:
    share, interval = report.share_wrong, report.share_wrong_interval
    if share is None or interval is None or report.noise == "given":
        return []
    return [
        f"labels wrong in all: {share:.1%}, 95 % interval {span(interval, '.1%')}: "
        "rates are read where the classes are pure, and mistakes where they meet look like overlap"
    ]


def classes_line(report: PoolReport) -> str:
    """Rows, features and classes."""
    return (
        f"{report.n_rows:,} rows, {amount(report.n_features, 'feature')}, "
        f"label {report.label_name!r} of {len(report.classes):,} classes"
    )


def about_data(report: PoolReport) -> list[str]:
    """What a look at the source found, and the scale."""
    return [
        *([] if report.config.health is None else report.config.health.lines()),
        *([f"lines that repeat a row: {report.n_repeated:,}"] if report.n_repeated else []),
        *([f"scale {report.scale}: {report.scale_reason}"] if report.scale_reason else []),
        *_pca(report),
        *metric.lines(report),
    ]


def _pca(report: PoolReport) -> list[str]:
    if report.pca is None:
        return []
    return [
        f"pca: {report.pca.n_components:,} components keep {report.pca.variance_kept:.1%} of the "
        f"variance of {report.n_features:,} features"
    ]


def varying_lines(report: Training) -> list[str]:
    """Classes whose mistakes depend on the features."""
    return [f"  mistakes depend on the features in {line}" for line in varying(report)[:SHOWN]]


def _corrections(used: CorrectionsUsed | None) -> list[str]:
    if used is None:
        return []
    left_out = f"; {used.n_conflicts:,} left out, as reviewers disagree" if used.n_conflicts else ""
    return [
        f"labels checked by people: {used.n_rows:,} from {used.file}, which count as certain, "
        f"{used.n_changed:,} of them corrected{left_out}"
    ]


def varying(report: Training) -> list[str]:
    """A sentence for each class whose mistakes depend on the features."""
    texts = []
    for name, test in zip(report.classes, report.tests, strict=False):
        if test is None or not test["disagree"]:
            continue
        first, last = test["regions"][0], test["regions"][-1]
        texts.append(
            f"{name}: {first['rate']:.0%} of the labels differ {_where(report, first)}, "
            f"{last['rate']:.0%} {_where(report, last, 'another')}"
        )
    return texts


def _where(report: Training, region: RegionRates, which: str = "one") -> str:
    """A region by its bounds; places of a column of lists mean nothing to people."""
    parts = []
    for feature, low, high in region["bounds"]:
        assert feature is not None
        name = report.config.feature_names[int(feature)]
        if is_place(name):
            return f"in {which} region of {stem(name)}"
        left = f"{low:.4g} < " if low is not None else ""
        right = f" ≤ {high:.4g}" if high is not None else ""
        parts.append(f"{left}{name}{right}")
    return f"where {' and '.join(parts) or 'all rows lie'}"
