"""Counts → what label qualities of two classes take: one pass over the graph, and weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import Result
from flows.steps.answers import Answers, Asked, answer
from flows.steps.lists import Sent, incoming, slices_by_destination, source_order
from flows.steps.partition import Blocks, block_name
from flows.steps.rates import SAMPLE, Counted, RateEstimates
from pipeline.blocks.sampling import in_sample
from pipeline.decision.odds import (
    Assumed,
    OddsWeights,
    assumed,
    count_odds,
    first_pass,
    fit_first,
    fit_second,
    sizes_among,
    smoothed_odds,
)
from pipeline.decision.quality import FIT_ROWS, FIT_STREAM
from pipeline.decision.suspects import PORTION
from storage.exchange import Exchange, Slice
from storage.groups import Arrays, read_array, read_group, write_group
from storage.ledger import Record
from storage.pool import Pool
from storage.run import Run

SMOOTHED = "smoothed"
"""Name of an exchange, and folder of the sampled rows."""


@dataclass(frozen=True)
class First(Result):
    """What the first pass takes."""

    assumed: Assumed
    grid: tuple[int, ...]
    weights: OddsWeights

    def odds(self, count: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(row, size) log odds of counts (row, grid)."""
        return _odds(count, self.grid, self.assumed)


@dataclass(frozen=True)
class Second(Result):
    """Weights of the second pass."""

    weights: OddsWeights


@dataclass(frozen=True)
class Relay(Asked):
    """Rows of the pool with their counts, and the blocks that want to know about them."""

    pool: Pool
    counts: list[Slice]
    first: First


@dataclass(frozen=True)
class Smooth:
    """One block, and what the first pass says of its rows' neighbors."""

    block: int
    pool: Pool
    seed: int
    answers: list[Slice]


@dataclass(frozen=True)
class SmoothedBlock(Result):
    """What was sent to source order, and the sampled rows."""

    sent: Sent
    sampled: int


@dataclass(frozen=True)
class LabelOdds:
    """What label qualities take besides counts."""

    first: First
    second: OddsWeights
    counts: list[list[Slice]]
    smoothed: list[list[Slice]]
    """Of both, by part of the pool."""


def find_odds(
    job: Job,
    pool: Pool,
    blocks: Blocks,
    counted: list[Record],
    rates: RateEstimates,
    seed: int,
) -> LabelOdds:
    """Let each row know what the first pass says of its neighbors."""
    n_parts, n_blocks = len(pool.parts()), len(blocks.sizes)
    grid = tuple(rates.k_curve.grid)
    first = First.of(job.once("first-weights", lambda run: _fit_first(run, counted, rates, grid)))
    wanted = slices_by_destination(counted, n_parts, lambda record: Counted.of(record).asked)
    count = incoming(counted, n_parts)
    relayed = job.parts(
        "relay",
        relay_part,
        [
            Part(f"rows-{i:06d}", Relay(rows, n_blocks, wanted[i], pool, count[i], first))
            for i, rows in enumerate(pool.parts())
        ],
    )
    answers = incoming(relayed, n_blocks)
    smoothed = job.parts(
        "smoothing",
        smoothing_part,
        [Part(block_name(b), Smooth(b, pool, seed, answers[b])) for b in range(n_blocks)],
    )
    second = Second.of(job.once("weights", lambda run: _fit_second(run, counted, smoothed, first)))
    return LabelOdds(first, second.weights, count, incoming(smoothed, n_parts))


def _odds(
    count: npt.NDArray[np.integer], grid: tuple[int, ...], rates: Assumed
) -> npt.NDArray[np.float64]:
    sizes = sizes_among(grid)
    return count_odds(count[:, [grid.index(k) for k in sizes]], sizes, rates.correction())


def _fit_first(
    run: Run, counted: list[Record], rates: RateEstimates, grid: tuple[int, ...]
) -> Output:
    """The rates that qualities take, and the weights of counts."""
    tables = [counts.votes for counts in map(Counted.of, counted) if counts.rows]
    votes = [sum(np.asarray(table[at]) for table in tables) for at in range(len(grid))]
    taken = assumed(rates.rates, [np.asarray(table) for table in votes])
    sample = _sample(run, counted)
    odds = _odds(sample["count"], grid, taken)
    weights = fit_first(odds, sample["given_label"], taken.correction())
    return Output([], First(taken, grid, weights))


def relay_part(run: Run, part: Part[Relay]) -> Output:
    """The first pass over some rows of the pool, sent to the blocks that ask."""
    relay, first = part.args, part.args.first
    columns = Exchange(run.location, "counts").receive(relay.counts)
    count = columns["count"][source_order(columns["row"], relay.rows, "counts")]
    given, by = relay.pool.read("y", relay.rows), first.assumed.correction()
    chance = first_pass(first.odds(count), given, by, first.weights)
    return answer(run, part.name, relay, {"chance": chance})


def smoothing_part(run: Run, part: Part[Smooth]) -> Output:
    """What the neighbors of the rows of one block say, sent to source order; its sampled rows."""
    smooth, pool = part.args, part.args.pool
    group = run.group(f"graph/{smooth.block:05d}")
    row, neighbor, distance = (read_array(group, name) for name in ("row", "neighbor", "distance"))
    around, reach = np.zeros(len(row), np.float32), np.zeros(len(row), np.float32)
    if smooth.answers:
        answers = Answers(run, smooth.answers)
        at = answers.places(neighbor)
        for start in range(0, len(row), PORTION):
            some = slice(start, start + PORTION)
            chance = answers.told["chance"][at[some]]
            around[some], reach[some] = smoothed_odds(chance, distance[some])
    columns = {"row": row, "smoothed": around, "reach": reach}
    drawn = np.flatnonzero(in_sample(row, pool.n_rows, FIT_ROWS, smooth.seed, FIT_STREAM))
    path = f"smoothed-sample/{smooth.block:05d}"
    sample = {name: column[drawn] for name, column in columns.items()}
    write_group(run.scratch, path, "smoothed_odds", sample)
    exchange = Exchange(run.location, SMOOTHED)
    sent = exchange.send(part.name, pool.part_of(row), len(pool.parts()), columns)
    return Output(
        [exchange.key(part.name), f"scratch.zarr/{path}"], SmoothedBlock(sent, len(drawn))
    )


def _fit_second(run: Run, counted: list[Record], smoothed: list[Record], first: First) -> Output:
    """Weights of the second pass."""
    sample = _sample(run, counted)
    around = _ordered(
        read_group(run.scratch, f"smoothed-sample/{number:05d}")
        for number, record in enumerate(smoothed)
        if SmoothedBlock.of(record).sampled
    )
    weights = fit_second(
        first.odds(sample["count"]),
        around["smoothed"],
        around["reach"],
        sample["given_label"],
        first.assumed.correction(),
    )
    return Output([], Second(weights))


def _sample(run: Run, counted: list[Record]) -> Arrays:
    """The sampled rows' counts and given labels; rows ascending."""
    return _ordered(
        read_group(run.scratch, f"{SAMPLE}/{number:05d}")
        for number, record in enumerate(counted)
        if Counted.of(record).sampled
    )


def _ordered(groups: Iterable[Arrays]) -> Arrays:
    """Groups of rows together, rows ascending."""
    found = list(groups)
    together = {name: np.concatenate([group[name] for group in found]) for name in found[0]}
    order = np.argsort(together["row"])
    return {name: column[order] for name, column in together.items()}
