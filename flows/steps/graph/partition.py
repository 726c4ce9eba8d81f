"""Pool → blocks: choose the cut, send every row to its blocks, write each block."""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.cluster import SHARED, Machine
from flows.engine.collectives.sent import Inbox, incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part, by_block, by_rows
from flows.engine.results import result_of
from pipeline.blocks.cost import BLOCK_BYTES, BLOCK_ROWS, HALOS, NONE, Pairs, choose_cut, cuts
from pipeline.blocks.partition import (
    MAX_COPIES,
    Halo,
    nearest_blocks,
    nearest_regions,
    spread,
)
from pipeline.blocks.scaling import Scaling
from pipeline.graph.resources import lists_bytes
from pipeline.knn.distance import pair_distance
from storage.arrays.exchange import Exchange
from storage.arrays.groups import read_array
from storage.runs.pool import Pool
from storage.runs.run import Run

PARTITION = "partition"
ROUTE = "route"
BLOCKS = "blocks"
NEIGHBORS = "neighbors"
GRAPH = "graph"
AUDIT = "audit"
WIDENED = "widened"
EXACT_BLOCK_ROWS = 50_000
DIVIDED, SHARED_OUT = 8, 16
"""Blocks, if memory permits: of a pool that is one region, where they only divide the passes after
the lists; and per machine where regions consist of them."""
MOST_UNEVEN = 1.6
"""Rows of the largest block, halo included, over the largest size that is tried, at most."""
REGION_BLOCKS = 4
"""Blocks of the largest region, at least."""
_MORE = (1.0, 1.25, 1.5, 2.0, 3.0)
"""Numbers of regions that are tried, over the fewest that memory allows without a halo."""
_REGION_ROWS = 100_000
"""Rows of a region below which dividing it among machines does not pay."""
_NEIGHBOR_BYTES = 12


def of_attempt(step: str, attempt: int) -> str:
    """A step of one attempt at the graph: `audit`, then `audit-1`."""
    return f"{step}-{attempt}" if attempt else step


def last_attempt(step: str, steps: Iterable[str]) -> str | None:
    """The step's name in the last attempt that has records; None where none has."""
    tries = [name for name in steps if name == step or name.startswith(f"{step}-")]
    numbered = [name for name in tries if name == step or name[len(step) + 1 :].isdigit()]
    return max(numbered, key=lambda name: (len(name), name), default=None)


