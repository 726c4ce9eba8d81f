"""Page of the transition matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.markdown import page, table
from benchmarks.study.pages_rates import each, verdicts

Rows = list[dict[str, Any]]
METHODS = ("crossfit", "cleanlab", "biquality")


def set_means(rows: Rows) -> dict[str, dict[str, float]]:
    """Mean row-wise L1 error of each method, set by set."""
    return {
        name: {m: float(np.mean([r["error"][m] for r in some])) for m in METHODS}
        for name, some in each(rows, lambda r: r["set"]).items()
    }


def ratio(rows: Rows) -> tuple[float, float]:
    """Ours over cleanlab's: ratio of the means over sets, and mean of the sets' ratios."""
    means = set_means(rows).values()
    ours, theirs = (np.mean([m[name] for m in means]) for name in METHODS[:2])
    return float(ours / theirs), float(np.mean([m["crossfit"] / m["cleanlab"] for m in means]))


def errors(rows: Rows, docs: Path) -> None:
    lines = []
    for name, means in set_means(rows).items():
        some = [r for r in rows if r["set"] == name]
        lines.append(
            [
                *(name, f"{some[0]['n']:,}", some[0]["classes"]),
                "yes" if some[0]["tuned"] else "",
                *(len(some), *(f"{means[m]:.4f}" for m in METHODS)),
                f"{means['crossfit'] / means['cleanlab']:.2f}",
                verdicts(some),
            ]
        )
    kinds = []
    for (kind, strength), some in each(rows, lambda r: (r["kind"], r["strength"])).items():
        level = [np.mean([r["error"][m] for r in some]) for m in METHODS]
        kinds.append([kind, strength, len(some), *(f"{v:.4f}" for v in level)])
    of_means, of_ratios = ratio(rows)
    page(
        docs / "multiclass.md",
        "Transition matrices of many classes",
        "Row-wise L1 error: mean over true classes of Σ |estimate - matrix realized in the "
        "sample|, same neighbors for all; cleanlab and biquality get leave-one-out shares of the "
        "50 nearest. Noise: `uniform` sends a share (0.2 or 0.4) to all other classes alike, "
        "`pairs` to the next class alone, `random` a random share spread by a Dirichlet(0.5) "
        "draw; the last two are asymmetric. Three noise seeds each (CRC-32 of the case's name). "
        "MNIST was not at hand.",
        table(
            ["set", "n", "classes", "tuned on", "cases", *METHODS, "crossfit / cleanlab", "s/w/u"],
            lines,
        ),
        f"Ratio of the means over sets: {of_means:.2f}; mean of the sets' ratios: {of_ratios:.2f}.",
        table(["noise", "share", "cases", *METHODS], kinds),
        "Command: `python -m benchmarks.study --data FOLDER --only multiclass`",
    )
