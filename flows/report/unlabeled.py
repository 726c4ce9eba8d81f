"""What a training says of its rows without a label."""

from __future__ import annotations

from flows.report import content as reports
from flows.report.model import Scoring
from storage.errors import amount
from storage.files.location import Location
from storage.runs.run import Run

FOLDER = "unlabeled"
"""Below the training's folder: the steps of their scoring."""
TABLE = "unlabeled.parquet"
"""Their scores, by row of the source."""


def sentences(scored: Scoring) -> list[str]:
    """How many they are and which labels they are given, by the report of their scoring."""
    rows = amount(scored.n_rows, "row")
    return [f"{rows} without a label, which vote for nobody: {scored.predicted()}, in {TABLE}"]


def unlabeled(run: Run) -> list[str]:
    """The same of a finished training; nothing where all rows have a label, or are not done."""
    scored = Run(Location.of(f"{run.location.url}/{FOLDER}"))
    report = reports.finished(scored, reports.load_scoring)
    return [] if report is None else sentences(report)
