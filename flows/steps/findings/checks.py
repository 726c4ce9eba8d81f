"""What one pass over the graph tells of rows besides their labels; and where labels are worst, by
the sample of rows that was drawn while the source was read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import Around, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, Table, over_rows
from flows.engine.collectives.sent import Facts
from flows.engine.job import Job, Output
from flows.steps.graph.lookup import pick, source_rows
from flows.steps.sets.stages import as_read
from pipeline.arrays import Int64, added
from pipeline.blocks.scaling import Scaling
from pipeline.diagnostics.file_order import FileDistances, FileOrder, file_order, gaps
from pipeline.diagnostics.neighborhood import (
    Usual,
    data_values,
    mean_distance,
    near_duplicates,
    outlier_score,
    usual_distances,
)
from pipeline.diagnostics.unlike import (
    LOOKED_AT,
    NEAREST,
    Unlike,
    doubtful_values,
    is_unlike,
    turned_values,
)
from pipeline.knn.exact import nearest
from pipeline.knn.lists import LISTED
from pipeline.knn.threads import Threads
from pipeline.noise.segments import Segment, sample_rows, worst_segments
from storage.arrays.groups import read_array
from storage.export import write_table
from storage.runs.pool import Pool
from storage.runs.run import Run

COLUMNS = (
    *("row", "outlier_score", "is_outlier", "nearest_row", "nearest_distance"),
    *("near_duplicates", "contradicting_duplicates", "data_value"),
)
FILE = "data_issues.parquet"
COMPARED = 4000
"""Rows whose labels are compared with those near them, at most."""


@dataclass(frozen=True)
class DataCounted:
    """What was found in some rows."""

    outliers: int
    near_duplicates: int
    contradicting: int


@dataclass(frozen=True)
class DataChecked(DataCounted):
    """What was found in all rows."""

    usual: Usual | None = None
    """Distances of the k nearest that rows have as a rule."""
    k: int = 0
    order: FileOrder | None = None


def check_data(
    job: Job, graph: PoolGraph, k: int, *, renumbered: bool, labeled: bool = True
) -> DataChecked:
    """Write the group `checks` and `data_issues.parquet`; returns how many rows are concerned. Of
    contradictions and values nothing is said unless each row is `labeled` with one class.

    renumbered : whether rows of the source were left out
    """
    table = Table("checks")
    distance = read_array(job.run.group("anchors"), "distance")[:, 1 : k + 1]
    usual = usual_distances(distance)
    looked = over_graph(
        *(job, graph, "checks", partial(look, k=k, usual=usual)),
        needs=("given_label", *LISTED),
        gives={
            **{"mean_distance": "f8", "nearest_row": "i8", "nearest_distance": "f4"},
            **dict.fromkeys(("near_duplicates", "contradicting_duplicates"), "i4"),
        },
        portion=None,
    )
    kernel = partial(findings, usual=usual, renumbered=renumbered, labeled=labeled)
    checked = over_rows(job, graph, "checked", kernel, of=[looked], others=looked, table=table)

    def finish(run: Run) -> Output:
        written = table.finish(run, graph.pool, {"k": k, **asdict(usual)})
        columns = COLUMNS if labeled else COLUMNS[:-2]
        write_table(run, "checks", run.location.path(FILE), columns, ids="pool")
        total = vars(added(checked.left(DataCounted)))
        order = file_order(added(looked.left(FileDistances)), graph.pool.n_rows)
        return Output([*written, FILE], DataChecked(**total, usual=usual, k=k, order=order))

    return job.result("data-issues", finish, DataChecked)


def look(at: Around, k: int, usual: Usual) -> Facts:
    """The lists of one block; leaves how far apart in the file neighbors stand."""
    given, of = at.of_row["given_label"], at.of_row
    neighbor, distance, label = (np.ascontiguousarray(of[name][:, :k]) for name in LISTED)
    near, contradicting = near_duplicates(distance, label, given, usual)
    columns = {
        "mean_distance": mean_distance(distance),
        "nearest_row": neighbor[:, 0],
        "nearest_distance": distance[:, 0],
        "near_duplicates": near,
        "contradicting_duplicates": contradicting,
    }
    listed, value = data_values(at.row, neighbor, label, given)
    left = gaps(at.row, neighbor, distance, at.graph.pool.n_rows)
    return Facts(columns, {"row": listed, "value": value}, left=left)


def findings(at: SourceRows, usual: Usual, *, renumbered: bool, labeled: bool) -> Facts:
    """The findings on some rows of the pool."""
    columns, value = dict(at.columns), np.zeros(at.rows.stop - at.rows.start)
    if at.others:
        np.add.at(value, at.others["place"], at.others["value"])
    if not labeled:
        value[:], columns["contradicting_duplicates"][:] = np.nan, -1
    mean = columns.pop("mean_distance")
    outlying = mean > usual.outlying
    if renumbered:
        columns["nearest_row"] = source_rows(at.pool.run, columns["nearest_row"])
    near, other = columns["near_duplicates"], columns["contradicting_duplicates"]
    counts = (int(np.count_nonzero(column)) for column in (outlying, near, other > 0))
    columns |= {
        "row": at.read("row"),
        "outlier_score": outlier_score(mean, usual),
        "is_outlier": outlying,
        "data_value": value.astype(np.float32),
    }
    return Facts(columns, left=DataCounted(*counts))


@dataclass(frozen=True)
class Worst:
    """Where labels are worst."""

    segments: list[Segment]
    unlike: list[Unlike]


def find_worst(
    job: Job, pool: Pool, scaling: Scaling, columns: Collection[list[int]], *, whose: bool
) -> Worst:
    """Where suspect labels are most frequent, by features before scaling, and by the place in the
    source, which is the feature after them; the worst first. And, where it is asked `whose` labels
    they are, values of features whose rows' labels are unlike those near them.

    columns : features that are one column of the source together
    """
    threads = Threads(job.machine().threads)

    def find(run: Run) -> Output:
        sample = as_read(run).group("samples/partition")
        rows = slice(0, sample_rows(pool.n_features))
        x, row = read_array(sample, "x", rows), read_array(sample, "row", rows)
        suspect, likely = (
            pick(run, "labels", name, row) for name in ("is_label_issue", "predicted_label")
        )
        place = source_rows(run, row).astype(np.float32)
        segments = list(worst_segments(np.column_stack([x, place]), suspect, likely))
        if not whose:
            return Output([], Worst(segments, []))
        y = pick(run, "pool", "y", row)
        own = np.arange(min(len(x), COMPARED))
        contradicted = [(*one, None) for one in doubtful_values(x, y != likely)]
        doubtful: dict[tuple[int, ...], list[tuple[int, float, Int64 | None]]] = {}
        for one in [*contradicted, *turned_values(x[own], y[own].astype(np.int64), columns)]:
            column = next((tuple(several) for several in columns if one[0] in several), (one[0],))
            if len(column) == 1 or one[1] == 1:  # of a category, not of all others
                doubtful.setdefault(column, []).append(one)
        unlike = []
        for column, values in list(doubtful.items())[:LOOKED_AT]:
            without = x.copy()
            without[:, column] = x[0, column]
            z = scaling.apply(without)
            near, _ = nearest(z[own], z, NEAREST, exclude=own, threads=threads)
            compared = x[own], y[own], y[near]
            each = [
                is_unlike(at, value, *compared, x[near, at] == np.float32(value), of)
                for at, value, of in values
            ]
            unlike += sorted(filter(None, each), key=lambda one: one.expected - one.differ)[:1]
        return Output([], Worst(segments, unlike))

    return job.result("segments", find, Worst)
