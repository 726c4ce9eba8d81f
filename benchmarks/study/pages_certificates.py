"""The page of the speculate-correct bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study import certificates as study
from benchmarks.study.markdown import page, table

Rows = list[dict[str, Any]]
PAPER = {20_000: 0.0029, 50_000: 0.0012, 100_000: 0.0007}
"""Mean |estimate - error| over k that the paper reports."""


def certificates(rows: Rows, docs: Path) -> None:
    cubes = [row for row in rows if row["kind"] == "cube"]
    timed = [row for row in rows if row["kind"] == "time"]
    covered = [row for row in rows if row["kind"] == "coverage"]
    page(
        docs / "certificates.md",
        "Error bounds without held-out rows (Bax, Weng & Tian 2019)",
        f"The paper's test: x uniform on the cube, octants of two classes in turn, labels flipped "
        f"with probability {study.NOISE}; w = {study.LISTS}, {study.SAMPLES:,} samples, "
        f"δ = {study.DELTA}; (r, m) of least ε over the paper's grid. True errors from "
        f"{study.N_TEST:,} test rows; {study.DATA_SEEDS} training sets per n (seeds 0, 1, …). "
        "`paper` is ε_v of equation (112); `ours` the inequality of "
        "[certificates](../certificates.md), which is proved there.",
        _widths(cubes),
        "The paper's tables, with a procedure of another paper for ε_v, run from about 5 % "
        "(n = 100,000, k = 3) to 17.5 % (n = 20,000, k = 13).",
        "## The estimate",
        _estimates(cubes),
        _resampled(cubes),
        *_beside([row for row in rows if row["kind"] == "beside"]),
        "## Coverage",
        f"{study.COVERAGE_ROWS:,} training rows, {study.COVERAGE_SEEDS} seeds, "
        f"{study.COVERAGE_SAMPLES:,} samples, true error from {study.COVERAGE_TEST:,} test rows. "
        "The bound holds for every distribution, so it is wide for any one: the last column is the "
        "error's greatest distance from the estimate, as a share of ε.",
        _coverage(covered),
        *(_time(row) for row in timed),
        "Command: `python -m benchmarks.study --only certificates`",
    )


def _beside(rows: Rows) -> list[str]:
    """The bound, rows that are held out, and leave-one-out."""
    if not rows:
        return []
    names = ("error", "bound", "bound_off", "held_out", "held_out_off", "cost", "one_out_off")
    lines = []
    for n in study.BESIDE_SIZES:
        of_size = [row for row in rows if row["n"] == n]
        means = (float(np.mean([row[name] for row in of_size])) for name in names)
        lines.append([f"{n:,}", *(f"{mean:.4f}" for mean in means)])
    head = [
        *("rows", "error", "bound: width", "estimate off by"),
        *("a tenth held out: width", "estimate off by", "error of what is left, more by"),
        "leave-one-out: off by",
    ]
    return [
        "## Beside rows that are held out",
        f"The same cube, majority of {study.BESIDE_K}, δ = {study.DELTA}, means of "
        f"{study.BESIDE_SEEDS} training sets: the bound of all rows, Clopper & Pearson's on a "
        "tenth that is held out, and leave-one-out, which bounds nothing. Off by: mean distance "
        f"from the error of the rule of all rows, by {study.BESIDE_TEST:,} test rows.",
        table(head, lines),
    ]


def _widths(rows: Rows) -> str:
    lines = []
    for n in study.SIZES:
        for row in (r for r in rows if r["n"] == n and r["seed"] == 0):
            cells = [f"{n:,}", row["k"]]
            for name in ("lemma6", "hoeffding"):
                found = row[name]
                parts = ", ".join(f"{p:.4f}" for p in found["parts"])
                cells += [f"{found['r']}, {found['m'] / n:.3f} n", f"{found['epsilon']:.4f}", parts]
            lines.append(cells)
    head = ["n", "k", "paper: r, m", "ε", "ε_v, ε_r, ε_c, ε_s", "ours: r, m", "ε", "its parts"]
    return table(head, lines)


def _estimates(rows: Rows) -> str:
    lines = []
    for n in study.SIZES:
        some = [r for r in rows if r["n"] == n]
        for name, says in (("lemma6", "paper"), ("hoeffding", "ours")):
            off = np.array([abs(r[name]["estimate"] - r["error"]) for r in some])
            seeds = [
                100 * off[[r["seed"] == s for r in some]].mean() for s in range(study.DATA_SEEDS)
            ]
            each = ", ".join(f"{v:.2f}" for v in seeds)
            lines.append(
                [f"{n:,}", says, f"{100 * PAPER[n]:.2f} %", f"{100 * off.mean():.2f} %", each]
            )
    head = ["n", "(r, m) of", "paper's mean over k", "mean over k and sets", "each set, %"]
    return "Mean |estimate - error| over k = 3, 5, …, 13:\n\n" + table(head, lines)


def _resampled(rows: Rows) -> str:
    """The estimate of one sampling against the mean of eight others, in standard errors."""
    scores = []
    for row in (r for r in rows if r["resampled"]):
        others = np.array(row["resampled"])
        spread = others.std(ddof=1) * np.sqrt(1 + 1 / len(others))
        scores.append((row["hoeffding"]["estimate"] - others.mean()) / spread)
    share = np.mean(np.abs(scores) <= 3)
    return (
        f"Against the mean of eight other samplings (n = 20,000, {len(scores)} cases) the estimate "
        f"lies within three standard errors of sampling in {share:.0%} of the cases; standard "
        f"deviation of the scores {np.std(scores):.2f}."
    )


def _coverage(rows: Rows) -> str:
    lines = []
    for problem in study.PROBLEMS:
        some = [r for r in rows if r["problem"] == problem.name]
        if not some:
            continue
        inside = np.mean([r["lower"] <= r["error"] <= r["upper"] for r in some])
        off = np.array([abs(r["estimate"] - r["error"]) for r in some])
        most = max(o / r["half_width"] for o, r in zip(off, some, strict=True))
        wide = np.mean([r["wide"][0] <= r["error"] <= r["wide"][1] for r in some])
        lines.append(
            [
                problem.says,
                len(some),
                f"{np.mean([r['error'] for r in some]):.4f}",
                f"{np.mean([r['half_width'] for r in some]):.3f}",
                f"{inside:.1%}"
                + (f" ({wide:.1%} with rates in intervals)" if problem.clean else ""),
                f"{off.mean():.4f}",
                f"{most:.2f}",
            ]
        )
    head = ["problem", "seeds", "error", "ε", "covered", "mean distance", "greatest / ε"]
    return table(head, lines)


def _time(row: dict[str, Any]) -> str:
    return (
        f"Sampling {study.SAMPLES:,} times over {row['rows']:,} rows, lists at hand, took "
        f"{row['seconds']:.1f} s of one core."
    )
