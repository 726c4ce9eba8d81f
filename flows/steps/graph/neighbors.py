"""Blocks → the graph: lists by block, lists sent home, merged."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, starmap
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.collectives.sent import Routed, incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from flows.steps.graph.lists import receive_lists, send_lists
from flows.steps.graph.lookup import pick
from flows.steps.graph.names import GRAPH, NEIGHBORS
from flows.steps.graph.partition import Blocks
from pipeline.blocks.partition import nearest_blocks
from pipeline.graph.build import NeighborParams, build_lists
from pipeline.knn.distance import pair_distance
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT, Neighbors, merge, no_label
from pipeline.knn.threads import Threads
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import Arrays, array, read_array, read_group, write_group
from storage.runs.run import Run


@dataclass(frozen=True)
class Build:
    """A block whose lists are wanted."""

    block: int
    params: NeighborParams
    n_blocks: int
    to: Exchange | None
    """Where lists go; None where no row has a copy: they are whole as they are found."""


@dataclass(frozen=True)
class Together:
    """The lists of all blocks."""

    n_blocks: int
    params: NeighborParams


@dataclass(frozen=True)
class MergeLists:
    """A block, and the lists sent to it."""

    block: int
    list_length: int
    sent: Exchange
    slices: list[Slice]


@dataclass(frozen=True)
class ListsBuilt(Routed):
    """Lists of a block that were sent home or, if they were whole, written."""

    repaired: int
    """Lists that had to be searched exactly."""
    short: int | None = None
    """Lists shorter than wanted; None if they were sent."""


@dataclass(frozen=True)
class Merged(Result):
    """The graph of one block."""

    short: int
    """Lists shorter than wanted."""


def build_graph(job: Job, blocks: Blocks, params: NeighborParams) -> None:
    """Write the groups `graph/NNNNN`: the k nearest of every row at home in each block.

    Where no row has a copy in another block, lists are whole as they are found and nothing moves.
    """
    exchange = None if blocks.disjoint else Exchange(job.run.location, blocks.name("lists"))
    n_blocks = len(blocks.sizes)
    if blocks.together:
        together = partial(together_part, Threads(job.machine().threads))
        job.parts(blocks.name(NEIGHBORS), together, [Part("all", Together(n_blocks, params))])
        return
    do = neighbor_part
    if params.builder == "pynndescent":
        job.reporter.say("pynndescent's kernels compile in each worker first: about a minute")
    elif params.builder == "exact":
        every = array(job.run.group("anchors"), "row").shape[0] == sum(blocks.core)
        do = anchored_part if every else exact_part
    records = job.parts(
        blocks.name(NEIGHBORS),
        do,
        [Part(block_name(b), Build(b, params, n_blocks, exchange)) for b in blocks.largest_first()],
    )
    if exchange is None:
        return
    slices = incoming(records, len(blocks.sizes))
    job.parts(
        blocks.name(GRAPH),
        graph_part,
        [
            Part(block_name(b), MergeLists(b, params.k, exchange, slices[b]))
            for b in blocks.largest_first()
        ],
    )


def neighbor_part(run: Run, part: Part[Build]) -> Output:
    """Lists of all rows of one block among themselves, each sent to the row's home block."""
    params = part.args.params
    block = block_with_enough_rows(run, part.args.block, params.k)
    start = time.perf_counter()
    index, distance, n_repaired = build_lists(block["x"], params)
    seconds = time.perf_counter() - start
    lists = block_lists(block, index, distance)
    return Output(*_deliver(run, part, block, lists, repaired=n_repaired), seconds)


def together_part(threads: Threads, run: Run, part: Part[Together]) -> Output:
    """Lists of all rows of the pool, made at once by the threads of this process and written block
    by block."""
    params = part.args.params
    blocks = [run.group(f"blocks/{number:05d}") for number in range(part.args.n_blocks)]
    bounds = [0, *np.cumsum([array(block, "row").shape[0] for block in blocks])]
    rows = list(starmap(slice, pairwise(bounds)))
    like = {name: array(blocks[0], name) for name in ("x", "row", "given_label")}
    every = {n: np.empty((bounds[-1], *a.shape[1:]), a.dtype) for n, a in like.items()}

    def read(number: int, _: int) -> None:
        for name, column in every.items():
            column[rows[number]] = read_array(blocks[number], name)

    threads.over(len(blocks), read, piece=1)
    start = time.process_time()
    index, distance, n_repaired = build_lists(every.pop("x"), params, threads)
    seconds = time.process_time() - start
    written: list[list[str]] = [[]] * len(blocks)
    short = [0] * len(blocks)

    def write(number: int, _: int) -> None:
        own = rows[number]
        row, label = every["row"][own], every["given_label"][own]
        lists = block_lists(every, index[own], distance[own])
        written[number], short[number] = _write(run, number, row, label, lists)

    threads.over(len(blocks), write, piece=1)
    keys = [key for of_block in written for key in of_block]
    return Output(keys, ListsBuilt([], n_repaired, sum(short)), seconds)


