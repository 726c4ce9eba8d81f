"""The stages of a pool whose features are preprocessed: runs in folders below a training or a
scoring, and what a training records of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from flows.engine.results import result_of
from flows.steps.graph.networks import Probes
from pipeline.arrays import Float32
from pipeline.blocks.scaling import Scaling
from pipeline.methods.partial_features import PIPELINES, Preprocessing, unit_rows
from storage.errors import StorageError
from storage.runs.ledger import digest
from storage.runs.run import Run, below, lasting

FEATURES = "features"
"""Name of a step."""
GIVEN, AVERAGED = "features/given", "features/averaged"
"""Folders: the source as it was read, and its rows at unit length averaged with neighbors."""


@dataclass(frozen=True)
class UnitRows(Scaling):
    """Rows as scaled, at unit length."""

    center: tuple[float, ...] | None = None
    """Subtracted before; None where cube roots are taken."""

    @classmethod
    def of(cls, scaling: Scaling, center: Sequence[float] | None) -> Self:
        """After a scaling."""
        return cls(**vars(scaling), center=None if center is None else tuple(center))

    def apply(self, x: Float32) -> Float32:
        """(row, feature) float32."""
        return unit_rows(super().apply(x), None if self.center is None else np.array(self.center))


@dataclass(frozen=True)
class StageFeatures:
    """What the preprocessing of queries takes of that of a training."""

    pipeline: str
    scaling: Scaling
    """Of the features as they were read."""
    center: list[float] | None
    """Subtracted first; None where cube roots are taken."""
    copies: float
    """What rows among copies of themselves are divided by."""
    n_blocks: int
    blocks_step: str
    probes: Probes
    """How queries are searched among the averages."""
    digests: dict[str, str]
    """Of the ledger of each stage."""

    @property
    def how(self) -> Preprocessing:
        return PIPELINES[self.pipeline]

    @property
    def unit(self) -> UnitRows:
        return UnitRows.of(self.scaling, self.center)


def as_read(run: Run) -> Run:
    """The run with the features of a pool as they were read."""
    read = run.below(GIVEN)
    return read if read.location.exists("run.json") else run


def stages(run: Run) -> list[Run]:
    every = [run.below(folder) for folder in (GIVEN, AVERAGED)]
    return [one for one in every if one.location.exists("run.json")]


def stage_digest(run: Run) -> str:
    """Of all that a stage has committed."""
    return digest(run.ledger.every())


def features_of(run: Run) -> StageFeatures | None:
    """What a training recorded of its preprocessing; None where there is none."""
    record = run.ledger.get(FEATURES, "all")
    return None if record is None else result_of(record, StageFeatures)


def check_stages(run: Run, *, whole: bool) -> None:
    """`StorageError` where a stage of a finished training is not as it was committed; unless
    `whole`, of its files only those are compared that every scoring reads."""
    features = features_of(run)
    for folder, known in ({} if features is None else features.digests).items():
        at = run.below(folder)
        if stage_digest(at) != known:
            raise StorageError(
                f"{at.location.url}/ledger is not as it was committed; run train again to repair"
            )
        at.check_records(at.ledger.every(), lasting if whole else below("partition"))
