"""One pass over a graph, block by block: a kernel sees rows with what is around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Found, Passed, Sendings, Sent, exchange
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import distinct, places
from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.groups import Arrays, read_array, write_group
from storage.pool import Pool
from storage.run import Run

PORTION = 4096
"""Rows that a kernel sees at once, unless it wants all of a block."""


@dataclass(frozen=True)
class PoolGraph:
    """A pool whose neighbor lists are written, block by block."""

    pool: Pool
    n_blocks: int

    def read(self, block: int, names: Sequence[str]) -> Arrays:
        """Columns of one block: row, given_label, neighbor, distance, neighbor_label."""
        group = self.pool.run.group(f"graph/{block:05d}")
        return {name: read_array(group, name) for name in names}


@dataclass(frozen=True)
class Around:
    """Some rows of a block, and what is known around them."""

    row: npt.NDArray[np.int64]
    """(row,) numbers in the pool, ascending."""
    of_row: Arrays
    """(row, ...) by name: the columns of the graph that the pass needs."""
    near: npt.NDArray[np.int32]
    """(row, rank) places of the neighbors in `known`, -1 in empty places; (0, 0) where nothing is
    known."""
    own: npt.NDArray[np.int32]
    """(row,) places of the rows themselves, -1 where nobody asked for them."""
    known: Arrays
    """(known + 1, ...) by name: what was answered of rows; the last is of no row, and 0."""

    def of_neighbors(self, name: str, ranks: int | None = None) -> npt.NDArray[Any]:
        """(row, rank, ...) what is known of the neighbors, of the nearest alone with `ranks`; 0 in
        empty places."""
        return np.asarray(self.known[name][self.near[:, :ranks]])


Kernel = Callable[..., Found | Arrays]
"""(Around, what `reading` reads by name) -> columns of these rows, or all that was found."""


@dataclass(frozen=True)
class Stored:
    """Columns that stay with the results, a group a block."""

    kind: str
    names: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Pass:
    """What all blocks of a pass share."""

    step: str
    graph: PoolGraph
    kernel: Kernel | None
    needs: tuple[str, ...]
    gives: dict[str, str]
    known: Exchange | None
    reading: Callable[[Run], Mapping[str, Any]] | None
    asks: Literal["neighbors", "rows and neighbors"] | None
    portion: int | None
    stored: Stored | None


@dataclass(frozen=True)
class _Block:
    number: int
    known: list[Slice]


def over_graph(
    job: Job,
    graph: PoolGraph,
    step: str,
    kernel: Kernel | None = None,
    *,
    needs: Sequence[str] = (),
    gives: Mapping[str, str] | None = None,
    known: Sendings | None = None,
    reading: Callable[[Run], Mapping[str, Any]] | None = None,
    asks: Literal["neighbors", "rows and neighbors"] | None = None,
    portion: int | None = PORTION,
    stored: Stored | None = None,
) -> Sendings:
    """Run a kernel over all rows of a graph, a block a part; what it found, on its way to source
    order.

    kernel : a function of a module, or a `partial` of one with small values
    needs : columns of the graph that it looks at, by row
    gives : type of each column that it finds of its rows
    known : what `over_rows` answered of the rows that were asked for in an earlier pass
    reading : small values that the kernel gets by name, read once a block
    asks : whether source rows are asked what they know of the neighbors here
    portion : rows that the kernel sees at once; None for all of the block
    stored : columns, the rows' numbers among them, that stay in `results.zarr`
    """
    through = None if known is None else known.exchange("answers")
    answers: list[list[Slice]] = [[]] * graph.n_blocks
    if known is not None:
        answers = known.slices("answers", graph.n_blocks)
    shared = _Pass(
        *(step, graph, kernel, tuple(needs), dict(gives or {})),
        *(through, reading, asks, portion, stored),
    )
    parts = [Part(block_name(b), _Block(b, answers[b])) for b in range(graph.n_blocks)]
    return Sendings.of(job.run.location, step, job.parts(step, partial(_block_part, shared), parts))


def _block_part(of: _Pass, run: Run, part: Part[_Block]) -> Output:
    """One block of a pass."""
    number, pool = part.args.number, of.graph.pool
    lists = of.graph.read(number, _read_names(of))
    row, seconds = lists["row"], 0.0
    sent: dict[str, Sent] = {}
    written: list[str] = []

    def send(what: str, to: npt.NDArray[np.int64], n: int, columns: Arrays) -> None:
        away = exchange(run.location, of.step, what)
        sent[what] = away.send(part.name, to, n, columns)
        written.append(away.key(part.name))

    found = Found(_typed({}, of.gives))
    if of.kernel is not None and len(row):
        shared = {} if of.reading is None else of.reading(run)
        known = _known(of.known, part.args.known)
        start = time.perf_counter()
        found = _found(of, lists, known, shared)
        seconds = time.perf_counter() - start
    n_parts = len(pool.parts())
    if of.gives:
        send("rows", pool.part_of(row), n_parts, {"row": row, **found.columns})
    if found.others:
        send("others", pool.part_of(found.others["row"]), n_parts, found.others)
    if found.drawn:
        send("drawn", np.zeros(len(found.drawn["row"]), np.int64), 1, found.drawn)
    if of.asks is not None:
        wanted = lists["neighbor"]
        if of.asks == "rows and neighbors":
            wanted = np.concatenate([row[:, None], wanted], axis=1)
        asked = distinct(wanted)
        asker = np.full(len(asked), number, np.int32)
        send("asked", pool.part_of(asked), n_parts, {"row": asked, "asker": asker})
    if of.stored is not None:
        path, columns = f"{of.stored.kind}/{number:05d}", {"row": row, **found.columns}
        stored = {name: columns[name] for name in of.stored.names}
        write_group(run.store, path, of.stored.kind, stored, of.stored.attributes)
        written.append(run.key(path))
    left = None if found.left is None else found.left.as_json()
    return Output(written, Passed(sent, left), seconds)


def _read_names(of: _Pass) -> list[str]:
    looked_up = {"neighbor"} if of.asks is not None or of.known is not None else set()
    return sorted({"row", *of.needs, *looked_up})


def _known(through: Exchange | None, slices: list[Slice]) -> Arrays:
    """What was answered, with the `row` that each is of."""
    return {} if through is None else through.receive(slices)


def _found(of: _Pass, lists: Arrays, known: Arrays, shared: Mapping[str, Any]) -> Found:
    """What the kernel finds in all rows of a block."""
    assert of.kernel is not None
    n_rows, columns = len(lists["row"]), dict(known)
    near, own = np.empty((n_rows, 0), np.int32), np.full(n_rows, ABSENT, np.int32)
    if of.known is not None:
        answered = columns.pop("row")
        near, own = places(answered, lists["neighbor"]), places(answered, lists["row"])
        if ((near == ABSENT) & (lists["neighbor"] != ABSENT)).any():
            raise StorageError("what some neighbors are is unknown; run train again to repair")
        columns = {n: np.concatenate([c, np.zeros_like(c[:1])]) for n, c in columns.items()}
    pieces = []
    for start in range(0, n_rows, of.portion or n_rows):
        some = slice(start, start + (of.portion or n_rows))
        of_row = {name: lists[name][some] for name in of.needs}
        at = Around(lists["row"][some], of_row, near[some], own[some], columns)
        found = of.kernel(at, **shared)
        pieces.append(found if isinstance(found, Found) else Found(found))
    return Found(
        _typed(_joined([piece.columns for piece in pieces]), of.gives),
        _joined([piece.others for piece in pieces]),
        _joined([piece.drawn for piece in pieces]),
        pieces[0].left,
    )


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
