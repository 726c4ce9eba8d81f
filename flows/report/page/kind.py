"""What a page takes from the kind of labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from flows.report.model import Training
from flows.report.page import groups, words
from flows.report.page.gather import Tally
from flows.report.page.svg import Drawing
from storage.runs.run import Run


class Compared:
    """What the page of a comparison takes from the kind that two trainings share; here, from
    none."""

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


class KindPage(Compared, ABC):
    """The page of a training, and of a comparison, on labels of a kind."""

    template: ClassVar[str]

    def tally(self, report: Any) -> Tally:
        """What is to be found in one pass over the verdicts."""
        return Tally(report.seed)

    @abstractmethod
    def shown(self, run: Run, report: Any, tally: Tally) -> dict[str, Any]:
        """What the page shows besides what all pages do."""


def of_labels(run: Run, report: Training) -> dict[str, Any]:
    """What the pages of single labels show of those who labeled, and what to do next."""
    return {
        "next": words.next_steps(run.location.name, report),
        "several": groups.annotators_shown(report),
        "whose": groups.groups_shown(report),
    }
