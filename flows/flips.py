"""Verdicts of two trainings on the same rows, streamed side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.drift import flipped, flips
from pipeline.suspects import Greatest
from storage.groups import array, read_array, undamaged
from storage.run import Run

COLUMNS = ("given_label", "predicted_label", "label_quality", "is_label_issue")
SHOWN = 20
"""Rows listed, those whose label quality changed most."""
CHUNK_ROWS = 1 << 18

Report = Mapping[str, Any]


def compare_rows(runs: tuple[Run, Run], reports: tuple[Report, Report]) -> dict[str, Any]:
    """Counts of verdicts that flipped, and the rows that changed most.

    Returns
    -------
    comparable : whether both trainings have the same rows; if not, only `reason` beside it
    n_rows, given_changed, predicted_to_1, predicted_to_0, newly_suspect, no_longer_suspect :
        numbers of rows
    flipped, share : rows whose predicted label or verdict differs
    largest : for at most `SHOWN` of these, `row` and (before, after) of each column
    """
    reason = difference(runs, reports)
    if reason is not None:
        return {"comparable": False, "reason": reason}
    counts: Counter[str] = Counter()
    most = Greatest(SHOWN)
    for start in range(0, reports[0]["n_rows"], CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        before, after = (
            {name: read_array(run.group("labels"), name, rows) for name in COLUMNS} for run in runs
        )
        counts.update(flips(before, after))
        here = np.flatnonzero(flipped(before, after))
        step = after["label_quality"][here].astype(np.float64) - before["label_quality"][here]
        most.see(start + here, np.abs(step))
    return {
        "comparable": True,
        **counts,
        "share": counts["flipped"] / counts["n_rows"],
        "largest": _largest(runs, most.row),
    }


def difference(runs: tuple[Run, Run], reports: tuple[Report, Report]) -> str | None:
    """Why the rows of two trainings cannot be set side by side; None where they can.

    They can where the features are stored as equal bytes, by the sizes and checksums in both
    ledgers, and labels have the same two values; the labels themselves may differ.
    """
    a, b = reports
    if a["n_rows"] != b["n_rows"]:
        return f"the pools have {a['n_rows']:,} and {b['n_rows']:,} rows"
    if _stored(runs[0]) != _stored(runs[1]):
        return "the pools have as many rows, but their features differ"
    if a["label_values"] != b["label_values"]:
        return f"labels are {a['label_values']} and {b['label_values']}"
    return None


def _stored(run: Run) -> dict[str, tuple[int, str]]:
    """Size and checksum of every chunk of features."""
    return {
        key: told
        for record in run.ledger.records("ingest-pool").values()
        for key, told in record.files.items()
        if "/pool/x/" in key
    }


def _largest(runs: tuple[Run, Run], rows: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    found: dict[str, list[list[Any]]] = {}
    for name in COLUMNS:
        sides = []
        for run in runs:
            group = run.group("labels")
            with undamaged(f"{group.store_path}/{name}"):
                sides.append(np.asarray(array(group, name).oindex[rows]).tolist())
        found[name] = [list(pair) for pair in zip(*sides, strict=True)]
    return [
        {"row": int(row), **{name: found[name][i] for name in COLUMNS}}
        for i, row in enumerate(rows)
    ]
