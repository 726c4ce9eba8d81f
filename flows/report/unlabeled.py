"""What a training says of its rows without a label."""

from __future__ import annotations

from collections.abc import Sequence

from flows.engine.results import LabelValue
from flows.report import content as reports
from flows.report.model import predicted_text
from storage.errors import amount
from storage.files.location import Location
from storage.runs.run import Run

FOLDER = "unlabeled"
"""Below the training's folder: the steps of their scoring."""
TABLE = "unlabeled.parquet"
"""Their scores, by row of the source."""


def sentences(n_rows: int, classes: Sequence[LabelValue], n_predicted: list[int]) -> list[str]:
    """How many they are and which labels they are given."""
    predicted = predicted_text(classes, n_predicted)
    return [
        f"{amount(n_rows, 'row')} without a label, which vote for nobody: {predicted}, in {TABLE}"
    ]


def unlabeled(run: Run) -> list[str]:
    """The same of a finished training; nothing where all rows have a label, or are not done."""
    scored = Run(Location.of(f"{run.location.url}/{FOLDER}"))
    report = reports.finished(scored, reports.load_scoring)
    return [] if report is None else sentences(report.n_rows, report.classes, report.n_predicted)
