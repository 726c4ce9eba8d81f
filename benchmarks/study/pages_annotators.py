"""Page of the simulated annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.annotators_study import SUPPORTS, TUNED, UNTUNED
from benchmarks.study.markdown import page, table
from benchmarks.study.pages_rates import each

Rows = list[dict[str, Any]]
METHODS = ("majority", "Dawid-Skene", "ours")


def annotators(every: Rows, docs: Path) -> None:
    rows, others = ([row for row in every if ("rows" in row) == new] for new in (False, True))
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
        *_every(others),
        "Command: `python -m benchmarks.study --data FOLDER --only annotators`",
    )


def _every(rows: Rows) -> list[str]:
    """All sets, those by which constants were chosen and others."""
    if not rows:
        return []
    halves = {
        f"{'looked at' if tuned else 'others'}, {'a label a row' if single else 'several'}": [
            r for r in rows if r["tuned"] == tuned and r["single"] == single
        ]
        for single in (True, False)
        for tuned in (True, False)
    }
    lines = [
        [
            *(name, "one" if some[0]["single"] else "several", some[0]["rows"], *_summary(some)),
        ]
        for some in each(rows, lambda r: (r["set"], r["single"], r["rows"])).values()
        for name in [some[0]["set"]]
    ]
    head = [
        *("cells", *METHODS, "behind", "certainty off by", "at most"),
        *(f"{support} intervals hold" for support in SUPPORTS),
    ]
    return [
        "## All sets, a label a row or several",
        "Annotators as above (`alike`), and GLAD's: right with the chance of a logistic function "
        "of ability times how easy the row is; half of a row's mistakes are one class. In "
        "`nothing`, features have nothing to do with the class. Constants were chosen on the sets "
        f"{', '.join(TUNED)}; the other {len(UNTUNED)} were looked at once they stood. Behind: "
        "cells whose consensus is behind majority (with a label a row: the label given) or "
        "Dawid-Skene by more than a standard error.",
        table(["sets", *head], [[name, *_summary(some)] for name, some in halves.items() if some]),
        table(["set", "labels a row", "rows are", *head], lines),
    ]


def _summary(rows: Rows) -> list[str]:
    """Means over some cells."""
    off = [abs(row["certainty"] - row["right"]["ours"]) for row in rows]
    behind = 0
    for row in rows:
        best = max(row["right"]["majority"], row["right"]["Dawid-Skene"])
        behind += row["right"]["ours"] < best - np.sqrt(best * (1.0 - best) / row["n"])
    hold = [[sum(row["intervals"][s][i] for row in rows) for i in (0, 1)] for s in SUPPORTS]
    return [
        str(len(rows)),
        *(f"{np.mean([row['right'][m] for row in rows]):.3f}" for m in METHODS),
        str(behind),
        f"{np.mean(off):.3f}",
        f"{max(off):.3f}",
        *(f"{hits:,} of {n:,}" for hits, n in hold),
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
