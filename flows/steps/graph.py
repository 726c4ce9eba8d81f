"""Blocks → the graph: lists by block, lists sent home, merged."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.job import Job, Output
from flows.steps.lists import incoming, receive_lists, send_lists
from flows.steps.partition import Blocks, block_name
from pipeline.blockwise import Part
from pipeline.merge import ABSENT, Neighbours, merge
from pipeline.neighbours import NeighbourParams, build_lists
from pipeline.partition import nearest_blocks
from pipeline.search import nearest
from storage.exchange import Exchange
from storage.groups import Arrays, read_array, read_group, write_group
from storage.run import Run


def build_graph(job: Job, blocks: Blocks, params: NeighbourParams) -> None:
    """Write the groups `graph/NNNNN`: the k nearest of every row at home in each block.

    Where no row has a copy in another block, lists are whole as they are found and nothing moves.
    """
    exchange = None if blocks.disjoint else Exchange(job.run.location, blocks.name("lists"))
    common = {"params": params, "to": exchange, "n_blocks": len(blocks.sizes)}
    exact = params.builder == "exact"
    found = job.parts(
        blocks.name("neighbours"),
        exact_part if exact else neighbour_part,
        [Part(block_name(b), {**common, "block": b}) for b in blocks.largest_first()],
        compiled=not exact,
    )
    if exchange is None:
        return
    slices = incoming(found, len(blocks.sizes))
    job.parts(
        blocks.name("graph"),
        graph_part,
        [
            Part(block_name(b), {**common, "block": b, "slices": slices[b]})
            for b in blocks.largest_first()
        ],
    )


def neighbour_part(run: Run, part: Part) -> Output:
    """Lists of all rows of one block among themselves, each sent to the row's home block."""
    params = part.args["params"]
    block = block_with_enough_rows(run, part.args["block"], params.k)
    start = time.perf_counter()
    index, distance, n_repaired = build_lists(block["x"], params)
    seconds = time.perf_counter() - start
    lists = block_lists(block, index, distance)
    return Output(*_deliver(run, part, block, lists, repaired=n_repaired), seconds)


def _deliver(
    run: Run, part: Part, block: Arrays, lists: Neighbours, *, repaired: int
) -> tuple[list[str], dict[str, Any]]:
    """Send lists home; or, where all are at home, write them. What was written, and the result."""
    exchange: Exchange | None = part.args["to"]
    if exchange is None:
        core = block["core"]
        at_home = Neighbours(lists.row[core], lists.distance[core], lists.label[core])
        number = part.args["block"]
        written, result = _write(
            run, number, block["row"][core], block["given_label"][core], at_home
        )
    else:
        home = block["home"]  # as routed: computed anew, a tie could fall otherwise
        written = [exchange.key(part.name)]
        n_blocks = part.args["n_blocks"]
        result = send_lists(exchange, part.name, home, n_blocks, block["row"], lists)
    return written, {**result, "repaired": repaired}


def _write(
    run: Run,
    number: int,
    row: npt.NDArray[np.int64],
    given_label: npt.NDArray[np.int8],
    lists: Neighbours,
) -> tuple[list[str], dict[str, Any]]:
    """The graph of the rows at home in one block: what was written, and how many are short."""
    columns: Arrays = {
        "row": row,
        "given_label": given_label,
        "neighbor": lists.row,
        "distance": lists.distance,
        "neighbor_label": lists.label,
    }
    path = f"graph/{number:05d}"
    write_group(run.store, path, "graph", columns, {"block": number})
    return [run.key(path)], {"short": int((lists.row[:, -1:] == ABSENT).sum())}


def block_with_enough_rows(run: Run, number: int, k: int) -> Arrays:
    """A block; one with no more than k rows borrows the rows of the blocks nearest to it."""
    block = read_group(run.store, f"blocks/{number:05d}")
    if len(block["row"]) > k:
        return block
    centroid = read_array(run.group("partition"), "centroid")
    near = nearest_blocks(centroid[number : number + 1], centroid, len(centroid))[0][0]
    for other in near[near != number]:
        more = read_group(run.store, f"blocks/{other:05d}")
        fresh = more["core"] & ~np.isin(more["row"], block["row"])
        more["core"] = np.zeros(len(fresh), np.bool_)
        block = {n: np.concatenate([block[n], more[n][fresh]]) for n in block}
        if len(block["row"]) > k:
            break
    order = np.argsort(block["row"])
    return {name: value[order] for name, value in block.items()}


def block_lists(
    block: Arrays, index: npt.NDArray[np.int64], distance: npt.NDArray[Any]
) -> Neighbours:
    """Lists of places in a block as lists of training rows with their labels."""
    there = index != ABSENT
    return Neighbours(
        np.where(there, block["row"][index], ABSENT),
        distance,
        np.where(there, block["given_label"][index], ABSENT).astype(np.int8),
    )


def exact_part(run: Run, part: Part) -> Output:
    """Exact lists of the rows at home in one block, among all rows of the pool.

    Other blocks are read one by one, nearest first; those too far to hold a neighbour of any row
    are left out.
    """
    params, number = part.args["params"], part.args["block"]
    centroid = read_array(run.group("partition"), "centroid")
    own = read_group(run.store, f"blocks/{number:05d}")
    everything, lists, seconds = np.arange(len(own["row"])), None, 0.0
    for other in nearest_blocks(centroid[number : number + 1], centroid, len(centroid))[0][0]:
        group = run.group(f"blocks/{other:05d}")
        to_centre = np.sqrt(np.square(own["x"].astype(np.float64) - centroid[other]).sum(axis=1))
        radius = float(group.attrs["radius"])  # type: ignore[arg-type]
        bound = (
            np.full(len(own["row"]), np.inf, np.float32) if lists is None else lists.distance[:, -1]
        )
        reach = np.flatnonzero(to_centre * (1 - 1e-6) - radius * (1 + 1e-6) <= bound)
        if not len(reach):
            continue
        block = own if other == number else read_group(run.store, f"blocks/{other:05d}")
        start = time.perf_counter()
        exclude = everything[reach] if other == number else None
        index, distance = nearest(
            own["x"][reach], block["x"], params.k, exclude=exclude, bound=bound[reach]
        )
        seconds += time.perf_counter() - start
        more = block_lists(block, index, distance)
        if lists is None:
            lists = more
            continue
        both = Neighbours(*(np.concatenate([a, b]) for a, b in zip(lists, more, strict=True)))
        lists = merge(np.concatenate([everything, everything[reach]]), both, len(everything))
    assert lists is not None
    return Output(*_deliver(run, part, own, lists, repaired=0), seconds)


def graph_part(run: Run, part: Part) -> Output:
    """Merge the lists sent home to one block and write its part of the graph."""
    number = part.args["block"]
    block = run.group(f"blocks/{number:05d}")
    core = read_array(block, "core")
    row, given_label = read_array(block, "row")[core], read_array(block, "given_label")[core]
    lists = receive_lists(part.args["to"], part.args["slices"], row, part.args["params"].k)
    return Output(*_write(run, number, row, given_label, lists))
