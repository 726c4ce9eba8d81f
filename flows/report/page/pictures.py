"""Figures as inline SVG that takes its colors and fonts from the page; those of several kinds."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from flows.report.model import PoolReport, Training
from flows.report.page.render import percent
from pipeline.arrays import Float32, Int64
from pipeline.diagnostics.pca import principal_plane
from pipeline.diagnostics.reliability import Reliability
from pipeline.knn.lists import Recall
from storage.errors import amount

C = {
    "ink": "#010101",
    "muted": "#020202",
    "line": "#030303",
    "paper": "#040404",
    "zero": "#050505",
    "one": "#060606",
    "accent": "#070707",
    "zero-ink": "#080808",
    **{f"q{i}": f"#09090{i}" for i in range(5)},
}
"""Names of the page's colors → what stands for them until the SVG is on the page."""
WIDTH, HEIGHT = 4.7, 3.1
"""Inches of 100 units; on the page a figure is as wide as its column."""
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": C["ink"],
    "axes.labelcolor": C["muted"],
    "axes.edgecolor": C["line"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 1.0,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "axes.grid": True,
    "grid.color": C["line"],
    "grid.linewidth": 0.7,
    "xtick.color": C["line"],
    "ytick.color": C["line"],
    "xtick.labelcolor": C["muted"],
    "ytick.labelcolor": C["muted"],
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "figure.facecolor": "none",
    "lines.linewidth": 1.6,
}
LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Bounds of the shades of label quality."""
MANY = 80
"""Blocks above which a figure of them shows no intervals."""


@dataclass(frozen=True)
class Drawing:
    """A figure for the page."""

    title: str
    caption: str
    """What a reader should see in it; shown below."""
    text: str
    """The same in words and numbers, for those who do not see it."""
    svg: Markup


@contextmanager
def axes(
    name: str, *, height: float = HEIGHT, grid: Literal["x", "y"] = "y"
) -> Iterator[tuple[Axes, Figure]]:
    """One set of axes in the page's style; equal drawings give equal bytes."""
    with rc_context({**_STYLE, "svg.hashsalt": name, "axes.grid.axis": grid}):
        figure = Figure(figsize=(WIDTH, height), dpi=72, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.03)  # type: ignore[call-arg, union-attr]
        yield figure.add_subplot(), figure


