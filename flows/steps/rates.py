"""Graph → counts, noise rates and threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import Result
from flows.options.params import Method
from flows.steps.anchors import anchor_features
from flows.steps.answers import WANTED, ask
from flows.steps.lists import Sent
from flows.steps.own import OwnRates
from flows.steps.partition import Blocks, block_name
from pipeline.blocks.sampling import in_sample
from pipeline.decision.choose_k import Choice, choose, squared_losses
from pipeline.decision.quality import FIT_ROWS, FIT_STREAM
from pipeline.decision.threshold import Decision, tempered, vote_table
from pipeline.decision.votes import counts, extremes_with_self
from pipeline.methods.rknn import FoldScores
from pipeline.methods.rules import Rule, rule_of
from pipeline.noise.extrema import crossfit, minmax
from pipeline.noise.rates import NoiseRates
from pipeline.noise.rates import given as known
from storage.exchange import Exchange
from storage.groups import read_array, write_group
from storage.ledger import Record
from storage.pool import Pool
from storage.run import Run

SAMPLE = "count-sample"
"""Folder of the rows drawn to fit label qualities on."""


@dataclass(frozen=True)
class Count:
    """One block of the graph whose neighbors' labels are counted."""

    block: int
    pool: Pool
    grid: tuple[int, ...]
    seed: int
    to: Exchange


@dataclass(frozen=True)
class Counted(Result):
    """Counts of one block, as far as rates and k need them; by size of the grid."""

    sent: Sent
    asked: Sent
    """Its neighbors that were asked for, by part of the pool."""
    rows: int
    sampled: int
    losses: list[int]
    extremes: list[list[int]]
    votes: list[list[list[int]]]


@dataclass(frozen=True)
class RateEstimates(Result):
    """k, the noise rates by every method tried, and the rule."""

    noise: str
    """Method of the rates that count."""
    k: int
    """Neighbors whose labels are averaged."""
    k_curve: Choice
    estimates: dict[str, NoiseRates]
    folds: FoldScores | None
    decision_rule: Rule
    decision: Decision

    @property
    def rates(self) -> NoiseRates:
        return self.estimates[self.noise]


def count_labels(
    job: Job, pool: Pool, blocks: Blocks, grid: tuple[int, ...], seed: int
) -> list[Record]:
    """Counts of label 1 for each k of a grid, sent to source order; a sample of them; and which
    rows each block has as neighbors."""
    exchange = Exchange(job.run.location, "counts")
    return job.parts(
        "regression",
        regression_part,
        [
            Part(block_name(b), Count(b, pool, grid, seed, exchange))
            for b in range(len(blocks.sizes))
        ],
    )


def regression_part(run: Run, part: Part[Count]) -> Output:
    """Counts of one block, and for each k of the grid what choosing among them takes."""
    grid, exchange, pool, number = part.args.grid, part.args.to, part.args.pool, part.args.block
    group = run.group(f"graph/{number:05d}")
    row, given = read_array(group, "row"), read_array(group, "given_label")
    neighbor_label = read_array(group, "neighbor_label")
    count = counts(neighbor_label, grid)
    path, sampled = f"regression/{number:05d}", f"{SAMPLE}/{number:05d}"
    attributes = {"k": list(grid)}
    write_group(run.store, path, "regression", {"row": row, "count": count}, attributes)
    drawn = np.flatnonzero(in_sample(row, pool.n_rows, FIT_ROWS, part.args.seed, FIT_STREAM))
    sample = {"row": row[drawn], "given_label": given[drawn], "count": count[drawn]}
    write_group(run.scratch, sampled, "count_sample", sample)
    columns = {"row": row, "count": count.astype(np.int16)}
    sent = exchange.send(part.name, pool.part_of(row), len(pool.parts()), columns)
    asking, neighbor = Exchange(run.location, WANTED), read_array(group, "neighbor")
    wanted, asked = ask(asking, part.name, number, pool, neighbor)
    return Output(
        [run.key(path), f"scratch.zarr/{sampled}", exchange.key(part.name), wanted],
        Counted(
            sent,
            asked,
            len(row),
            len(drawn),
            squared_losses(count, given, grid).tolist(),
            extremes_with_self(given, neighbor_label, grid).tolist(),
            [vote_table(c, given, k).tolist() for c, k in zip(count.T, grid, strict=True)],
        ),
    )


def estimate_rates(
    job: Job,
    pool: Pool,
    counted: list[Record],
    grid: tuple[int, ...],
    params: Method,
    own: OwnRates | None = None,
) -> RateEstimates:
    """k, the estimates of the rates, and the rule.

    own : k and rates of the rule's own pass, if it has one
    """
    filled = [counts for counts in map(Counted.of, counted) if counts.rows]

    def estimate(run: Run) -> Output:
        losses = np.sum([counts.losses for counts in filled], axis=0)
        choice = choose(losses, pool.n_rows, grid)
        k = own.k if own else params.k or choice.k
        at = grid.index(k)
        extremes = np.concatenate([np.asarray(counts.extremes)[:, at] for counts in filled])
        estimates = {"minmax": minmax(extremes / k, k)}
        chosen: str = params.noise
        if params.p0 is not None and params.p1 is not None:
            chosen, estimates["given"] = "given", known(params.p0, params.p1)
        elif chosen == "crossfit":
            anchors = run.group("anchors")
            neighbor, label = (read_array(anchors, n) for n in ("neighbor", "neighbor_label"))
            x = anchor_features(run, neighbor[:, 0])
            estimates["crossfit"] = crossfit(neighbor, label, pool.n_rows, x=x)
        if own:
            chosen, estimates[own.rates.method] = own.rates.method, own.rates
        rates = estimates[chosen]
        decision = tempered(rates, np.sum([counts.votes[at] for counts in filled], axis=0))
        return Output(
            [],
            RateEstimates(
                noise=chosen,
                k=k,
                k_curve=choice,
                estimates=estimates,
                folds=own.folds if own else None,
                decision_rule=rule_of(rates, decision),
                decision=decision,
            ),
        )

    return RateEstimates.of(job.once("rates", estimate))
