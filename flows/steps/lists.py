"""Neighbor lists through the exchange: sent by whoever found them, merged where they belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.results import Result
from pipeline.knn.lists import Neighbors, empty, merge
from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.ledger import Record
from storage.pool import Rows

Sent = list[tuple[int, int]]
"""(destination, rows) of a run, in the order in which the rows lie there."""


@dataclass(frozen=True)
class Routed(Result):
    """What a part sent."""

    sent: Sent


def source_order(row: npt.NDArray[np.int64], rows: Rows, what: str) -> npt.NDArray[np.int64]:
    """The order that brings what was sent of some rows, one item a row, into that of the source.

    row : (item,) the row that each is of
    what : what the items are, for the message

    Raises
    ------
    StorageError
        there is not one item for each row.
    """
    order = np.argsort(row)
    if not np.array_equal(row[order], np.arange(rows.start, rows.stop)):
        raise StorageError(f"rows {rows.start:,} to {rows.stop:,}: {what} do not cover them")
    return order


def send_lists(
    exchange: Exchange,
    producer: str,
    destination: npt.NDArray[np.integer[Any]],
    n_destinations: int,
    owner: npt.NDArray[np.int64],
    lists: Neighbors,
) -> Routed:
    """Send lists to the part that owns their row.

    destination, owner : (list,) consumer's number, and row the list is of
    """
    columns = {"owner": owner, **lists._asdict()}
    return Routed(exchange.send(producer, destination, n_destinations, columns))


def receive_lists(
    exchange: Exchange, slices: Sequence[Slice], owners: npt.NDArray[np.int64], k: int
) -> Neighbors:
    """The merged list of each owner, from all slices sent for them.

    owners : (row,) ascending; rows without any list get an empty one

    Raises
    ------
    StorageError
        a list is of no row of `owners`.
    """
    if not slices:
        return empty(len(owners), k)
    columns = exchange.receive(slices)
    owner = columns.pop("owner")
    if not np.isin(owner, owners).all():
        raise StorageError(f"exchange {exchange.name}: lists of rows that are not at home here")
    return merge(np.searchsorted(owners, owner), Neighbors(**columns), len(owners))


def incoming(records: Sequence[Record], n_destinations: int) -> list[list[Slice]]:
    """For each destination the slices of the runs that some parts sent, in one pass over their
    tables of counts."""
    return slices_by_destination(records, n_destinations, lambda record: Routed.of(record).sent)


def slices_by_destination(
    records: Sequence[Record], n_destinations: int, sent: Callable[[Record], Sent]
) -> list[list[Slice]]:
    """The same, of parts that record in a way of their own what they `sent`."""
    found: list[list[Slice]] = [[] for _ in range(n_destinations)]
    for record in records:
        start = 0
        for destination, rows in sent(record):
            found[destination].append(Slice(record.part, start, start + rows))
            start += rows
    return found
