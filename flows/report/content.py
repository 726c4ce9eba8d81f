"""The report of a run: saved and loaded as JSON, and as a short text."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from flows.engine.progress import spell
from flows.report.findings import known_rows
from flows.report.kinds import kind_of
from flows.report.model import (
    NewFilesReport,
    PoolReport,
    Report,
    Saved,
    Scoring,
    Training,
    predicted,
)
from flows.steps.sets.stages import check_stages
from pipeline.graph.resources import exact_seconds
from pipeline.knn.lists import Recall
from storage.errors import KnnoiseError, amount, as_text, unsteered
from storage.runs.run import Run, lasting
from storage.version import OLDEST_READ

R = TypeVar("R", bound=Saved)
_LONG = 0.02
"""Share of all time from which on a step is named."""
UNLABELED = "unlabeled"
"""Folder below a training's: the steps that score its rows without a label."""
UNLABELED_TABLE = "unlabeled.parquet"
"""Scores of these rows, by row of the source."""
DESCRIBED = {
    *("n_rows", "n_features", "label_values", "k", "noise", "p0", "p1", "p0_interval"),
    *("p1_interval", "support", "threshold", "recall", "recall_interval", "builder", "warnings"),
    *("class_support", "clean_prior", "config"),
}
"""Fields of the report that the root of `results.zarr` carries as attributes."""


def save(run: Run, report: Saved, text: str) -> list[str]:
    """Write report.json and report.txt beside the results; keys of the files written."""
    run.check_owned()
    content = json.dumps(report.as_json(), indent=1, allow_nan=False)
    run.location.replace("report.txt", unsteered(text).encode())
    run.location.replace("report.json", content.encode())
    return ["report.txt", "report.json"]


def describe(run: Run, report: PoolReport) -> list[str]:
    """Set the attributes of the root of `results.zarr`; keys of the files written."""
    digests = {step: outcome.digest for step, outcome in report.steps.items()}
    return run.describe({**report.model_dump(mode="json", include=DESCRIBED), "digests": digests})


def load_as(run: Run, of: Callable[[dict[str, Any]], R]) -> R:
    """The report of a finished run, made of its JSON.

    Raises `InputError` where the folder is not a run, or the run is not finished, or of a version
    whose reports cannot be read; `StorageError` where run.json or the report is damaged.
    """
    config = run.config(OLDEST_READ)
    try:
        return of(run.report())
    except ValidationError as error:
        raise run.other_version(config) from error


def load(run: Run) -> Training:
    """The report of a finished training on single labels; raises as `load_as`, and `InputError`
    where labels are candidate sets."""
    return load_any(run).single(run.location.name)


def load_any(run: Run) -> PoolReport:
    """The report of a finished training; raises as `load_as`."""
    return load_as(run, training)


def training(report: dict[str, Any]) -> PoolReport:
    """A report from its JSON."""
    return kind_of(report).model_validate(report)


def finished(run: Run, of: Callable[[dict[str, Any]], R]) -> R | None:
    """The report of a run that is finished and whole, as `load_as` makes it; None for any other."""
    try:
        run.check(lasting)
        check_stages(run, whole=True)
        return load_as(run, of)
    except KnnoiseError:
        return None


def train_text(report: PoolReport) -> str:
    """The report of a training as a person reads it."""
    lines = [
        *report.lines(),
        "",
        *_coding_lines(report),
        _recall_line(report),
        f"  {report.builder} in {amount(report.n_blocks, 'block')}, "
        f"{report.copies:.2f} copies of a row on average; {report.builder_reason}",
        *(f"  {line}" for line in report.notes),
        *(f"WARNING: {line}" for line in report.warnings),
        "",
        *_times(report),
    ]
    return as_text(lines)


def scoring(report: dict[str, Any]) -> Scoring:
    """A report of a scoring from its JSON."""
    return kind_of(report).scored_as.model_validate(report)


def score_text(report: Scoring) -> str:
    """The report of a scoring as a person reads it."""
    lines = [
        f"{amount(report.n_rows, 'row')} scored, {predicted(report)}",
        *report.decided(),
        *known_rows(report),
        *_coding_lines(report),
        _recall_line(report),
        f"  {report.probes:.2f} blocks searched a row",
        *(f"WARNING: {line}" for line in report.warnings),
        *([f"scores: {report.out}"] if report.out else []),
        "",
        *_times(report),
    ]
    return as_text(lines)


def unlabeled_text(scored: Scoring) -> str:
    """How many rows without a label there are, and how they are predicted, by their report."""
    rows = amount(scored.n_rows, "row")
    given = predicted(scored)
    return f"{rows} without a label, which vote for nobody: {given}, in {UNLABELED_TABLE}"


def unlabeled(run: Run) -> list[str]:
    """The same for a finished training; nothing where all rows have a label, or none are scored."""
    report = finished(run.below(UNLABELED), scoring)
    return [] if report is None else [unlabeled_text(report)]


def new_files_text(report: NewFilesReport) -> str:
    """The report as a person reads it."""
    lines = [
        f"{amount(report.n_files, 'file')}: {report.n_scored:,} scored, "
        f"{report.n_skipped:,} skipped, whose scores are there already",
        *(
            f"  {file.source}: {amount(file.n_rows, 'row')}, {predicted(file)}"
            for file in report.files
        ),
        *(f"WARNING: {line}" for line in report.warnings),
        f"scores: {report.out}",
    ]
    return as_text(lines)


def _coding_lines(report: Report) -> list[str]:
    """How many gaps were filled or left out, and values that training does not know."""
    lines = [f"{amount(report.n_filled, 'gap')} filled"] if report.n_filled else []
    lines += [f"{amount(report.n_dropped, 'row')} left out for a gap"] if report.n_dropped else []
    return lines + [
        f"{column!r}: {amount(count, 'row')} without a value that has a feature"
        for column, count in report.unseen.items()
    ]


def _recall_line(report: Report) -> str:
    low, high = report.recall_interval
    return (
        f"recall of true neighbors {report.recall:.4f}, 95 % interval {low:.4f} to {high:.4f}, "
        f"on {amount(report.recall_rows, 'row')}; target {report.target_recall:g}"
    )


def _times(report: Report) -> list[str]:
    seconds = report.seconds
    total = sum(seconds.values())
    long = {step: value for step, value in seconds.items() if value >= max(0.05, _LONG * total)}
    rest = {"all others": total - sum(long.values())} if len(long) < len(seconds) else {}
    steps = ", ".join(f"{step} {value:.1f}" for step, value in (long | rest).items())
    return [
        f"{spell(total)} in all; seconds by step: {steps}",
        f"peak memory: worker {report.peak_rss_mb:,.0f} MB, "
        f"this process {report.driver_peak_rss_mb:,.0f} MB",
    ]


def recall_warning(recall: Recall, target: float, remedy: str) -> list[str]:
    """The warning where the target is surely missed."""
    if recall.interval[1] >= target:
        return []
    return [f"recall {recall.value:.4f} is below the target {target:g}: {remedy}"]


def builder_reason(named: str, n_rows: int, n_features: int) -> str:
    """Why lists are built by this builder."""
    if named != "auto":
        return "as asked"
    cost = exact_seconds(n_rows, n_features)
    return f"auto: exact search would take about {cost:,.0f} core seconds"
