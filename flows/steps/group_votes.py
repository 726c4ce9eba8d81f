"""Graph → what the neighbors of each row of more than two classes say, in source order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.engine.collectives.sent import Routed, incoming
from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.steps.class_tops import joined, portions
from flows.steps.classes import ClassEstimates, decision_matrix
from flows.steps.partition import Blocks
from pipeline.decision.class_rule import decide
from pipeline.decision.tempering import MatrixDecision
from pipeline.noise.group_cells import level_of
from storage.exchange import Exchange, Slice
from storage.pool import Pool
from storage.run import Run

VOTES = "group-votes"


@dataclass(frozen=True)
class Votes:
    """One block of a pool of more than two classes, whose rows' neighbors vote."""

    block: int
    pool: Pool
    n_classes: int
    k: int
    decision: MatrixDecision
    to: Exchange


def find_votes(
    job: Job, pool: Pool, blocks: Blocks, n_classes: int, found: ClassEstimates
) -> list[list[Slice]]:
    """What the neighbors of all rows say, sent to source order."""
    exchange = Exchange(job.run.location, VOTES)
    voted = job.parts(
        VOTES,
        votes_part,
        [
            Part(block_name(b), Votes(b, pool, n_classes, found.k, found.decision, exchange))
            for b in range(len(blocks.sizes))
        ],
    )
    return incoming(voted, len(pool.parts()))


def votes_part(run: Run, part: Part[Votes]) -> Output:
    """The likeliest class of each row of one block by its neighbors, and how sure they are."""
    votes, pool, exchange = part.args, part.args.pool, part.args.to
    matrix, found = decision_matrix(run, votes.decision), []
    for _, some in portions(run, votes.block):
        decided = decide(some["neighbor_label"], votes.n_classes, votes.k, matrix)
        found.append(
            {
                "row": some["row"],
                "likely": decided.predicted.astype(np.int16),
                "level": level_of(decided.chance.max(axis=1)),
            }
        )
    kinds = {"row": "i8", "likely": "i2", "level": "i1"}
    columns = joined(found, {name: np.empty(0, kind) for name, kind in kinds.items()})
    sent = exchange.send(part.name, pool.part_of(columns["row"]), len(pool.parts()), columns)
    return Output([exchange.key(part.name)], Routed(sent))
