"""What the parts of a pass send: into source order, to the blocks that asked, to the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from flows.engine.job import Output
from flows.engine.results import of_json, result_of
from pipeline.arrays import Int32, Int64, Integers
from pipeline.knn.lists import ABSENT, Neighbors, empty, merge
from pipeline.knn.places import places
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays
from storage.errors import StorageError
from storage.files.location import Location
from storage.runs.ledger import Record
from storage.runs.pool import Pool

Sent = list[tuple[int, int]]
"""(destination, rows) of a run, in the order in which the rows lie there."""
T = TypeVar("T")


@dataclass(frozen=True)
class Passed:
    """What a part of a pass sent, by kind, and small values that it leaves for later steps."""

    sent: dict[str, Sent]
    left: Any = None


@dataclass(frozen=True)
class Facts:
    """What a kernel found in some rows."""

    columns: Arrays = field(default_factory=dict)
    """(row, ...) by name, of the rows that it saw."""
    others: Arrays = field(default_factory=dict)
    """(item, ...) by name, of any rows of the pool; `row` (item,) says which, also repeatedly."""
    drawn: Arrays = field(default_factory=dict)
    """(item, ...) by name, for the driver: a sample, with `row` (item,), or partial sums."""
    left: Any = None
    """Small values for the driver; only of kernels that see all rows of a part at once."""


@dataclass(frozen=True)
class Inbox:
    """All that parts sent to one consumer: its slices of the runs of an exchange."""

    exchange: Exchange
    slices: list[Slice]

    def __len__(self) -> int:
        return sum(part.stop - part.start for part in self.slices)

    def receive(self) -> Arrays:
        """All items, by column; raises as `Exchange.receive`."""
        return self.exchange.receive(self.slices)

    def lists(self, owners: Int64, k: int) -> Neighbors:
        """The merged list of each owner, from all lists sent for them.

        owners : (row,) ascending; rows without any list get an empty one

        Raises `StorageError` where a list is of no row of `owners`.
        """
        if not self.slices:
            return empty(len(owners), k)
        columns = self.receive()
        owner = columns.pop("owner")
        if not np.isin(owner, owners).all():
            raise StorageError(
                f"exchange {self.exchange.name}: lists of rows that are not at home here"
            )
        return merge(np.searchsorted(owners, owner), Neighbors(**columns), len(owners))

    def batches(self, most: int) -> Iterator[Inbox]:
        """The same items in several inboxes of at most so many."""
        batch: list[Slice] = []
        room = most
        for part in self.slices:
            start = part.start
            while start < part.stop:
                stop = min(part.stop, start + room)
                batch.append(Slice(part.producer, start, stop))
                room -= stop - start
                start = stop
                if room == 0:
                    yield Inbox(self.exchange, batch)
                    batch, room = [], most
        if batch:
            yield Inbox(self.exchange, batch)


def of_owners(owner: Int64, lists: Neighbors) -> Arrays:
    """Lists as columns to send, for `Inbox.lists` to receive; owner : (list,) whose each is."""
    return {"owner": owner, **lists._asdict()}


@dataclass(frozen=True)
class Lists:
    """Where the neighbors of some rows lie."""

    inbox: Inbox
    k: int
    """Length of the lists."""

    def of(self, rows: slice) -> Neighbors:
        """The merged lists of these rows, which are all that were sent."""
        return self.inbox.lists(np.arange(rows.start, rows.stop), self.k)


def inboxes(through: Exchange, sent: Mapping[str, Sent], n_destinations: int) -> list[Inbox]:
    """The inbox of each destination, by one pass over the tables of counts of what parts sent."""
    slices: list[list[Slice]] = [[] for _ in range(n_destinations)]
    for part, counts in sent.items():
        start = 0
        for destination, rows in counts:
            slices[destination].append(Slice(part, start, start + rows))
            start += rows
    return [Inbox(through, some) for some in slices]


def incoming(through: Exchange, records: Sequence[Record], n_destinations: int) -> list[Inbox]:
    """The same for parts whose records hold what they sent."""
    sent = {record.part: result_of(record, Sent) for record in records}
    return inboxes(through, sent, n_destinations)


def exchange(location: Location, step: str, what: str) -> Exchange:
    """The exchange of one kind of what a pass sends."""
    return Exchange(location, f"{step}/{what}")


class Outbox:
    """What one part of a pass sends, through an exchange for each kind."""

    def __init__(self, location: Location, step: str, producer: str) -> None:
        self.location, self.step, self.producer = location, step, producer
        self.sent: dict[str, Sent] = {}
        self.written: list[str] = []

    def send(self, what: str, to: Integers, n_destinations: int, columns: Arrays) -> None:
        """Items (item,), each to its destination."""
        through = exchange(self.location, self.step, what)
        self.sent[what] = through.send(self.producer, to, n_destinations, columns)
        self.written.append(through.key(self.producer))

    def to_driver(self, drawn: Arrays) -> None:
        """What is drawn, if anything is."""
        if drawn:
            self.send("drawn", np.zeros(len(next(iter(drawn.values()))), np.int64), 1, drawn)

    def ask(self, asker: int, pool: Pool, row: Int64) -> None:
        """Ask a pool for rows (row,), each once."""
        columns: Arrays = {"row": row, "asker": np.full(len(row), asker, np.int32)}
        self.send("asked", pool.part_of(row), len(pool.parts()), columns)

    def output(self, left: Any = None, kernel_seconds: float = 0.0) -> Output:
        """What the part did, and leaves for the driver."""
        return Output(self.written, Passed(self.sent, left), kernel_seconds)


@dataclass(frozen=True)
class Sendings:
    """What all parts of a pass sent, each kind through an exchange of its own."""

    location: Location
    step: str
    parts: dict[str, Passed]

    @classmethod
    def of(cls, location: Location, step: str, records: Sequence[Record]) -> Sendings:
        return cls(location, step, {record.part: result_of(record, Passed) for record in records})

    def inboxes(self, what: str, n_destinations: int) -> list[Inbox]:
        """What was sent to each destination."""
        sent = {name: part.sent.get(what, []) for name, part in self.parts.items()}
        return inboxes(exchange(self.location, self.step, what), sent, n_destinations)

    def left(self, kind: type[T]) -> list[T]:
        """What the parts left, in their order; of those that had any rows."""
        return [of_json(part.left, kind) for part in self.parts.values() if part.left is not None]

    def drawn(self) -> Arrays:
        """The sample that was drawn in all parts, rows ascending."""
        columns = self.inboxes("drawn", 1)[0].receive()
        order = np.argsort(columns["row"])
        return {name: column[order] for name, column in columns.items()}

    def drawn_by_part(self) -> Iterator[Arrays]:
        """What each part sent to the driver, one after the other."""
        (inbox,) = self.inboxes("drawn", 1)
        return (inbox.exchange.receive([part]) for part in inbox.slices)


class Replies:
    """What was answered about the rows that a block asked for, one item per row."""

    def __init__(self, inbox: Inbox) -> None:
        self.columns: Arrays = inbox.receive()
        self.row: Int64 = self.columns.pop("row")

    def places(self, neighbor: Int64) -> Int32:
        """Place in the columns of each neighbor, of any shape; `ABSENT` in empty places.

        Raises `StorageError` where a row was not answered for.
        """
        at = places(self.row, neighbor)
        if ((at == ABSENT) & (neighbor != ABSENT)).any():
            raise StorageError("what some neighbors are is unknown; run train again to repair")
        return at


def source_order(row: Int64, rows: slice, what: str) -> Int64:
    """The order that brings items of some rows, one per row, into the order of the source.

    row : (item,) the row that each is of
    what : what the items are, for the message

    Raises `StorageError` where there is not one item for each row.
    """
    order = np.argsort(row)
    if not np.array_equal(row[order], np.arange(rows.start, rows.stop)):
        raise StorageError(f"rows {rows.start:,} to {rows.stop:,}: {what} do not cover them")
    return order
