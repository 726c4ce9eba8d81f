"""The most suspect training rows, with their neighbors and features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.report.metric import telling
from flows.report.model import TrainReport
from flows.report.page.gather import VerdictsSeen, ingested
from flows.steps.graph.lookup import lists_of, pick
from storage.runs.run import Run

FEATURES = 12
"""Features shown of a row; a page is no place for hundreds."""
STRIP = 40
"""Neighbors whose labels a strip shows."""
NEAREST = 3
"""Neighbors named by row number."""


@dataclass(frozen=True)
class Suspect:
    """One training row whose label is likely wrong."""

    row: int
    file: str
    """Name of the file it came from."""
    given: int
    predicted: int
    quality: float
    eta_corr: float
    issue: bool
    neighbor_labels: tuple[int, ...]
    """Given labels of the k neighbors, nearest first; -1 where the list is short."""
    nearest: tuple[int, ...]
    distance: float
    """To the nearest neighbor."""
    features: tuple[float, ...]
    id: str | None = None


def suspects(run: Run, report: TrainReport, scanned: VerdictsSeen) -> list[Suspect]:
    """The rows `scanned.suspects`, in that order."""
    columns = ("given_label", "predicted_label", "label_quality", "eta_corr", "is_label_issue")
    verdict = {name: pick(run, "labels", name, scanned.suspects) for name in columns}
    lists = lists_of(run, report.n_blocks, report.k, scanned.suspects)
    place = pick(run, "labels", "row", scanned.suspects)
    x = pick(run, "pool", "x", scanned.suspects)[:, telling(report, FEATURES)]
    source = pick(run, "pool", "source_id", scanned.suspects)
    named = "id" in run.group("pool")
    ids = pick(run, "pool", "id", scanned.suspects) if named else np.full(len(x), None)
    files = [str(file).rsplit("/", 1)[-1] for file in ingested(run).files]
    return [
        Suspect(
            int(place[i]),
            files[source[i]],
            int(verdict["given_label"][i]),
            int(verdict["predicted_label"][i]),
            float(verdict["label_quality"][i]),
            float(verdict["eta_corr"][i]),
            bool(verdict["is_label_issue"][i]),
            tuple(lists["neighbor_label"][i].tolist()),
            tuple(lists["neighbor"][i, :NEAREST].tolist()),
            float(lists["distance"][i, 0]),
            tuple(x[i].tolist()),
            None if ids[i] is None else str(ids[i]),
        )
        for i in range(len(scanned.suspects))
    ]
