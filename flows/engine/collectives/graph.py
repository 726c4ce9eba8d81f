"""One pass over a graph, block by block: a kernel sees rows, and what is known of neighbors."""

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
    """Length of lists without mates."""
    seed: int = 0
    """Of the samples that are drawn of its rows."""

    def read(self, block: int, names: Sequence[str]) -> Arrays:
        """Columns of one block, of row, given_label, neighbor, distance and neighbor_label; mates
        are moved to the end of the lists, and made empty places."""
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
    """Some rows of a block, with their lists and what is known of their neighbors."""

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
    """(known + 1, ...) by name: what was answered of rows; the last item is 0, for empty places."""

    def of_neighbors(self, name: str, ranks: int | None = None) -> AnyArray:
        """(row, rank, ...) what is known of the neighbors, or of so many nearest; 0 in empty
        places."""
        return np.asarray(self.known[name][self.near[:, :ranks]])

    def take(self, rows: Bools) -> Around:
        of_row = {name: column[rows] for name, column in self.of_row.items()}
        return Around(
            self.graph, self.row[rows], of_row, self.near[rows], self.own[rows], self.known
        )

    def drawn(self, most: int, stream: Stream = Stream.PARTITION) -> Bools:
        """(row,) whether a row is in a random sample of so many rows of the pool."""
        return in_sample(self.row, self.graph.pool.n_rows, most, self.graph.seed, stream)


Kernel = Callable[..., Facts | Arrays]
"""(Around, **what `reading` reads) -> columns of these rows, or `Facts`."""


@dataclass(frozen=True)
class Asks:
    """Which rows a block asks about: the neighbors of its rows."""

    own: bool = False
    """Whether it asks about its rows, too."""
    ranks: int | None = None
    """How many nearest neighbors; None for all."""

    def rows(self, lists: Arrays) -> Int64:
        """(any,) row numbers, ascending."""
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
    needs : columns of the graph that the kernel gets
    gives : type of each column that it makes of its rows
    known : what `over_rows` answered about the rows that an earlier pass asked for
    several : what that pass asked, where answers have any number of items per row; `known` then has
        these row by row, and `start` (known + 1,) where those of each row begin
    reading : reads small values, once a block, that the kernel gets by name
    asks : the source rows about which `over_rows` is to answer
    portion : rows that the kernel sees at once; None for all of the block
    """
    answers: list[Inbox] | list[None] = [None] * graph.n_blocks
    if known is not None:
        answers = known.inboxes("answers", graph.n_blocks)
    gives = dict(gives or {})
    shared = _Pass(step, graph, kernel, tuple(needs), gives, reading, several, asks, portion)
    records = job.parts(step, partial(_block_part, shared), by_block(enumerate(answers)))
    return Sendings.of(job.run.location, step, records)


def _block_part(shared: _Pass, run: Run, part: Part[tuple[int, Inbox | None]]) -> Output:
    """One block of a pass; with it come the answers about its rows, if there are any."""
    (number, known), pool = part.args, shared.graph.pool
    looked_up = {"neighbor"} if shared.asks is not None or known is not None else set()
    lists = shared.graph.read(number, sorted({"row", *shared.needs, *looked_up}))
    row, seconds = lists["row"], 0.0
    facts = Facts(_typed({}, shared.gives))
    if shared.kernel is not None and len(row):
        values = {} if shared.reading is None else shared.reading(run)
        facts, seconds = _findings(shared, lists, known, values)
    out, n_parts = Outbox(run.location, shared.step, part.name), len(pool.parts())
    if shared.gives:
        out.send("rows", pool.part_of(row), n_parts, {"row": row, **facts.columns})
    if facts.others:
        out.send("others", pool.part_of(facts.others["row"]), n_parts, facts.others)
    out.to_driver(facts.drawn)
    if shared.asks is not None:
        out.ask(number, pool, shared.asks.rows(lists))
    return out.output(facts.left, seconds)


def _findings(
    shared: _Pass, lists: Arrays, known: Inbox | None, values: Mapping[str, Any]
) -> tuple[Facts, float]:
    """What the kernel finds in all rows of a block, and its seconds."""
    assert shared.kernel is not None
    n_rows = len(lists["row"])
    columns: Arrays = {}
    near, own = np.empty((n_rows, 0), np.int32), np.full(n_rows, ABSENT, np.int32)
    if shared.several is not None:
        wanted, columns = shared.several.rows(lists), _by_row(shared.several, lists, known)
        near = places(wanted, lists["neighbor"][:, : shared.several.ranks])
        own = places(wanted, lists["row"])
    elif known is not None:
        answers = Replies(known)
        near, own = answers.places(lists["neighbor"]), places(answers.row, lists["row"])
        columns = {n: np.concatenate([c, np.zeros_like(c[:1])]) for n, c in answers.columns.items()}
    pieces, seconds = [], 0.0
    portion = shared.portion or n_rows
    for start in range(0, n_rows, portion):
        rows = slice(start, start + portion)
        of_row = {name: lists[name][rows] for name in shared.needs}
        at = Around(shared.graph, lists["row"][rows], of_row, near[rows], own[rows], columns)
        began = time.perf_counter()
        given = shared.kernel(at, **values)
        seconds += time.perf_counter() - began
        pieces.append(given if isinstance(given, Facts) else Facts(given))
    whole = Facts(
        _typed(_joined([piece.columns for piece in pieces]), shared.gives),
        _joined([piece.others for piece in pieces]),
        _joined([piece.drawn for piece in pieces]),
        pieces[0].left,
    )
    return whole, seconds


def _by_row(asks: Asks, lists: Arrays, known: Inbox | None) -> Arrays:
    """All items that were answered, row by row, and where those of each row asked about start."""
    columns = known.receive() if known else {"row": np.empty(0, np.int64)}
    row = columns.pop("row")
    order = np.argsort(row, kind="stable")
    ends = np.append(asks.rows(lists), np.iinfo(np.int64).max)
    sorted_by_row = {name: column[order] for name, column in columns.items()}
    return {**sorted_by_row, "start": np.searchsorted(row[order], ends)}


def _joined(pieces: Sequence[Arrays]) -> Arrays:
    """The columns of all pieces that have any, one piece after the other."""
    full = [piece for piece in pieces if piece]
    return {name: np.concatenate([p[name] for p in full]) for name in full[0]} if full else {}


def _typed(columns: Arrays, gives: Mapping[str, str]) -> Arrays:
    """The columns that a kernel is to make, in their types; empty ones where it made none."""
    none = {name: np.empty(0, np.dtype(kind)) for name, kind in gives.items()}
    return {
        name: columns[name].astype(empty.dtype, copy=False) if columns else empty
        for name, empty in none.items()
    }
