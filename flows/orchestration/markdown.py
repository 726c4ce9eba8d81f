"""A run's result and its blocks as Prefect shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.report.model import PoolReport, Report, Scoring
from flows.steps.graph.building import Audited
from flows.steps.graph.partition import AUDIT, BLOCKS, BlockWritten, last_attempt
from storage.errors import amount
from storage.runs.ledger import Record
from storage.runs.run import Run

MOST_BLOCKS = 1000
"""Rows of the table of blocks; beyond, those of lowest recall are shown."""


def result(report: PoolReport | Scoring) -> str:
    """The result of a training or a scoring as Markdown."""
    return _scored(report) if isinstance(report, Scoring) else _trained(report)


def _trained(report: PoolReport) -> str:
    suspects, n_rows = report.n_label_issues, report.n_rows
    verdict, table, rule = report.headline()
    facts = {
        "rows, features": f"{n_rows:,}, {report.n_features:,}",
        **rule,
        "labels suspected wrong": f"{suspects:,} ({suspects / n_rows:.1%})",
        "neighbors of each row": f"{report.k:,}",
        **_recall(report),
        "built by": f"{report.builder}, {amount(report.n_blocks, 'block')}, "
        f"{report.copies:.2f} copies of a row on average",
        **_time(report),
    }
    return "\n".join([verdict, "", *table, *_facts(facts), *_warnings(report)])


def _scored(report: Scoring) -> str:
    facts = {
        "rows scored": f"{report.n_rows:,}",
        **report.facts(),
        **_recall(report),
        "blocks searched a row": f"{report.probes:.2f}",
        **_time(report),
    }
    return "\n".join([*_facts(facts), *_warnings(report)])


def _recall(report: Report) -> dict[str, str]:
    low, high = report.recall_interval
    of = f"95 % interval {low:.4f} to {high:.4f}, target {report.target_recall:g}"
    return {"recall of true neighbors": f"{report.recall:.4f}, {of}"}


def _time(report: Report) -> dict[str, str]:
    return {"seconds": f"{sum(report.seconds.values()):,.1f}"}


def _facts(facts: Mapping[str, str]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]


def _warnings(report: Report) -> list[str]:
    return [line for text in report.warnings for line in ("", f"> Warning: {text}")]


def block_table(run: Run) -> list[dict[str, Any]]:
    """A row for each block of a training: its rows, and recall where measured."""
    ledger = run.ledger
    steps = ledger.steps()  # attempts given up have none
    names = (last_attempt(step, steps) for step in (BLOCKS, AUDIT))
    sizes, audited = ({} if name is None else ledger.records(name) for name in names)
    rows = [
        {
            "block": name,
            "rows": BlockWritten.of(sizes[name]).rows,
            "recall": _mean(audited.get(name)),
        }
        for name in sorted(sizes)
    ]
    if len(rows) > MOST_BLOCKS:
        rows.sort(key=lambda row: (row["recall"] is None, row["recall"] or 0.0))
    return rows[:MOST_BLOCKS]


def _mean(record: Record | None) -> float | None:
    measured = [] if record is None else Audited.of(record).recall
    return round(sum(measured) / len(measured), 4) if measured else None
