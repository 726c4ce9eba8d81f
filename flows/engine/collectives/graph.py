"""One pass over a graph, block by block: a kernel sees rows with what is around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from flows.engine.collectives.sent import Facts, Inbox, Outbox, Replies, Sendings
from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_block
from pipeline.arrays import AnyArray, Bools, Int32, Int64
from pipeline.blocks.sampling import in_sample
from pipeline.knn.lists import ABSENT, nothing
from pipeline.knn.places import distinct, places
from pipeline.noise.copies import Mates, mates_last
from pipeline.streams import Stream
from storage.arrays.groups import Arrays, read_array
from storage.runs.pool import Pool
from storage.runs.run import Run

OF_MATES = ("row", "neighbor", "distance")
"""Columns that tell which neighbors are mates."""
PORTION = 4096
"""Rows that a kernel sees at once, unless it wants all of a block."""


@dataclass(frozen=True)
class PoolGraph:
    """A pool whose neighbor lists are written, block by block."""

    pool: Pool
    n_blocks: int
    mates: Mates = field(default_factory=Mates)
    """Rows that are left out of each other's lists."""
    length: int = 0
    """Of lists without them."""
    seed: int = 0
    """Of what is drawn of it."""

    def read(self, block: int, names: Sequence[str]) -> Arrays:
        """Columns of one block: row, given_label, neighbor, distance, neighbor_label."""
        group = self.pool.run.group(f"graph/{block:05d}")
        columns = {name: read_array(group, name) for name in names}
        lists = {name: columns[name] for name in names if columns[name].ndim == 2}
        if not self.mates or not lists:
            return columns
        if self.mates.groups:
            mate = read_array(self.pool.run.group(f"mates/{block:05d}"), "mate")
        else:
            more = {name: read_array(group, name) for name in OF_MATES if name not in columns}
            mate = self.mates.among(*((columns | more)[name] for name in OF_MATES))
        order, mate = mates_last(mate)
        order, mate = order[:, : self.length], mate[:, : self.length]
        for name, column in lists.items():
            columns[name] = np.take_along_axis(column, order, axis=1)
            columns[name][mate] = nothing(name, column.dtype)
        return columns


@dataclass(frozen=True)
class Around:
    """Some rows of a block, and what is known around them."""

    graph: PoolGraph
    row: Int64
    """(row,) numbers in the pool, ascending."""
    of_row: Arrays
    """(row, ...) by name: the columns of the graph that the pass needs."""
    near: Int32
    """(row, rank) places of the neighbors in `known`, -1 in empty places; (0, 0) where nothing is
    known."""
    own: Int32
    """(row,) places of the rows themselves, -1 where nobody asked for them."""
    known: Arrays
    """(known + 1, ...) by name: what was answered of rows; the last is of no row, and 0."""

    def of_neighbors(self, name: str, ranks: int | None = None) -> AnyArray:
        """(row, rank, ...) what is known of the neighbors, of the nearest alone with `ranks`; 0 in
        empty places."""
        return np.asarray(self.known[name][self.near[:, :ranks]])

    def take(self, rows: Bools) -> Around:
        of_row = {name: column[rows] for name, column in self.of_row.items()}
        return Around(
            self.graph, self.row[rows], of_row, self.near[rows], self.own[rows], self.known
        )

    def drawn(self, most: int, stream: Stream = Stream.PARTITION) -> Bools:
        """(row,) which of them are in a sample of so many of all rows."""
        return in_sample(self.row, self.graph.pool.n_rows, most, self.graph.seed, stream)


Kernel = Callable[..., Facts | Arrays]
"""(Around, what `reading` reads by name) -> columns of these rows, or all that was found."""


@dataclass(frozen=True)
class Asks:
    """Which rows a block asks for: the neighbors of its rows."""

    own: bool = False
    """The rows, too."""
    ranks: int | None = None
    """Of the neighbors the nearest alone."""

    def rows(self, lists: Arrays) -> Int64:
        """(asked,) ascending."""
        near = lists["neighbor"][:, : self.ranks]
        return distinct(np.column_stack([lists["row"], near]) if self.own else near)


@dataclass(frozen=True)
class _Pass:
    """What all blocks of a pass share."""

    step: str
    graph: PoolGraph
    kernel: Kernel | None
    needs: tuple[str, ...]
    gives: dict[str, str]
    reading: Callable[[Run], Mapping[str, Any]] | None
    several: Asks | None
    asks: Asks | None
    portion: int | None


