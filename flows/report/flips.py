"""Verdicts of two trainings on the same rows, streamed side by side."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.report.model import Training
from flows.steps.graph.lookup import pick
from pipeline.arrays import Int64
from pipeline.blocks.sampling import Greatest
from pipeline.diagnostics.drift import flipped, flips
from storage.arrays.groups import read_array
from storage.runs.run import Run
from storage.version import FORMAT_VERSION, OLDEST_READ

COLUMNS = ("given_label", "predicted_label", "label_quality", "is_label_issue")
SHOWN = 20
"""Rows listed, those whose label quality changed most."""
CHUNK_ROWS = 1 << 18

Pair = tuple[Any, Any]
"""A value before and after."""


@dataclass(frozen=True)
class FlippedRow:
    """One row whose verdict differs."""

    row: int
    given_label: Pair
    predicted_label: Pair
    label_quality: Pair
    is_label_issue: Pair


@dataclass(frozen=True)
class Flips:
    """Verdicts that differ between two trainings on the same rows; numbers of rows."""

    n_rows: int
    given_changed: int
    predicted_changed: int
    predicted_to_1: int | None
    """Of two classes; else None."""
    predicted_to_0: int | None
    newly_suspect: int
    no_longer_suspect: int
    flipped: int
    """Rows whose predicted label or verdict differs."""
    share: float
    largest: list[FlippedRow]
    """At most `SHOWN` of these, greatest change of label quality first."""
    comparable: bool = True


@dataclass(frozen=True)
class Incomparable:
    """Why rows cannot be set side by side."""

    reason: str
    comparable: bool = False


def compare_rows(runs: tuple[Run, Run], reports: tuple[Training, Training]) -> Flips | Incomparable:
    """Counts of verdicts that flipped, and the rows that changed most."""
    reason = difference(runs, reports)
    if reason is not None:
        return Incomparable(reason)
    counts: Counter[str] = Counter()
    most = Greatest(SHOWN)
    for start in range(0, reports[0].n_rows, CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        before, after = (
            {name: read_array(run.group("labels"), name, rows) for name in COLUMNS} for run in runs
        )
        counts.update(flips(before, after))
        here = np.flatnonzero(flipped(before, after))
        step = after["label_quality"][here].astype(np.float64) - before["label_quality"][here]
        most.see(start + here, np.abs(step))
    share = counts["flipped"] / counts["n_rows"]
    fields: dict[str, Any] = {**counts, **reports[0].moves(counts)}
    return Flips(**fields, share=share, largest=_largest(runs, most.row))


def difference(runs: tuple[Run, Run], reports: tuple[Training, Training]) -> str | None:
    """Why the rows of two trainings cannot be set side by side; None where they can.

    They can where the features are stored as equal bytes, by the sizes and checksums in both
    ledgers, and labels have the same classes; the labels themselves may differ.
    """
    a, b = reports
    for run in runs:
        if (made := run.config(OLDEST_READ)["format_version"]) != FORMAT_VERSION:
            return f"{run.location.name} is of format version {made}, this is {FORMAT_VERSION}"
    if a.n_rows != b.n_rows:
        return f"the pools have {a.n_rows:,} and {b.n_rows:,} rows"
    if _stored(runs[0]) != _stored(runs[1]):
        return "the pools have as many rows, but their features differ"
    if a.label_values != b.label_values:
        return f"labels are {a.label_values} and {b.label_values}"
    return None


def _stored(run: Run) -> dict[str, tuple[int, str]]:
    """Size and checksum of every chunk of features."""
    return {
        key: stored
        for record in run.ledger.records("ingest-pool").values()
        for key, stored in record.files.items()
        if "/pool/x/" in key
    }


def _largest(runs: tuple[Run, Run], rows: Int64) -> list[FlippedRow]:
    columns = [
        zip(*(pick(run, "labels", name, rows).tolist() for run in runs), strict=True)
        for name in COLUMNS
    ]
    return [FlippedRow(*one) for one in zip(rows.tolist(), *columns, strict=True)]
