"""Page of the intervals' coverage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.markdown import page, table
from benchmarks.study.pages_rates import VERDICTS, covered, each

Rows = list[dict[str, Any]]


def coverage(rows: Rows, simulated: Rows, docs: Path) -> None:
    cases = [{**case, "from": f"simulated: {r['kind']}"} for r in simulated for case in r["cases"]]
    cases += [{**row, "from": f"real: {row['set']}"} for row in rows]
    lines = []
    for source, some in each(cases, lambda c: c["from"]).items():
        lines.append([source, *(cover(some, v) for v in VERDICTS)])
    totals = []
    for label, some in (
        ("simulated", cases[: -len(rows)] if rows else cases),
        ("real, tuned on", [c for c in cases if c.get("tuned")]),
        ("real, not tuned on", [c for c in cases if c.get("tuned") is False]),
        ("all", cases),
    ):
        totals.append([label, *(cover(some, v) for v in VERDICTS)])
    header = ["share covered (intervals)", *VERDICTS]
    page(
        docs / "coverage.md",
        "Do the 95 % intervals cover?",
        "Share of intervals that hold the rate realized in the sample, by verdict; in brackets the "
        "number of intervals, two a case. Simulated pools of 2,000, 6,000 and 15,000 rows, each "
        "with the five noise settings, and all real cases of the error study.",
        table(header, totals),
        table(header, lines),
        "Mistakes depend on the class alone; intervals allow for others too. `square` and `line` "
        "have no pure region (η reaches 0 and 1 at single points) and are never `supported`.",
        "Command: `python -m benchmarks.study --data FOLDER --only coverage rates`",
    )


def cover(cases: Sequence[dict[str, Any]], verdict: str) -> str:
    hits = [hit for c in cases if c["support"] == verdict for hit in covered(c)]
    return f"{np.mean(hits):.3f} ({len(hits)})" if hits else ""
