"""What the page shows of two classes."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import zarr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator

from flows.report.kinds.two import TrainReport, served
from flows.report.page.gather import Tally
from flows.report.page.kind import KindPage, of_labels
from flows.report.page.pictures import C, Drawing, axes, count_rows, drawing, named_at_right
from flows.report.page.render import on_axis, percent, sizes, wrong_in_all
from flows.report.page.suspects import STRIP, listed
from pipeline.arrays import Float32, Int64
from pipeline.blocks.sampling import Greatest
from pipeline.decision.threshold import vote_table
from pipeline.noise.rates import NoiseRates
from storage.arrays.groups import read_array
from storage.runs.run import Run

SE95 = 1.96
SUSPECTS = 10
"""Rows listed of each class."""
METHODS = {
    "crossfit": "held-out labels (crossfit)",
    "minmax": "plain extremes (minmax)",
    "rknn": "plain extremes at its own size (RkNN)",
    "given": "given by the user",
}
"""Method of an estimate → how the page calls it."""


class TwoPage(KindPage):
    """The page of two classes."""

    template: ClassVar = "two.html"
    changed: ClassVar = [
        KindPage.changed[0],
        ("predicted {1} now", "predicted_to_1"),
        ("predicted {0} now", "predicted_to_0"),
        *KindPage.changed[2:],
    ]

    def tally(self, report: TrainReport) -> Tally:
        return VoteTally(report.seed, report.k)

    def shown(self, run: Run, report: TrainReport, tally: Tally) -> dict[str, Any]:
        return {
            "verdict": verdict(report),
            "rule": rule(report),
            "facts": facts(report),
            "estimates": estimates(report),
            "rates": self.rates([("", report)]),
            "range": honest_range(report),
            "histogram": histogram(report, tally.histogram),
            "suspects": listed(run, report, tally.suspects, describe, VERDICTS),
            **of_labels(run, report),
        }

    def rates(self, series: Sequence[tuple[str, TrainReport]]) -> Drawing:
        """Both noise rates with their intervals; `series` is (name, report), one or two of them."""
        with axes("rates", height=1.35 + 0.35 * len(series), grid="x") as (ax, figure):
            ticks, names, texts, furthest = [], [], [], 0.01
            for at, rate in enumerate(("p0", "p1")):
                for i, (name, report) in enumerate(series):
                    value = getattr(report, rate)
                    low, high = interval(report, rate) or (value, value)
                    y, furthest = -at * (len(series) + 0.6) - i, max(furthest, high)
                    color = C["one"] if i == len(series) - 1 else C["muted"]
                    ax.plot([low, high], [y, y], color=color, lw=5, alpha=0.35)
                    ax.plot(value, y, "o", color=color, ms=7)
                    ax.annotate(
                        f"{value:.3f}", (high, y), (7, 0), textcoords="offset points", va="center"
                    )
                    ticks.append(y)
                    names.append(f"p{at} {name}".strip())
                    span = f", from {low:.3f} to {high:.3f}" if low < high else ""
                    texts.append(f"{names[-1]}: {value:.3f}{span}")
            ax.set_yticks(ticks, names)
            ax.set_ylim(min(ticks) - 0.7, 0.7)
            ax.set_xlim(0, 1.18 * furthest)
            ax.set_xlabel("share of labels given wrongly")
            caption = "Points are estimates, bars their 95 % intervals."
            return drawing(figure, "rates", "Noise rates", caption, "; ".join(texts) + ".")


class VoteTally(Tally):
    """Rows of lowest label quality of each class, and (k + 1, 2) rows by neighbors given 1 and by
    own given label."""

    def __init__(self, seed: int, k: int) -> None:
        self.k, self.histogram = k, np.zeros((k + 1, 2), np.int64)
        self.worst = [Greatest(SUSPECTS, seed) for _ in range(2)]

    def see(self, group: zarr.Group, rows: slice, quality: Float32) -> None:
        given, share = (read_array(group, name, rows) for name in ("given_label", "eta_corr"))
        count = np.rint(share.astype(np.float64) * self.k).astype(int)
        self.histogram += vote_table(count, given, self.k)
        for label, worst in enumerate(self.worst):
            own = np.flatnonzero(given == label)
            worst.see(rows.start + own, 1.0 - quality[own].astype(np.float64))


def verdict(report: TrainReport) -> str:
    """The whole result in one plain sentence."""
    zero, one = report.label_values
    n, suspect = report.n_rows, report.n_label_issues
    if report.support == "unsupported":
        vote = "plain vote" if report.threshold == 0.5 else "cautiously corrected vote"
        return (
            f"These {n:,} rows cannot tell how many labels are wrong; the {vote} of the "
            f"neighbors is used, and the {suspect:,} labels marked as suspect are mere hints."
        )
    rates = (
        f"about {percent(report.p0)} of the rows that are truly {zero} are labeled {one}, and "
        f"{percent(report.p1)} of those that are truly {one} are labeled {zero}"
    )
    wrong = f"{suspect:,} of {n:,} labels ({percent(suspect / n)}) are probably wrong"
    if report.noise == "given":
        return f"Taking it as known that {rates}, {wrong}."
    if report.support == "weak":
        return f"On weak evidence, {rates}; by these rates {wrong}."
    return f"{rates[0].upper()}{rates[1:]}; {wrong}."


def rule(report: TrainReport) -> str:
    """How a new row is decided."""
    one, at, k = report.label_values[1], report.threshold, report.k
    share = "half" if at == 0.5 else percent(at)
    alone = "By one k, a row would be" if _weighed(report) else "A row is"
    return (
        f"{alone} taken for {one} where at least {share} of its {k} nearest neighbors are "
        f"labeled {one}. {served(report)}{sizes(report.worth, report.weighed, report.n_rows)}"
    )


def _weighed(report: TrainReport) -> bool:
    """Whether several sizes of neighborhoods predict together."""
    return report.worth is not None and report.worth.taken


def facts(report: TrainReport) -> list[tuple[str, str, str]]:
    """The numbers to keep: (name, value, remark)."""
    zero, one = report.label_values
    known = [interval(report, rate) for rate in ("p0", "p1")]
    method = METHODS.get(report.noise, report.noise)
    spans = [method if span is None else "{:.3f} to {:.3f}".format(*span) for span in known]
    return [
        (f"p0, truly {zero} labeled {one}", f"{report.p0:.3f}", spans[0]),
        (f"p1, truly {one} labeled {zero}", f"{report.p1:.3f}", spans[1]),
        ("threshold", f"{report.threshold:.3f}", f"share of {report.k} neighbors"),
        *wrong_in_all(report),
        ("suspect labels", f"{report.n_label_issues:,}", f"of {report.n_rows:,} rows"),
    ]


def interval(report: TrainReport, rate: str) -> tuple[float, float] | None:
    """The 95 % interval of a rate; None where its method has no calibrated one."""
    if report.noise != "crossfit":
        return None
    low, high = getattr(report, f"{rate}_interval")
    return low, high


def estimates(report: TrainReport) -> list[tuple[str, bool, NoiseRates]]:
    """(name, whether it counts, rates) of every estimate, the one that counts first."""
    chosen = report.noise
    names = sorted(report.estimates, key=lambda name: (name != chosen, name))
    return [(METHODS.get(name, name), name == chosen, report.estimates[name]) for name in names]


VERDICTS = ("given_label", "predicted_label", "eta_corr")


def describe(
    report: TrainReport, near: list[int], given: int, predicted: int, share: float
) -> dict[str, Any]:
    """What is said of a suspect: its codes, and its neighbors' labels as a strip and in words."""
    strip, names = near[:STRIP], report.label_values
    text = ", ".join("–" if y < 0 else str(names[y]) for y in strip)
    votes = f"{strip.count(1)} of {len(strip)} are {names[1]}; nearest first: {text}"
    return {"given": given, "predicted": predicted, "share": share, "strip": strip, "votes": votes}


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
            above = max(rate, float((value + error)[-2:].max()))
            named_at_right(ax, f"{name} = {rate:.3f}", above, ink)
        ax.set_xscale("log")
        ax.set_xticks(k, [f"{v:.0f}" for v in k])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set(ylim=(0, 1), xlabel="k, neighbors averaged")
        ax.set_ylabel(f"share given {on_axis(report.label_values[1])}")
        text = "; ".join(
            f"k {a:.0f}: from {b:.3f} to {c:.3f}" for a, b, c in zip(k, low, high, strict=True)
        )
        caption = (
            f"Lowest and highest share given {report.label_values[1]}, read on labels held out "
            "from the search for them. Flat lines mean pure neighborhoods; bands are 95 % "
            "intervals, dotted lines the estimates."
        )
        return drawing(figure, "range", "Honest range against k", caption, text + ".")


