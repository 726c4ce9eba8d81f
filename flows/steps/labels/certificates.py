"""Graph → samples of the speculate-correct bound, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from flows.engine.collectives.graph import Around, PoolGraph, over_graph
from flows.engine.collectives.sent import Facts
from flows.engine.job import Job
from flows.steps.labels.verdicts import LabelVerdicts
from pipeline.arrays import added
from pipeline.methods.speculate_correct import Counts, Design, majority, sample_block


@dataclass(frozen=True)
class Sampled:
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
    job: Job, graph: PoolGraph, design: Design, verdicts: LabelVerdicts, n_classes: int, seed: int
) -> tuple[Counts, Counts]:
    """Samples of all blocks: of the majority of k, and of the training's rule; twice of the
    majority where that is the rule."""
    sampled = over_graph(
        *(job, graph, "certificate-samples"),
        partial(sample, design=design, verdicts=verdicts, n_classes=n_classes, seed=seed),
        needs=("given_label", "neighbor_label"),
        portion=None,
    )
    each = sampled.left(Sampled)
    plain = [part.counts(part.majority) for part in each]
    trained = [part.counts(part.trained) for part in each]
    return added(plain), added(trained)


def sample(at: Around, design: Design, verdicts: LabelVerdicts, n_classes: int, seed: int) -> Facts:
    """Samples of one block by both rules, from the same random streams."""
    given, lists = at.of_row["given_label"], at.of_row["neighbor_label"][:, : design.w]
    voted = [majority(n_classes), *verdicts.rules()]
    counts = [sample_block(at.row, given, lists, design, vote, n_classes, seed) for vote in voted]
    first, second = counts[0], counts[-1]
    weights = first.weight.tolist(), second.weight.tolist()
    return Facts(left=Sampled(*weights, first.rows, first.samples, first.short_rows))
