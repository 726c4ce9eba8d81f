"""Single rows of a finished training, and their lists, looked up where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.arrays import AnyArray, Int64, Integers
from storage.arrays.groups import array, read_array, undamaged
from storage.errors import StorageError
from storage.runs.pool import Pool
from storage.runs.run import Run

CORRECTIONS = "corrections"
"""Labels that somebody checked, and which count as certain."""


def pick(run: Run, path: str, name: str, rows: Int64) -> AnyArray:
    """Single rows, in any order, of one array in source order, chunk by chunk."""
    group = run.group(path)
    with undamaged(f"{group.store_path}/{name}"):
        return np.asarray(array(group, name).oindex[rows])


def ids_of(run: Run, rows: Int64) -> list[str | None]:
    """The ids of single rows of a pool, None where its rows have none."""
    if "id" not in run.group("pool"):
        return [None] * len(rows)
    return [str(own) for own in pick(run, "pool", "id", rows)]


def source_rows(run: Run, rows: Int64, column: str = "row") -> Int64:
    """The rows of the source that rows of a pool are, of any shape; negative ones stay. They differ
    where rows of the source were left out. Or what another `column` of the pool has of them."""
    distinct, back = np.unique(rows, return_inverse=True)
    there = distinct >= 0
    distinct[there] = pick(run, "pool", column, distinct[there])
    return distinct[back].reshape(rows.shape)


def places(pool: Pool, rows: Int64) -> dict[int, int]:
    """Row of the source → its place in the pool, for some rows that are in it."""
    wanted = np.unique(rows)
    place_of: dict[int, int] = {}
    for part in pool.parts():
        row = pool.read("row", part)
        at = np.minimum(np.searchsorted(row, wanted), len(row) - 1)
        here = row[at] == wanted
        place_of.update(zip(wanted[here].tolist(), (at[here] + part.start).tolist(), strict=True))
    return place_of


def lists_of(run: Run, n_blocks: int, k: int, rows: Int64) -> dict[str, AnyArray]:
    """The k nearest of each row, from whichever block it is at home in; -1 for the label of an
    empty place, whatever the type of the stored ones."""
    lists: dict[str, AnyArray] = {
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
        for name, value in lists.items():
            with undamaged(f"{group.store_path}/{name}"):
                if len(here):
                    value[here] = array(group, name).oindex[place[here], slice(0, k)]
        if not missing.any():
            break
    if missing.any():
        raise StorageError(f"{run.location.url}: graph lacks rows of the pool; train again")
    lists["neighbor_label"][lists["neighbor"] < 0] = -1
    return lists


def certain(run: Run, rows: slice) -> Int64:
    """Places within some rows of those whose labels somebody checked."""
    if not run.has(CORRECTIONS):
        return np.empty(0, np.int64)
    row = read_array(run.group(CORRECTIONS), "row")
    return np.asarray(row[(row >= rows.start) & (row < rows.stop)] - rows.start)


def as_given(run: Run, row: Int64, label: Integers) -> Integers:
    """Labels of rows of the pool (…,) as they were given, whoever checked them since.

    What is checked are the labels that neighbors doubt: rates of what is left would be those of
    labels that nobody gave, and other mistakes would be believed by them.
    """
    if not run.has(CORRECTIONS):
        return label
    checked, given = (read_array(run.group(CORRECTIONS), name) for name in ("row", "given"))
    if not len(checked):
        return label
    place = np.minimum(np.searchsorted(checked, row), len(checked) - 1)
    return np.where(checked[place] == row, given[place], label).astype(label.dtype)


def counts_as_given(run: Run, class_counts: Sequence[int]) -> Int64:
    """(class,) rows of each, of those ``class_counts`` has now, by the labels that were given."""
    counts = np.array(class_counts)
    if run.has(CORRECTIONS):
        y, given = (read_array(run.group(CORRECTIONS), name) for name in ("y", "given"))
        counts += np.bincount(given, minlength=len(counts)) - np.bincount(y, minlength=len(counts))
    return counts
