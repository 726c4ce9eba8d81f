"""Page of the metrics: each, what `auto` takes, and the best fixed choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.markdown import page, table
from benchmarks.study.metric_study import METRICS
from benchmarks.study.pages_rates import each

Rows = list[dict[str, Any]]


def metric(rows: Rows, docs: Path) -> None:
    """Write `metric.md`."""
    cells = [
        [
            row["set"] + ("" if row["tuned"] else " *"),
            row["kind"],
            ", ".join(_number(row["loss"].get(m)) for m in METRICS),
            *(_both(row, m) for m in METRICS),
            row["taken"],
            _number(row["found"]["cleanlab"]["ap"]),
        ]
        for row in rows
    ]
    head = ["set", "mistakes", "loss", *METRICS, "`auto` takes", "cleanlab, boosting"]
    page(
        docs / "metric.md",
        "Which metric?",
        "Average precision of the suspects and accuracy of the corrected prediction (two folds), "
        "features as `--scale auto` has them, at most 4,000 rows. Loss is that by which `auto` "
        "decides, of the metrics in turn. cleanlab ranks by its self-confidence with five-fold "
        "probabilities of scikit-learn's histogram boosting. Sets with * were not looked at while "
        "the weights were made.",
        "Means over mistakes; `best` is the better of both metrics for each set, chosen by the "
        "truth:",
        table(
            [
                "sets",
                "cases",
                *METRICS,
                "`auto`",
                "best",
                "cleanlab",
                "worst of `auto` less as-scaled",
            ],
            [_means(label, some) for label, some in _halves(rows).items()],
        ),
        "Every case:",
        table(head, cells),
    )


def _halves(rows: Rows) -> dict[str, Rows]:
    halves = {
        "looked at": [row for row in rows if row["tuned"]],
        "others": [row for row in rows if not row["tuned"]],
    }
    return halves | each(rows, lambda r: r["set"])


def _means(label: str, rows: Rows) -> list[str]:
    plain, weighted = (np.array([list(row["found"][m].values()) for row in rows]) for m in METRICS)
    taken, sets = (np.array([row[name] for row in rows]) for name in ("taken", "set"))
    auto, best = np.where((taken == METRICS[0])[:, None], plain, weighted), plain.copy()
    for one in np.unique(sets):
        mine = sets == one
        best[mine] = max(plain[mine], weighted[mine], key=np.mean)
    means = [_pair(values.mean(axis=0)) for values in (plain, weighted, auto, best)]
    peer = np.mean([row["found"]["cleanlab"]["ap"] for row in rows])
    worst = (auto - plain).min(axis=0)
    return [label, str(len(rows)), *means, _number(float(peer)), _pair(worst, "+.3f")]


def _pair(values: Any, form: str = ".3f") -> str:
    return ", ".join(format(value, form) for value in values)


def _both(row: dict[str, Any], metric: str) -> str:
    return _pair(row["found"][metric].values())


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
