"""What came of a fault, and the table of many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median


@dataclass
class Outcome:
    """One fault, judged."""

    family: str
    name: str
    """Tells the fault from all others, for replay."""
    wrong: list[str] = field(default_factory=list)
    """Laws broken."""
    recomputed: int = 0
    """Parts that were committed and computed again."""
    exit_seconds: float = 0.0
    resume_seconds: float = 0.0


COLUMNS = ("fault", "injected", "survived", "recomputed", "to exit, s", "to resume, s")


def table(outcomes: Iterable[Outcome]) -> str:
    """Fault × times injected × survived × parts recomputed × seconds (median, max)."""
    families: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        families.setdefault(outcome.family, []).append(outcome)
    rows = [COLUMNS]
    for family in sorted(families):
        rows.append(_row(family, families[family]))
    rows.append(_row("all", [one for many in families.values() for one in many]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _row(name: str, outcomes: list[Outcome]) -> tuple[str, ...]:
    if not outcomes:
        return (name, "0", "0", "0", "", "")
    return (
        name,
        f"{len(outcomes):,}",
        f"{sum(not outcome.wrong for outcome in outcomes):,}",
        f"{sum(outcome.recomputed for outcome in outcomes):,}",
        _seconds([outcome.exit_seconds for outcome in outcomes]),
        _seconds([outcome.resume_seconds for outcome in outcomes]),
    )


def _seconds(values: list[float]) -> str:
    return f"{median(values):.1f}, {max(values):.1f}"
