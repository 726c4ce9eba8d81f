"""Parameters of a training: checked, recorded with the run, compared when it is resumed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.neighbours import BUILDERS
from pipeline.scale import SCALES
from storage.errors import InputError
from storage.sources import Source, same

NOISES = ("crossfit", "minmax")
RECORDED = ("knnoise", "numpy", "pynndescent", "zarr")
"""Packages whose versions are recorded with a run."""


@dataclass(frozen=True)
class TrainParams:
    """What decides a training's results, besides its source."""

    k: int = 30
    """Neighbours of each row."""
    noise: str = "crossfit"
    """How the noise rates are estimated: crossfit or minmax."""
    builder: str = "auto"
    """How neighbours are found: auto, pynndescent or exact."""
    block_rows: int | None = None
    """Rows at home in a block; None chooses by predicted cost."""
    scale: str = "none"
    """Scaling of features: none, range or standard."""
    target_recall: float = 0.95
    """Share of true neighbours that must be found."""
    seed: int = 0

    def check(self) -> None:
        """Raise `InputError` for a value that makes no sense."""
        for name, value, allowed in (
            ("noise", self.noise, NOISES),
            ("builder", self.builder, BUILDERS),
            ("scale", self.scale, SCALES),
        ):
            if value not in allowed:
                raise InputError(f"--{name} {value}: must be one of {', '.join(allowed)}")
        if self.k < 5:
            raise InputError(f"--k {self.k}: averages of fewer than 5 labels say nothing; raise it")
        if self.block_rows is not None and self.block_rows < 2 * self.k:
            raise InputError(f"--block-rows {self.block_rows}: must be at least twice k = {self.k}")
        if not 0 < self.target_recall <= 1:
            raise InputError(f"--target-recall {self.target_recall}: must be above 0, at most 1")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed {self.seed}: must be from 0 to 2**32 - 1")


def describe(params: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """The content of run.json."""
    return {
        "parameters": dict(params),
        "source": source.fingerprint(with_digest=True),
        "label_name": source.label_name,
        "feature_names": list(source.feature_names),
        "versions": {name: importlib.metadata.version(name) for name in RECORDED},
    }


def check_same(before: Mapping[str, Any], params: Mapping[str, Any], source: Source) -> None:
    """Raise `InputError` naming what differs from the run being resumed."""
    old = before["parameters"]
    differing = [
        f"{name} was {old.get(name)!r} and is {value!r}"
        for name, value in params.items()
        if old.get(name) != value
    ]
    if before["label_name"] != source.label_name:
        differing.append(f"labels were {before['label_name']!r} and are {source.label_name!r}")
    changed = same(before["source"], source)
    if changed:
        differing.append(changed)
    if differing:
        raise InputError(
            f"the run was begun otherwise: {'; '.join(differing)}; use another --run folder"
        )


def params_json(params: TrainParams) -> dict[str, Any]:
    return asdict(params)
