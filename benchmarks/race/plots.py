"""Time against the number of rows, and time against recall."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(found: list[dict[str, Any]], results: Path) -> None:
    """Write time-rows.png and time-recall.png (300,000 rows) of the runs on sheets, and
    time-recall-connected.png of those on one connected surface, k = 30."""
    sizes = ("graph-100k", "graph-300k", "graph", "graph-3M")
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for system, told in _by_system(found, lambda case: case in sizes):
        axes.loglog(*_curve(told, "n"), "o-", label=system)
    axes.set(xlabel="rows", ylabel="seconds, two cores")
    axes.legend(frameon=False)
    figure.savefig(results / "time-rows.png", dpi=120)
    of: dict[str, Callable[[str], bool]] = {
        "time-recall": lambda case: case == "graph-300k" or case.startswith("recall-"),
        "time-recall-connected": lambda case: case == "connected" or case.startswith("connected-0"),
    }
    for name, wanted in of.items():
        figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
        for system, told in _by_system(found, wanted):
            missed, seconds = _curve([{**t, "missed": 1 - t["recall"]} for t in told], "missed")
            axes.loglog(missed, seconds, "o-", label=system)
        axes.invert_xaxis()
        axes.set(xlabel="share of the 30 nearest that is missed", ylabel="seconds, two cores")
        axes.legend(frameon=False)
        figure.savefig(results / f"{name}.png", dpi=120)
    plt.close("all")


def _by_system(
    found: list[dict[str, Any]], wanted: Callable[[str], bool]
) -> list[tuple[str, list[dict[str, Any]]]]:
    """The runs of each system on the cases wanted."""
    chosen = [told for told in found if wanted(told["case"])]
    systems = dict.fromkeys(told["system"] for told in chosen)
    return [(name, [told for told in chosen if told["system"] == name]) for name in systems]


def _curve(found: list[dict[str, Any]], along: str) -> tuple[list[float], list[float]]:
    """Medians over rounds, by case, in order of `along` and seconds."""
    cases = dict.fromkeys(told["case"] for told in found)
    points = sorted(
        tuple(median(t[name] for t in found if t["case"] == case) for name in (along, "seconds"))
        for case in cases
    )
    return [x for x, _ in points], [y for _, y in points]
