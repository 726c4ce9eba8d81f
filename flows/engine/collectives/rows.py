"""One pass over the rows of a pool in source order: a kernel sees what blocks found of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from flows.engine.collectives.graph import PoolGraph
from flows.engine.collectives.sent import Facts, Inbox, Outbox, Sendings, source_order
from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_rows
from flows.engine.results import LabelValue
from pipeline.arrays import AnyArray, Int64, Integers
from storage.arrays.groups import Arrays
from storage.arrays.schema import GROUPS
from storage.export import write_table
from storage.runs.pool import ChunkWriter, Pool
from storage.runs.run import Run

LABEL_ISSUES = "label_issues.parquet"


@dataclass(frozen=True)
class SourceRows:
    """Some rows of a pool, in the order of the source, and what passes found of them."""

    pool: Pool
    rows: slice
    columns: Arrays
    """(row, ...) by name."""
    others: Arrays
    """(item, ...) by name: what blocks found of any rows; `place` (item,) is that of the row."""
    wanted: bool
    """Whether any block asked about any of the rows."""
    more: Any = None
    """Values that belong to these rows alone."""

    def read(self, name: str) -> AnyArray:
        """(row, ...) a column of the pool."""
        return self.pool.read(name, self.rows)


@dataclass(frozen=True)
class Table:
    """A group of the results in source order."""

    path: str
    kind: str | None = None
    """Of `schema.GROUPS`; None for that of the same name as the path."""
    label: str = "i1"
    sizes: dict[str, int] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    """Columns to write, of those that the schema does not require."""
    chunk_rows: int | None = None
    """Rows to a chunk; None for all of a part."""

    def writer(self, run: Run, pool: Pool) -> ChunkWriter:
        shape = self.path, self.chunk_rows or pool.part_rows, pool.n_rows
        given: dict[str, Any] = {"optional": self.optional, "label": self.label, **self.sizes}
        return ChunkWriter(run, *shape, kind=self.kind, **given)

    def write(self, run: Run, pool: Pool, rows: slice, columns: Arrays) -> list[str]:
        """Write the chunks of some rows; returns keys of the files."""
        writer, written = self.writer(run, pool), []
        for start in range(rows.start, rows.stop, writer.rows):
            some = slice(start - rows.start, start - rows.start + writer.rows)
            chunk = {name: column[some] for name, column in columns.items()}
            written += writer.chunk(start // writer.rows, **chunk)
        return written

    def finish(self, run: Run, pool: Pool, attributes: dict[str, Any]) -> list[str]:
        """Describe the group, once all parts of it are written; returns keys of the files."""
        return self.writer(run, pool).finish(pool.n_rows, attributes)


Kernel = Callable[..., Facts | Arrays]


@dataclass(frozen=True)
class _RowPass:
    """What all parts of a pass share."""

    step: str
    pool: Pool
    kernel: Kernel | None
    steps: tuple[str, ...]
    """The passes that columns come from."""
    n_blocks: int
    table: Table | None


@dataclass(frozen=True)
class _Rows:
    """What one part of a pass gets."""

    rows: slice
    columns: tuple[Inbox, ...]
    others: Inbox | None
    requests: Inbox | None
    more: Any


def over_rows(
    job: Job,
    graph: PoolGraph,
    step: str,
    kernel: Kernel | None,
    *,
    of: Sequence[Sendings] = (),
    others: Sendings | None = None,
    requests: Sendings | None = None,
    table: Table | None = None,
    more: Sequence[Any] | None = None,
) -> Sendings:
    """Run a kernel over all rows of a pool, which may be another run's; a part is some chunks of
    the source.

    kernel : a function of a module, or a `partial` of one with small values; None for the columns
        as they are
    of : passes over the graph whose columns it gets, one item per row
    others : a pass whose `others` it gets, items of any rows
    requests : a pass that asked about rows: the columns that the kernel makes are sent to the
        blocks that asked; or its `others`, any number of items per row, rows ascending
    table : where the columns that the kernel makes are written, if nobody asked for them
    more : for each part of the pool, small values that belong to its rows alone
    """
    parts = graph.pool.parts()
    n = len(parts)
    none: list[None] = [None] * n
    of_each = [one.inboxes("rows", n) for one in of]
    of_others = none if others is None else others.inboxes("others", n)
    of_requests = none if requests is None else requests.inboxes("asked", n)
    if table is not None:
        table.writer(job.run, graph.pool)
    steps = tuple(one.step for one in of)
    shared = _RowPass(step, graph.pool, kernel, steps, graph.n_blocks, table)
    values = more or none
    each = (
        _Rows(rows, tuple(one[i] for one in of_each), of_others[i], of_requests[i], values[i])
        for i, rows in enumerate(parts)
    )
    records = job.parts(step, partial(_rows_part, shared), by_rows(each))
    return Sendings.of(job.run.location, step, records)


def _rows_part(shared: _RowPass, run: Run, part: Part[_Rows]) -> Output:
    args, pool = part.args, shared.pool
    columns: Arrays = {}
    others: Arrays = {}
    for step, inbox in zip(shared.steps, args.columns, strict=True):
        received = inbox.receive()
        order = source_order(received.pop("row"), args.rows, step)
        columns |= {name: column[order] for name, column in received.items()}
    if args.others:
        others = args.others.receive()
        others["place"] = others.pop("row") - args.rows.start
    facts = Facts(columns)
    if shared.kernel is not None:
        wanted = bool(args.requests)
        given = shared.kernel(SourceRows(pool, args.rows, columns, others, wanted, args.more))
        facts = given if isinstance(given, Facts) else Facts(given)
    out = Outbox(run.location, shared.step, part.name)
    if args.requests is not None:
        asker, answers = _answers(args.rows, args.requests, facts)
        out.send("answers", asker, shared.n_blocks, answers)
    out.to_driver(facts.drawn)
    if shared.table is not None:
        out.written += shared.table.write(run, pool, args.rows, facts.columns)
    return out.output(facts.left)


def _answers(rows: slice, requests: Inbox, facts: Facts) -> tuple[Integers, Arrays]:
    """(item,) which block is answered, and the answers: a row's columns, or all items of a row."""
    row, asker = np.empty(0, np.int64), np.empty(0, np.int32)
    if requests:
        columns = requests.receive()
        row, asker = columns["row"], columns["asker"]
    if not facts.others:
        at = row - rows.start
        return asker, {"row": row, **{name: c[at] for name, c in facts.columns.items()}}
    item_row = facts.others["row"]
    first = np.searchsorted(item_row, row)
    item, owner = ragged(first, np.searchsorted(item_row, row, "right") - first)
    return asker[owner], {name: column[item] for name, column in facts.others.items()}


def ragged(first: Int64, length: Int64) -> tuple[Int64, Int64]:
    """(item,) places of all items of some runs, one run after the other, and the run of each.

    first, length : (run,) place of its first item, and number of items
    """
    owner = np.repeat(np.arange(len(length)), length)
    before = np.cumsum(length) - length
    return np.repeat(first - before, length) + np.arange(len(owner)), owner


def export(
    job: Job, step: str, path: str, target: str, classes: Sequence[LabelValue], kind: str = ""
) -> None:
    """Write the file `target` from the group `path`; its columns are those of a `kind` of group in
    the schema, by default the one named as the path. `classes` are labels in order of codes."""

    def write(run: Run) -> Output:
        columns = tuple(GROUPS[kind or path])
        write_table(run, path, run.location.path(target), columns, ids="pool", classes=classes)
        return Output([target])

    job.once(step, write)
