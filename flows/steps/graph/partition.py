"""Pool → blocks: choose the cut, send every row to its blocks, write each block."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from flows.engine.collectives.sent import Routed, incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from flows.steps.graph.names import BLOCKS, PARTITION, ROUTE, of_attempt
from pipeline.blocks.cost import BLOCK_BYTES, BLOCK_ROWS, HALOS, NONE, Pairs, choose_cut, cuts
from pipeline.blocks.partition import Halo, nearest_blocks, spread
from pipeline.blocks.scaling import Scaling
from pipeline.graph.build import lists_bytes
from pipeline.knn.distance import pair_distance
from storage.arrays.exchange import Exchange, Slice
from storage.arrays.groups import read_array, write_group
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run

EXACT_BLOCK_ROWS = 50_000
TOGETHER = 16
"""Blocks at most, memory permitting, where these only divide what comes after the lists."""
MOST_UNEVEN = 1.6
"""Rows of the largest block, halo included, over the largest size that is tried."""
_NEIGHBOR_BYTES = 12


@dataclass(frozen=True)
class Wanted:
    """What a cut is to reach."""

    block_rows: int | None
    """Rows at home in a block; None for any."""
    target_recall: float
    list_length: int
    exact: bool
    """No halo: every block is searched."""
    seed: int
    memory: int = 0
    """Bytes that lists of the whole pool, made in one part, may take."""

    def together(self, n_rows: int, n_features: int) -> bool:
        """Whether lists are made of all rows in one part; blocks only divide what follows."""
        if self.exact or self.block_rows is not None:
            return False
        return lists_bytes(n_rows, n_features, self.list_length) <= self.memory


@dataclass(frozen=True)
class CutChosen(Result):
    """A cut of the pool."""

    n_blocks: int
    halo: Halo
    copies: float
    """Copies per row, the row at home included, as predicted."""
    ceiling: float
    """Recall that no list within blocks can exceed, as predicted."""
    together: bool = False
    """Whether lists are made of all rows together."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of one attempt."""

    attempt: int
    halo: Halo
    sizes: tuple[int, ...]
    """Rows by block, halo included."""
    core: tuple[int, ...]
    """Rows at home by block."""
    ceiling: float
    """Recall that no list within blocks can exceed, as predicted."""
    together: bool
    """Whether lists are made of all rows together."""

    @property
    def disjoint(self) -> bool:
        """Whether no row has a copy outside its home block."""
        return self.sizes == self.core

    def name(self, step: str) -> str:
        return of_attempt(step, self.attempt)

    def largest_first(self) -> list[int]:
        return sorted(range(len(self.sizes)), key=lambda b: (-self.sizes[b], b))


