"""The most suspect training rows, with their neighbours and features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.page.gather import Seen, ingested
from storage.errors import StorageError
from storage.groups import array, read_array, undamaged
from storage.run import Run

FEATURES = 12
"""Features shown of a row; a page is no place for hundreds."""
NEAREST = 3
"""Neighbours named by row number."""


@dataclass(frozen=True)
class Suspect:
    """One training row that its neighbours contradict."""

    row: int
    file: str
    """Name of the file it came from."""
    given: int
    predicted: int
    quality: float
    eta_corr: float
    issue: bool
    neighbour_labels: tuple[int, ...]
    """Given labels of the k neighbours, nearest first; -1 where the list is short."""
    nearest: tuple[int, ...]
    distance: float
    """To the nearest neighbour."""
    features: tuple[float, ...]


def suspects(run: Run, report: Mapping[str, Any], seen: Seen) -> list[Suspect]:
    """The rows `seen.suspects`, in that order."""
    columns = ("given_label", "predicted_label", "label_quality", "eta_corr", "is_label_issue")
    verdict = {name: _pick(run, "labels", name, seen.suspects) for name in columns}
    lists = _lists(run, report["n_blocks"], report["k"], seen.suspects)
    x = _pick(run, "pool", "x", seen.suspects)
    source = _pick(run, "pool", "source_id", seen.suspects)
    files = [str(file).rsplit("/", 1)[-1] for file in ingested(run)["files"]]
    return [
        Suspect(
            int(row),
            files[source[i]],
            int(verdict["given_label"][i]),
            int(verdict["predicted_label"][i]),
            float(verdict["label_quality"][i]),
            float(verdict["eta_corr"][i]),
            bool(verdict["is_label_issue"][i]),
            tuple(lists["neighbor_label"][i].tolist()),
            tuple(lists["neighbor"][i, :NEAREST].tolist()),
            float(lists["distance"][i, 0]),
            tuple(x[i, :FEATURES].tolist()),
        )
        for i, row in enumerate(seen.suspects)
    ]


def _pick(run: Run, path: str, name: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Single rows of one array in source order, chunk by chunk."""
    group = run.group(path)
    with undamaged(f"{group.store_path}/{name}"):
        return np.asarray(array(group, name).oindex[rows])


def _lists(
    run: Run, n_blocks: int, k: int, rows: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[Any]]:
    """The k nearest of each row, from whichever block it is at home in."""
    found: dict[str, npt.NDArray[Any]] = {
        "neighbor": np.full((len(rows), k), -1, np.int64),
        "distance": np.full((len(rows), k), np.nan, np.float32),
        "neighbor_label": np.full((len(rows), k), -1, np.int8),
    }
    missing = np.ones(len(rows), np.bool_)
    for number in range(n_blocks):
        group = run.group(f"graph/{number:05d}")
        home = read_array(group, "row")
        place = np.minimum(np.searchsorted(home, rows), max(0, len(home) - 1))
        here = np.flatnonzero(home[place] == rows) if len(home) else np.empty(0, np.int64)
        missing[here] = False
        for name, value in found.items():
            with undamaged(f"{group.store_path}/{name}"):
                if len(here):
                    value[here] = array(group, name).oindex[place[here], slice(0, k)]
        if not missing.any():
            return found
    if missing.any():
        raise StorageError(f"{run.location.url}: graph lacks rows of the pool; train again")
    return found
