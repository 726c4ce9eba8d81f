"""The page of the review, with its plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.study import review as study
from benchmarks.study.markdown import COLORS, axes_row, page, save, table


def review(rows: list[dict[str, Any]], docs: Path) -> None:
    found = rows[-1]
    figure, (axes,) = axes_row(1, 6.0)
    for color, name, label in zip(
        COLORS, ("found", "found_at_random"), ("review", "random rows"), strict=False
    ):
        share = [100 * n / found["n_wrong"] for n in found[name]]
        axes.plot(range(1, len(share) + 1), share, color=color, label=label)
    axes.set_xlabel("questions answered")
    axes.set_ylabel("wrong labels found, %")
    axes.legend(frameon=False)
    save(figure, docs / "review.png")
    trainings = [("before", "as given"), ("after", "after the review")]
    trainings.append(("by_chance", "after as many random rows"))
    at = [n for n in (50, 100, 200, 500, 1000) if n <= found["asked"]]
    page(
        docs / "review.md",
        "A round of a review",
        f"Fashion-MNIST, {study.TRAIN:,} rows to learn from and {study.TEST:,} to test on, odd "
        f"classes against even ones, labels flipped at p0 = {study.NOISE[0]}, p1 = "
        f"{study.NOISE[1]}: {found['n_wrong']:,} are wrong. A training finds "
        f"{found['n_suspects']:,} suspects, {found['suspects_right']:.1%} of them wrong. `knnoise "
        f"review --budget {study.BUDGET}` asks, and a script answers over the page's own interface "
        "with the clean label, for a whole group of alike suspects where all of it has one. A "
        "fifth of the questions are on rows drawn at random, which measure.",
        "![Wrong labels found against questions answered](review.png)",
        table(
            ["questions", "wrong labels found", "by checking random rows"],
            [(n, f"{found['found'][n - 1]:,}", f"{found['found_at_random'][n - 1]:,}") for n in at],
        ),
        f"The page was killed with -9 {found['kills']} times between two answers and started "
        f"again: {found['asked']:,} rows were asked about, {found['asked_twice']} of them twice. "
        "At the end it said:",
        "\n".join(f"> {line}" for line in found["said"]),
        "## The next training",
        table(
            ["training", "labels wrong", "verdicts wrong", "test accuracy", "p0", "p1"],
            [
                (
                    label,
                    f"{found[name]['wrong_labels']:,}",
                    f"{found[name]['wrong_verdicts']:,}",
                    f"{found[name]['accuracy']:.4f}",
                    f"{found[name]['p0']:.3f}",
                    f"{found[name]['p1']:.3f}",
                )
                for name, label in trainings
            ],
        ),
        "Rates of later trainings are those of the labels as corrected. "
        "Command: `python -m benchmarks.study --data FOLDER --only review`",
    )
