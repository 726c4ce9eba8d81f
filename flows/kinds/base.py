"""What a training takes from the kind of its labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flows.engine.collectives import PoolGraph
from flows.engine.job import Job
from flows.options.params import TrainParams
from flows.report.compose import LabelsJudged
from flows.steps.graph.partition import Blocks
from flows.steps.ingest.columns import IMPUTE, Unlabeled
from flows.steps.ingest.pool import Ingested, ingest
from pipeline.methods.rules import RULES
from storage.runs.pool import Pool
from storage.sources.base import Source


@dataclass(frozen=True)
class LabeledGraph:
    """A pool whose graph stands, and what is asked about its labels."""

    pool: Pool
    ingested: Ingested
    blocks: Blocks
    length: int
    """Neighbors in a list."""
    params: TrainParams

    @property
    def graph(self) -> PoolGraph:
        return PoolGraph(self.pool, len(self.blocks.sizes))

    @property
    def grid(self) -> tuple[int, ...]:
        """Sizes of neighborhoods to choose from."""
        return RULES[self.params.rule].sizes(self.params.k, self.length)


class Labels(ABC):
    """How a training on labels of a kind goes, but for what is the same for all."""

    read: type[Unlabeled]
    """What becomes of them while the source is read."""
    each_one: bool
    """Whether each row has one label, which others can contradict."""

    @abstractmethod
    def refuse(self, params: TrainParams) -> None:
        """`InputError` where a parameter is for another kind of labels."""

    def ingest(self, job: Job, source: Source, params: TrainParams) -> Ingested:
        """Write the pool."""
        scale, seed = params.scale, params.seed
        more: dict[str, Any] = {"labels": self.read, "pca": params.pca, "gaps": IMPUTE}
        return job.task("ingest", ingest, source, path="pool", scale=scale, seed=seed, **more)

    @abstractmethod
    def check(self, source: Source, ingested: Ingested, params: TrainParams) -> None:
        """`InputError` where the classes that were read do not allow what was asked."""

    @abstractmethod
    def metric(self, params: TrainParams) -> str:
        """How nearness is chosen, as `--metric` says it."""

    @abstractmethod
    def rates_read(self, params: TrainParams) -> bool:
        """Whether noise rates are read off the anchors' lists."""

    @abstractmethod
    def judge(self, job: Job, of: LabeledGraph, source: Source) -> LabelsJudged:
        """All verdicts on the labels, written and told."""
