"""Results as JSON lines, one file a study, one line a case: a rerun does what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Results:
    """The finished cases of one study."""

    def __init__(self, folder: Path, study: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{study}.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = [row for row in map(_parse, lines) if row is not None]
        self.rows: dict[str, dict[str, Any]] = {row["case"]: row for row in found}
        if len(lines) != len(found):
            self.path.write_text("".join(json.dumps(row) + "\n" for row in found))

    def __contains__(self, case: str) -> bool:
        return case in self.rows

    def add(self, case: str, row: dict[str, Any]) -> None:
        """Append one finished case."""
        self.rows[case] = {"case": case, **row}
        with self.path.open("a") as file:
            file.write(json.dumps(self.rows[case]) + "\n")


def _parse(line: str) -> dict[str, Any] | None:
    """A line, or None where a killed run left half of one."""
    try:
        return dict(json.loads(line))
    except (json.JSONDecodeError, ValueError):
        return None
