"""Page of the suspects' ranking, their calibration, and the tempered prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study.markdown import COLORS, axes_row, page, save, table
from benchmarks.study.pages_rates import each

Rows = list[dict[str, Any]]


def best_peer(rows: Rows, measure: str) -> tuple[str, float]:
    """cleanlab's score of the highest mean over a set's cases."""
    names = set.intersection(*(set(row[measure]) for row in rows)) - {"before", "ours"}
    means = {name: float(np.mean([row[measure][name] for row in rows])) for name in names}
    best = max(sorted(means), key=means.__getitem__)
    return best, means[best]


def leads(rows: Rows, measure: str) -> dict[str, tuple[float, float, float, str]]:
    """By set: (before, ours, best of cleanlab, its name)."""
    found = {}
    for name, some in each(rows, lambda r: r["set"]).items():
        peer, level = best_peer(some, measure)
        before, ours = (float(np.mean([r[measure][m] for r in some])) for m in ("before", "ours"))
        found[name] = (before, ours, level, peer.removeprefix("cleanlab "))
    return found


def calibration_error(rows: Rows, score: str) -> float:
    """Expected calibration error over all rows of some cases, by tenth of the quality."""
    count, total, right = np.sum([np.array(r["reliability"][score]) for r in rows], axis=0)
    return float(np.abs(total - right).sum() / count.sum())


def summary(rows: Rows) -> list[list[str]]:
    lines = []
    for label, some in halves(rows).items():
        cells = [label, str(len({r["set"] for r in some})), str(len(some))]
        for measure in ("ap", "precision"):
            gains = [
                (ours - peer, before - peer)
                for before, ours, peer, _ in leads(some, measure).values()
            ]
            after, before = np.mean(gains, axis=0)
            lost = sum(gain < 0 for gain, _ in gains)
            cells += [f"{before:+.4f}", f"{after:+.4f}", f"{lost} of {len(gains)}"]
        cells += [f"{calibration_error(some, m):.3f}" for m in ("before", "ours")]
        lines.append(cells)
    return lines


def halves(rows: Rows) -> dict[str, Rows]:
    parts = {
        "all": rows,
        "tuned on": [r for r in rows if r["tuned"]],
        "not tuned on": [r for r in rows if not r["tuned"]],
    }
    return {label: some for label, some in parts.items() if some}


def flags(rows: Rows) -> list[list[str]]:
    """By rule: precision, recall and F1 of flags by noise, and the cells that lose F1."""
    rules = {name: None for row in rows for name in row["flags"]}
    now, kinds = next(iter(rules)), each(rows, lambda r: r["kind"])
    lines = []
    for rule in rules:
        there = [r for r in rows if rule in r["flags"]]
        cells = each(there, lambda r: (r["set"], r["kind"]))
        lost = [
            float(np.mean([r["flags"][rule][2] - r["flags"][now][2] for r in some]))
            for some in cells.values()
        ]
        means = [
            np.mean([r["flags"][rule] for r in some if rule in r["flags"]], axis=0)
            for some in (there, *kinds.values())
        ]
        shown = [", ".join(f"{value:.2f}" for value in mean) for mean in means]
        behind = sum(gain < -0.02 for gain in lost)
        lines.append([rule, *shown, f"{behind} of {len(lost)}", f"{min(lost):+.3f}"])
    return lines


def suspects(rows: Rows, docs: Path) -> None:
    by_set = []
    precision = leads(rows, "precision")
    for name, (before, ours, peer, method) in leads(rows, "ap").items():
        some = [r for r in rows if r["set"] == name]
        distinct = [np.mean([r["distinct"][m] for r in some]) for m in ("before", "ours")]
        by_set.append(
            [name, f"{some[0]['n']:,}", some[0]["classes"], "yes" if some[0]["tuned"] else ""]
            + [f"{before:.3f}", f"{ours:.3f}", f"{peer:.3f} ({method})", f"{ours - peer:+.3f}"]
            + [f"{precision[name][1] - precision[name][2]:+.3f}"]
            + [f"{calibration_error(some, m):.3f}" for m in ("before", "ours")]
            + [f"{share:.2f}" for share in distinct]
        )
    by_kind = []
    for kind, some in each(rows, lambda r: r["kind"]).items():
        for label, part in halves(some).items():
            gains = [
                (ours - peer, before - peer) for before, ours, peer, _ in leads(part, "ap").values()
            ]
            after, before = np.mean(gains, axis=0)
            error = [f"{calibration_error(part, m):.3f}" for m in ("before", "ours")]
            by_kind.append([kind, label, f"{before:+.4f}", f"{after:+.4f}", *error])
    accuracy = []
    for name, some in each([r for r in rows if r["classes"] > 2], lambda r: r["set"]).items():
        plain, ours = np.mean([r["accuracy"] for r in some], axis=0)
        worst = min(some, key=lambda r: r["gain"])
        accuracy.append(
            [
                name,
                "yes" if some[0]["tuned"] else "",
                len(some),
                f"{plain:.4f}",
                f"{ours:.4f}",
                f"{ours - plain:+.4f}",
                f"{worst['gain']:+.4f} ± {worst['gain_se']:.4f}",
                f"{np.mean([r['accuracy_likely'] for r in some]):.4f}",
            ]
        )
    _diagram(rows, docs)
    lead = "ours - cleanlab"
    page(
        docs / "suspects.md",
        "Suspect labels: ranking and calibration",
        "`before` is the posterior of the given label from the 50 nearest others, without its own "
        "evidence; `ours` is `label_quality` now: six neighborhood sizes, one round of smoothing, "
        "trees and the distance to the fifth neighbor, and the row's own label by "
        "Bayes' rule. cleanlab gets leave-one-out shares of the same 50 "
        "nearest; of its scores (self-confidence and normalized margin, each also adjusted to the "
        "classes, and confidence-weighted entropy) the best of each set is taken. AP: average "
        "precision of the ranking. P: precision at the true number of errors. ECE: expected "
        "calibration error. Noise: see `benchmarks/study/noises.py`; three seeds each. Sets above "
        "12,000 rows are samples of 12,000.",
        table(
            [
                "sets",
                "n",
                "cases",
                "AP before",
                f"AP {lead}",
                "sets below",
                "P before",
                f"P {lead}",
                "sets below",
                "ECE before",
                "ECE ours",
            ],
            summary(rows),
        ),
        "![reliability](suspects.png)",
        table(
            [
                "set",
                "n",
                "classes",
                "tuned on",
                "AP before",
                "AP ours",
                "AP cleanlab",
                lead,
                f"P {lead}",
                "ECE before",
                "ECE ours",
                "distinct before",
                "distinct ours",
            ],
            by_set,
        ),
        "## By noise",
        table(["noise", "sets", "AP before", f"AP {lead}", "ECE before", "ECE ours"], by_kind),
        "## Flags",
        "Precision, recall and F1 of flags, means of the cases. A label is flagged where its own "
        "chance to be right is below ½. Other bounds, the rows of lowest quality as many as wrong "
        "labels are expected (the sum of 1 - quality) or as promise the highest F1, the plain "
        "vote of the 50 nearest, and cleanlab's filter with the same neighbors stand beside it; "
        "`behind`: cells (set and noise) whose F1 is lower by more than .02, and the worst.",
        table(
            ["flagged by", "all", *each(rows, lambda r: r["kind"]), "behind", "worst"], flags(rows)
        ),
        "## Accuracy of the tempered prediction, more than two classes",
        "Leave-one-out on the training rows against clean labels, 50 neighbors; `likely` is the "
        "likeliest class with the row's own label for evidence.",
        table(
            ["set", "tuned on", "cases", "plain", "ours", "gain", "worst case", "likely"], accuracy
        ),
        "Command: `python -m benchmarks.study --data FOLDER --only suspects`",
    )


def _diagram(rows: Rows, docs: Path) -> None:
    parts = [(label, some) for label, some in halves(rows).items() if label != "all"]
    figure, panels = axes_row(len(parts), 8.0)
    for axes, (label, some) in zip(panels, parts, strict=True):
        axes.plot([0, 1], [0, 1], color="#999999", lw=0.8)
        for color, score in zip(COLORS, ("before", "ours"), strict=False):
            count, total, right = np.sum([np.array(r["reliability"][score]) for r in some], axis=0)
            there = count > 0
            axes.plot(
                (total / np.maximum(count, 1))[there],
                (right / np.maximum(count, 1))[there],
                "o-",
                ms=3,
                lw=1,
                color=color,
                label=score,
            )
        axes.set_xlabel("label_quality")
        axes.set_ylabel("share of right labels")
        axes.set_title(label, fontsize=9)
        axes.legend(frameon=False, fontsize=8)
    save(figure, docs / "suspects.png")
