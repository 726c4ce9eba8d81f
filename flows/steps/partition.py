"""Pool → blocks: choose the cut, send every row to its blocks, write each block."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flows.job import Job, Output
from flows.steps.lists import incoming
from pipeline.blockwise import Part
from pipeline.distance import pair_distance
from pipeline.partition import Halo, nearest_blocks, spread
from pipeline.plan import BLOCK_BYTES, BLOCK_ROWS, Pairs, choose_cut, cuts
from pipeline.scale import Scaling
from storage.exchange import Exchange
from storage.groups import read_array, write_group
from storage.pool import Pool
from storage.run import Run

EXACT_BLOCK_ROWS = 50_000
_NEIGHBOR_BYTES = 12


@dataclass(frozen=True)
class Blocks:
    """The blocks of one attempt."""

    attempt: int
    halo: Halo
    sizes: tuple[int, ...]
    """Rows by block, halo included."""
    core: tuple[int, ...]
    """Rows at home by block."""
    meet: float
    """Predicted ceiling of recall."""

    @property
    def disjoint(self) -> bool:
        """Whether no row has a copy outside its home block."""
        return self.sizes == self.core

    def name(self, step: str) -> str:
        return f"{step}-{self.attempt}" if self.attempt else step

    def largest_first(self) -> list[int]:
        return sorted(range(len(self.sizes)), key=lambda b: (-self.sizes[b], b))


def block_name(number: int) -> str:
    return f"block-{number:05d}"


def block_sizes(wish: dict[str, Any], n_rows: int, n_features: int) -> list[int]:
    """Block sizes to try, as far as features and lists take `BLOCK_BYTES` at most; each attempt
    after the first may also use blocks twice as large."""
    attempt = wish["attempt"]
    if wish["exact"]:
        return [wish["block_rows"] or EXACT_BLOCK_ROWS]
    if wish["block_rows"]:
        return [wish["block_rows"] << attempt]
    most = BLOCK_BYTES // (4 * n_features + _NEIGHBOR_BYTES * wish["k"])
    sizes = [size for size in BLOCK_ROWS if size <= most] or [BLOCK_ROWS[0]]
    sizes += [sizes[-1] << more for more in range(1, attempt + 1)]
    return [size for size in sizes if size < n_rows] or sizes[:1]


def choose_partition(
    job: Job, pool: Pool, scaling: Scaling, pairs: Pairs, wish: dict[str, Any]
) -> dict[str, Any]:
    """Choose block size and halo and write the centres; the step's result.

    wish : block_rows (None: any), target_recall, k, exact (no halo: every block is searched),
        seed, attempt
    """

    def choose(run: Run) -> Output:
        sample = scaling.apply(read_array(run.group("samples/partition"), "x"))
        sizes = block_sizes(wish, pool.n_rows, pool.n_features)
        with ThreadPoolExecutor(len(sizes)) as threads:
            tried = threads.map(lambda s: cuts(sample, pool.n_rows, s, pairs, wish["seed"]), sizes)
        found = [cut for of_size in tried for cut in of_size]
        if wish["exact"]:
            cut = next(cut for cut in found if cut.halo.copies == 1)
        else:
            cut = choose_cut(found, wish["target_recall"], wish["attempt"])
        write_group(run.store, "partition", "partition", {"centroid": cut.centroid})
        chosen = {"n_blocks": len(cut.centroid), "halo": asdict(cut.halo)}
        return Output([run.key("partition")], {**chosen, "copies": cut.copies, "meet": cut.meet})

    attempt = wish["attempt"]
    return job.once(f"partition-{attempt}" if attempt else "partition", choose).result


def make_blocks(
    job: Job, pool: Pool, scaling: Scaling, chosen: dict[str, Any], attempt: int
) -> Blocks:
    """Send rows to blocks and write the blocks."""
    halo = Halo(**chosen["halo"])
    suffix = f"-{attempt}" if attempt else ""
    n_blocks = chosen["n_blocks"]
    exchange = Exchange(job.run.location, f"route{suffix}")
    routed = job.parts(
        f"route{suffix}",
        route_part,
        [
            Part(f"rows-{i:06d}", {"rows": r, "scaling": scaling, "halo": halo, "to": exchange})
            for i, r in enumerate(pool.parts())
        ],
    )
    slices = incoming(routed, n_blocks)
    written = job.parts(
        f"blocks{suffix}",
        block_part,
        [
            Part(block_name(b), {"block": b, "from": exchange, "slices": slices[b]})
            for b in range(n_blocks)
        ],
    )
    return Blocks(
        attempt,
        halo,
        tuple(record.result["rows"] for record in written),
        tuple(record.result["core"] for record in written),
        chosen["meet"],
    )


def route_part(run: Run, part: Part) -> Output:
    """Send rows of the pool, scaled, to their home blocks and as copies to halos."""
    rows, exchange = part.args["rows"], part.args["to"]
    group, span = run.group("pool"), slice(rows.start, rows.stop)
    x = part.args["scaling"].apply(read_array(group, "x", span))
    y = read_array(group, "y", span)
    centroid = read_array(run.group("partition"), "centroid")
    near, distance = nearest_blocks(x, centroid, max(1, part.args["halo"].copies))
    row, block, core = spread(near, distance, part.args["halo"])
    columns = {
        "x": x[row],
        "row": row + rows.start,
        "given_label": y[row],
        "home": near[row, 0],
        "core": core,
    }
    sent = exchange.send(part.name, block, len(centroid), columns)
    return Output([exchange.key(part.name)], {"sent": sent})


def block_part(run: Run, part: Part) -> Output:
    """Write one block from all rows sent to it; rows ascending."""
    number = part.args["block"]
    path = f"blocks/{number:05d}"
    columns = part.args["from"].receive(part.args["slices"])
    order = np.argsort(columns["row"])
    columns = {name: value[order] for name, value in columns.items()}
    centre = read_array(run.group("partition"), "centroid")[number]
    core = columns["core"]
    home = np.flatnonzero(core)
    reach = pair_distance(columns["x"], centre[None], home, np.zeros_like(home))
    radius = float(reach.max(initial=0.0))
    write_group(run.store, path, "blocks", columns, {"block": number, "radius": radius})
    return Output([run.key(path)], {"rows": len(order), "core": int(core.sum()), "radius": radius})
