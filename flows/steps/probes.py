"""Which blocks a query is sent to, from the exact neighbors of a sample of queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.engine.job import Job, Output
from flows.engine.parts import Part
from flows.engine.results import Result
from flows.steps.partition import block_name
from pipeline.blocks.cost import HALOS
from pipeline.blocks.partition import Halo, in_halo, nearest_blocks
from pipeline.blocks.scaling import Scaling
from pipeline.decision.tempering import MatrixDecision
from pipeline.knn.exact import nearest
from pipeline.knn.lists import ABSENT, select
from pipeline.methods.rules import Rule
from storage.errors import StorageError
from storage.exchange import Exchange, Slice
from storage.groups import read_array, read_group
from storage.run import Run, lasting

AUDIT_QUERIES = 500
"""Queries searched exactly in all blocks: they choose the probes and measure recall."""


@dataclass(frozen=True)
class ClassRule:
    """The corrected vote of more than two classes; its matrix is in the training's `transition`."""

    n_classes: int
    decision: MatrixDecision


@dataclass(frozen=True)
class Model:
    """What scoring takes from a finished training."""

    run: Run
    scaling: Scaling
    k: int
    n_blocks: int
    rule: Rule | ClassRule
    target_recall: float
    exact: bool
    """Whether blocks are searched exactly, as the training was."""
    blocks_step: str
    """Step that committed the blocks."""
    near: float = 0.0
    """Distance below which two rows are near duplicates."""

    @property
    def recall_of_parts(self) -> float:
        """Recall that the choice of blocks is given, and the search in them: both together keep the
        target. Exact search may miss what no block holds, alone."""
        return 1.0 - (0.1 if self.exact else 0.4) * (1.0 - self.target_recall)

    def centroid(self) -> npt.NDArray[np.float32]:
        return read_array(self.run.group("partition"), "centroid")

    def check_block(self, number: int) -> None:
        """Raise `StorageError` where a block is not as it was committed."""
        record = self.run.ledger.get(self.blocks_step, block_name(number))
        if record is None:
            raise StorageError(
                f"{self.run.location.url}/ledger/{self.blocks_step}/{block_name(number)}.json is "
                "damaged; run train again to repair"
            )
        self.run.check_records([record], lasting)


@dataclass(frozen=True)
class Truth:
    """A block in which sampled queries are searched exactly."""

    block: int
    model: Model
    to: Exchange


@dataclass(frozen=True)
class Candidates(Result):
    """Neighbors that a block has for the sampled queries."""

    found: int


@dataclass(frozen=True)
class Probes(Result):
    """Which blocks a query is sent to."""

    halo: Halo
    probes: float
    """Blocks searched per query."""
    coverage: float
    """Share of the sample's true neighbors that lie in those blocks."""
    limit: list[float | None]
    """Distance of the k-th true neighbor of each sampled query; None where there are fewer."""


def find_truth(job: Job, model: Model) -> None:
    """Exact lists of a sample of queries, and the blocks their neighbors are at home in."""
    exchange = Exchange(job.run.location, "truth")
    job.parts(
        "truth",
        truth_part,
        [Part(block_name(b), Truth(b, model, exchange)) for b in range(model.n_blocks)],
    )


def audit_queries(run: Run, scaling: Scaling) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Rows, ascending, and scaled features of the sampled queries."""
    sample, first = run.group("samples/anchors"), slice(0, AUDIT_QUERIES)
    row, x = read_array(sample, "row", first), read_array(sample, "x", first)
    order = np.argsort(row)
    return row[order], scaling.apply(x[order])


def truth_part(run: Run, part: Part[Truth]) -> Output:
    """Nearest rows at home in one block, for each sampled query."""
    model, exchange = part.args.model, part.args.to
    model.check_block(part.args.block)
    block = read_group(model.run.store, f"blocks/{part.args.block:05d}")
    core = block["core"]
    row, x = audit_queries(run, model.scaling)
    index, distance = nearest(x, block["x"][core], model.k)
    there = index != ABSENT
    columns = {
        "owner": np.broadcast_to(np.arange(len(row))[:, None], index.shape)[there],
        "row": block["row"][core][index[there]],
        "distance": distance[there],
    }
    n_found = int(there.sum())
    exchange.send(part.name, np.zeros(n_found, np.int64), 1, columns)
    return Output([exchange.key(part.name)], Candidates(n_found))


def choose_probes(job: Job, model: Model) -> Probes:
    """Which blocks a query is sent to: the fewest that keep a margin above the target recall."""

    def choose(run: Run) -> Output:
        _, x = audit_queries(run, model.scaling)
        owner, distance, home = _true_lists(run, model, len(x))
        block, reach = nearest_blocks(x, model.centroid())
        options = []
        for halo in HALOS:
            probed = in_halo(reach, halo)
            hit = (block[owner] == home[:, None]) & probed[owner]
            options.append((float(probed.sum(axis=1).mean()), float(hit.any(axis=1).mean()), halo))
        wanted = model.recall_of_parts
        enough = [option for option in options if option[1] >= wanted]
        probes, coverage, halo = (
            min(enough, key=lambda o: o[0]) if enough else max(options, key=lambda o: (o[1], -o[0]))
        )
        limit = np.full(len(x), np.float32(np.inf))
        limit[owner] = distance  # sorted by distance within owner: the last stays
        known = [float(d) if np.isfinite(d) else None for d in limit]
        return Output([], Probes(halo, probes, coverage, known))

    return Probes.of(job.once("probes", choose))


def _true_lists(run: Run, model: Model, n_queries: int) -> tuple[npt.NDArray[Any], ...]:
    """(item,) query, distance and home block of the k nearest of each sampled query."""
    exchange = Exchange(run.location, "truth")
    best: list[npt.NDArray[Any]] = [
        np.empty(0, kind) for kind in (np.int64, np.int64, np.float32, np.int64)
    ]
    for b, record in enumerate(run.ledger.records("truth").values()):
        found = Candidates.of(record).found
        if not found:
            continue
        new = exchange.receive([Slice(record.part, 0, found)])
        fields = [new["owner"], new["row"], new["distance"], np.full(found, b)]
        best = [np.concatenate(pair) for pair in zip(best, fields, strict=True)]
        chosen, _ = select(best[0], best[1], best[2], model.k)
        best = [column[chosen] for column in best]
    owner, _, distance, home = best
    return owner, distance, home
