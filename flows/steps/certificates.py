"""Graph → samples of the speculate-correct bound, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part, block_name
from flows.engine.results import Result
from pipeline.methods import rules
from pipeline.methods.speculate_correct import Counts, Design, Rule, majority, sample_block
from storage.groups import read_array
from storage.run import Run


@dataclass(frozen=True)
class Sample:
    """One block of a training's graph, and what is sampled in it."""

    training: Run
    block: int
    design: Design
    rule: rules.Rule | None
    n_classes: int
    seed: int


@dataclass(frozen=True)
class Sampled(Result):
    """Counts of a block: signed samples by given and predicted label for the plain majority and for
    the training's rule, and what both share."""

    majority: list[list[int]]
    trained: list[list[int]]
    rows: int
    samples: int
    short_rows: int

    def counts(self, weight: list[list[int]]) -> Counts:
        return Counts(np.array(weight, np.int64), self.rows, self.samples, self.short_rows)


def sample_graph(
    job: Job,
    training: Run,
    n_blocks: int,
    design: Design,
    rule: rules.Rule | None,
    n_classes: int,
    seed: int,
) -> tuple[Counts, Counts]:
    """Samples of all blocks: of the majority of k, and of the training's rule; twice of the
    majority where `rule` is None."""
    records = job.parts(
        "certificate-samples",
        sample_part,
        [
            Part(block_name(b), Sample(training, b, design, rule, n_classes, seed))
            for b in range(n_blocks)
        ],
    )
    each = [Sampled.of(record) for record in records]
    plain = [part.counts(part.majority) for part in each]
    trained = [part.counts(part.trained) for part in each]
    return sum(plain[1:], plain[0]), sum(trained[1:], trained[0])


def sample_part(run: Run, part: Part[Sample]) -> Output:
    """Samples of one block by both rules, from the same random streams."""
    wanted = part.args
    group = wanted.training.group(f"graph/{wanted.block:05d}")
    row, given = read_array(group, "row"), read_array(group, "given_label")
    lists = read_array(group, "neighbor_label")[:, : wanted.design.w]
    voted = [majority(wanted.n_classes)]
    voted += [] if wanted.rule is None else [as_votes(wanted.rule)]
    counts = [
        sample_block(row, given, lists, wanted.design, rule, wanted.n_classes, wanted.seed)
        for rule in voted
    ]
    first, second = counts[0], counts[-1]
    result = Sampled(
        first.weight.tolist(), second.weight.tolist(), first.rows, first.samples, first.short_rows
    )
    return Output([], result)


def as_votes(rule: rules.Rule) -> Rule:
    """A training's rule as a function of the voters' labels (sample, k), 0 or 1."""

    def predict(voter: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        return rule.predict(np.mean(voter, axis=1))

    return predict