@dataclass(frozen=True)
class Wanted:
    """What a cut is to reach."""

    block_rows: int | None
    """Rows at home in a block; None for any."""
    target_recall: float
    list_length: int
    exact: bool
    """Whether every block is searched, without a halo."""
    seed: int
    machine: Machine = SHARED
    """What searches a region; if it has no memory of its own, a core searches each block."""

    def most_rows(self, n_features: int) -> int:
        """Rows of a region, halo included, that its machine has memory for."""
        return self.machine.memory // lists_bytes(1, n_features, self.list_length)

    def regions(self, n_rows: int, n_features: int) -> list[int]:
        """Numbers of regions to try; none where each block is one. They are as few as memory
        allows, so that few rows have copies, or as many as several machines can share evenly."""
        machines = self.machine.number
        if self.exact or self.block_rows is not None or not self.machine.memory:
            return []
        needed = n_rows / max(1, self.most_rows(n_features))
        if needed <= 1.0 and machines == 1:
            return [1]
        fewest = {math.ceil(needed * more) for more in _MORE}
        shared = {-(-number // machines) * machines for number in fewest}
        most = max(math.ceil(needed * _MORE[-1]), n_rows // _REGION_ROWS, 1)
        return sorted(number for number in fewest | shared if number <= most)


@dataclass(frozen=True)
class CutChosen:
    """A cut of the pool."""

    n_blocks: int
    n_regions: int
    """A region is the blocks whose lists are made at once."""
    halo: Halo
    ceiling: float
    """Predicted recall of exact lists within regions."""
    wide: bool
    """Whether a region has a machine to itself."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of one attempt."""

    attempt: int
    cut: CutChosen
    sizes: tuple[int, ...]
    """Rows by block."""
    copied: tuple[Inbox, ...]
    """For each region the copies of rows that are at home in others."""

    @property
    def copies(self) -> float:
        """Copies per row, the row at home included."""
        return 1.0 + sum(map(len, self.copied)) / sum(self.sizes)

    def name(self, step: str) -> str:
        return of_attempt(step, self.attempt)

    def largest_first(self) -> list[int]:
        return sorted(range(len(self.sizes)), key=lambda b: (-self.sizes[b], b))

    def give_up(self, run: Run, note: str) -> Output:
        """Remove what the attempt made, so that the next one's graph takes its place; the note says
        why."""
        for step in map(self.name, (PARTITION, ROUTE, BLOCKS, NEIGHBORS, GRAPH, AUDIT)):
            run.ledger.forget_all(step)
        for path in ("partition", "blocks", "graph"):
            run.location.remove(run.key(path))
        for exchange in (ROUTE, "lists"):
            run.location.remove(f"scratch.zarr/{self.name(exchange)}")
        return Output([], note)


def block_sizes(wanted: Wanted, attempt: int, n_rows: int, n_features: int) -> list[int]:
    """Block sizes to try. Features and lists of a block take `BLOCK_BYTES` at most, unless it has
    fewer rows than two lists; each attempt after the first may also use blocks twice as large."""
    length = wanted.list_length
    most = max(BLOCK_BYTES // (4 * n_features + _NEIGHBOR_BYTES * length), 2 * length)
    if wanted.exact:
        return [wanted.block_rows or min(EXACT_BLOCK_ROWS, most)]
    if wanted.block_rows:
        return [wanted.block_rows << attempt]
    if wanted.machine.memory:
        most = min(most, max(2 * length, wanted.most_rows(n_features) // REGION_BLOCKS))
        least = max(BLOCK_ROWS[0], n_rows // (SHARED_OUT * wanted.machine.number))
        if wanted.regions(n_rows, n_features) == [1]:
            least = max(least, min(2 * least, n_rows // 4), n_rows // DIVIDED)
        return [min(least, most)]
    sizes = [size for size in BLOCK_ROWS if size <= most] or [most]
    sizes += [sizes[-1] << more for more in range(1, attempt + 1)]
    return [size for size in sizes if size < n_rows] or sizes[:1]


def choose_partition(
    job: Job, pool: Pool, scaling: Scaling, pairs: Pairs, wanted: Wanted, attempt: int
) -> CutChosen:
    """Choose blocks, regions and halo, and write the centers."""

    def choose(run: Run) -> Output:
        sample = scaling.apply(read_array(run.group("samples/partition"), "x"))
        n_rows, n_features = pool.n_rows, sample.shape[1]
        sizes = block_sizes(wanted, attempt, n_rows, n_features)
        regions = wanted.regions(n_rows, n_features)
        halos, at_once = [NONE] if wanted.exact else HALOS, wanted.machine.number if regions else 2
        with ThreadPoolExecutor(len(sizes)) as threads:
            tried = threads.map(
                lambda s: cuts(sample, n_rows, s, pairs, wanted.seed, halos, regions, at_once),
                sizes,
            )
        choices = [cut for of_size in tried for cut in of_size]
        if wanted.exact:
            cut = choices[0]
        else:
            most = np.inf if wanted.block_rows else MOST_UNEVEN * max(sizes)
            if regions:  # of the memory a third, a half, two thirds
                most = wanted.most_rows(n_features) * (1.0 + attempt / 2)
            bounded = [cut for cut in choices if cut.largest <= most]
            cut = choose_cut(bounded or choices, wanted.target_recall, attempt)
        columns = {"centroid": cut.centroid, "region": cut.region}
        written = run.write("partition", "partition", columns)
        n_blocks, n_regions = len(cut.centroid), int(cut.region.max()) + 1
        chosen = CutChosen(n_blocks, n_regions, cut.halo, cut.ceiling, wide=bool(regions))
        return Output(written, chosen)

    return job.result(of_attempt(PARTITION, attempt), choose, CutChosen)


def make_blocks(job: Job, pool: Pool, scaling: Scaling, chosen: CutChosen, attempt: int) -> Blocks:
    """Send rows to their blocks, and copies to regions; write the blocks."""
    n_blocks, route = chosen.n_blocks, of_attempt(ROUTE, attempt)
    exchange = Exchange(job.run.location, route)
    send = partial(route_part, scaling=scaling, halo=chosen.halo, exchange=exchange)
    routed = job.parts(route, send, by_rows(pool.parts()))
    inboxes = incoming(exchange, routed, n_blocks + chosen.n_regions)
    blocks = by_block(enumerate(inboxes[:n_blocks]))
    written = job.parts(of_attempt(BLOCKS, attempt), block_part, blocks)
    sizes = tuple(result_of(record, int) for record in written)
    return Blocks(attempt, chosen, sizes, tuple(inboxes[n_blocks:]))


def route_part(
    run: Run, part: Part[slice], scaling: Scaling, halo: Halo, exchange: Exchange
) -> Output:
    """Send rows of the pool, scaled, to their blocks, and copies to regions in whose lists they may
    be; as destinations, regions are numbered after the blocks."""
    rows, group = part.args, run.group("pool")
    x, y = scaling.apply(read_array(group, "x", rows)), read_array(group, "y", rows)
    partition = run.group("partition")
    centroid, region = read_array(partition, "centroid"), read_array(partition, "region")
    n_blocks, n_regions = len(centroid), int(region.max()) + 1
    width = halo.copies if n_regions in (1, n_blocks) else MAX_COPIES  # a region has several near
    block, distance = nearest_blocks(x, centroid, width)
    row, to, home = spread(*nearest_regions(block, distance, region), halo)
    columns = {
        "x": x[row],
        "row": row + rows.start,
        "given_label": y[row],
        "home": block[row, 0],
    }
    destination = np.where(home, columns["home"], n_blocks + to)
    sent = exchange.send(part.name, destination, n_blocks + n_regions, columns)
    return Output([exchange.key(part.name)], sent)


def block_part(run: Run, part: Part[tuple[int, Inbox]]) -> Output:
    """Write one block from all rows sent to it, ascending; the result is their number."""
    number, inbox = part.args
    columns = inbox.receive()
    del columns["home"]
    if (np.diff(columns["row"]) < 0).any():  # sent in order of rows, received in that of parts
        order = np.argsort(columns["row"])
        columns = {name: value[order] for name, value in columns.items()}
    center = read_array(run.group("partition"), "centroid")[number]
    place = np.arange(len(columns["row"]))
    reach = pair_distance(columns["x"], center[None], place, np.zeros_like(place))
    radius = float(reach.max(initial=0.0))
    about = {"block": number, "radius": radius}
    return Output(run.write(f"blocks/{number:05d}", "blocks", columns, about), len(place))
