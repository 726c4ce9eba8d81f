"""The figures that kinds of labels share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from flows.report.model import Training
from flows.report.page.svg import COLORS as C
from flows.report.page.svg import Drawing, axes, drawing
from flows.report.page.words import percent
from pipeline.diagnostics.reliability import Reliability


def k_curve(report: Training) -> Drawing:
    """Leave-one-out score against k, the chosen k marked."""
    grid, score = report.k_curve.grid, report.k_curve.score
    k = report.k
    with axes("kcurve") as (ax, figure):
        ax.plot(grid, score, "o-", color=C["one"], ms=3.5)
        at = score[grid.index(k)]
        ax.plot(k, at, "o", ms=10, mfc="none", mec=C["accent"], mew=1.8)
        ax.annotate(
            f"k = {k}", (k, at), (0, 11), textcoords="offset points", ha="center", color=C["accent"]
        )
        ax.margins(y=0.18)
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.set_xlabel("k, neighbors averaged")
        ax.set_ylabel("Brier score, leave-one-out")
        text = "; ".join(f"k {a}: {b:.5f}" for a, b in zip(grid, score, strict=True))
        given = report.config.parameters["k"] is not None
        how = "The marked size was asked for." if given else "The marked size was chosen."
        caption = f"How badly neighbors foretell a row's own given label: lower is better. {how}"
        return drawing(figure, "kcurve", "Choice of k", caption, f"{text}. {how} k = {k}.")


def qualities(histogram: npt.NDArray[np.int64], issues: int) -> Drawing:
    """Training rows by label quality."""
    edges = np.linspace(0.0, 1.0, len(histogram) + 1)
    with axes("quality", height=3.1) as (ax, figure):
        middle, width = (edges[1:] + edges[:-1]) / 2, 0.86 / len(histogram)
        low = middle < 0.5
        ax.bar(middle[low], histogram[low], width, color=C["accent"], label="suspect")
        ax.bar(middle[~low], histogram[~low], width, color=C["one"], label="not suspect")
        ax.set_yscale("symlog", linthresh=10)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.set_xlim(-0.01, 1.01)
        ax.set_xlabel("label quality, P(the given label is the true one)")
        ax.set_ylabel("training rows")
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
        n = int(histogram.sum())
        text = f"{issues:,} of {n:,} rows have a label quality below one half."
        caption = f"{text} The scale of rows is logarithmic."
        return drawing(figure, "quality", "Label quality", caption, text)


def reliability(curve: Reliability) -> Drawing:
    """Share of clean 1s against mean posterior, bin by bin."""
    with axes("reliability", height=3.4) as (ax, figure):
        ax.plot([0, 1], [0, 1], color=C["muted"], lw=1, ls=(0, (2, 3)))
        low, high = np.array(curve.interval).T
        ax.vlines(curve.posterior, low, high, color=C["one"], lw=2.5, alpha=0.4)
        size = 12 + 110 * np.sqrt(np.array(curve.rows) / max(curve.rows))
        ax.scatter(curve.posterior, curve.share, s=size, color=C["one"], lw=0, zorder=3)
        ax.set_xlim(-0.04, 1.04)
        ax.set_ylim(-0.04, 1.04)
        ax.set_xlabel("posterior, mean of the bin")
        ax.set_ylabel("share truly 1")
        text = "; ".join(
            f"posterior {p:.2f}: {percent(s)} of {n:,} rows"
            for p, s, n in zip(curve.posterior, curve.share, curve.rows, strict=True)
        )
        caption = (
            "Scored rows whose clean labels are known. On the dotted line a posterior means what "
            "it says; larger points hold more rows, bars are 95 % intervals."
        )
        return drawing(figure, "reliability", "Reliability of the posterior", caption, text + ".")
