"""What parts send: to source order, to the blocks that asked, to the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from flows.engine.results import of_json, result_of
from pipeline.arrays import Int32, Int64, Integers
from pipeline.knn.lists import ABSENT, Neighbors, empty, merge
from pipeline.knn.places import places
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays
from storage.errors import StorageError
from storage.files.location import Location
from storage.runs.ledger import Record
from storage.runs.pool import Pool, Rows

Sent = list[tuple[int, int]]
"""(destination, rows) of a run, in the order in which the rows lie there."""
T = TypeVar("T")


@dataclass(frozen=True)
class Passed:
    """What a part of a pass sent, by what it is, and what it leaves for the steps to come."""

    sent: dict[str, Sent]
    left: Any = None


@dataclass(frozen=True)
class Facts:
    """What a kernel found in some rows."""

    columns: Arrays = field(default_factory=dict)
    """(row, ...) by name, of the rows given."""
    others: Arrays = field(default_factory=dict)
    """(item, ...) of any rows of the pool, which `row` (item,) names, also more than once."""
    drawn: Arrays = field(default_factory=dict)
    """(item, ...) for the driver: a sample of rows, which `row` (item,) names, or partial sums."""
    left: Any = None
    """Small values for the driver; of kernels that see all rows of a part at once."""


@dataclass(frozen=True)
class Sendings:
    """What all parts of a pass sent, each kind through an exchange of its own."""

    location: Location
    step: str
    parts: dict[str, Passed]

    @classmethod
    def of(cls, location: Location, step: str, records: Sequence[Record]) -> Sendings:
        return cls(location, step, {record.part: result_of(record, Passed) for record in records})

    def exchange(self, what: str) -> Exchange:
        return exchange(self.location, self.step, what)

    def slices(self, what: str, n_destinations: int) -> list[list[Slice]]:
        """For each destination the slices of what was sent there."""
        sent = {name: part.sent.get(what, []) for name, part in self.parts.items()}
        return by_destination(sent, n_destinations)

    def left(self, kind: type[T]) -> list[T]:
        """What the parts left, in their order; of those that had any rows."""
        return [of_json(part.left, kind) for part in self.parts.values() if part.left is not None]

    def drawn(self) -> Arrays:
        """The sample that was drawn in all parts, rows ascending."""
        columns = self.exchange("drawn").receive(self.slices("drawn", 1)[0])
        order = np.argsort(columns["row"])
        return {name: column[order] for name, column in columns.items()}

    def drawn_by_part(self) -> Iterator[Arrays]:
        """What each part sent to the driver, one after the other."""
        for part in self.slices("drawn", 1)[0]:
            yield self.exchange("drawn").receive([part])


def exchange(location: Location, step: str, what: str) -> Exchange:
    """The exchange of one kind of what a step sends."""
    return Exchange(location, f"{step}/{what}")


def ask(
    location: Location, step: str, producer: str, asker: int, pool: Pool, row: Int64
) -> tuple[str, Sent]:
    """Ask a pool for rows (row,), each once: the key of what was written, and what was sent."""
    columns: Arrays = {"row": row, "asker": np.full(len(row), asker, np.int32)}
    away = exchange(location, step, "asked")
    sent = away.send(producer, pool.part_of(row), len(pool.parts()), columns)
    return away.key(producer), sent


class Replies:
    """What was answered of the rows that somebody asked for, one item a row."""

    def __init__(self, through: Exchange, slices: Sequence[Slice]) -> None:
        self.columns: Arrays = through.receive(slices)
        self.row: Int64 = self.columns.pop("row")

    def places(self, neighbor: Int64) -> Int32:
        """Where each neighbor, of any shape, is in the columns; `ABSENT` in empty places.

        Raises `StorageError` where a row was not answered for.
        """
        at = places(self.row, neighbor)
        if ((at == ABSENT) & (neighbor != ABSENT)).any():
            raise StorageError("what some neighbors are is unknown; run train again to repair")
        return at


def to_driver(drawn: Arrays) -> Int64:
    """The one destination of what is drawn."""
    return np.zeros(len(next(iter(drawn.values()))), np.int64)


def source_order(row: Int64, rows: Rows, what: str) -> Int64:
    """The order that brings what was sent of some rows, one item a row, into that of the source.

    row : (item,) the row that each is of
    what : what the items are, for the message

    Raises `StorageError` where there is not one item for each row.
    """
    order = np.argsort(row)
    if not np.array_equal(row[order], np.arange(rows.start, rows.stop)):
        raise StorageError(f"rows {rows.start:,} to {rows.stop:,}: {what} do not cover them")
    return order


def incoming(records: Sequence[Record], n_destinations: int) -> list[list[Slice]]:
    """For each destination the slices of the runs that some parts sent, in one pass over their
    tables of counts."""
    sent = {record.part: result_of(record, Sent) for record in records}
    return by_destination(sent, n_destinations)


def by_destination(sent: Mapping[str, Sent], n_destinations: int) -> list[list[Slice]]:
    """The same, by the name of the part."""
    slices: list[list[Slice]] = [[] for _ in range(n_destinations)]
    for part, counts in sent.items():
        start = 0
        for destination, rows in counts:
            slices[destination].append(Slice(part, start, start + rows))
            start += rows
    return slices


def send_lists(
    exchange: Exchange,
    producer: str,
    destination: Integers,
    n_destinations: int,
    owner: Int64,
    lists: Neighbors,
) -> Sent:
    """Send lists to the part that owns their row.

    destination, owner : (list,) consumer's number, and row the list is of
    """
    columns = {"owner": owner, **lists._asdict()}
    return exchange.send(producer, destination, n_destinations, columns)


def receive_lists(exchange: Exchange, slices: Sequence[Slice], owners: Int64, k: int) -> Neighbors:
    """The merged list of each owner, from all slices sent for them.

    owners : (row,) ascending; rows without any list get an empty one

    Raises `StorageError` where a list is of no row of `owners`.
    """
    if not slices:
        return empty(len(owners), k)
    columns = exchange.receive(slices)
    owner = columns.pop("owner")
    if not np.isin(owner, owners).all():
        raise StorageError(f"exchange {exchange.name}: lists of rows that are not at home here")
    return merge(np.searchsorted(owners, owner), Neighbors(**columns), len(owners))
