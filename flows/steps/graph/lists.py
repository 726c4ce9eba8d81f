"""Neighbor lists through the exchange: sent by whoever found them, merged where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Routed
from pipeline.knn.lists import Neighbors, empty, merge
from storage.arrays.exchange import Exchange, Slice
from storage.errors import StorageError


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
