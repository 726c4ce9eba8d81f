"""What scoring takes from a training, and the audit: exact lists of a sample of queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from flows.engine.collectives.rows import Table
from flows.engine.collectives.sent import Inbox, Lists, Sendings
from flows.engine.job import Job, Output
from flows.engine.parts import block_name
from flows.engine.results import result_of
from flows.steps.graph.networks import Probes, stored_network
from pipeline.arrays import AnyArray, Float32, Int64
from pipeline.blocks.scaling import Scaling
from pipeline.decision.class_rule import Decided
from pipeline.diagnostics.neighborhood import Usual
from pipeline.graph.walk import Network, walkable
from pipeline.knn.distance import pair_distance
from pipeline.knn.exact import kth_distance_bound
from pipeline.knn.lists import Neighbors
from storage.arrays.groups import Arrays, read_array
from storage.errors import StorageError
from storage.runs.ledger import Record
from storage.runs.pool import Pool, Rows
from storage.runs.run import Run, lasting

AUDITED = (48, 500)
"""Queries of a file whose lists are compared with exact ones: at least, and at most."""
_QUERIES_TO_AUDITED = 250
"""Exact search of all blocks costs about as much as 25 walks (measured): a tenth of the time."""
_BOUND_ROWS = 1 << 15
"""Rows of the training's sample from which the reach of exact lists is bounded."""


Scores = tuple[Arrays, Decided | None]
"""Columns, and the posterior of each class where there is one."""


@dataclass(frozen=True)
class Scored:
    """Recall at the sampled queries among some rows, how many rows are predicted each class, and
    how many are in the training pool."""

    recall: list[float]
    predicted: list[int]
    equal: int = 0
    """Rows equal to a training row."""
    far: int = 0
    """Rows farther from the training's than almost all of these are from each other."""
    near: int = 0
    """Rows equal or nearly equal to one."""


class ScoringRule(ABC):
    """How the lists of queries become scores; a class for each kind of labels."""

    n_classes: int
    group: ClassVar[str]
    """Kind of the group `scores` in the schema, whose columns are those of the table."""
    counted: ClassVar[type[Scored]] = Scored
    """What is said of some rows."""

    @property
    @abstractmethod
    def n_neighbors(self) -> int:
        """Neighbors that are looked for."""

    @abstractmethod
    def attributes(self) -> dict[str, Any]:
        """What the attributes of the group `scores` say of the rule."""

    def table(self, training: Run, queries: Pool) -> Table:
        """The group `scores` of queries."""
        return Table("scores", self.group)

    def send(
        self, job: Job, model: Model, queries: Pool, lists: Sequence[Lists]
    ) -> Sequence[Inbox | None]:
        """For each part of the queries what the rule asks of their neighbors."""
        return [None] * len(lists)

    @abstractmethod
    def columns(self, run: Run, score: Score, lists: Neighbors) -> Scores:
        """Scores of queries from their merged lists."""

    def counts(self, columns: Arrays) -> dict[str, Any]:
        """What `counted` holds of some scores besides what all kinds do."""
        return {}

    def total(self, counted: Sequence[Any]) -> dict[str, Any]:
        """The same of all rows, as fields of the report."""
        return {}

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """What the report of a scoring says of the rule."""


