"""A run's result and its blocks as Prefect shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.report import candidates
from flows.report.content import corrected
from flows.report.model import (
    CandidateReport,
    ClassReport,
    PoolReport,
    Report,
    ScoreReport,
    Scoring,
    Training,
    TrainReport,
    predicted_text,
)
from flows.steps.graph.building import Audited
from flows.steps.graph.names import AUDIT, BLOCKS, NEIGHBORS, last_attempt
from flows.steps.graph.partition import BlockWritten
from storage.runs.ledger import Record
from storage.runs.run import Run

MOST_CONFUSIONS = 20
MOST_BLOCKS = 1000
"""Rows of the table of blocks; beyond, those of lowest recall are shown."""


def result(report: Report) -> str:
    """The result of a training or a scoring as Markdown."""
    if isinstance(report, PoolReport):
        return _trained(report)
    assert isinstance(report, Scoring)
    return _scored(report)


def _of_classes(report: ClassReport) -> list[str]:
    """The commonest confusions."""
    rows = [
        f"| {c.true!r} | {c.given!r} | {c.share:.1%} | {c.interval[0]:.1%} to {c.interval[1]:.1%} |"
        for c in report.confusions[:MOST_CONFUSIONS]
    ]
    head = ["| truly | labeled | share | 95 % interval |", "|---|---|---|---|"]
    return [f"{len(report.classes):,} classes", "", *head, *rows, ""]


def _of_two(report: TrainReport) -> list[str]:
    """The noise rates."""
    zero, one = report.label_values
    rates = [
        f"| {name} | {getattr(report, rate):.3f} | {low:.3f} to {high:.3f} |"
        for name, rate, (low, high) in (
            (f"p0 = P(given {one!r} given true {zero!r})", "p0", report.p0_interval),
            (f"p1 = P(given {zero!r} given true {one!r})", "p1", report.p1_interval),
        )
    ]
    return ["| noise rate | estimated | 95 % interval |", "|---|---|---|", *rates, ""]


def _of_candidates(report: CandidateReport) -> list[str]:
    """The commonest pairs of candidates."""
    rows = [
        f"| {pair.label!r} | {pair.other!r} | {pair.rows:,} | {pair.share:.1%} |"
        for pair in report.pairs[:MOST_CONFUSIONS]
    ]
    head = ["| taken for | also a candidate | rows | share |", "|---|---|---|---|"]
    return [f"{len(report.classes):,} classes", "", *head, *rows, ""]


def _trained(report: PoolReport) -> str:
    suspects, n_rows = report.n_label_issues, report.n_rows
    if isinstance(report, TrainReport):
        head = _of_two(report)
        rule = {"threshold": f"{report.threshold:.4f}: {report.decision.reason}"}
    elif isinstance(report, CandidateReport):
        head, rule = _of_candidates(report), {"rule": candidates.choice(report)}
    else:
        assert isinstance(report, ClassReport)
        head, rule = _of_classes(report), {"vote": corrected(report)}
    facts = {
        "rows, features": f"{n_rows:,}, {report.n_features:,}",
        **rule,
        "labels suspected wrong": f"{suspects:,} ({suspects / n_rows:.1%})",
        "neighbors of each row": f"{report.k:,}",
        **_recall(report),
        "built by": f"{report.builder}, {report.n_blocks:,} blocks, "
        f"each row in {report.copies:.2f} of them on average",
        **_time(report),
    }
    verdict = "**candidate sets**: no noise rates are estimated"
    if isinstance(report, Training):
        verdict = f"**{report.support}**: {report.reason}"
    return "\n".join([verdict, "", *head, *_facts(facts), *_warnings(report)])


def _scored(report: Scoring) -> str:
    rule = {"predicted": predicted_text(report.classes, report.n_predicted, None)}
    if isinstance(report, ScoreReport):
        rule = {"predicted 1": f"{report.n_predicted_1:,}", "threshold": f"{report.threshold:.4f}"}
    facts = {
        "rows scored": f"{report.n_rows:,}",
        **rule,
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
    """A row for each block of a training: its rows, seconds of building, recall where measured."""
    ledger = run.ledger
    steps = ledger.steps()  # attempts given up have none
    names = (last_attempt(step, steps) for step in (NEIGHBORS, BLOCKS, AUDIT))
    built, sizes, audited = ({} if name is None else ledger.records(name) for name in names)
    rows = [
        {
            "block": name,
            "rows": BlockWritten.of(sizes[name]).rows,
            "at home": BlockWritten.of(sizes[name]).core,
            "seconds": round(built[name].cost["seconds"], 2),
            "recall": _mean(audited.get(name)),
        }
        for name in sorted(built.keys() & sizes.keys())
    ]
    if len(rows) > MOST_BLOCKS:
        rows.sort(key=lambda row: (row["recall"] is None, row["recall"] or 0.0))
    return rows[:MOST_BLOCKS]


def _mean(record: Record | None) -> float | None:
    measured = [] if record is None else Audited.of(record).recall
    return round(sum(measured) / len(measured), 4) if measured else None
