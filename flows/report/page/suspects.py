"""The most suspect training rows, with their neighbors and features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.report.model import TrainReport
from flows.report.page.gather import Seen, ingested
from storage.errors import StorageError
from storage.groups import array, read_array, undamaged
from storage.run import Run

FEATURES = 12
"""Features shown of a row; a page is no place for hundreds."""
NEAREST = 3
"""Neighbors named by row number."""


@dataclass(frozen=True)
class Suspect:
    """One training row that its neighbors contradict."""

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


def suspects(run: Run, report: TrainReport, seen: Seen) -> list[Suspect]:
    """The rows `seen.suspects`, in that order."""
    columns = ("given_label", "predicted_label", "label_quality", "eta_corr", "is_label_issue")
    verdict = {name: pick(run, "labels", name, seen.suspects) for name in columns}
    lists = lists_of(run, report.n_blocks, report.k, seen.suspects)
    place = pick(run, "labels", "row", seen.suspects)
    x = pick(run, "pool", "x", seen.suspects)
    source = pick(run, "pool", "source_id", seen.suspects)
    named = "id" in run.group("pool")
    ids = pick(run, "pool", "id", seen.suspects) if named else np.full(len(x), None)
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
            tuple(x[i, :FEATURES].tolist()),
            None if ids[i] is None else str(ids[i]),
        )
        for i in range(len(seen.suspects))
    ]


def pick(run: Run, path: str, name: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Single rows of one array in source order, chunk by chunk."""
    group = run.group(path)
    with undamaged(f"{group.store_path}/{name}"):
        return np.asarray(array(group, name).oindex[rows])


def lists_of(
    run: Run, n_blocks: int, k: int, rows: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[Any]]:
    """The k nearest of each row, from whichever block it is at home in."""
    found: dict[str, npt.NDArray[Any]] = {
        "neighbor": np.full((len(rows), k), -1, np.int64),
        "distance": np.full((len(rows), k), np.nan, np.float32),
        "neighbor_label": np.full((len(rows), k), -1, np.int32),
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
