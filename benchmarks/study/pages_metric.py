"""Page of the metrics: each, what `auto` takes, and the best fixed choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.markdown import page, table
from benchmarks.study.metric_study import AUTO, METRICS, MODELS
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
            _both(row, AUTO),
            _number(_peer(row)),
        ]
        for row in rows
    ]
    head = ["set", "mistakes", "loss", *METRICS, "`auto` takes", "`auto`", "cleanlab"]
    fixed = [*METRICS, "`auto`", "best", "cleanlab", "worst of `auto` less as-scaled"]
    page(
        docs / "metric.md",
        "Which metric?",
        "Average precision of the suspects and accuracy of the corrected prediction (two folds), "
        "features as `--scale auto` has them, at most 4,000 rows. Loss is that by which `auto` "
        "decides, of the metrics in turn. Fixed metrics have seen the given labels of both folds; "
        "`auto` is the estimator, which hears models besides. cleanlab is the best of "
        f"{len(MODELS)}: its self-confidence by five-fold probabilities of {', '.join(MODELS)}, "
        "case by case by the truth. Sets with * were not looked at.",
        "Means over mistakes; `best` is the best metric of each set by the truth:",
        table(
            ["sets", "cases", *fixed], [_means(name, some) for name, some in _halves(rows).items()]
        ),
        _ahead(rows),
        "Taken is the simplest within one standard error of the best, of paired differences of "
        "losses. With others:",
        table(
            ["standard errors", "means", *(f"takes {m}" for m in METRICS), "worst less as-scaled"],
            [_granting(rows, errors) for errors in (0.0, 1.0, 2.0, 3.0)],
        ),
        "Every case:",
        table(head, cells),
    )


def _peer(row: dict[str, Any]) -> float:
    """The best average precision by cleanlab."""
    return max(float(row["found"][name]["ap"]) for name in MODELS)


def _values(rows: Rows, metrics: list[str]) -> Any:
    """(row, 2) average precision and accuracy of a metric each."""
    return np.array([list(row["found"][m].values()) for row, m in zip(rows, metrics, strict=True)])


def _ahead(rows: Rows) -> str:
    """In how many cases the suspects are better than the best of cleanlab's."""
    more = np.array([row["found"][AUTO]["ap"] - _peer(row) for row in rows])
    return (
        f"Beside the best of cleanlab's, the suspects of `auto` are ahead in {(more > 0).sum()} of "
        f"{len(rows)} cases, behind by more than .02 in {(more < -0.02).sum()}, and "
        f"{more.mean():+.3f} on average."
    )


def _granting(rows: Rows, errors: float) -> list[str]:
    """What the simplest metric within so many standard errors of the best would have brought."""
    taken = []
    for row in rows:
        behind = row["behind"]
        taken.append(
            next(m for m in METRICS if m in behind and behind[m][0] <= errors * behind[m][1])
        )
    values = _values(rows, taken)
    worst = (values - _values(rows, [METRICS[0]] * len(rows))).min(axis=0)
    counts = [str(taken.count(m)) for m in METRICS]
    return [f"{errors:.0f}", _pair(values.mean(axis=0)), *counts, _pair(worst, "+.3f")]


def _halves(rows: Rows) -> dict[str, Rows]:
    halves = {
        "looked at": [row for row in rows if row["tuned"]],
        "others": [row for row in rows if not row["tuned"]],
    }
    return halves | each(rows, lambda r: r["set"])


def _means(label: str, rows: Rows) -> list[str]:
    fixed = [_values(rows, [m] * len(rows)) for m in METRICS]
    auto = _values(rows, [AUTO] * len(rows))
    sets, best = np.array([row["set"] for row in rows]), fixed[0].copy()
    for one in np.unique(sets):
        mine = sets == one
        best[mine] = max((values[mine] for values in fixed), key=np.mean)
    means = [_pair(values.mean(axis=0)) for values in (*fixed, auto, best)]
    peer = float(np.mean([_peer(row) for row in rows]))
    worst = (auto - fixed[0]).min(axis=0)
    return [label, str(len(rows)), *means, _number(peer), _pair(worst, "+.3f")]


def _pair(values: Any, form: str = ".3f") -> str:
    return ", ".join(format(value, form) for value in values)


def _both(row: dict[str, Any], metric: str) -> str:
    return _pair(row["found"][metric].values())


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