def drawing(figure: Figure, name: str, title: str, caption: str, text: str) -> Drawing:
    """The figure as SVG with its alternative text; call it within `axes`."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    match = re.search(r"<svg\b.*</svg>", buffer.getvalue(), re.DOTALL)
    assert match is not None
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", match.group(), flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # matplotlib numbers them anew in every figure
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    for color, stand_in in C.items():
        svg = svg.replace(stand_in, f"var(--{color})")
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    opening = (
        f'<svg class="plot" {box.group()} role="img" aria-labelledby="{name}-t {name}-d" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(text)}</desc>'
    )
    svg = re.sub(r"^<svg\b[^>]*>", lambda _: opening, svg, count=1)
    return Drawing(title, caption, text, Markup(svg))


def named_at_right(ax: Axes, name: str, y: float, color: str) -> None:
    """Write what a line across the figure is above its right end."""
    there: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate(name, (1.0, y), (0, 4), ha="right", color=color, **there)


def count_rows(ax: Axes, figure: Figure) -> None:
    """The height of bars of two kinds is a number of training rows; the kinds are named below."""
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylabel("training rows")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)


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
        ax.set(xlabel="k, neighbors averaged", ylabel="Brier score, leave-one-out")
        text = "; ".join(f"k {a}: {b:.5f}" for a, b in zip(grid, score, strict=True))
        given = report.config.parameters["k"] is not None
        how = "The marked size was asked for." if given else "The marked size was chosen."
        caption = f"How badly neighbors foretell a row's own given label: lower is better. {how}"
        return drawing(figure, "kcurve", "Choice of k", caption, f"{text}. {how} k = {k}.")


def qualities(histogram: Int64, issues: int) -> Drawing:
    """Training rows by label quality."""
    edges = np.linspace(0.0, 1.0, len(histogram) + 1)
    with axes("quality", height=3.1) as (ax, figure):
        middle, width = (edges[1:] + edges[:-1]) / 2, 0.86 / len(histogram)
        low = middle < 0.5
        ax.bar(middle[low], histogram[low], width, color=C["accent"], label="suspect")
        ax.bar(middle[~low], histogram[~low], width, color=C["one"], label="not suspect")
        ax.set_yscale("symlog", linthresh=10)
        count_rows(ax, figure)
        ax.set_xlim(-0.01, 1.01)
        ax.set_xlabel("label quality, P(the given label is the true one)")
        n = int(histogram.sum())
        text = f"{issues:,} of {n:,} rows have a label quality below one half."
        caption = f"{text} The scale of rows is logarithmic."
        return drawing(figure, "quality", "Label quality", caption, text)


def reliability(curve: Reliability, right: str) -> Drawing:
    """Share of rows of which the posterior is `right` against its mean, bin by bin."""
    with axes("reliability", height=3.4) as (ax, figure):
        ax.plot([0, 1], [0, 1], color=C["muted"], lw=1, ls=(0, (2, 3)))
        low, high = np.array(curve.interval).T
        ax.vlines(curve.posterior, low, high, color=C["one"], lw=2.5, alpha=0.4)
        size = 12 + 110 * np.sqrt(np.array(curve.rows) / max(curve.rows))
        ax.scatter(curve.posterior, curve.share, s=size, color=C["one"], lw=0, zorder=3)
        ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04))
        ax.set(xlabel="posterior, mean of the bin", ylabel=f"share {right}")
        text = "; ".join(
            f"posterior {p:.2f}: {percent(s)} of {n:,} rows"
            for p, s, n in zip(curve.posterior, curve.share, curve.rows, strict=True)
        )
        caption = (
            "Scored rows whose clean labels are known. On the dotted line a posterior means what "
            "it says; larger points hold more rows, bars are 95 % intervals."
        )
        return drawing(figure, "reliability", "Reliability of the posterior", caption, text + ".")


def pool(x: Float32, quality: Float32) -> Drawing:
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
        ax.set(xticks=[], yticks=[])
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


def recall(blocks: Sequence[tuple[int, Recall]], report: PoolReport) -> Drawing | None:
    """Recall of each block, lowest first; None where there are no two to compare."""
    if len(blocks) < 2:
        return None
    at = np.arange(1, len(blocks) + 1)
    value = np.array([recall.value for _, recall in blocks])
    low, high = np.array([recall.interval for _, recall in blocks]).T
    target = report.target_recall
    many = len(blocks) > MANY
    with axes("recall", height=3.6) as (ax, figure):
        if not many:
            ax.vlines(at, low, high, color=C["one"], lw=2.5, alpha=0.35)
        ax.plot(at, value, "o", color=C["one"], ms=2.5 if many else 4.5, mew=0)
        ax.axhline(target, color=C["accent"], lw=1.2, ls="--")
        named_at_right(ax, f"target {target:g}", target, C["accent"])
        least = min(target, float(value.min() if many else low.min()))
        ax.set_ylim(least - 0.15 * (1.0 - least) - 1e-3, 1.0 + 0.06 * (1.0 - least) + 1e-3)
        ax.set_xlim(0.2, len(blocks) + 0.8)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        ax.set(xlabel="blocks, lowest recall first", ylabel="share of true neighbors found")
        block, worst = blocks[0]
        text = (
            f"{amount(len(blocks), 'block')}; the lowest recall is {worst.value:.4f} in block "
            f"{block}, from {worst.interval[0]:.4f} to {worst.interval[1]:.4f}; the median "
            f"is {float(np.median(value)):.4f}; the target is {target:g}."
        )
        bars = "" if many else " Bars are 95 % intervals, wide where few rows were audited."
        caption = f"Audited against exact search on a random sample of rows.{bars}"
        return drawing(figure, "recall", "Recall by block", caption, text)
