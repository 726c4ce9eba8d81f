"""The health of a source: what was understood of it, and what is wrong or may be."""

from typing import Any

from pydantic import BaseModel

from flows.engine.results import LabelValue
from storage.errors import amount, as_text

SHOWN = 5
"""Columns named in one line."""


COARSE = "coarse"
"""The kind of finding that is a warning of the training, too."""


class Finding(BaseModel, frozen=True):
    """Something wrong, or suspicious."""

    kind: str
    columns: list[str]
    text: str
    """A sentence."""
    option: str | None = None
    """What to give on the command line."""
    left_out: bool = False
    """Whether the columns are no features because of it."""


class Health(BaseModel, frozen=True):
    """What a look at a source found."""

    source: str
    kind: str
    n_rows: int | None
    """None where only reading to the end tells."""
    looked_at: int
    """Rows that were looked at."""
    n_features: int
    """Features that remain."""
    label_name: str | None
    label_counts: list[tuple[LabelValue, int]]
    """Of the rows looked at, the smallest value first."""
    id_name: str | None
    texts: list[str] = []
    """Columns of text that remain."""
    findings: list[Finding]
    remedies: dict[str, Any] | None = None
    """What `check` would train with: what it was given, and the options that its findings name."""

    def __str__(self) -> str:
        """One screen of what a look at the source found."""
        looked = "all" if self.n_rows == self.looked_at else f"{self.looked_at:,} of them"
        rows = f"the first {amount(self.looked_at, 'row')}"
        rows = rows if self.n_rows is None else f"{amount(self.n_rows, 'row')}, {looked}"
        lines = [f"{self.source} ({self.kind}): {rows} looked at"]
        lines.append(f"features: {self.n_features:,}")
        if self.id_name is not None:
            lines.append(f"ids: {self.id_name!r}")
        if self.label_name is not None:
            total = sum(count for _, count in self.label_counts) or 1
            shares = [
                f"{value!r} {count / total:.1%}" for value, count in self.label_counts[:SHOWN]
            ]
            more = len(self.label_counts) - SHOWN
            shares += [f"and {amount(more, 'more value')}"] if more > 0 else []
            lines.append(f"label {self.label_name!r}: {', '.join(shares) or 'no values'}")
        lines += self.lines() or ["nothing suspicious"]
        return as_text(lines)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns that are no features because of what was found."""
        return tuple(name for f in self.findings if f.left_out for name in f.columns)

    def lines(self) -> list[str]:
        """A line for each finding."""
        return [
            f"{'left out' if f.left_out else 'look'}: {f.text}"
            + (f"; give {f.option}" if f.option else "")
            for f in self.findings
        ]
