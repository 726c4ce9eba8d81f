"""Blocks → the graph: lists are made by region, sent to the blocks of their rows, and merged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise, starmap

import numpy as np

from flows.engine.collectives.sent import Inbox, Sent, inboxes, of_owners
from flows.engine.job import Do, Job, Output
from flows.engine.parts import Part, block_name, by_block
from flows.engine.results import result_of
from flows.steps.graph.lookup import pick
from flows.steps.graph.partition import GRAPH, NEIGHBORS, Blocks
from pipeline.arrays import AnyArray, Float32, Int32, Int64
from pipeline.blocks.partition import nearest_blocks
from pipeline.graph.build import NeighborParams, build_lists
from pipeline.knn.distance import pair_distance
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT, LISTED, Neighbors, empty, merge, no_label
from pipeline.knn.lots import lots
from pipeline.knn.threads import ALONE, Threads
from storage.arrays.exchange import Exchange
from storage.arrays.groups import Arrays, array, read_array, read_group
from storage.runs.run import Run

Region = tuple[list[int], Inbox]
"""Blocks whose lists are made at once, and the copies of rows that are at home elsewhere."""


def build_graph(job: Job, blocks: Blocks, params: NeighborParams) -> None:
    """Write the groups `graph/NNNNN`: the k nearest of every row at home in each block.

    Where no row has a copy in another region, lists are complete as they are found and stay there.
    """
    cut, n_blocks = blocks.cut, len(blocks.sizes)
    exchange = None if cut.halo.copies == 1 else Exchange(job.run.location, blocks.name("lists"))
    threads, at_once = ALONE, None
    if cut.wide:
        machine = job.machine()
        threads, at_once = Threads(machine.threads), machine.number
    do: Do[Region] = partial(region_part, params, n_blocks, exchange, threads)
    if params.builder == "pynndescent":
        job.reporter.say("pynndescent's kernels compile in each worker first: about a minute")
    elif params.builder == "exact":
        all_are_anchors = array(job.run.group("anchors"), "row").shape[0] == sum(blocks.sizes)
        do = partial(anchored_part if all_are_anchors else exact_part, params.k)
    region = read_array(job.run.group("partition"), "region")
    members: list[list[int]] = [np.flatnonzero(region == r).tolist() for r in range(cut.n_regions)]
    rows = [sum(blocks.sizes[b] for b in numbers) for numbers in members]
    largest_first = sorted(range(cut.n_regions), key=lambda r: (-rows[r], r))
    regions = [Part(f"region-{r:05d}", (members[r], blocks.copied[r])) for r in largest_first]
    records = job.parts(blocks.name(NEIGHBORS), do, regions, at_once)
    if exchange is None:
        return
    built = [result_of(record, dict[str, Sent]) for record in records]
    sent = {run: counts for one in built for run, counts in one.items()}
    parts = by_block(enumerate(inboxes(exchange, sent, n_blocks)))
    join = partial(graph_part, list_length=params.k)
    job.parts(blocks.name(GRAPH), join, [parts[b] for b in blocks.largest_first()])


def region_part(
    params: NeighborParams,
    n_blocks: int,
    exchange: Exchange | None,
    threads: Threads,
    run: Run,
    part: Part[Region],
) -> Output:
    """Lists of all rows of a region, and of those copied to it, among themselves, made at once by
    threads of this process. Each is sent to the block that its row is at home in; or, without an
    exchange to send through, written as it is."""
    numbers, copied = part.args
    region, rows, away = _region(run, numbers, copied, params.k, threads)
    clock = time.process_time if threads.number > 1 else time.perf_counter
    start = clock()
    index, distance, _ = build_lists(region.pop("x"), params, threads)
    seconds = clock() - start
    written: dict[str, list[str]] = {}
    sent: dict[str, Sent] = {}

    def lists_of(own: slice) -> Neighbors:
        return block_lists(region, index[own], distance[own])

    def send(exchange: Exchange, name: str, own: slice, home: Int32) -> None:
        columns = of_owners(region["row"][own], lists_of(own))
        sent[name] = exchange.send(name, home, n_blocks, columns)
        written[name] = [exchange.key(name)]

    def deliver(place: int, _: int) -> None:
        number, own = numbers[place], rows[place]
        name = block_name(number)
        if exchange is not None:
            return send(exchange, name, own, np.full(own.stop - own.start, number, np.int32))
        home = {column: values[own] for column, values in region.items()}
        written[name] = _write(run, number, home, lists_of(own))

    threads.over(len(rows), deliver, piece=1)
    if exchange is not None and len(away):
        send(exchange, part.name, slice(rows[-1].stop, None), away)
    keys = [key for name in sorted(written) for key in written[name]]
    return Output(keys, dict(sorted(sent.items())), seconds)


def _region(
    run: Run, numbers: list[int], copied: Inbox, k: int, threads: Threads
) -> tuple[Arrays, list[slice], Int32]:
    """The rows of some blocks, and after them those copied to them; which of them are those of each
    block; and the home (copy,) of each copy. If there are too few for lists of k, rows of the
    nearest blocks are borrowed as copies."""
    blocks = [run.group(f"blocks/{number:05d}") for number in numbers]
    like = {name: array(blocks[0], name) for name in ("x", "row", "given_label")}
    away: Arrays = {name: np.empty((0, *a.shape[1:]), a.dtype) for name, a in like.items()}
    away["home"] = np.empty(0, np.int32)
    if copied:
        away = copied.receive()
    ends = np.cumsum([0, *(array(block, "row").shape[0] for block in blocks)]).tolist()
    if ends[-1] + len(away["row"]) <= k:
        for other, more in _others(run, numbers[0]):
            if ends[-1] + len(away["row"]) > k:
                break
            fresh = ~np.isin(more["row"], away["row"]) & (other not in numbers)
            more["home"] = np.full(len(fresh), other, np.int32)
            away = {n: np.concatenate([a, more[n][fresh]]) for n, a in away.items()}
    rows = list(starmap(slice, pairwise(ends)))
    n_rows = ends[-1] + len(away["row"])
    columns: Arrays = {n: np.empty((n_rows, *a.shape[1:]), a.dtype) for n, a in like.items()}

    def read(place: int, _: int) -> None:
        for name, column in columns.items():
            column[rows[place]] = read_array(blocks[place], name)

    threads.over(len(blocks), read, piece=1)
    for name, column in columns.items():
        column[ends[-1] :] = away[name]
    return columns, rows, away["home"]


def _write(run: Run, number: int, home: Arrays, lists: Neighbors) -> list[str]:
    """Write the graph of the rows at home in one block; returns keys of what was written."""
    columns = {name: home[name] for name in ("row", "given_label")} | lists.columns()
    return run.write(f"graph/{number:05d}", "graph", columns, {"block": number})


def _others(run: Run, number: int) -> Iterator[tuple[int, Arrays]]:
    """The other blocks, those nearest to one first."""
    centroid = read_array(run.group("partition"), "centroid")
    near = nearest_blocks(centroid[number : number + 1], centroid, len(centroid))[0][0]
    for other in near[near != number].tolist():
        yield other, read_group(run.store, f"blocks/{other:05d}")


def block_with_enough_rows(run: Run, number: int, k: int) -> Arrays:
    """The columns of a block, and `core`, its own rows: one of no more than k rows borrows those of
    the nearest blocks."""
    block = read_group(run.store, f"blocks/{number:05d}")
    block["core"] = np.ones(len(block["row"]), np.bool_)
    if len(block["row"]) > k:
        return block
    for _, more in _others(run, number):
        more["core"] = np.zeros(len(more["row"]), np.bool_)
        block = {name: np.concatenate([block[name], more[name]]) for name in block}
        if len(block["row"]) > k:
            break
    order = np.argsort(block["row"])
    return {name: value[order] for name, value in block.items()}


def block_lists(block: Arrays, index: Int64, distance: AnyArray) -> Neighbors:
    """Lists of places in a block as lists of training rows with their labels, ties by lot."""
    tie = (distance[:, 1:] == distance[:, :-1]) & (index[:, 1:] != ABSENT)
    tied = np.flatnonzero(tie.any(axis=1))
    by_lot = np.lexsort((lots(block["row"][index[tied]]), distance[tied]), axis=1)
    index[tied] = np.take_along_axis(index[tied], by_lot, axis=1)
    there, label = index != ABSENT, block["given_label"]
    return Neighbors(
        np.where(there, block["row"][index], ABSENT),
        distance,
        np.where(there, label[index], label.dtype.type(no_label(label.dtype))),
    )


def in_reach(run: Run, number: int, centroid: Float32, x: Float32, bound: Float32) -> Int64:
    """Which of the rows x may have a neighbor within their bound among those at home in a block."""
    radius = float(run.group(f"blocks/{number:05d}").attrs["radius"])  # type: ignore[arg-type]
    place = np.arange(len(x))
    to_center = pair_distance(x, centroid[number][None], place, np.zeros_like(place))
    return np.flatnonzero(to_center * (1 - 1e-6) - radius * (1 + 1e-6) <= bound)


def exact_part(k: int, run: Run, part: Part[Region]) -> Output:
    """Exact lists of the rows at home in one block, among all rows of the pool.

    Other blocks are read one by one, nearest first; those too far to hold a neighbor of any row
    are left out.
    """
    (number,), _ = part.args
    centroid = read_array(run.group("partition"), "centroid")
    own = read_group(run.store, f"blocks/{number:05d}")
    everything, seconds = np.arange(len(own["row"])), 0.0
    lists = empty(len(everything), k, own["given_label"].dtype)
    for other in nearest_blocks(centroid[number : number + 1], centroid, len(centroid))[0][0]:
        bound = lists.distance[:, -1]
        reach = in_reach(run, other, centroid, own["x"], bound)
        if not len(reach):
            continue
        block = own if other == number else read_group(run.store, f"blocks/{other:05d}")
        start = time.perf_counter()
        exclude = reach if other == number else None
        near = nearest(
            own["x"][reach],
            block["x"],
            k,
            exclude=exclude,
            bound=bound[reach],
            row=block["row"],
        )
        seconds += time.perf_counter() - start
        more = block_lists(block, *near)
        both = Neighbors(*(np.concatenate([a, b]) for a, b in zip(lists, more, strict=True)))
        lists = merge(np.concatenate([everything, reach]), both, len(everything))
    return Output(_write(run, number, own, lists), kernel_seconds=seconds)


def anchored_part(k: int, run: Run, part: Part[Region]) -> Output:
    """The same lists where every row is an anchor, whose lists have been found."""
    (number,), _ = part.args
    own = read_group(run.store, f"blocks/{number:05d}")
    place = np.searchsorted(read_array(run.group("anchors"), "row"), own["row"])
    columns = (pick(run, "anchors", name, place) for name in LISTED)
    lists = Neighbors(*(column[:, 1 : k + 1] for column in columns))
    return Output(_write(run, number, own, lists))


def graph_part(run: Run, part: Part[tuple[int, Inbox]], list_length: int) -> Output:
    """Merge the lists sent home to one block and write its part of the graph."""
    number, inbox = part.args
    home = read_group(run.store, f"blocks/{number:05d}", ("row", "given_label"))
    return Output(_write(run, number, home, inbox.lists(home["row"], list_length)))