def block_sizes(wanted: Wanted, attempt: int, n_rows: int, n_features: int) -> list[int]:
    """Block sizes to try, as far as features and lists take `BLOCK_BYTES` at most, or a list has
    half of the rows; each attempt after the first may also use blocks twice as large."""
    length = wanted.list_length
    most = max(BLOCK_BYTES // (4 * n_features + _NEIGHBOR_BYTES * length), 2 * length)
    if wanted.exact:
        return [wanted.block_rows or min(EXACT_BLOCK_ROWS, most)]
    if wanted.block_rows:
        return [wanted.block_rows << attempt]
    if wanted.together(n_rows, n_features):
        return [min(max(BLOCK_ROWS[0], n_rows // TOGETHER), most)]
    sizes = [size for size in BLOCK_ROWS if size <= most] or [most]
    sizes += [sizes[-1] << more for more in range(1, attempt + 1)]
    return [size for size in sizes if size < n_rows] or sizes[:1]


def choose_partition(
    job: Job, pool: Pool, scaling: Scaling, pairs: Pairs, wanted: Wanted, attempt: int
) -> CutChosen:
    """Choose block size and halo, and write the centers."""

    def choose(run: Run) -> Output:
        sample = scaling.apply(read_array(run.group("samples/partition"), "x"))
        sizes = block_sizes(wanted, attempt, pool.n_rows, sample.shape[1])
        together = wanted.together(pool.n_rows, sample.shape[1])
        halos = [NONE] if together or wanted.exact else HALOS
        with ThreadPoolExecutor(len(sizes)) as threads:
            tried = threads.map(
                lambda s: cuts(sample, pool.n_rows, s, pairs, wanted.seed, halos), sizes
            )
        choices = [cut for of_size in tried for cut in of_size]
        if together:
            cut = replace(choices[0], ceiling=1.0)
        elif wanted.exact:
            cut = choices[0]
        else:
            most = np.inf if wanted.block_rows else MOST_UNEVEN * max(sizes)
            bounded = [cut for cut in choices if cut.largest <= most]
            cut = choose_cut(bounded or choices, wanted.target_recall, attempt)
        write_group(run.store, "partition", "partition", {"centroid": cut.centroid})
        chosen = CutChosen(len(cut.centroid), cut.halo, cut.copies, cut.ceiling, together)
        return Output([run.key("partition")], chosen)

    return CutChosen.of(job.once(of_attempt(PARTITION, attempt), choose))


@dataclass(frozen=True)
class Route:
    """Rows of the pool on their way to blocks."""

    rows: Rows
    scaling: Scaling
    halo: Halo
    to: Exchange


@dataclass(frozen=True)
class NewBlock:
    """A block and the rows sent to it."""

    block: int
    sent: Exchange
    slices: list[Slice]


@dataclass(frozen=True)
class BlockWritten(Result):
    """A block that was written."""

    rows: int
    core: int
    """Rows at home."""
    radius: float
    """Distance from the center to the farthest row at home."""


def make_blocks(job: Job, pool: Pool, scaling: Scaling, chosen: CutChosen, attempt: int) -> Blocks:
    """Send rows to blocks and write the blocks."""
    halo, n_blocks, route = chosen.halo, chosen.n_blocks, of_attempt(ROUTE, attempt)
    exchange = Exchange(job.run.location, route)
    routed = job.parts(
        route,
        route_part,
        [
            Part(f"rows-{i:06d}", Route(rows, scaling, halo, exchange))
            for i, rows in enumerate(pool.parts())
        ],
    )
    slices = incoming(routed, n_blocks)
    written = job.parts(
        of_attempt(BLOCKS, attempt),
        block_part,
        [Part(block_name(b), NewBlock(b, exchange, slices[b])) for b in range(n_blocks)],
    )
    made = [BlockWritten.of(record) for record in written]
    sizes, core = tuple(block.rows for block in made), tuple(block.core for block in made)
    return Blocks(attempt, halo, sizes, core, chosen.ceiling, chosen.together)


def route_part(run: Run, part: Part[Route]) -> Output:
    """Send rows of the pool, scaled, to their home blocks and as copies to halos."""
    rows, exchange, halo = part.args.rows, part.args.to, part.args.halo
    group, span = run.group("pool"), slice(rows.start, rows.stop)
    x = part.args.scaling.apply(read_array(group, "x", span))
    y = read_array(group, "y", span)
    centroid = read_array(run.group("partition"), "centroid")
    near, distance = nearest_blocks(x, centroid, max(1, halo.copies))
    row, block, core = spread(near, distance, halo)
    columns = {
        "x": x[row],
        "row": row + rows.start,
        "given_label": y[row],
        "home": near[row, 0],
        "core": core,
    }
    sent = exchange.send(part.name, block, len(centroid), columns)
    return Output([exchange.key(part.name)], Routed(sent))


def block_part(run: Run, part: Part[NewBlock]) -> Output:
    """Write one block from all rows sent to it; rows ascending."""
    number = part.args.block
    path = f"blocks/{number:05d}"
    columns = part.args.sent.receive(part.args.slices)
    if (np.diff(columns["row"]) < 0).any():  # sent in order of rows, received in that of parts
        order = np.argsort(columns["row"])
        columns = {name: value[order] for name, value in columns.items()}
    center = read_array(run.group("partition"), "centroid")[number]
    core = columns["core"]
    home = np.flatnonzero(core)
    reach = pair_distance(columns["x"], center[None], home, np.zeros_like(home))
    radius = float(reach.max(initial=0.0))
    write_group(run.store, path, "blocks", columns, {"block": number, "radius": radius})
    return Output([run.key(path)], BlockWritten(len(core), int(core.sum()), radius))
