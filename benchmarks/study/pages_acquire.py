"""The page of bought labels, with its plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study import acquire as study
from benchmarks.study.markdown import COLORS, axes_row, page, save, table

Rows = list[dict[str, Any]]
NAMES = {"ours": "growing net", "random": "uniform at random"}


def acquire(rows: Rows, docs: Path) -> None:
    curves = [row for row in rows if row["kind"] == "curve"]
    sets = [name for name in study.SETS if any(row["set"] == name for row in curves)]
    peers = [p for p in study.PEERS if any(row["strategy"] == p for row in curves)]
    strategies = ["ours", "random", *peers]
    figure, panels = axes_row(len(sets), 12.0)
    for axes, name in zip(panels, sets, strict=True):
        for color, strategy in zip(COLORS, strategies, strict=False):
            errors = _errors(curves, name, strategy)
            if errors is not None:
                label = NAMES.get(strategy, strategy)
                axes.plot(study.BUDGETS, errors, "o-", ms=2.5, color=color, label=label)
        axes.set_yscale("log")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("labels bought")
    panels[0].set_ylabel("test error")
    lines = panels[0].get_lines()
    figure.legend(
        lines,
        [line.get_label() for line in lines],
        frameon=False,
        loc="outside lower center",
        ncols=len(lines),
    )
    save(figure, docs / "bought-labels.png")
    needed = {name: _needed(curves, name, "ours") for name in sets}
    by_chance = {name: _needed(curves, name, "random") for name in sets}
    shares = [n / study.BUDGETS[-1] for n in needed.values() if n is not None]
    own = [n / c for n, c in zip(needed.values(), by_chance.values(), strict=True) if n and c]
    page(
        docs / "bought-labels.md",
        "Which labels to buy",
        f"Pools of {study.POOL:,} rows (pendigits: {_pool(curves, 'pendigits'):,}) without labels, "
        f"another for each seed; {study.SEEDS['ours']} seeds, {study.SEEDS['random']} of random "
        "labels, one of each peer. A strategy only chooses rows; the nearest bought row predicts "
        "for all alike. `separated`: thirty clusters, six classes. `blended`: two classes with a "
        f"curved boundary, Bayes error 1/√{study.POOL:,} = .01. `overlapping`: two classes, ten of "
        "thirty columns of use. Fashion-MNIST as 50 principal components, pendigits and magic04 "
        "standardized. Peers: scikit-activeml in batches of "
        f"{study.PEER_BATCH} after {study.BUDGETS[0]} random labels; `margin` takes a random "
        "forest's margins.",
        "![Error against labels bought](bought-labels.png)",
        _table(curves, sets, strategies),
        f"## Labels needed for the error of {study.BUDGETS[-1]:,} random ones",
        _needs(curves, sets, strategies),
        f"The growing net needs {np.mean(shares):.2f} of the labels on average where it reaches "
        "that error; counted from where random labels first reach it, "
        f"{np.mean(own):.2f}. Where it does not, a part of its labels is drawn at random, as "
        "evidence says, and it is no better than chance. At 25 labels on Fashion-MNIST it is "
        "behind, as its first labels go to the densest regions, which are not of all classes. "
        "ProbCover had no answer after a minute of processor time on the first pool and is left "
        "out.",
        "## The printed constants",
        f"MARMANN as printed, δ = {study.DELTA}, no budget. Each cell is labeled by the majority "
        "of Q draws and the error estimated from thousands more, so that every label is bought. "
        "The bound is 2·GB of Theorem 4; the answer's few points err more than all labels would.",
        _printed([row for row in rows if row["kind"] == "printed"]),
        "Command: `python -m benchmarks.study --data FOLDER --only acquire`",
    )


def _some(rows: Rows, name: str, strategy: str) -> Rows:
    return [row for row in rows if (row["set"], row["strategy"]) == (name, strategy)]


def _pool(rows: Rows, name: str) -> int:
    return next((int(row["m"]) for row in rows if row["set"] == name), 0)


def _errors(rows: Rows, name: str, strategy: str) -> list[float] | None:
    some = _some(rows, name, strategy)
    return list(np.mean([row["errors"] for row in some], axis=0)) if some else None


def _needed(rows: Rows, name: str, strategy: str) -> float | None:
    """Labels at which a mean curve first reaches the error of random labels at the last budget,
    between budgets by a straight line; None where it does not."""
    errors, random = _errors(rows, name, strategy), _errors(rows, name, "random")
    if errors is None or random is None:
        return None
    goal = random[-1]
    for at, (budget, error) in enumerate(zip(study.BUDGETS, errors, strict=True)):
        if error <= goal:
            if at == 0 or errors[at - 1] <= error:
                return float(budget)
            share = (errors[at - 1] - goal) / (errors[at - 1] - error)
            return float(study.BUDGETS[at - 1] + share * (budget - study.BUDGETS[at - 1]))
    return None


def _table(rows: Rows, sets: list[str], strategies: list[str]) -> str:
    shown = [study.BUDGETS.index(b) for b in (25, 50, 100, 200, 300, 500, 700, 1000)]
    lines = []
    for name in sets:
        for strategy in strategies:
            errors = _errors(rows, name, strategy)
            if errors is not None:
                cells = [f"{errors[at]:.4f}" for at in shown]
                lines.append([name, NAMES.get(strategy, strategy), *cells])
    return table(["pool", "strategy", *(study.BUDGETS[at] for at in shown)], lines)


def _needs(rows: Rows, sets: list[str], strategies: list[str]) -> str:
    lines = []
    for name in sets:
        lines.append([name, *(_cell(rows, name, strategy) for strategy in strategies)])
    return table(["pool", *(NAMES.get(s, s) for s in strategies)], lines)


def _cell(rows: Rows, name: str, strategy: str) -> str:
    if not _some(rows, name, strategy):
        return ""
    found = _needed(rows, name, strategy)
    return "more" if found is None else f"{found:.0f}"


def _printed(rows: Rows) -> str:
    lines = [
        [
            row["set"],
            f"{row['m']:,}",
            row["queries"],
            f"{row['bought']:,}",
            row["points"],
            f"{row['error']:.4f}",
            f"{row['bound']:.3f}",
        ]
        for row in rows
    ]
    return table(["pool", "m", "Q", "labels bought", "points", "test error", "2 GB"], lines)
