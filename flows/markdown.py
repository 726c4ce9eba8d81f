"""A run's result and its blocks as Prefect shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storage.ledger import Record
from storage.run import Run

MOST_BLOCKS = 1000
"""Rows of the table of blocks; beyond, those of lowest recall are shown."""


def result(report: Mapping[str, Any]) -> str:
    """The result of a training or a scoring as Markdown."""
    return _trained(report) if "p0_interval" in report else _scored(report)


def _trained(report: Mapping[str, Any]) -> str:
    zero, one = report["label_values"]
    rates = [
        f"| {name} | {report[rate]:.3f} | {low:.3f} to {high:.3f} |"
        for name, rate, (low, high) in (
            (f"p0 = P(given {one!r} given true {zero!r})", "p0", report["p0_interval"]),
            (f"p1 = P(given {zero!r} given true {one!r})", "p1", report["p1_interval"]),
        )
    ]
    suspects, n_rows = report["n_label_issues"], report["n_rows"]
    facts = {
        "rows, features": f"{n_rows:,}, {report['n_features']:,}",
        "threshold": f"{report['threshold']:.4f}: {report['decision']['reason']}",
        "labels suspected wrong": f"{suspects:,} ({suspects / n_rows:.1%})",
        "neighbours of each row": f"{report['k']:,}",
        **_recall(report),
        "built by": f"{report['builder']}, {report['n_blocks']:,} blocks, "
        f"{report['copies']:.2f} copies a row",
        **_time(report),
    }
    head = ["| noise rate | estimated | 95 % interval |", "|---|---|---|", *rates, ""]
    verdict = f"**{report['support']}**: {report['reason']}"
    return "\n".join([verdict, "", *head, *_facts(facts), *_warnings(report)])


def _scored(report: Mapping[str, Any]) -> str:
    facts = {
        "rows scored": f"{report['n_rows']:,}",
        "predicted 1": f"{report['n_predicted_1']:,}",
        "threshold": f"{report['threshold']:.4f}",
        **_recall(report),
        "blocks searched a row": f"{report['probes']:.2f}",
        **_time(report),
    }
    return "\n".join([*_facts(facts), *_warnings(report)])


def _recall(report: Mapping[str, Any]) -> dict[str, str]:
    low, high = report["recall_interval"]
    of = f"95 % interval {low:.4f} to {high:.4f}, target {report['target_recall']:g}"
    return {"recall of true neighbours": f"{report['recall']:.4f}, {of}"}


def _time(report: Mapping[str, Any]) -> dict[str, str]:
    return {"seconds": f"{sum(report['seconds'].values()):,.1f}"}


def _facts(facts: Mapping[str, str]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]


def _warnings(report: Mapping[str, Any]) -> list[str]:
    return [line for text in report["warnings"] for line in ("", f"> Warning: {text}")]


def block_table(run: Run) -> list[dict[str, Any]]:
    """A row for each block of a training: its rows, seconds of building, recall where measured."""
    ledger = run.ledger
    steps = {step.split("-")[0]: step for step in ledger.steps()}  # attempts given up have none
    built = ledger.records(steps["neighbours"]) if "neighbours" in steps else {}
    sizes = ledger.records(steps["blocks"]) if "blocks" in steps else {}
    audited = ledger.records(steps["audit"]) if "audit" in steps else {}
    rows = [
        {
            "block": name,
            "rows": sizes[name].result["rows"],
            "at home": sizes[name].result["core"],
            "seconds": round(built[name].cost["seconds"], 2),
            "recall": _mean(audited.get(name)),
        }
        for name in sorted(built.keys() & sizes.keys())
    ]
    if len(rows) > MOST_BLOCKS:
        rows.sort(key=lambda row: (row["recall"] is None, row["recall"] or 0.0))
    return rows[:MOST_BLOCKS]


def _mean(record: Record | None) -> float | None:
    measured = [] if record is None else record.result["recall"]
    return round(sum(measured) / len(measured), 4) if measured else None
