"""How queries are searched, chosen once in training: the networks that walks follow in each block,
how far walks go, and which blocks a query is sent to. Anchors, whose neighbors are known, stand for
queries."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import result_of
from flows.steps.graph.anchors import sampled
from flows.steps.graph.partition import Blocks
from pipeline.arrays import Float32
from pipeline.blocks.cost import HALOS, Pairs
from pipeline.blocks.partition import Halo, in_halo, nearest_blocks, share_probed
from pipeline.blocks.scaling import Scaling
from pipeline.graph.walk import (
    LINKS,
    Network,
    efforts,
    links,
    met_by_effort,
    network_of,
    walkable,
)
from pipeline.knn.lists import ABSENT
from pipeline.knn.places import places
from storage.arrays.groups import Arrays, array, read_array, read_group
from storage.runs.run import Run

TRIED = 256
"""Anchors, at least, by which it is tried how far walks have to go: all at home in some blocks."""
TRIED_IN_BLOCK = 256
"""Anchors of one block that try, at most."""
_LOST, _LOST_EXACT = 0.6, 0.1
"""Part of the permitted loss of recall that may be spent, by walks and where blocks are searched
exactly. The rest is for sampling error; and walks in blocks away from home find less than anchors
do at home (a fifth of the loss, measured), while exact search loses what no probed block has."""
_BEGINNING_STEPS, _EXACT_STEPS = 55, 2000
"""Steps of a walk that take as long as beginning it, and as exact search (measured)."""


@dataclass(frozen=True)
class WalksTried:
    """How many neighbors walks of the anchors at home in one block met."""

    held: int = 0
    """True neighbors that are in the block."""
    met: list[int] | None = None
    """How many of these walks of each number of steps met; None where nothing was tried."""


class Reachable(NamedTuple):
    """A choice of the blocks that a query is sent to."""

    halo: Halo
    probes: float
    """Blocks searched per anchor."""
    coverage: float
    """Share of the anchors' true neighbors that those blocks hold."""


class Walk(NamedTuple):
    """A way to search within blocks."""

    steps: int | None
    """How far walks go; None where blocks are searched exactly."""
    met: float
    """Share of the true neighbors in a block that it finds."""


@dataclass(frozen=True)
class Probes:
    """How every query is searched, whatever file it comes in."""

    halo: Halo
    """Which blocks it is sent to."""
    probes: float
    """Blocks searched per anchor."""
    steps: int | None
    """How far walks go; None where blocks are searched exactly."""


def choose_probes(
    job: Job,
    blocks: Blocks,
    scaling: Scaling,
    pairs: Pairs,
    k: int,
    target_recall: float,
    exact: bool,
) -> Probes:
    """Write the groups `network/NNNNN`, where walks pay, and choose how queries are searched."""
    most = 1.0 - 0.2 * (1.0 - target_recall)
    tried = [] if exact else _networks(job, blocks, scaling, k, most)

    def choose(run: Run) -> Output:
        centroid = read_array(run.group("partition"), "centroid")
        query = nearest_blocks(pairs.anchor, centroid)
        home = nearest_blocks(pairs.neighbor, centroid, 1)[0][:, 0]
        choices = []
        for halo in HALOS:
            probes = float(in_halo(query[1], halo).sum(axis=1).mean())
            choices.append(Reachable(halo, probes, share_probed(query, home, halo)))
        wanted = 1.0 - (_LOST_EXACT if exact else _LOST) * (1.0 - target_recall)
        blocks, walk = cheapest(choices, _walks(tried, efforts(k)), wanted)
        return Output([], Probes(blocks.halo, blocks.probes, walk.steps))

    return job.result("probes", choose, Probes)


def cheapest(choices: list[Reachable], walks: list[Walk], wanted: float) -> tuple[Reachable, Walk]:
    """The choice of blocks and the search in them that together find the share of neighbors wanted
    with least work; where none do, those that find most."""
    ways = [(blocks, walk) for blocks in choices for walk in walks]
    enough = [(blocks, walk) for blocks, walk in ways if blocks.coverage * walk.met >= wanted]
    if not enough:
        return max(ways, key=lambda way: (way[0].coverage * way[1].met, -way[0].probes))
    return min(enough, key=lambda way: (way[0].probes * _steps_taken(way[1]), -way[0].coverage))


