"""Time against the number of rows, and time against recall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(found: list[dict[str, Any]], results: Path) -> None:
    """Write time-rows.png and time-recall.png of the runs on sheets with k = 30."""
    graph = [t for t in found if t["case"] in ("graph-small", "graph-300k", "graph", "graph-3M")]
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for system in dict.fromkeys(told["system"] for told in graph):
        points = sorted((told["n"], told["seconds"]) for told in graph if told["system"] == system)
        axes.loglog(*zip(*points, strict=True), "o-", label=system)
    axes.set(xlabel="rows", ylabel="seconds, two cores")
    axes.legend(frameon=False)
    figure.savefig(results / "time-rows.png", dpi=120)
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for told in found:
        if told["case"] in ("graph", "queries"):
            mark = "o" if told["case"] == "graph" else "s"
            axes.plot(told["recall"], told["seconds"], mark, color="C0")
            axes.annotate(f" {told['system']}, {told['case']}", (told["recall"], told["seconds"]))
    axes.set(xlabel="recall of the 30 nearest", ylabel="seconds, two cores")
    axes.margins(0.25)
    figure.savefig(results / "time-recall.png", dpi=120)
    plt.close("all")