@dataclass(frozen=True)
class Model:
    """What scoring takes from a finished training."""

    run: Run
    scaling: Scaling
    k: int
    """Neighbors that are looked for."""
    n_blocks: int
    rule: ScoringRule
    n_rows: int
    target_recall: float
    probes: Probes
    blocks_step: str
    """Step that committed the blocks."""
    usual: Usual | None = None
    """How far the rows of the training are from each other."""
    usual_k: int = 1
    """Neighbors that a mean distance is of."""
    all_classes: bool = False
    """Whether the posterior of every class is wanted."""

    def centroid(self) -> Float32:
        return read_array(self.run.group("partition"), "centroid")

    def check_block(self, number: int) -> int:
        """Rows of a block, halo included; `StorageError` where it is not as it was committed."""
        return result_of(self._check(self.blocks_step, number), int)

    def network(self, number: int, n_rows: int, x: Float32) -> Network | None:
        """What walks follow in a block with features x; None where it is searched exactly, or has
        borrowed rows.

        Raises `StorageError` where it is not as it was committed.
        """
        if self.probes.steps is None or not walkable(n_rows, self.k):
            return None
        self._check("networks", number)
        return stored_network(self.run, number, x)

    def _check(self, step: str, number: int) -> Record:
        record = self.run.ledger.get(step, block_name(number))
        if record is None:
            raise StorageError(
                f"{self.run.location.url}/ledger/{step}/{block_name(number)}.json is "
                "damaged; run train again to repair"
            )
        self.run.check_records([record], lasting)
        return record


@dataclass(frozen=True)
class Score:
    """Queries that are scored by their lists."""

    model: Model
    queries: Pool
    number: int
    rows: Rows
    lists: Lists
    limit: Float32
    """Distance of the k-th true neighbor of each audited query."""
    known: Inbox | None
    """What the rule asked of the neighbors."""

    def features(self) -> Float32:
        """(row, feature) unscaled."""
        return self.queries.read("x", self.rows)


Distances = list[float | None]
"""Of the k-th neighbor of each audited query; None where nothing is known, or there are fewer."""


def n_audited(n_queries: int) -> int:
    """How many queries of a file are audited."""
    fewest, most = AUDITED
    return min(n_queries, max(fewest, min(most, n_queries // _QUERIES_TO_AUDITED)))


def audit_queries(run: Run, scaling: Scaling, n: int) -> tuple[Int64, AnyArray]:
    """Rows, ascending, and scaled features of the audited queries, n of them."""
    sample, first = run.group("samples/anchors"), slice(0, n)
    row, x = read_array(sample, "row", first), read_array(sample, "x", first)
    order = np.argsort(row)
    return row[order], scaling.apply(x[order])


def bound_audit(job: Job, queries: Pool, model: Model) -> Distances:
    """A distance within which each audited query surely has its neighbors: what lies beyond needs
    not be read."""

    def find(run: Run) -> Output:
        _, x = audit_queries(run, model.scaling, n_audited(queries.n_rows))
        sample = model.run.group("samples/partition")
        rows = model.scaling.apply(read_array(sample, "x", slice(0, _BOUND_ROWS)))
        return Output([], _known(kth_distance_bound(x, rows, model.k, model.n_rows)))

    return job.result("audit", find, Distances)


def in_reach(model: Model, number: int, x: Float32, bound: Float32) -> Int64:
    """Numbers of the queries x that may have a neighbor among the rows at home in a block."""
    radius = float(model.run.group(f"blocks/{number:05d}").attrs["radius"])  # type: ignore[arg-type]
    center = model.centroid()[number : number + 1]
    every = np.arange(len(x))
    to_center = pair_distance(x, center, every, np.zeros_like(every))
    return np.flatnonzero(to_center * (1 - 1e-6) - radius * (1 + 1e-6) <= bound)


def true_limits(job: Job, model: Model, n: int, searched: Sendings) -> Distances:
    """Distance of the k-th true neighbor of each of the n audited queries, by the nearest that each
    part drew."""

    def merge(run: Run) -> Output:
        nearest = np.full((n, model.k), np.inf, np.float32)
        for drawn in searched.drawn_by_part():
            query = drawn["query"]
            both = np.concatenate([nearest[query], drawn["distance"]], axis=1)
            nearest[query] = np.sort(both, axis=1)[:, : model.k]
        return Output([], _known(nearest[:, -1]))

    return job.result("truth", merge, Distances)


def _known(distance: Float32) -> Distances:
    return [float(d) if np.isfinite(d) else None for d in distance]


def as_distances(known: Distances) -> Float32:
    """(query,) float32; inf where nothing is known."""
    return np.array([np.inf if d is None else d for d in known], np.float32)
