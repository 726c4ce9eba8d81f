"""Page of the groups' rates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.groups import HIGH, LOW, ODD, SETTINGS, SIZES
from benchmarks.study.markdown import page, table

Rows = list[dict[str, Any]]


def groups(rows: Rows, docs: Path) -> None:
    sizes = sorted(set(SIZES))
    lines = []
    for setting in ("apart", "skewed", "regions", "alike", "skewed, alike"):
        for size in sizes:
            told = [rate for rate in rates(rows, setting) if rate[0] == size]
            error, shrunk = (np.abs([rate[i] for rate in told]).mean() for i in (1, 2))
            bias = np.mean([rate[1] for rate in told])
            shares = [f"{error:.4f}", f"{shrunk:.4f}", f"{bias:+.4f}"]
            lines.append([setting, f"{size:,}", *shares, *(covered(told, v) for v in VERDICTS)])
    tests = []
    for setting in SETTINGS:
        values = [c["p_value"] for row in rows for c in row["cases"] if c["setting"] == setting]
        said = [value is not None and value < 0.05 for value in values]
        tests.append([setting, len(said), f"{np.mean(said):.3f}"])
    kinds = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        told = [*rates(some, "apart"), *rates(some, "skewed")]
        alarms = [
            case["p_value"] is not None and case["p_value"] < 0.05
            for row in some
            for case in row["cases"]
            if "alike" in case["setting"]
        ]
        error = np.abs([rate[1] for rate in told]).mean() if told else np.nan
        kinds.append(
            [kind, f"{error:.4f}", *(covered(told, v) for v in VERDICTS), f"{np.mean(alarms):.3f}"]
        )
    page(
        docs / "groups.md",
        "Are groups' rates found?",
        f"Pools of {sum(SIZES):,} rows in {len(SIZES)} groups of 200 to 20,000, mixed in the "
        f"feature space. `apart`: p0 and p1 of every group drawn from {LOW} to {HIGH}; `skewed`: "
        "the same, and the odds of class 1 nine times as high in every second group; `regions`: as "
        "`apart`, but each group is a slice of the first feature, its rows' neighbors its "
        "own, which the method is not made for; `alike`: "
        "(0.2, 0.1) in all; `skewed, alike`: both; "
        f"`one`: group {ODD}, of {SIZES[ODD]:,} rows, is "
        "wrong more often by so much in both classes.",
        "Mean absolute error of a rate, the same of the shrunken one, mean error, and the share of "
        "95 % intervals that hold the rate of the group, by verdict (number of intervals):",
        table(
            ["setting", "rows of the group", "error", "shrunken", "bias", *VERDICTS],
            lines,
        ),
        "How often the test says at 5 % that groups differ: its level where they are alike, else "
        "its power.",
        table(["setting", "pools", "says that they differ"], tests),
        "By kind of pool (`apart` and `skewed`; the last column is the level):",
        table(["pools", "error", *VERDICTS, "level"], kinds),
        "Command: `python -m benchmarks.study --only groups`",
    )


VERDICTS = ("supported", "weak", "unsupported")


def rates(rows: Rows, setting: str) -> Iterator[list[Any]]:
    """What is told of every rate in one setting."""
    for row in rows:
        for case in row["cases"]:
            if case["setting"] == setting:
                yield from case["rates"]


def covered(told: list[list[Any]], verdict: str) -> str:
    hits = [rate[3] for rate in told if rate[5] == verdict]
    return f"{np.mean(hits):.3f} ({len(hits)})" if hits else ""