def _steps_taken(walk: Walk) -> float:
    return _EXACT_STEPS if walk.steps is None else _BEGINNING_STEPS + walk.steps


def _networks(job: Job, blocks: Blocks, scaling: Scaling, k: int, most: float) -> list[WalksTried]:
    """Write the networks of all blocks that are walked; what `network_part` tried in each."""
    walked = [b for b in blocks.largest_first() if walkable(blocks.sizes[b], k)]
    trying = _trying(job.run, scaling, walked)
    parts = [Part(block_name(b), (b, b in trying)) for b in walked]
    records = job.parts("networks", partial(network_part, k=k, most=most), parts)
    return [result_of(record, WalksTried) for record in records]


def _trying(run: Run, scaling: Scaling, walked: list[int]) -> set[int]:
    """Blocks drawn at random until `TRIED` anchors are at home in them."""
    row = read_array(run.group("anchors"), "row")
    centroid = read_array(run.group("partition"), "centroid")
    home = nearest_blocks(scaling.apply(sampled(run, "anchors", row)), centroid, 1)[0][:, 0]
    counts = np.minimum(np.bincount(home, minlength=len(centroid)), TRIED_IN_BLOCK)
    drawn = np.random.default_rng(0).permutation(np.array(sorted(walked), np.int64))
    before = np.cumsum(counts[drawn]) - counts[drawn]
    return {int(b) for b, n in zip(drawn, before, strict=True) if n < TRIED}


def _walks(tried: list[WalksTried], steps: list[int]) -> list[Walk]:
    """What walks of so many steps meet, over all blocks that tried; and exact search."""
    met = [np.array(one.met, np.int64) for one in tried if one.met is not None]
    listed, exact = sum(one.held for one in tried), Walk(None, 1.0)
    if not listed:
        return [exact]
    share = np.sum(met, axis=0) / listed
    return [*(Walk(s, float(met)) for s, met in zip(steps, share, strict=True)), exact]


def network_part(run: Run, part: Part[tuple[int, bool]], k: int, most: float) -> Output:
    """Write the network of one block and, if the block is to try, walk from the anchors at home in
    it, ever farther until that finds a share `most` of the true neighbors."""
    number, trying = part.args
    block = read_group(run.store, f"blocks/{number:05d}", ("x", "row"))
    graph = run.group(f"graph/{number:05d}")
    start = time.perf_counter()
    listed = np.full((len(block["row"]), LINKS), ABSENT, np.int32)
    lists = read_array(graph, "neighbor")[:, :LINKS]
    listed[:, : lists.shape[1]] = places(block["row"], lists)
    order, link = links(block["x"], listed)
    tried = WalksTried()
    if trying:
        tried = _try(run, k, most, block, network_of(block["x"], order, link))
    seconds = time.perf_counter() - start
    columns: Arrays = {"place": order.astype(np.int32), "link": link}
    written = run.write(f"network/{number:05d}", "network", columns, {"block": number})
    return Output(written, tried, seconds)


def _try(run: Run, k: int, most: float, block: Arrays, network: Network) -> WalksTried:
    """Walks of the anchors at home in a block, each without the anchor itself."""
    anchors = run.group("anchors")
    _, own, which = np.intersect1d(
        block["row"], read_array(anchors, "row"), assume_unique=True, return_indices=True
    )
    own, which = own[:TRIED_IN_BLOCK], which[:TRIED_IN_BLOCK]
    if not len(own):
        return WalksTried()
    true = slice(1, k + 1)
    neighbor = np.asarray(array(anchors, "neighbor").oindex[which, true])
    distance = np.asarray(array(anchors, "distance").oindex[which, true])
    listed = places(block["row"], neighbor) != ABSENT
    met = met_by_effort(block["x"][own], network, distance, listed, own, efforts(k), most)
    return WalksTried(int(listed.sum()), met.tolist())


def stored_network(run: Run, number: int, x: Float32) -> Network:
    stored = read_group(run.store, f"network/{number:05d}")
    return network_of(x, stored["place"], stored["link"])