def over_graph(
    job: Job,
    graph: PoolGraph,
    step: str,
    kernel: Kernel | None = None,
    *,
    needs: Sequence[str] = (),
    gives: Mapping[str, str] | None = None,
    known: Sendings | None = None,
    several: Asks | None = None,
    reading: Callable[[Run], Mapping[str, Any]] | None = None,
    asks: Asks | None = None,
    portion: int | None = PORTION,
) -> Sendings:
    """Run a kernel over all rows of a graph, a block a part; what it found, on its way to source
    order.

    kernel : a function of a module, or a `partial` of one with small values
    needs : columns of the graph that it looks at, by row
    gives : type of each column that it finds of its rows
    known : what `over_rows` answered of the rows that were asked for in an earlier pass
    several : who was asked, where any number of items was answered of a row: `known` then has them
        row by row, and `start` (known + 1,)
    reading : small values that the kernel gets by name, read once a block
    asks : which source rows are asked what they know
    portion : rows that the kernel sees at once; None for all of the block
    """
    answers: list[Inbox] | list[None] = [None] * graph.n_blocks
    if known is not None:
        answers = known.inboxes("answers", graph.n_blocks)
    gives = dict(gives or {})
    shared = _Pass(step, graph, kernel, tuple(needs), gives, reading, several, asks, portion)
    records = job.parts(step, partial(_block_part, shared), by_block(enumerate(answers)))
    return Sendings.of(job.run.location, step, records)


def _block_part(of: _Pass, run: Run, part: Part[tuple[int, Inbox | None]]) -> Output:
    """One block of a pass, and where lies what is known of its rows."""
    (number, known), pool = part.args, of.graph.pool
    looked_up = {"neighbor"} if of.asks is not None or known is not None else set()
    lists = of.graph.read(number, sorted({"row", *of.needs, *looked_up}))
    row, seconds = lists["row"], 0.0
    passed = Facts(_typed({}, of.gives))
    if of.kernel is not None and len(row):
        shared = {} if of.reading is None else of.reading(run)
        passed, seconds = _findings(of, lists, known, shared)
    out, n_parts = Outbox(run.location, of.step, part.name), len(pool.parts())
    if of.gives:
        out.send("rows", pool.part_of(row), n_parts, {"row": row, **passed.columns})
    if passed.others:
        out.send("others", pool.part_of(passed.others["row"]), n_parts, passed.others)
    out.to_driver(passed.drawn)
    if of.asks is not None:
        out.ask(number, pool, of.asks.rows(lists))
    return out.output(passed.left, seconds)


def _findings(
    of: _Pass, lists: Arrays, known: Inbox | None, shared: Mapping[str, Any]
) -> tuple[Facts, float]:
    """What the kernel finds in all rows of a block, and its seconds."""
    assert of.kernel is not None
    n_rows = len(lists["row"])
    columns: Arrays = {}
    near, own = np.empty((n_rows, 0), np.int32), np.full(n_rows, ABSENT, np.int32)
    if of.several is not None:
        wanted, columns = of.several.rows(lists), _by_row(of.several, lists, known)
        near = places(wanted, lists["neighbor"][:, : of.several.ranks])
        own = places(wanted, lists["row"])
    elif known is not None:
        answers = Replies(known)
        near, own = answers.places(lists["neighbor"]), places(answers.row, lists["row"])
        columns = {n: np.concatenate([c, np.zeros_like(c[:1])]) for n, c in answers.columns.items()}
    pieces, seconds = [], 0.0
    for start in range(0, n_rows, of.portion or n_rows):
        some = slice(start, start + (of.portion or n_rows))
        of_row = {name: lists[name][some] for name in of.needs}
        at = Around(of.graph, lists["row"][some], of_row, near[some], own[some], columns)
        began = time.perf_counter()
        given = of.kernel(at, **shared)
        seconds += time.perf_counter() - began
        pieces.append(given if isinstance(given, Facts) else Facts(given))
    whole = Facts(
        _typed(_joined([piece.columns for piece in pieces]), of.gives),
        _joined([piece.others for piece in pieces]),
        _joined([piece.drawn for piece in pieces]),
        pieces[0].left,
    )
    return whole, seconds


def _by_row(asked: Asks, lists: Arrays, known: Inbox | None) -> Arrays:
    """What was answered, row by row, and where that of each row asked for starts."""
    columns = known.receive() if known else {"row": np.empty(0, np.int64)}
    row = columns.pop("row")
    order = np.argsort(row, kind="stable")
    ends = np.append(asked.rows(lists), np.iinfo(np.int64).max)
    sorted_by_row = {name: column[order] for name, column in columns.items()}
    return {**sorted_by_row, "start": np.searchsorted(row[order], ends)}


def _joined(pieces: Sequence[Arrays]) -> Arrays:
    """Columns one after the other, of the pieces that have any."""
    some = [piece for piece in pieces if piece]
    return {name: np.concatenate([p[name] for p in some]) for name in some[0]} if some else {}


def _typed(columns: Arrays, gives: Mapping[str, str]) -> Arrays:
    """The columns that a kernel is to give, as the types say; of no rows where there are none."""
    none = {name: np.empty(0, np.dtype(kind)) for name, kind in gives.items()}
    return {
        name: columns[name].astype(empty.dtype, copy=False) if columns else empty
        for name, empty in none.items()
    }