def histogram(report: TrainReport, votes: Int64) -> Drawing:
    """Training rows by share of neighbors given 1, with extrema and thresholds."""
    k = len(votes) - 1
    eta = np.arange(k + 1) / k
    with axes("eta", height=3.4) as (ax, figure):
        width = 0.86 / k
        named = [f"given {on_axis(value)}" for value in report.label_values]
        for y, color, under in ((0, C["zero"], 0 * votes[:, 0]), (1, C["one"], votes[:, 0])):
            ax.bar(eta, votes[:, y], width, bottom=under, color=color, label=named[y])
        top = float(votes.sum(axis=1).max())
        ax.set_ylim(0, 1.34 * top)
        _marks(ax, report, top)
        ax.set_xlim(-0.02, 1.02)
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        count_rows(ax, figure)
        ax.set_xlabel(f"η_corr, share of the k neighbors {named[1]}")
        shares = eta[votes.sum(axis=1) > 0]
        share = votes.sum(axis=1)[eta >= report.threshold].sum() / max(1, votes.sum())
        text = (
            f"Shares lie between {shares[0]:.2f} and {shares[-1]:.2f}. Estimated extrema: p0 = "
            f"{report.p0:.3f} and 1 − p1 = {1 - report.p1:.3f}. The threshold is "
            f"{report.threshold:.3f} instead of 0.5; {percent(share)} of the rows reach it."
        )
        left, right = report.label_values
        are = "would by one k be" if _weighed(report) else "are"
        caption = (
            f"Rows left of the threshold {are} taken for {left}, rows right of it for {right}. "
            f"Observed shares go from {shares[0]:.2f} to {shares[-1]:.2f}, beyond the estimated "
            "extrema, because averages of few labels scatter."
        )
        return drawing(figure, "eta", "Shares and thresholds", caption, text)


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
