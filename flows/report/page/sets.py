"""What the page shows of a training on candidate sets."""

from typing import Any, ClassVar

import numpy as np
from matplotlib.ticker import NullLocator

from flows.report.kinds import CandidateReport
from flows.report.page.gather import Tally
from flows.report.page.kind import KindPage
from flows.report.page.pictures import C, Drawing, axes, drawing
from flows.report.page.render import percent
from flows.report.page.suspects import listed
from flows.steps.graph.lookup import pick
from pipeline.methods.partial_labels import unpack
from storage.runs.run import Run

PAIRS = 12
SHOWN = 26
"""Classes in the table; of more, those most often predicted."""


class SetsPage(KindPage):
    """The page of candidate sets."""

    template: ClassVar = "sets.html"

    def shown(self, run: Run, report: CandidateReport, tally: Tally) -> dict[str, object]:
        most = np.argsort(-np.array(report.n_predicted), kind="stable")[:SHOWN]
        suspects = tally.suspects[pick(run, "labels", "is_label_issue", tally.suspects)]
        return {
            "verdict": verdict(report),
            "rule": rule(report),
            "facts": facts(report),
            "choice": report.choice(),
            "features": report.preprocessed(),
            "agreement": agreement(report),
            "codes": sorted(most.tolist()),
            "pairs": [pair.text() for pair in report.pairs[:PAIRS]],
            "suspects": listed(run, report, suspects, describe, VERDICTS),
            **dict.fromkeys(("next", "whose", "several")),
        }


def verdict(report: CandidateReport) -> str:
    """The whole result in one plain sentence."""
    n, out = report.n_rows, report.n_label_issues
    return (
        f"Each row has {report.mean_set_size:.2f} candidates on average; the neighbors of {out:,} "
        f"of {n:,} rows ({percent(out / n)}) point to a label that is none of them."
    )


def rule(report: CandidateReport) -> str:
    """How a new row is decided."""
    return (
        f"A row's neighbors are taken one by one, {report.k} at most; labels that fall behind the "
        "leading one are dropped, until one is left or the one that came closest answers."
    )


def facts(report: CandidateReport) -> list[tuple[str, str, str]]:
    """The numbers to keep: (name, value, remark)."""
    decided = percent(report.n_decided / report.n_rows)
    return [
        ("classes", f"{len(report.classes):,}", f"{report.mean_set_size:.2f} candidates a row"),
        ("c1 and T", f"{report.c1:g}, {report.k}", "chosen from the sets"),
        ("decided", decided, "of the rows, by their neighbors"),
        ("suspect rows", f"{report.n_label_issues:,}", f"of {report.n_rows:,}"),
    ]


VERDICTS = ("candidates", "predicted_label", "disambiguated_label", "n_neighbors")


def describe(
    report: CandidateReport, _: list[int], own: list[int], predicted: int, likeliest: int, used: int
) -> dict[str, Any]:
    """What is said of a suspect, whose prediction is none of its candidates."""
    names = report.classes
    (candidates,) = unpack(np.array([own], np.uint64), len(names))
    return {
        "candidates": [names[code] for code in np.flatnonzero(candidates)],
        "predicted": names[predicted],
        "disambiguated": names[likeliest],
        "n_neighbors": used,
    }


def agreement(report: CandidateReport) -> Drawing:
    """Agreement against T for each c1, the chosen cell marked."""
    stops, share = report.stops_tried, np.array(report.agreement)
    with axes("agreement", height=3.2) as (ax, figure):
        for c1, line in zip(report.c1_tried, share, strict=True):
            chosen = c1 == report.c1
            color = C["one"] if chosen else C["muted"]
            ax.plot(stops, line, color=color, lw=1.8 if chosen else 0.7, alpha=1 if chosen else 0.6)
        ax.plot(report.k, report.agreed(), "o", ms=9, mfc="none", mec=C["accent"], mew=1.8)
        ax.set_xscale("log")
        ax.set_xticks(stops[::2], [str(stop) for stop in stops[::2]])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(lambda value, _: percent(value))
        ax.set_xlabel("T, most neighbors looked at")
        ax.set_ylabel("answers among the row's own candidates")
        text = "; ".join(
            f"T {stop}: {percent(value)}"
            for stop, value in zip(stops, share[report.c1_tried.index(report.c1)], strict=True)
        )
        caption = (
            "How often the answer that a row's neighbors give without it is one of its own "
            f"candidates; a line for each c1, that of c1 = {report.c1:g} in front."
        )
        return drawing(figure, "agreement", "Choice of c1 and T", caption, text + ".")
