"""Page of the simulated annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.annotators_study import CROWDS
from benchmarks.study.markdown import page, table
from benchmarks.study.pages_rates import each

Rows = list[dict[str, Any]]
METHODS = ("majority", "Dawid-Skene", "ours")


def annotators(every: Rows, docs: Path) -> None:
    rows, harder = ([row for row in every if ("rows" in row) == hard] for hard in (False, True))
    better = sum(r["right"]["ours"] >= max(r["right"][m] for m in METHODS) for r in rows)
    nearer = sum(r["error"]["ours"] <= min(r["error"][m] for m in METHODS) for r in rows)
    page(
        docs / "annotators.md",
        "Several labels per row",
        "Simulated annotators over public sets: skills of 0.55 to 0.95, for each class up to 0.15 "
        "better or worse, mistakes spread by a Dirichlet(0.5) draw; half the spammers answer by "
        "chance, half by one draw of the classes, whatever the row. Accuracy: share of the rows "
        "whose consensus is the clean label. Error: row-wise L1 distance of the matrices from "
        "those realized in the annotations, mean over annotators and true classes. Majority "
        "vote's matrices are counted against the majority; Dawid-Skene is crowd-kit's, 100 rounds "
        "at most; ours has the same annotations, and neighbors.",
        table(["annotators", "cases", *_heads()], _lines(rows, "crowd")),
        f"In {better:,} of {len(rows):,} cases our consensus is at least as often right as "
        f"both, in {nearer:,} our matrices are at least as near.",
        table(["set", "cases", *_heads()], _lines(rows, "set")),
        "Mean certainty tells how often the consensus is thought to be right; coverage is the "
        "share of the annotators whose 95 % interval holds the realized accuracy.",
        table(
            ["annotators", "right", "mean certainty", "coverage"],
            [
                [
                    name,
                    f"{np.mean([r['right']['ours'] for r in some]):.3f}",
                    f"{np.mean([r['certainty'] for r in some]):.3f}",
                    f"{np.mean([r['covered'] for r in some]):.0%}",
                ]
                for name, some in each(rows, lambda r: r["crowd"]).items()
            ],
        ),
        *_hard(harder),
        "Command: `python -m benchmarks.study --data FOLDER --only annotators`",
    )


def _hard(rows: Rows) -> list[str]:
    """Where rows are hard, and where neighbors tell little."""
    if not rows:
        return []
    behind = 0
    for row in rows:
        right = row["right"]
        best = max(right["majority"], right["Dawid-Skene"])
        behind += right["ours"] < best - np.sqrt(best * (1.0 - best) / row["n"])
    supported, held = (
        sum(row[name] for row in rows) for name in ("supported", "supported_covered")
    )
    shared = [r for r in rows if not r["crowd"].startswith(CROWDS[5].told)]
    off = {
        kind: [abs(r["certainty"] - r["right"]["ours"]) for r in shared if r["rows"] == kind]
        for kind in ("hard", "alike")
    }
    lines = [
        [
            *(row["set"], f"{row['n']:,}", row["rows"], row["crowd"]),
            *(f"{row['right'][m]:.3f}" for m in METHODS),
            f"{row['certainty']:.3f}",
            f"{row['covered']:.0%}",
            f"{row['supported_covered']} of {row['supported']}",
            "labels given" if row["alone"] else "",
        ]
        for row in rows
    ]
    head = [
        *("set", "rows", "they are", "annotators", *METHODS, "mean certainty", "intervals hold"),
        *("of the supported", "neighbors have no say"),
    ]
    return [
        "## Hard rows, and neighbors that tell little",
        "Annotators as above (`alike`), and GLAD's: right with the chance of a logistic function "
        "of ability times how easy the row is; half of a row's mistakes are one class. In "
        "`nothing`, features have nothing to do with the class. "
        f"In {behind} of {len(rows)} cases our consensus is behind majority or Dawid-Skene by more "
        f"than a standard error. {held:,} of {supported:,} supported intervals hold. Where rows "
        "have several labels, mean certainty is off by "
        f"{np.mean(off['alike']):.3f} (at most {max(off['alike']):.3f}) where rows are alike, and "
        f"by {np.mean(off['hard']):.3f} (at most {max(off['hard']):.3f}) where they are hard.",
        table(head, lines),
    ]


def _heads() -> list[str]:
    return [f"{what}, {m}" for what in ("accuracy", "error") for m in METHODS]


def _lines(rows: Rows, name: str) -> list[list[str]]:
    return [
        [
            key,
            str(len(some)),
            *(
                f"{np.mean([r[what][m] for r in some]):.3f}"
                for what in ("right", "error")
                for m in METHODS
            ),
        ]
        for key, some in each(rows, lambda r: r[name]).items()
    ]
