"""What the noise rates cost beside the graph, in a training on a million simulated rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.results import Results
from flows.train import train
from pipeline.simulate import flip, sheets

ROWS, SEED = 1_000_000, 0
RATES = ("regression", "rates")
ANCHORS = ("anchor-bounds", "anchors-search", "anchors-merge", "anchors")
GRAPH = ("partition", "route", "blocks", "neighbors", "graph")
"""Steps of a training. The anchors also choose the blocks and audit the graph."""


def run(work: Path) -> None:
    results = Results(work, "cost")
    if str(ROWS) in results:
        return
    x, y, _ = sheets(ROWS, SEED)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "pool.npz", X=x, y=flip(y, 0.3, 0.1, SEED))
        told = train.fn(f"{folder}/pool.npz", f"{folder}/run", quiet=True)
    seconds = {name: step["core_seconds"] for name, step in told["steps"].items()}
    results.add(str(ROWS), {"rows": ROWS, "seed": SEED, "core_seconds": seconds})


def shares(row: dict[str, Any]) -> tuple[float, float, float]:
    """Core seconds of the graph; of the rates as a share of it, without and with the anchors."""
    spent = row["core_seconds"]
    graph, rates, anchors = (
        sum(spent.get(step, 0.0) for step in steps) for steps in (GRAPH, RATES, ANCHORS)
    )
    return graph, rates / graph, (rates + anchors) / graph
