"""What a page takes from the kind of labels; of single ones who gave them, too."""

from collections.abc import Sequence
from typing import Any, ClassVar

from flows.report.lines import agreed, consensus, remarks, varying, verdict
from flows.report.model import Training
from flows.report.page.gather import Tally
from flows.report.page.pictures import C, Drawing, axes, drawing, k_curve
from flows.report.page.render import next_steps, on_axis, percent
from pipeline.noise.groups import Groups
from storage.errors import amount
from storage.runs.run import Run

DRAWN = 15
"""Groups in the figure."""
LISTED = 200
"""Groups, or annotators, in the table."""
CLASSES = 6
"""Classes up to which that of annotators has a column for each."""


class KindPage:
    """The page of a training, and of a comparison, on labels of a kind; itself of a comparison of
    trainings that share none."""

    template: ClassVar[str]
    changed: ClassVar = [
        ("flipped", "flipped"),
        ("predicted another now", "predicted_changed"),
        ("newly suspect", "newly_suspect"),
        ("no longer suspect", "no_longer_suspect"),
        ("given label changed", "given_changed"),
    ]
    """Names and fields of the numbers of rows."""

    def rates(self, series: Sequence[tuple[str, Any]]) -> Drawing | None:
        """The rates of trainings, (name, report), where these are so few that a figure holds
        them."""
        return None

    def tally(self, report: Any) -> Tally:
        """What is to be found in one pass over the verdicts."""
        return Tally(report.seed)

    def shown(self, run: Run, report: Any, tally: Tally) -> dict[str, Any]:
        """What the page shows besides what all pages do."""
        return {}


def of_labels(run: Run, report: Training) -> dict[str, Any]:
    """What the pages of single labels show, of those who labeled, too, and what to do next."""
    return {
        "k_curve": k_curve(report),
        "varying": varying(report),
        "next": next_steps(run.location.name, report),
        "several": annotators_shown(report),
        "whose": groups_shown(report),
    }


def groups_shown(report: Training) -> dict[str, Any] | None:
    """What the section of the groups shows; None where there are none."""
    groups = report.groups
    if groups is None:
        return None
    return {
        "counted": amount(len(groups.groups), "group"),
        "verdict": verdict(groups),
        "remarks": remarks(groups),
        "figure": _figure(groups),
        "groups": groups.groups[:LISTED],
        "rates": [{r.true: r for r in group.rates} for group in groups.groups[:LISTED]],
    }


def _figure(groups: Groups) -> Drawing:
    """Share of wrong labels of the worst groups, with intervals."""
    worst = groups.groups[:DRAWN]
    with axes("whose", height=0.9 + 0.24 * len(worst), grid="x") as (ax, figure):
        for y, group in enumerate(worst):
            color = C["muted"] if group.support == "unsupported" else C["one"]
            ax.plot(group.wrong_interval, [y, y], color=color, lw=5, alpha=0.35)
            ax.plot(group.wrong, y, "o", color=color, ms=6)
            ax.plot(group.wrong_shrunk, y, "|", color=C["accent"], ms=11, mew=1.8)
        ax.set_yticks(range(len(worst)), [on_axis(group.value) for group in worst])
        ax.set_ylim(len(worst) - 0.4, -0.6)
        ax.set_xlim(0, 1.05 * max(0.05, *(group.wrong_interval[1] for group in worst)))
        ax.set_xlabel("share of wrong labels")
        text = "; ".join(
            f"{on_axis(group.value)}: {percent(group.wrong)}, "
            f"from {percent(group.wrong_interval[0])} to {percent(group.wrong_interval[1])}"
            for group in worst
        )
        caption = (
            "Points are estimates, bars their 95 % intervals, strokes the shrunken estimates. "
            "Gray: too few rows to tell."
        )
        title = "The worst groups" if len(groups.groups) > DRAWN else "Groups, the worst first"
        return drawing(figure, "whose", title, caption, f"{text}.")


def annotators_shown(report: Training) -> dict[str, Any] | None:
    """What the section of the annotators shows; None where labels are single."""
    people = report.annotators
    if people is None:
        return None
    some = people.annotators[:LISTED]
    few = len(report.classes) <= CLASSES and all(one.matrix is not None for one in some)
    return {
        "agreed": agreed(people),
        "consensus": consensus(report, people),
        "annotators": some,
        "classes": list(enumerate(report.classes)) if few else [],
    }
