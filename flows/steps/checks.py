"""One pass over the graph for all it tells of rows besides their labels, in source order."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from flows.engine.collectives.sent import Sent, slices_by_destination, source_order
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from flows.steps.lookup import source_rows
from flows.steps.partition import Blocks
from pipeline.diagnostics.file_order import NONE, FileOrder, Gaps, file_order, gaps, together
from pipeline.diagnostics.neighborhood import (
    Usual,
    data_values,
    mean_distance,
    near_duplicates,
    outlier_score,
    usual_distances,
)
from storage.convert import write_table
from storage.exchange import Exchange, Slice
from storage.groups import array, read_array, undamaged
from storage.pool import ChunkWriter, Pool, Rows
from storage.run import Run

COLUMNS = (
    *("row", "outlier_score", "is_outlier", "nearest_row", "nearest_distance"),
    *("near_duplicates", "contradicting_duplicates", "data_value"),
)
FILE = "data_issues.parquet"


@dataclass(frozen=True)
class Look:
    """A block whose lists are looked at."""

    block: int
    pool: Pool
    k: int
    usual: Usual
    rows: Exchange
    values: Exchange


@dataclass(frozen=True)
class Looked(Result):
    """What a block sent."""

    sent: Sent
    valued: Sent
    gaps: Gaps = NONE
    """How far apart in the file neighbors stand."""


@dataclass(frozen=True)
class Gather:
    """Rows whose findings are written."""

    pool: Pool
    number: int
    rows: Rows
    slices: list[Slice]
    values: list[Slice]
    usual: Usual
    renumbered: bool
    """Whether rows of the source were left out."""
    labeled: bool
    """Whether each row has one label."""


@dataclass(frozen=True)
class Counted(Result):
    """What was found in some rows."""

    outliers: int
    near_duplicates: int
    contradicting: int


@dataclass(frozen=True)
class Checked(Counted):
    """What was found in all rows."""

    near: float = 0.0
    """Distance below which two rows are near duplicates."""
    order: FileOrder | None = None


def check_data(
    job: Job, pool: Pool, blocks: Blocks, k: int, *, renumbered: bool, labeled: bool = True
) -> Checked:
    """Write the group `checks` and `data_issues.parquet`; how many rows are concerned. Unless rows
    are `labeled` one by one, nothing is said of contradictions and values."""
    rows, values = (Exchange(job.run.location, name) for name in ("checks", "values"))
    distance = read_array(job.run.group("anchors"), "distance")[:, 1 : k + 1]
    usual = usual_distances(distance)
    looked = job.parts(
        "checks",
        look_part,
        [
            Part(block_name(b), Look(b, pool, k, usual, rows, values))
            for b in range(len(blocks.sizes))
        ],
    )
    n_parts = len(pool.parts())
    slices = slices_by_destination(looked, n_parts, lambda record: Looked.of(record).sent)
    valued = slices_by_destination(looked, n_parts, lambda record: Looked.of(record).valued)
    ChunkWriter(job.run, "checks", pool.part_rows, pool.n_rows)
    found = job.parts(
        "checked",
        gather_part,
        [
            Part(
                f"rows-{i:06d}",
                Gather(pool, i, part, slices[i], valued[i], usual, renumbered, labeled),
            )
            for i, part in enumerate(pool.parts())
        ],
    )

    def finish(run: Run) -> Output:
        writer = ChunkWriter(run, "checks", pool.part_rows, pool.n_rows)
        written = writer.finish(pool.n_rows, {"k": k, **asdict(usual)})
        columns = COLUMNS if labeled else COLUMNS[:-2]
        write_table(run, "checks", run.location.path(FILE), columns, ids="pool")
        counts = [Counted.of(record) for record in found]
        total = [sum(column) for column in zip(*(asdict(c).values() for c in counts), strict=True)]
        order = file_order(together(Looked.of(record).gaps for record in looked), pool.n_rows)
        return Output([*written, FILE], replace(Checked(*total), near=usual.near, order=order))

    return Checked.of(job.once("data-issues", finish))


def look_part(run: Run, part: Part[Look]) -> Output:
    """The lists of one block."""
    look, pool = part.args, part.args.pool
    group = run.group(f"graph/{look.block:05d}")
    row, given = read_array(group, "row"), read_array(group, "given_label")
    with undamaged(group.store_path):
        neighbor, distance, label = (
            np.asarray(array(group, name)[:, : look.k])
            for name in ("neighbor", "distance", "neighbor_label")
        )
    near, contradicting = near_duplicates(distance, label, given, look.usual)
    columns = {
        "row": row,
        "mean_distance": mean_distance(distance),
        "nearest_row": neighbor[:, 0],
        "nearest_distance": distance[:, 0],
        "near_duplicates": near,
        "contradicting_duplicates": contradicting,
    }
    n_parts = len(pool.parts())
    sent = look.rows.send(part.name, pool.part_of(row), n_parts, columns)
    listed, value = data_values(row, neighbor, label, given)
    valued = look.values.send(
        part.name, pool.part_of(listed), n_parts, {"row": listed, "value": value}
    )
    written = [look.rows.key(part.name), look.values.key(part.name)]
    return Output(written, Looked(sent, valued, gaps(row, neighbor, distance, pool.n_rows)))


def gather_part(run: Run, part: Part[Gather]) -> Output:
    """The findings on the rows of one part of the pool."""
    gather, pool, rows = part.args, part.args.pool, part.args.rows
    found = Exchange(run.location, "checks").receive(gather.slices)
    order = source_order(found.pop("row"), rows, "lists")
    columns = {name: column[order] for name, column in found.items()}
    value = np.zeros(rows.stop - rows.start)
    if gather.values:
        sent = Exchange(run.location, "values").receive(gather.values)
        np.add.at(value, sent["row"] - rows.start, sent["value"])
    if not gather.labeled:
        value[:], columns["contradicting_duplicates"][:] = np.nan, -1
    mean = columns.pop("mean_distance")
    outlying = mean > gather.usual.outlying
    if gather.renumbered:
        columns["nearest_row"] = source_rows(run, columns["nearest_row"])
    writer = ChunkWriter(run, "checks", pool.part_rows, pool.n_rows)
    written = writer.chunk(
        gather.number,
        row=pool.read("row", rows),
        outlier_score=outlier_score(mean, gather.usual),
        is_outlier=outlying,
        data_value=value.astype(np.float32),
        **columns,
    )
    near, other = columns["near_duplicates"], columns["contradicting_duplicates"]
    if not gather.labeled:
        other = np.zeros_like(other)
    counts = (int(np.count_nonzero(column)) for column in (outlying, near, other))
    return Output(written, Counted(*counts))
