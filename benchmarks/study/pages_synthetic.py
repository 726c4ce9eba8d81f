"""Pages of the simulated studies: the plateau of Reeve & Kabán, Fig. 1 of Gao, Yang & Zhou."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study import plateau as example
from benchmarks.study import square as unit_square
from benchmarks.study.markdown import COLORS, axes_row, mean_sd, page, save, table

Rows = list[dict[str, Any]]
NAMES = {
    "plain": "plain kNN",
    "minmax": "Algorithm 2 (`minmax`)",
    "crossfit": "`crossfit`, untempered",
    "ours": "`crossfit`, tempered (default)",
}


def plateau(rows: Rows, docs: Path) -> None:
    sizes = sorted({row["n"] for row in rows})
    of = {n: [row for row in rows if row["n"] == n] for n in sizes}
    bayes = rows[0]["bayes"]
    figure, (left, right) = axes_row(2)
    for color, (rule, name) in zip(COLORS, NAMES.items(), strict=False):
        for axes, what in ((left, "plateau"), (right, "risk")):
            level = [np.mean([_error(r, rule, what) for r in of[n]]) for n in sizes]
            axes.plot(sizes, level, "o-", ms=3, color=color, label=name.replace("`", ""))
    right.axhline(bayes, color="#333333", linestyle=":", label="Bayes error")
    left.axhline(1 / 3, color="#333333", linestyle=":")
    left.set_title("plateau rows decided against Bayes, share of all", fontsize=9)
    right.set_title("error on clean labels", fontsize=9)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("n")
    right.legend(frameon=False, fontsize=7)
    save(figure, docs / "reeve-kaban.png")
    header = ["n", "k", *(f"{name}: error / plateau" for name in NAMES.values()), "rates found"]
    lines = []
    for n in sizes:
        both = [
            f"{mean_sd([_error(r, rule, 'risk') for r in of[n]])} / "
            f"{np.mean([_error(r, rule, 'plateau') for r in of[n]]):.3f}"
            for rule in NAMES
        ]
        found = np.mean([r["rates"]["crossfit"] for r in of[n]], axis=0)
        verdicts = [r["support"] for r in of[n]]
        most = max(set(verdicts), key=verdicts.count)
        lines.append([f"{n:,}", of[n][0]["k"], *both, f"{found[0]:.3f}, {found[1]:.3f} ({most})"])
    page(
        docs / "reeve-kaban.md",
        "The example on which plain kNN is inconsistent (Reeve & Kabán 2019, §5)",
        f"One dimension, p0 = {example.P0}, p1 = {example.P1}; η = m = 0.583 on the middle third, "
        "where η_corr = 0.45, so that the plain vote decides that third wrongly for certain as n "
        f"grows. k is k_n of Theorem 4.3 (λ = 1, ω = 3, δ = {example.DELTA}); "
        f"{len(of[sizes[0]])} seeds (0, 1, …), {len(of[sizes[-1]])} at the largest n; Bayes error "
        f"{bayes:.4f}. The error is exact given "
        f"the decisions on {example.N_TEST:,} test rows. `plateau` is the share of all test rows "
        "that lie on the plateau and are decided against Bayes: 1/3 is all of it.",
        "![error against n](reeve-kaban.png)",
        table(header, lines),
        "η reaches 0 and 1 at single points only, so the classes blend everywhere and `crossfit` "
        "says `weak`.",
        "Command: `python -m benchmarks.study --only plateau`",
    )


def _error(row: dict[str, Any], rule: str, what: str) -> float:
    share = 1.0 / 3.0 if what == "plateau" else 1.0
    return float(row["errors"][rule][what]) * share


def square(rows: Rows, docs: Path) -> None:
    by_k = [row for row in rows if "plain" in row]
    by_n = [row for row in rows if "n" in row]
    bayes = by_k[0]["bayes"]
    figure, panels = axes_row(4, 12.0)
    parts = []
    for axes, letter, settings in (
        (panels[0], "a", unit_square.ASYMMETRIC),
        (panels[1], "b", unit_square.SYMMETRIC),
    ):
        curves = {p: _mean(by_k, p, lambda r: r["plain"]) for p in settings}
        parts.append(_panel(axes, letter, "k of plain kNN", unit_square.K, curves, bayes))
    sizes = unit_square.SIZES
    clean = ((0.0, 0.0), *unit_square.SYMMETRIC)
    errors = {p: [_at(by_n, p, n) for n in sizes] for p in clean}
    parts.append(_panel(panels[2], "c", "n, 1-nearest neighbor", sizes, errors, bayes))
    panels[2].set_xscale("log")
    for rule in unit_square.RULES:
        curves = {
            p: _mean(by_k, p, lambda r, of=rule: r["rknn"][of]) for p in unit_square.ASYMMETRIC
        }
        if rule == "true":
            shown = _panel(panels[3], "d", "k of RkNN, true rates", unit_square.K, curves, bayes)
        else:
            shown = _table(f"k of RkNN, rates by {rule}", unit_square.K, curves)
        parts.append(shown)
    panels[0].set_ylabel("test error")
    save(figure, docs / "gao-figure1.png")
    found = {
        p: {
            rule: np.mean([r["rates"][rule] for r in by_k if tuple(r["noise"]) == p], axis=0)
            for rule in unit_square.RULES
        }
        for p in unit_square.ASYMMETRIC
    }
    rates = table(
        ["(p0, p1)", "minmax, k' = 100", "crossfit"],
        [
            [p, *(f"{f[r][0]:.3f}, {f[r][1]:.3f}" for r in ("minmax", "crossfit"))]
            for p, f in found.items()
        ],
    )
    page(
        docs / "gao-figure1.md",
        "Fig. 1 of Gao, Yang & Zhou",
        f"Uniform on the unit square, η = (1 - sin 2πx₁ sin 2πx₂)/2, "
        f"{unit_square.N_TRAIN:,} training rows (seed {unit_square.TRAIN_SEED}), "
        f"{unit_square.N_TEST:,} test rows (seed {unit_square.TEST_SEED}), labels flipped 20 times "
        f"(seeds 0 to 19), error on the test rows' clean labels; Bayes error {bayes:.4f}. The "
        "paper's text does not name its noise settings; these are ours. (a) With asymmetric noise "
        "plain kNN stays above the Bayes error however large k is; (b) with symmetric noise it "
        "comes down to it; (c) 1-NN does not converge; (d) RkNN with the true rates does.",
        "![Fig. 1](gao-figure1.png)",
        *parts,
        "Mean rates found:",
        rates,
        "Command: `python -m benchmarks.study --only square`",
    )


def _mean(rows: Rows, noise: tuple[float, float], pick: Any) -> list[float]:
    return list(np.mean([pick(r) for r in rows if tuple(r["noise"]) == noise], axis=0))


def _at(rows: Rows, noise: tuple[float, float], n: int) -> float:
    return float(np.mean([r["error"] for r in rows if tuple(r["noise"]) == noise and r["n"] == n]))


def _panel(axes: Any, letter: str, what: str, xs: Any, curves: Any, bayes: float) -> str:
    for color, (noise, level) in zip(COLORS, curves.items(), strict=False):
        axes.plot(xs, level, "o-", ms=3, color=color, label=str(noise))
    axes.axhline(bayes, color="#333333", linestyle=":")
    axes.set_title(f"({letter})", fontsize=9)
    axes.set_xlabel(what)
    axes.legend(frameon=False, fontsize=7)
    return _table(f"({letter}) {what}", xs, curves)


def _table(what: str, xs: Any, curves: Any) -> str:
    header = [what, *(f"{x:,}" for x in xs)]
    return table(header, [[p, *(f"{v:.4f}" for v in level)] for p, level in curves.items()])
