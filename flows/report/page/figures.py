"""The figures of rates, ranges and thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from flows.report.kinds import TrainReport
from flows.report.model import Training
from flows.report.page.svg import COLORS as C
from flows.report.page.svg import Drawing, axes, drawing
from flows.report.page.words import interval, percent
from pipeline.diagnostics.reliability import Reliability

SE95 = 1.96


def rates(series: Sequence[tuple[str, TrainReport]]) -> Drawing:
    """Both noise rates with their intervals; `series` is (name, report), one or two of them."""
    with axes("rates", height=1.35 + 0.35 * len(series)) as (ax, figure):
        ticks, names, texts, furthest = [], [], [], 0.01
        for at, rate in enumerate(("p0", "p1")):
            for i, (name, report) in enumerate(series):
                low, high = interval(report, rate) or (getattr(report, rate), getattr(report, rate))
                y, furthest = -at * (len(series) + 0.6) - i, max(furthest, high)
                color = C["one"] if i == len(series) - 1 else C["muted"]
                ax.plot([low, high], [y, y], color=color, lw=5, alpha=0.35)
                ax.plot(getattr(report, rate), y, "o", color=color, ms=7)
                ax.annotate(
                    f"{getattr(report, rate):.3f}",
                    (high, y),
                    (7, 0),
                    textcoords="offset points",
                    va="center",
                )
                ticks.append(y)
                names.append(f"p{at} {name}".strip())
                span = f", from {low:.3f} to {high:.3f}" if low < high else ""
                texts.append(f"{names[-1]}: {getattr(report, rate):.3f}{span}")
        ax.set_yticks(ticks, names)
        ax.set_ylim(min(ticks) - 0.7, 0.7)
        ax.set_xlim(0, 1.18 * furthest)
        ax.grid(axis="y", visible=False)
        ax.grid(axis="x", visible=True)
        ax.set_xlabel("share of labels given wrongly")
        caption = "Points are estimates, bars their 95 % intervals."
        return drawing(figure, "rates", "Noise rates", caption, "; ".join(texts) + ".")


def honest_range(report: TrainReport) -> Drawing | None:
    """Least and greatest honest share of given 1s against k; None where none was computed."""
    curve = report.estimates[report.noise].diagnostics.get("range")
    if not curve:
        return None
    k, low, high = (np.asarray(curve[n]) for n in ("k", "v_min", "v_max"))
    e_low, e_high = (SE95 * np.asarray(curve[n]) for n in ("v_min_se", "v_max_se"))
    with axes("range") as (ax, figure):
        for value, error, color, ink, name, rate in (
            (high, e_high, C["one"], C["one"], "1 − p1", 1.0 - report.p1),
            (low, e_low, C["zero"], C["zero-ink"], "p0", report.p0),
        ):
            ax.fill_between(k, value - error, value + error, color=color, alpha=0.18, lw=0)
            ax.plot(k, value, "o-", color=color, ms=3.5)
            ax.axhline(rate, color=color, lw=1, ls=(0, (2, 3)))
            ax.annotate(
                f"{name} = {rate:.3f}",
                (1.0, max(rate, float((value + error)[-2:].max()))),
                (0, 4),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="right",
                color=ink,
            )
        ax.set_xscale("log")
        ax.set_xticks(k, [f"{v:.0f}" for v in k])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_ylim(0, 1)
        ax.set_xlabel("k, neighbors averaged")
        ax.set_ylabel(f"share given {report.label_values[1]}")
        text = "; ".join(
            f"k {a:.0f}: from {b:.3f} to {c:.3f}" for a, b, c in zip(k, low, high, strict=True)
        )
        caption = (
            f"Lowest and highest share given {report.label_values[1]}, read on labels held out "
            "from the search for them. Flat lines mean pure neighborhoods; bands are 95 % "
            "intervals, dotted lines the estimates."
        )
        return drawing(figure, "range", "Honest range against k", caption, text + ".")


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


def histogram(report: TrainReport, votes: npt.NDArray[np.int64]) -> Drawing:
    """Training rows by share of neighbors given 1, with extrema and thresholds."""
    k = len(votes) - 1
    eta = np.arange(k + 1) / k
    with axes("eta", height=3.4) as (ax, figure):
        width = 0.86 / k
        named = [f"given {value}" for value in report.label_values]
        for y, color, under in ((0, C["zero"], 0 * votes[:, 0]), (1, C["one"], votes[:, 0])):
            ax.bar(eta, votes[:, y], width, bottom=under, color=color, label=named[y])
        top = float(votes.sum(axis=1).max())
        ax.set_ylim(0, 1.34 * top)
        _marks(ax, report, top)
        ax.set_xlim(-0.02, 1.02)
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.set_xlabel(f"η_corr, share of the k neighbors {named[1]}")
        ax.set_ylabel("training rows")
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
        shares = eta[votes.sum(axis=1) > 0]
        share = votes.sum(axis=1)[eta >= report.threshold].sum() / max(1, votes.sum())
        text = (
            f"Shares lie between {shares[0]:.2f} and {shares[-1]:.2f}. Estimated extrema: p0 = "
            f"{report.p0:.3f} and 1 − p1 = {1 - report.p1:.3f}. The threshold is "
            f"{report.threshold:.3f} instead of 0.5; {percent(share)} of the rows reach it."
        )
        caption = (
            f"Rows left of the threshold are taken for {report.label_values[0]}, rows right of it "
            f"for {report.label_values[1]}. "
            f"Observed shares go from {shares[0]:.2f} to {shares[-1]:.2f}, beyond the estimated "
            "extrema, because averages of few labels scatter."
        )
        return drawing(figure, "eta", "Shares and thresholds", caption, text)


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


def _marks(ax: Axes, report: TrainReport, top: float) -> None:
    """Both thresholds and both extrema as lines with their names above."""
    at = report.threshold
    for x, name in ((report.p0, "p0"), (1 - report.p1, "1 − p1")):
        ax.plot([x, x], [0, 1.10 * top], color=C["muted"], lw=1, ls=(0, (2, 3)))
        ax.annotate(name, (x, 1.12 * top), ha="center", color=C["muted"])
    lines = [(at, f"threshold {at:.3f}", C["accent"], "-", "left" if at >= 0.5 else "right")]
    if at != 0.5:
        side = "right" if at >= 0.5 else "left"
        lines.append((0.5, "½", C["ink"], "--", side))
    for x, name, color, style, side in lines:
        ax.plot([x, x], [0, 1.22 * top], color=color, lw=1.4, ls=style)
        shift = (-3 if side == "left" else 3, 0)
        ax.annotate(name, (x, 1.25 * top), shift, textcoords="offset points", ha=side, color=color)


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
