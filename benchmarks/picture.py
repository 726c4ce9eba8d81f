"""The README's picture: what the demo's test rows see among their neighbors, by clean label.

make demo && python benchmarks/picture.py demo docs/img/demo.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from flows.demo import N_SIMULATED, N_TEST, SEED
from pipeline.simulate import sheets

BLUE, ORANGE, INK = "#3b6fb6", "#d9822b", "#333333"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("demo", type=Path)
    parser.add_argument("image", type=Path)
    args = parser.parse_args()
    eta = pq.read_table(args.demo / "sheets-scores.parquet")["eta_corr"].to_numpy()
    _, y, _ = sheets(N_TEST, SEED, first=N_SIMULATED)
    told = json.loads((args.demo / "sheets" / "report.json").read_text())
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    edges = (np.arange(told["k"] + 2) - 0.5) / told["k"]
    kinds = ((eta[y == 0], eta[y == 1]), ("clean label 0", "clean label 1"))
    axes.hist(kinds[0], edges, stacked=True, color=(BLUE, ORANGE), label=kinds[1], alpha=0.85)
    top = axes.get_ylim()[1]
    for at, text, style in (
        (0.5, "plain vote 0.50", ":"),
        (told["threshold"], f"corrected {told['threshold']:.2f}", "-"),
    ):
        axes.axvline(at, color=INK, linestyle=style)
        axes.text(at, top * 1.02, text, ha="right" if at == 0.5 else "left", color=INK)
    for at, text in ((told["p0"], "p0"), (1 - told["p1"], "1 − p1")):
        arrow = {"arrowstyle": "->", "color": INK}
        below = (at, -0.16 * top)
        axes.annotate(
            text, (at, 0), below, ha="center", annotation_clip=False, arrowprops=arrow, color=INK
        )
    axes.set_xlabel(f"share of the {told['k']} nearest neighbors given label 1", labelpad=18)
    axes.set_ylabel("test rows")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    args.image.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.image, dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
