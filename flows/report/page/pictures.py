"""The figures of the pool: its picture, and recall by block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import MaxNLocator

from flows.report.model import PoolReport
from flows.report.page.gather import BlockRecall
from flows.report.page.svg import COLORS as C
from flows.report.page.svg import Drawing, axes, drawing
from flows.report.page.words import percent
from pipeline.diagnostics.pca import principal_plane
from storage.errors import amount

LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Bounds of the shades of label quality."""
MANY = 80
"""Blocks above which a figure of them shows no intervals."""


def pool(x: npt.NDArray[np.float32], quality: npt.NDArray[np.float32]) -> Drawing:
    """Rows (row, feature) on their first two principal components, worst label quality on top."""
    plane = principal_plane(x)
    with axes("pool", height=3.6) as (ax, figure):
        level = np.digitize(quality, LEVELS)
        bounds = (0.0, *LEVELS, 1.0)
        for i in reversed(range(len(LEVELS) + 1)):
            ax.plot(
                *plane.at[level == i].T,
                "o",
                color=C[f"q{i}"],
                ms=2.6 if i > 1 else 3.2,
                mew=0,
                alpha=0.75,
                label=f"{bounds[i]:.1f}–{bounds[i + 1]:.1f}",
            )
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines["bottom"].set_visible(False)
        first, second = plane.share
        ax.set_xlabel(f"first component, {percent(first)} of variance")
        ax.set_ylabel(f"second, {percent(second)}")
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(
            *(handles[::-1], labels[::-1]),
            title="label quality",
            loc="outside lower center",
            ncols=5,
            frameon=False,
            markerscale=2.2,
            handletextpad=0.0,
            columnspacing=0.9,
            fontsize=8,
            title_fontsize=8,
        )
        n, low = len(level), int((level == 0).sum())
        text = (
            f"{n:,} rows of the pool on the plane of their two largest principal components, which "
            f"hold {percent(first + second)} of their variance; the label quality of {low:,} is "
            "below 0.2."
        )
        caption = (
            f"A random sample of {n:,} rows. Where dots of low quality crowd together, "
            "labels of one region are wrong or the classes overlap; strewn dots are random errors."
        )
        return drawing(figure, "pool", "The pool, seen flat", caption, text)


def recall(blocks: Sequence[BlockRecall], report: PoolReport) -> Drawing | None:
    """Recall of each block, lowest first; None where there are no two to compare."""
    if len(blocks) < 2:
        return None
    at = np.arange(1, len(blocks) + 1)
    value = np.array([block.recall for block in blocks])
    low, high = np.array([block.interval for block in blocks]).T
    target = report.target_recall
    many = len(blocks) > MANY
    with axes("recall", height=3.6) as (ax, figure):
        if not many:
            ax.vlines(at, low, high, color=C["one"], lw=2.5, alpha=0.35)
        ax.plot(at, value, "o", color=C["one"], ms=2.5 if many else 4.5, mew=0)
        ax.axhline(target, color=C["accent"], lw=1.2, ls="--")
        ax.annotate(
            f"target {target:g}",
            (1.0, target),
            (0, 4),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            color=C["accent"],
        )
        least = min(target, float(value.min() if many else low.min()))
        ax.set_ylim(least - 0.15 * (1.0 - least) - 1e-3, 1.0 + 0.06 * (1.0 - least) + 1e-3)
        ax.set_xlim(0.2, len(blocks) + 0.8)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        ax.set_xlabel("blocks, lowest recall first")
        ax.set_ylabel("share of true neighbors found")
        worst = blocks[0]
        text = (
            f"{amount(len(blocks), 'block')}; the lowest recall is {worst.recall:.4f} in block "
            f"{worst.block}, from {worst.interval[0]:.4f} to {worst.interval[1]:.4f}; the median "
            f"is {float(np.median(value)):.4f}; the target is {target:g}."
        )
        bars = "" if many else " Bars are 95 % intervals, wide where few rows were audited."
        caption = f"Audited against exact search on a random sample of rows.{bars}"
        return drawing(figure, "recall", "Recall by block", caption, text)
