"""Page of the corrected threshold's accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.data import NOISE
from benchmarks.study.markdown import page, table
from benchmarks.study.pages_gao import paper_name, published
from benchmarks.study.pages_rates import PROTOCOL, each

Rows = list[dict[str, Any]]


def accuracy(rows: Rows, docs: Path) -> None:
    rules = ("plain", "true", "untempered", "ours")
    by_set = []
    for name, some in each(rows, lambda r: r["set"]).items():
        level = {rule: np.mean([r["accuracy"][rule] for r in some]) for rule in rules}
        worst = min(some, key=lambda r: r["gain"])
        by_set.append(
            [name, f"{some[0]['n']:,}", f"{some[0]['n_test']:,}", len(some)]
            + [f"{level[rule]:.4f}" for rule in rules]
            + [f"{level['ours'] - level['true']:+.4f}", f"{level['ours'] - level['plain']:+.4f}"]
            + [f"{worst['gain']:+.4f} ± {worst['gain_se']:.4f}"]
        )
    by_noise = []
    for noise in NOISE:
        some = [r for r in rows if tuple(r["noise"]) == noise]
        level = {rule: np.mean([r["accuracy"][rule] for r in some]) for rule in rules}
        by_noise.append([noise, len(some), *(f"{level[rule]:.4f}" for rule in rules)])
    page(
        docs / "accuracy.md",
        "Accuracy of the corrected threshold",
        "Accuracy against clean labels on a quarter of the rows held out; labels of the other "
        "three quarters are flipped. All rules use the same k (`--k auto` on the training part). "
        "`plain`: threshold ½. `true`: the threshold of the rates realised in the sample. "
        "`untempered`: the full correction with `crossfit`'s rates. `ours`: the default, tempered. "
        + PROTOCOL
        + " The split is seeded by the trial alone.",
        table(
            [
                *("set", "n", "test", "cases", *rules),
                *("ours - true", "ours - plain", "worst case"),
            ],
            by_set,
        ),
        "## By noise",
        table(["(p0, p1)", "cases", *rules], by_noise),
        "## Cases where ours - plain < -0.005",
        losses(rows),
        "## Asymmetric cases: gain over plain kNN beside the paper's",
        gains(rows),
        "Command: `python -m benchmarks.study --data FOLDER --only rates`",
    )


def losses(rows: Rows) -> str:
    lines = [
        [
            r["case"],
            r["k"],
            f"{r['gain']:+.4f} ± {r['gain_se']:.4f}",
            f"{r['accuracy']['true'] - r['accuracy']['plain']:+.4f}",
            r["support"],
            "yes" if beyond(r) else "no",
        ]
        for r in rows
        if r["gain"] < -0.005
    ]
    header = ["case", "k", "ours - plain ± se", "true - plain", "verdict", "below -0.005 by 2 se"]
    return table(header, lines) if lines else "None."


def beyond(row: dict[str, Any]) -> bool:
    """Is the loss worse than 0.005 by more than two standard errors?"""
    return bool(row["gain"] + 2.0 * row["gain_se"] < -0.005)


def asymmetric_gain(rows: Rows) -> tuple[float, float, list[list[str]]]:
    """Mean gain of ours and of the paper's RkNN over plain kNN on the sets both have."""
    paper, lines, both = published(), [], []
    for name, some in each(rows, lambda r: r["set"]).items():
        theirs = [paper.get((paper_name(name), *noise)) for noise in NOISE[:2]]
        if None in theirs or name == "optdigits":
            continue
        ours = [r["gain"] for r in some if tuple(r["noise"]) in NOISE[:2]]
        printed = [t["rknn"] - t["knn"] for t in theirs if t]
        both.append((np.mean(ours), np.mean(printed)))
        lines.append([name, f"{both[-1][0]:+.4f}", f"{both[-1][1]:+.4f}"])
    mean = np.mean(both, axis=0) if both else (np.nan, np.nan)
    return float(mean[0]), float(mean[1]), lines


def gains(rows: Rows) -> str:
    ours, theirs, lines = asymmetric_gain(rows)
    lines.append(["mean", f"{ours:+.4f}", f"{theirs:+.4f}"])
    return table(["set, noise (.1, .2) and (.3, .1)", "ours", "paper's RkNN"], lines)
