"""One pass over the rows of a pool in source order: what blocks found of them, brought together."""

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
    """(item, ...) by name: what other rows' blocks sent, with the `place` (item,) of the row."""
    wanted: bool
    """Whether anybody asked for any of the rows."""
    more: Any = None
    """What is known of these rows alone."""

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
    """Columns wanted of those that the group may be without."""
    chunk_rows: int | None = None
    """Rows to a chunk; None for all of a part."""

    def writer(self, run: Run, pool: Pool) -> ChunkWriter:
        shape = self.path, self.chunk_rows or pool.part_rows, pool.n_rows
        given: dict[str, Any] = {"optional": self.optional, "label": self.label, **self.sizes}
        return ChunkWriter(run, *shape, kind=self.kind, **given)

    def write(self, run: Run, pool: Pool, rows: slice, columns: Arrays) -> list[str]:
        """Write the chunks of some rows; keys of the files."""
        writer, written = self.writer(run, pool), []
        for start in range(rows.start, rows.stop, writer.rows):
            some = slice(start - rows.start, start - rows.start + writer.rows)
            chunk = {name: column[some] for name, column in columns.items()}
            written += writer.chunk(start // writer.rows, **chunk)
        return written

    def finish(self, run: Run, pool: Pool, attributes: dict[str, Any]) -> list[str]:
        """Tell of the group, all parts of it written; keys of the files."""
        return self.writer(run, pool).finish(pool.n_rows, attributes)


Kernel = Callable[..., Facts | Arrays]


@dataclass(frozen=True)
class _RowPass:
    """What all parts of a pass share."""

    step: str
    pool: Pool
    kernel: Kernel | None
    of: tuple[str, ...]
    """The steps that columns come from."""
    n_blocks: int
    table: Table | None


@dataclass(frozen=True)
class _Rows:
    rows: slice
    of: tuple[Inbox, ...]
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
    """Run a kernel over all rows of a pool, which may be another run's, some chunks of the source a
    part.

    kernel : a function of a module, or a `partial` of one with small values; None for the columns
        as they are
    of : passes over the graph whose columns it gets, one item a row
    others : a pass whose items about any rows it gets
    requests : a pass that asked for rows: the columns that the kernel finds are sent to who asked;
        or the `others` that it finds, any number of items a row, rows ascending
    table : where the columns that the kernel finds are written, if nobody asked for them
    more : for each part of the pool what is known of its rows alone, small values
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
    known = more or none
    each = (
        _Rows(rows, tuple(one[i] for one in of_each), of_others[i], of_requests[i], known[i])
        for i, rows in enumerate(parts)
    )
    records = job.parts(step, partial(_rows_part, shared), by_rows(each))
    return Sendings.of(job.run.location, step, records)


def _rows_part(of: _RowPass, run: Run, part: Part[_Rows]) -> Output:
    args = part.args
    columns: Arrays = {}
    other: Arrays = {}
    for step, inbox in zip(of.of, args.of, strict=True):
        got = inbox.receive()
        order = source_order(got.pop("row"), args.rows, step)
        columns |= {name: column[order] for name, column in got.items()}
    if args.others:
        other = args.others.receive()
        other["place"] = other.pop("row") - args.rows.start
    passed = Facts(columns)
    if of.kernel is not None:
        wanted = bool(args.requests)
        given = of.kernel(SourceRows(of.pool, args.rows, columns, other, wanted, args.more))
        passed = given if isinstance(given, Facts) else Facts(given)
    out = Outbox(run.location, of.step, part.name)
    if args.requests is not None:
        out.send("answers", *_answers(of, args, passed))
    out.to_driver(passed.drawn)
    if of.table is not None:
        out.written += of.table.write(run, of.pool, args.rows, passed.columns)
    return out.output(passed.left)


def _answers(of: _RowPass, args: _Rows, passed: Facts) -> tuple[Integers, int, Arrays]:
    """What is known of the rows that blocks asked for, on its way to these."""
    row, asker = np.empty(0, np.int64), np.empty(0, np.int32)
    if args.requests:
        requests = args.requests.receive()
        row, asker = requests["row"], requests["asker"]
    columns, item = {"row": row}, row - args.rows.start
    given = passed.columns
    if passed.others:
        known = passed.others["row"]
        first = np.searchsorted(known, row)
        item, owner = ragged(first, np.searchsorted(known, row, "right") - first)
        columns, asker, given = {}, asker[owner], passed.others
    answers = {**columns, **{name: column[item] for name, column in given.items()}}
    return asker, of.n_blocks, answers


def ragged(first: Int64, length: Int64) -> tuple[Int64, Int64]:
    """(item,) places of all items of some runs, one run after the other, and whose run each is in.

    first, length : (run,)
    """
    owner = np.repeat(np.arange(len(length)), length)
    before = np.cumsum(length) - length
    return np.repeat(first - before, length) + np.arange(len(owner)), owner


def export(
    job: Job, step: str, path: str, target: str, classes: Sequence[LabelValue], kind: str = ""
) -> None:
    """Write the file `target` of the group `path`, whose columns are those of its `kind` in the
    schema, by default that of the same name; `classes` are the labels in the order of their
    codes."""

    def write(run: Run) -> Output:
        columns = tuple(GROUPS[kind or path])
        write_table(run, path, run.location.path(target), columns, ids="pool", classes=classes)
        return Output([target])

    job.once(step, write)
