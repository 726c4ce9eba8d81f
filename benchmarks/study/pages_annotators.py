"""Page of the simulated annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.markdown import page, table
from benchmarks.study.pages_rates import each

Rows = list[dict[str, Any]]
METHODS = ("majority", "Dawid-Skene", "ours")


def annotators(rows: Rows, docs: Path) -> None:
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
        "Command: `python -m benchmarks.study --data FOLDER --only annotators`",
    )


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
