"""What a run found, for machines and as a short text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipeline.neighbours import exact_seconds
from storage.errors import InputError
from storage.run import Run

_MINUTE = 60.0
REPORTED = (
    *("n_rows", "n_features", "label_name", "label_values", "class_counts"),
    *(
        "k",
        "k_curve",
        "k_noise",
        "noise",
        "p0",
        "p1",
        "p0_interval",
        "p1_interval",
        "support",
        "reason",
        "folds",
        "decision_rule",
        "decision",
    ),
    "estimates",
    *("recall", "recall_interval", "recall_rows", "n_blocks", "largest_block_rows", "halo"),
    *("copies", "predicted_recall_ceiling", "notes", "n_label_issues"),
)
DESCRIBED = (
    *("n_rows", "n_features", "label_values", "k", "noise", "p0", "p1", "p0_interval"),
    *("p1_interval", "support", "threshold", "recall", "recall_interval", "builder", "warnings"),
)
"""Fields of the report that the root of `results.zarr` carries as attributes."""


def save(run: Run, report: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Write report.json and report.txt beside the results; the report as it reads from there."""
    run.location.replace("report.txt", text.encode())
    run.location.replace("report.json", json.dumps(report, indent=1, allow_nan=False).encode())
    return load(run)


def load(run: Run) -> dict[str, Any]:
    """The report of a finished run.

    Raises
    ------
    InputError
        the folder is not a run, or the run is not finished.
    """
    run.config()
    report = run.read_json("report.json")
    if report is None:
        raise InputError(f"{run.location.url} is not finished; run train again to resume it")
    return report


def train_text(report: Mapping[str, Any]) -> str:
    """The report of a training as a person reads it."""
    low0, high0 = report["p0_interval"]
    low1, high1 = report["p1_interval"]
    zero, one = report["label_values"]
    lines = [
        f"{report['n_rows']:,} rows, {report['n_features']:,} features, "
        f"label {report['label_name']!r}: {zero!r} is 0, {one!r} is 1",
        "",
        f"noise rates ({report['noise']})",
        f"  p0 = P(given 1 | true 0) = {report['p0']:.3f}, 95 % interval {low0:.3f} to {high0:.3f}",
        f"  p1 = P(given 0 | true 1) = {report['p1']:.3f}, 95 % interval {low1:.3f} to {high1:.3f}",
        f"  {report['support']}: {report['reason']}",
        f"threshold on the share of the {report['k']} neighbours given 1: "
        f"{report['threshold']:.4f}",
        f"  {report['decision']['reason']}",
        f"labels suspected wrong: {report['n_label_issues']:,} "
        f"({report['n_label_issues'] / report['n_rows']:.1%}), listed in label_issues.parquet",
        "",
        _recall_line(report),
        f"  {report['builder']} in {report['n_blocks']} blocks, "
        f"{report['copies']:.2f} copies a row; {report['builder_reason']}",
        *(f"  {line}" for line in report["notes"]),
        *(f"WARNING: {line}" for line in report["warnings"]),
        "",
        *_times(report),
    ]
    return "\n".join(lines) + "\n"


def score_text(report: Mapping[str, Any]) -> str:
    """The report of a scoring as a person reads it."""
    lines = [
        f"{report['n_rows']:,} rows scored, {report['n_predicted_1']:,} predicted 1",
        _recall_line(report),
        f"  {report['probes']:.2f} blocks searched a row",
        *(f"WARNING: {line}" for line in report["warnings"]),
        f"scores: {report['out']}",
        "",
        *_times(report),
    ]
    return "\n".join(lines) + "\n"


def _recall_line(report: Mapping[str, Any]) -> str:
    low, high = report["recall_interval"]
    return (
        f"recall of true neighbours {report['recall']:.4f}, 95 % interval {low:.4f} to {high:.4f}, "
        f"on {report['recall_rows']:,} rows; target {report['target_recall']:g}"
    )


def _times(report: Mapping[str, Any]) -> list[str]:
    seconds = report["seconds"]
    total = sum(seconds.values())
    shown = f"{total / _MINUTE:.1f} min" if total > 2 * _MINUTE else f"{total:.1f} s"
    steps = ", ".join(f"{step} {value:.1f}" for step, value in seconds.items() if value >= 0.05)
    return [
        f"{shown} in all; seconds by step: {steps}",
        f"peak memory: worker {report['peak_rss_mb']:,.0f} MB, "
        f"this process {report['driver_peak_rss_mb']:,.0f} MB",
    ]


def recall_warning(recall: float, target: float, remedy: str) -> list[str]:
    """What every output says where the target is missed."""
    if recall >= target:
        return []
    return [f"recall {recall:.4f} is below the target {target:g}: {remedy}"]


def builder_reason(asked: str, found: Mapping[str, Any]) -> str:
    """Why the builder is the one it is."""
    if asked != "auto":
        return "as asked"
    cost = exact_seconds(found["n_rows"], found["n_features"])
    return f"auto: exact search would take about {cost:,.0f} core seconds"
