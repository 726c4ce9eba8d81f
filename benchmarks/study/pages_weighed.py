"""Page of predictions by several sizes of neighborhoods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.markdown import page, table
from benchmarks.study.pages_rates import each

Rows = list[dict[str, Any]]


def weighed(rows: Rows, docs: Path) -> None:
    """Write `weighed.md`."""
    groups = [
        ("two classes, real", [r for r in rows if r["classes"] == 2 and not r["made"]]),
        ("more classes, real", [r for r in rows if r["classes"] > 2 and not r["made"]]),
        ("two classes, made", [r for r in rows if r["classes"] == 2 and r["made"]]),
        ("more classes, made", [r for r in rows if r["classes"] > 2 and r["made"]]),
    ]
    head = ["cases", "", "taken", "mean", "worst", "balanced", "loss", "better", "worse", *BELOW]
    page(
        docs / "weighed.md",
        "Several sizes of neighborhoods",
        "New rows are predicted by the corrected vote of one k, or by neighborhoods of several "
        "sizes, weighed by what they tell of the given labels ([how]"
        "(../../understand/method.md#from-rates-to-decisions)). Accuracy against clean labels less "
        "that of the vote of one k, which the default was before; `default` takes the weighed "
        "vote unless it is likely to lose, `always` everywhere. `balanced` and `loss`: "
        "balanced accuracy, and log loss of posteriors, less those of one k. `better` and `worse`: "
        "cases in which the default differs from one k by more than two paired standard errors; "
        "the last two: in which the default, and one k, are below the plain vote by as much. At "
        "most 6,000 rows to train on, 6,000 to test; two draws.",
        table(head, [_lines(label, some)[0] for label, some in groups if some]),
        "By rows to train on, and what it would be worth always:",
        table(
            head,
            [
                line
                for n in ("to 600", "to 2,000", "more")
                for label, few in (("two classes", True), ("more classes", False))
                for line in _lines(
                    f"{label}, {n}",
                    [r for r in rows if _size(r["n"]) == n and (r["classes"] == 2) == few],
                )
            ],
        ),
        "Every set and kind of mistakes, means over sizes and draws:",
        table(
            ["set", "mistakes", "cases", "plain", "one k", "weighed", "default", "taken"],
            [
                [*name.split("|"), len(some), *(_mean(some, way) for way in WAYS), _taken(some)]
                for name, some in each(rows, lambda r: f"{r['set']}|{r['kind']}").items()
            ],
        ),
        "Command: `python -m benchmarks.study --data FOLDER --only weighed`",
    )


WAYS = ("plain", "one k", "weighed", "default")
BELOW = ("default below plain", "one k below plain")


def _size(n: int) -> str:
    return "to 600" if n <= 600 else "to 2,000" if n <= 2000 else "more"


def _mean(rows: Rows, way: str) -> str:
    return f"{np.mean([row['accuracy'][way] for row in rows]):.3f}"


def _taken(rows: Rows) -> str:
    return f"{np.mean([row['taken'] for row in rows]):.2f}"


def _lines(label: str, rows: Rows) -> list[list[Any]]:
    if not rows:
        return []
    z = {key: np.array([row["z"][key] for row in rows]) for key in rows[0]["z"]}
    told = [
        *(int((z["default - one k"] > 2).sum()), int((z["default - one k"] < -2).sum())),
        *(int((z[f"{way} - plain"] < -2).sum()) for way in ("default", "one k")),
    ]
    lines = []
    for way, name in (("default", "default"), ("weighed", "always")):
        gain, balanced = (
            np.array([row[of][way] - row[of]["one k"] for row in rows])
            for of in ("accuracy", "balanced")
        )
        lines.append(
            [
                *(f"{label} ({len(rows)})", name),
                _taken(rows) if way == "default" else "1",
                *(f"{gain.mean():+.4f}", f"{gain.min():+.3f}", f"{balanced.mean():+.4f}"),
                f"{np.mean([row['loss'][way] - row['loss']['one k'] for row in rows]):+.3f}",
                *(told if way == "default" else [""] * 4),
            ]
        )
    return lines
