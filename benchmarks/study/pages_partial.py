"""The page of candidate sets, with its plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study import partial as study
from benchmarks.study.markdown import COLORS, axes_row, page, save, table

Rows = list[dict[str, Any]]
RULES = {
    "paper": "PL A-kNN, c1 = .5, T = 400",
    "chosen": "PL A-kNN, c1 and T from the bags",
    "10nn": "10-NN",
    "best": "best k (by test labels)",
    "aknn": "A-kNN",
}
REFERENCE = {
    "fashion_mnist": (".228/.231/.200", ".239/.307/.220", ".245/.412/.240", ".258/.481/.257"),
    "letter": (".207/.198/.156", ".232/.347/.209", ".297/.516/.289", ".358/.607/.369"),
    "pendigits": (".037/.089/.018", ".049/.226/.035", ".077/.373/.057", ".095/.447/.088"),
}
"""Errors of an independent transcription of Algorithm 2, one draw of the bags: PL A-kNN, 10-NN,
best k at noise 0, .2, .4, .5, without preprocessing."""


def partial(rows: Rows, docs: Path) -> None:
    cases = [row for row in rows if row["kind"] == "bags"]
    sets = [name for name in study.SETS if any(row["set"] == name for row in cases)]
    shown = [name for name in sets if name in REFERENCE]
    figure, panels = axes_row(len(shown), 11.0)
    for axes, name in zip(panels, shown, strict=True):
        for color, (rule, says) in zip(COLORS, RULES.items(), strict=False):
            for prepared, style in ((False, "-"), (True, ":")):
                level = [_mean(cases, name, prepared, noise, rule) for noise in study.NOISE]
                label = None if prepared else says
                axes.plot(study.NOISE, level, style, marker="o", ms=3, color=color, label=label)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("ν")
    panels[0].set_ylabel("test error (dotted: preprocessed)")
    panels[-1].legend(frameon=False, fontsize=7)
    save(figure, docs / "partial-labels.png")
    page(
        docs / "partial-labels.md",
        "Candidate sets (Errandonea et al.)",
        f"Bags of section 4.1: five clusters (k-means), up to {study.ROWS:,} random rows, 80 % to "
        "learn from; three draws of the bags (one for the sets below the first three); "
        "Fashion-MNIST as 50 principal components at "
        "unit length, the others standardized. Errors on the true classes of the test rows. "
        "`chosen` takes c1 and T of greatest agreement between a training row's own bag and the "
        f"answer its neighbors give without it, over {study.LEFT_OUT:,} training rows; `best k` "
        "knows the test labels. A-kNN is the extension to many classes of Balsubramani et al. "
        "(2019), with the same c1, δ and T.",
        "![Error against noise](partial-labels.png)",
        *(_table(cases, sets, prepared) for prepared in (False, True)),
        "## The mode that sets c1 and T",
        _mode(cases),
        "## Against a transcription",
        "PL A-kNN / 10-NN / best k without preprocessing: the reference errors (one draw of the "
        "bags) and, below each, the least and greatest of our draws. The draws differ far more "
        "than the rules' errors on one draw do.",
        _reference(cases, shown),
        "## Consistency",
        "Five classes on the unit interval; the true class is in a bag with probability .8, the "
        f"next one with .7, the others with .3; T = n/10, δ = 1/n²; {study.ALIGNED_SEEDS} seeds. "
        "The Bayes error is 0.",
        _aligned([row for row in rows if row["kind"] == "aligned"]),
        "Command: `python -m benchmarks.study --data FOLDER --only partial`",
    )


def _some(rows: Rows, name: str, prepared: bool, noise: float) -> Rows:
    key = (name, prepared, noise)
    return [row for row in rows if (row["set"], row["prepared"], row["noise"]) == key]


def _mean(rows: Rows, name: str, prepared: bool, noise: float, rule: str) -> float:
    return float(np.mean([row[rule] for row in _some(rows, name, prepared, noise)]))


def _table(rows: Rows, sets: list[str], prepared: bool) -> str:
    lines = []
    for name in sets:
        for noise in study.NOISE:
            errors = [f"{_mean(rows, name, prepared, noise, rule):.3f}" for rule in RULES]
            lines.append([name, noise, *errors])
    head = "With the preprocessing of appendix D.2" if prepared else "Without preprocessing"
    return f"{head}:\n\n" + table(["set", "ν", *RULES.values()], lines)


def _mode(rows: Rows) -> str:
    lines = []
    for prepared in (False, True):
        some = [row for row in rows if row["prepared"] == prepared]
        to_best = [row["chosen"] - row["best"] for row in some]
        to_ten = [row["chosen"] - row["10nn"] for row in some]
        to_paper = [row["chosen"] - row["paper"] for row in some]
        lines.append(
            [
                "yes" if prepared else "no",
                len(some),
                f"{np.mean(to_best):+.4f}",
                f"{max(to_best):+.3f}",
                f"{max(to_ten):+.3f}",
                f"{np.mean(to_paper):+.4f}",
            ]
        )
    head = ["preprocessed", "cases", "error - best k's, mean", "worst", "- 10-NN's, worst"]
    return table([*head, "- c1 = .5's, mean"], lines)


def _reference(rows: Rows, sets: list[str]) -> str:
    lines = []
    for name in sets:
        lines.append([name, *REFERENCE[name]])
        cells = []
        for noise in (0.0, 0.2, 0.4, 0.5):
            some = _some(rows, name, False, noise)
            ends = [
                f"{min(r[rule] for r in some):.3f}-{max(r[rule] for r in some):.3f}"
                for rule in ("paper", "10nn", "best")
            ]
            cells.append(" / ".join(ends))
        lines.append(["ours", *cells])
    return table(["set", "ν = 0", ".2", ".4", ".5"], lines)


def _aligned(rows: Rows) -> str:
    error = {n: np.mean([row["error"] for row in rows if row["n"] == n]) for n in study.ALIGNED}
    return table(
        ["n", *(f"{n:,}" for n in error)], [["error", *(f"{v:.4f}" for v in error.values())]]
    )