def _deliver(
    run: Run, part: Part[Build], block: Arrays, lists: Neighbors, *, repaired: int
) -> tuple[list[str], ListsBuilt]:
    """Send lists home; or, where all are at home, write them. What was written, and the result."""
    exchange = part.args.to
    if exchange is None:
        core = block["core"]
        at_home = Neighbors(lists.row[core], lists.distance[core], lists.label[core])
        number = part.args.block
        written, short = _write(
            run, number, block["row"][core], block["given_label"][core], at_home
        )
    else:
        home = block["home"]  # as routed: computed anew, a tie could fall otherwise
        written = [exchange.key(part.name)]
        n_blocks = part.args.n_blocks
        routed = send_lists(exchange, part.name, home, n_blocks, block["row"], lists)
        return written, ListsBuilt(routed.sent, repaired)
    return written, ListsBuilt([], repaired, short)


def _write(
    run: Run,
    number: int,
    row: npt.NDArray[np.int64],
    given_label: npt.NDArray[np.integer],
    lists: Neighbors,
) -> tuple[list[str], int]:
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
    return [run.key(path)], int((lists.row[:, -1:] == ABSENT).sum())


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
) -> Neighbors:
    """Lists of places in a block as lists of training rows with their labels."""
    there, label = index != ABSENT, block["given_label"]
    return Neighbors(
        np.where(there, block["row"][index], ABSENT),
        distance,
        np.where(there, label[index], label.dtype.type(no_label(label.dtype))),
    )


def exact_part(run: Run, part: Part[Build]) -> Output:
    """Exact lists of the rows at home in one block, among all rows of the pool.

    Other blocks are read one by one, nearest first; those too far to hold a neighbor of any row
    are left out.
    """
    params, number = part.args.params, part.args.block
    centroid = read_array(run.group("partition"), "centroid")
    own = read_group(run.store, f"blocks/{number:05d}")
    everything, lists, seconds = np.arange(len(own["row"])), None, 0.0
    first = np.zeros_like(everything)
    for other in nearest_blocks(centroid[number : number + 1], centroid, len(centroid))[0][0]:
        group = run.group(f"blocks/{other:05d}")
        to_center = pair_distance(own["x"], centroid[other][None], everything, first)
        radius = float(group.attrs["radius"])  # type: ignore[arg-type]
        bound = (
            np.full(len(own["row"]), np.inf, np.float32) if lists is None else lists.distance[:, -1]
        )
        reach = np.flatnonzero(to_center * (1 - 1e-6) - radius * (1 + 1e-6) <= bound)
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
        both = Neighbors(*(np.concatenate([a, b]) for a, b in zip(lists, more, strict=True)))
        lists = merge(np.concatenate([everything, everything[reach]]), both, len(everything))
    assert lists is not None
    return Output(*_deliver(run, part, own, lists, repaired=0), seconds)


def anchored_part(run: Run, part: Part[Build]) -> Output:
    """The same lists where every row is an anchor: they have been found."""
    own = read_group(run.store, f"blocks/{part.args.block:05d}")
    place = np.searchsorted(read_array(run.group("anchors"), "row"), own["row"])
    lists = Neighbors(
        *(
            pick(run, "anchors", name, place)[:, 1 : part.args.params.k + 1]
            for name in ("neighbor", "distance", "neighbor_label")
        )
    )
    return Output(*_deliver(run, part, own, lists, repaired=0))


def graph_part(run: Run, part: Part[MergeLists]) -> Output:
    """Merge the lists sent home to one block and write its part of the graph."""
    number = part.args.block
    block = run.group(f"blocks/{number:05d}")
    core = read_array(block, "core")
    row, given_label = read_array(block, "row")[core], read_array(block, "given_label")[core]
    lists = receive_lists(part.args.sent, part.args.slices, row, part.args.list_length)
    written, short = _write(run, number, row, given_label, lists)
    return Output(written, Merged(short))
