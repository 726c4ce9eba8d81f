"""What a run found, for machines and as a short text."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, TypeVar

from pydantic import ValidationError

from flows.report import annotators, candidates, groups, metric
from flows.report.estimates import FULL
from flows.report.findings import findings, known_rows
from flows.report.model import (
    CandidateReport,
    CandidateScoreReport,
    ClassReport,
    ClassScoreReport,
    Confusion,
    NewFilesReport,
    PoolReport,
    Report,
    Saved,
    ScoreReport,
    Training,
    TrainReport,
    predicted_text,
)
from flows.report.varying import varying
from flows.steps.ingest.pool import CorrectionsUsed
from flows.steps.sets.stages import check_stages
from pipeline.decision.threshold import Decision
from pipeline.graph.build import exact_seconds
from pipeline.methods.partial_labels import NAME as PL_AKNN
from storage.errors import InputError, KnnoiseError
from storage.runs.run import Run, lasting
from storage.version import OLDEST_READ

R = TypeVar("R", bound=Saved)
AnyTraining = TrainReport | ClassReport | CandidateReport
AnyScoring = ScoreReport | ClassScoreReport | CandidateScoreReport

_MINUTE = 60.0
SHOWN = 5
"""Confusions that the text lists."""
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
    run.location.replace("report.txt", text.encode())
    run.location.replace("report.json", content.encode())
    return ["report.txt", "report.json"]


def describe(run: Run, report: PoolReport) -> list[str]:
    """Set the attributes of the root of `results.zarr`; keys of the files written."""
    digests = {step: outcome.digest for step, outcome in report.steps.items()}
    return run.describe({**report.model_dump(mode="json", include=DESCRIBED), "digests": digests})


def load_as(run: Run, kind: type[R]) -> R:
    """The report of a finished run, of its kind.

    Raises
    ------
    InputError
        the folder is not a run, or the run is not finished, or of a version whose reports cannot
        be read.
    StorageError
        run.json or the report is damaged.
    """
    config = run.config(OLDEST_READ)
    try:
        return kind.model_validate(run.report())
    except ValidationError as error:
        raise run.other_version(config) from error


def saved(run: Run) -> AnyTraining | AnyScoring | None:
    """The report of a training or of a scoring; None where it is not finished, or damaged."""
    try:
        report = run.report()
        scored = isinstance(report, dict) and "out" in report
        return load_as(run, _scoring(report) if scored else _training(report))
    except KnnoiseError:
        return None


def load(run: Run) -> TrainReport | ClassReport:
    """The report of a finished training on single labels; raises as `load_as`, and `InputError`
    where labels are candidate sets."""
    report = load_any(run)
    if isinstance(report, CandidateReport):
        raise InputError(
            f"{run.location.name}: trained on candidate sets, for which there are train, score and "
            "report alone; give a training on single labels"
        )
    return report


def load_any(run: Run) -> AnyTraining:
    """The report of a finished training; raises as `load_as`."""
    run.config(OLDEST_READ)
    return load_as(run, _training(run.report()))


def training(report: dict[str, Any]) -> AnyTraining:
    """A report from its JSON."""
    return _training(report).model_validate(report)


def _training(report: Any) -> type[AnyTraining]:
    if not isinstance(report, dict):
        return TrainReport
    if report.get("rule") == PL_AKNN:
        return CandidateReport
    classes = report.get("classes")
    return ClassReport if isinstance(classes, list) and len(classes) > 2 else TrainReport


def finished(run: Run, kind: type[R]) -> R | None:
    """The report of a run that is finished and whole; None for any other."""
    try:
        run.check(lasting)
        return load_as(run, kind)
    except KnnoiseError:
        return None


def finished_training(run: Run) -> AnyTraining | None:
    """The report of a training that is finished and whole; None for any other."""
    try:
        run.check(lasting)
        check_stages(run, whole=True)
        return load_any(run)
    except KnnoiseError:
        return None


def train_text(report: AnyTraining) -> str:
    """The report of a training as a person reads it."""
    lines = [
        *(_of_labels(report) if isinstance(report, Training) else _of_candidates(report)),
        *findings(report),
        *(_corrections(report.corrections) if isinstance(report, Training) else []),
        *report.since,
        *(groups.lines(report) if isinstance(report, Training) else []),
        *(annotators.lines(report) if isinstance(report, Training) else []),
        "",
        *_coding_lines(report),
        _recall_line(report),
        f"  {report.builder} in {report.n_blocks} blocks, "
        f"each row in {report.copies:.2f} of them on average; {report.builder_reason}",
        *(f"  {line}" for line in report.notes),
        *(f"WARNING: {line}" for line in report.warnings),
        "",
        *_times(report),
    ]
    return "\n".join(lines) + "\n"


def _of_labels(report: TrainReport | ClassReport) -> list[str]:
    """The noise, and the rows that are suspect."""
    return [
        *(_of_classes(report) if isinstance(report, ClassReport) else _of_two(report)),
        *_wrong_in_all(report),
        f"labels suspected wrong: {report.n_label_issues:,} "
        f"({report.n_label_issues / report.n_rows:.1%}), listed in label_issues.parquet",
        f"outliers: {report.n_outliers:,}; rows with near duplicates: "
        f"{report.n_near_duplicates:,}, {report.n_contradicting:,} of them with another label: "
        "data_issues.parquet",
    ]


def _wrong_in_all(report: Training) -> list[str]:
    share, interval = report.share_wrong, report.share_wrong_interval
    if share is None or interval is None or report.noise == "given":
        return []
    return [
        f"labels wrong in all: {share:.1%}, 95 % interval {interval[0]:.1%} to {interval[1]:.1%}: "
        "rates are read where the classes are pure, and mistakes where they meet look like overlap"
    ]


def _of_candidates(report: CandidateReport) -> list[str]:
    """Sets, rule and suspects."""
    return [_classes_line(report), *_about_data(report), "", *candidates.lines(report)]


def _classes_line(report: PoolReport) -> str:
    return (
        f"{report.n_rows:,} rows, {report.n_features:,} features, "
        f"label {report.label_name!r} of {len(report.classes):,} classes"
    )


def _about_data(report: PoolReport) -> list[str]:
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


def _of_classes(report: ClassReport) -> list[str]:
    """Classes, matrix and rule."""
    wrong = report.share_wrong
    share = "not known" if wrong is None else f"{wrong:.1%}"
    matrix = "report.json" if len(report.classes) <= FULL else "results.zarr/transition"
    counts = Counter(report.class_support)
    verdicts = ", ".join(f"{counts[v]} {v}" for v in ("supported", "weak", "unsupported"))
    return [
        _classes_line(report),
        *_about_data(report),
        "",
        f"labels given wrongly ({report.noise}): {share}; P(given | true) in {matrix}",
        f"  classes: {verdicts}; {report.reason}",
        *_varying(report),
        *(f"  {confused(one)}" for one in report.confusions[:SHOWN]),
        f"vote of the {report.k} neighbors: {corrected(report)}",
    ]


def _varying(report: TrainReport | ClassReport) -> list[str]:
    return [f"  mistakes depend on the features in {line}" for line in varying(report)[:SHOWN]]


def confused(cell: Confusion) -> str:
    """One confusion as a sentence."""
    low, high = cell.interval
    return (
        f"{cell.share:.1%} of the rows that are truly {cell.true!r} are labeled {cell.given!r} "
        f"(95 % interval {low:.1%} to {high:.1%}), about {cell.rows:,} rows"
    )


def corrected(report: ClassReport) -> str:
    """How far the matrix corrects votes, in words."""
    decision = report.decision
    if decision.part == 0:
        return "not corrected, as no correction surely pays on the held-out labels"
    return (
        f"corrected by {decision.part:.0%} of the matrix, which puts about {decision.gain:,.0f} ± "
        f"{1.96 * decision.gain_error:,.0f} of the sampled rows more right"
    )


def _of_two(report: TrainReport) -> list[str]:
    """Classes, rates and rule."""
    low0, high0 = report.p0_interval
    low1, high1 = report.p1_interval
    zero, one = report.label_values
    return [
        f"{report.n_rows:,} rows, {report.n_features:,} features, "
        f"label {report.label_name!r}: {zero!r} is 0, {one!r} is 1",
        *_about_data(report),
        "",
        f"noise rates ({report.noise})",
        f"  p0 = P(given {one} | true {zero}) = {report.p0:.3f}, "
        f"95 % interval {low0:.3f} to {high0:.3f}",
        f"  p1 = P(given {zero} | true {one}) = {report.p1:.3f}, "
        f"95 % interval {low1:.3f} to {high1:.3f}",
        f"  {report.support}: {report.reason}",
        *_varying(report),
        f"threshold on the share of the {report.k} neighbors given {one}: {report.threshold:.4f}",
        f"  {served(report.decision)}",
    ]


def served(decision: Decision) -> str:
    """What the threshold serves, and what that is worth, in words."""
    costs = f"costs of {decision.objective} for a true 0 taken for 1 and a true 1 taken for 0"
    aim = {"accuracy": "accuracy", "balanced": "balanced accuracy"}.get(decision.objective, costs)
    aim_text = f"It serves {aim}. {decision.reason}"
    if not decision.gain or decision.gain_error is None or decision.balanced_gain is None:
        return aim_text
    rows, error = round(decision.gain), round(1.96 * decision.gain_error)
    return (
        f"{aim_text} Estimated beside the plain vote: {rows:+,} ± {error:,} training rows right, "
        f"balanced accuracy {decision.balanced_gain:+.3f}."
    )


def scoring(report: dict[str, Any]) -> AnyScoring:
    """A report of a scoring from its JSON."""
    return _scoring(report).model_validate(report)


def load_scoring(run: Run) -> AnyScoring:
    """The report of a finished scoring; raises as `load_as`."""
    run.config()
    return load_as(run, _scoring(run.report()))


def _scoring(report: dict[str, Any]) -> type[AnyScoring]:
    if report.get("rule") == PL_AKNN:
        return CandidateScoreReport
    classes = report.get("classes")
    return ClassScoreReport if isinstance(classes, list) and len(classes) > 2 else ScoreReport


def finished_scoring(run: Run) -> AnyScoring | None:
    """The report of a scoring that is finished and whole; None for any other."""
    try:
        run.check(lasting)
        return load_scoring(run)
    except KnnoiseError:
        return None


def score_text(report: AnyScoring) -> str:
    """The report of a scoring as a person reads it."""
    ones = report.n_predicted_1 if isinstance(report, ScoreReport) else None
    predicted = predicted_text(report.classes, report.n_predicted, ones)
    lines = [
        f"{report.n_rows:,} rows scored, {predicted}",
        *(candidates.score_lines(report) if isinstance(report, CandidateScoreReport) else []),
        *known_rows(report),
        *_coding_lines(report),
        _recall_line(report),
        f"  {report.probes:.2f} blocks searched a row",
        *(f"WARNING: {line}" for line in report.warnings),
        f"scores: {report.out}",
        "",
        *_times(report),
    ]
    return "\n".join(lines) + "\n"


def new_files_text(report: NewFilesReport) -> str:
    """The report as a person reads it."""
    lines = [
        f"{report.n_files:,} files: {report.n_scored:,} scored, "
        f"{report.n_skipped:,} skipped, whose scores are there already",
        *(f"  {file.source}: {file.n_rows:,} rows, {file.predicted()}" for file in report.files),
        *(f"WARNING: {line}" for line in report.warnings),
        f"scores: {report.out}",
    ]
    return "\n".join(lines) + "\n"


def _coding_lines(report: Report) -> list[str]:
    """What became of gaps, and of text that training does not know."""
    lines = [f"{report.n_filled:,} gaps filled"] if report.n_filled else []
    lines += [f"{report.n_dropped:,} rows left out for a gap"] if report.n_dropped else []
    return lines + [
        f"{column!r}: {count:,} rows without a value that training knows"
        for column, count in report.unseen.items()
    ]


def _corrections(used: CorrectionsUsed | None) -> list[str]:
    if used is None:
        return []
    left_out = f"; {used.n_conflicts:,} left out, as reviewers disagree" if used.n_conflicts else ""
    return [
        f"labels checked by people: {used.n_rows:,} from {used.file}, which count as certain, "
        f"{used.n_changed:,} of them corrected{left_out}"
    ]


def _recall_line(report: Report) -> str:
    low, high = report.recall_interval
    return (
        f"recall of true neighbors {report.recall:.4f}, 95 % interval {low:.4f} to {high:.4f}, "
        f"on {report.recall_rows:,} rows; target {report.target_recall:g}"
    )


def _times(report: Report) -> list[str]:
    seconds = report.seconds
    total = sum(seconds.values())
    shown = f"{total / _MINUTE:.1f} min" if total > 2 * _MINUTE else f"{total:.1f} s"
    steps = ", ".join(f"{step} {value:.1f}" for step, value in seconds.items() if value >= 0.05)
    return [
        f"{shown} in all; seconds by step: {steps}",
        f"peak memory: worker {report.peak_rss_mb:,.0f} MB, "
        f"this process {report.driver_peak_rss_mb:,.0f} MB",
    ]


def recall_warning(recall: float, target: float, remedy: str) -> list[str]:
    """What every output says where the target is missed."""
    if recall >= target:
        return []
    return [f"recall {recall:.4f} is below the target {target:g}: {remedy}"]


def builder_reason(named: str, n_rows: int, n_features: int) -> str:
    """Why the builder is the one it is."""
    if named != "auto":
        return "as asked"
    cost = exact_seconds(n_rows, n_features)
    return f"auto: exact search would take about {cost:,.0f} core seconds"
