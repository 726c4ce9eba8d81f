"""Parameters of a training: checked, recorded with the run, compared when it is resumed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.neighbours import BUILDERS
from pipeline.rates import given
from pipeline.regression import k_grid
from pipeline.rknn import sizes_tried
from pipeline.rule import RULES
from pipeline.scale import SCALES
from storage.errors import InputError
from storage.sources import Source, same

NOISES = ("crossfit", "minmax")
LONGEST = {"exact": 100, "pynndescent": 50}
"""Neighbours of a row among which k is chosen; longer lists cost pynndescent much."""
RKNN_LONGEST = 160
"""The same for RkNN, which leaves a quarter of them out and averages up to 100."""
RECORDED = ("knnoise", "numpy", "pynndescent", "zarr")
"""Packages whose versions are recorded with a run."""


@dataclass(frozen=True)
class TrainParams:
    """What decides a training's results, besides its source."""

    k: int | None = None
    """Neighbours of each row; None chooses by the leave-one-out score on the given labels."""
    noise: str = "crossfit"
    """How the noise rates are estimated: crossfit or minmax."""
    rule: str = "corrected"
    """From averages to labels: corrected (Algorithm 2) or rknn."""
    p0: float | None = None
    """P(given 1 | true 0) where it is known; then p1 is too, and nothing is estimated."""
    p1: float | None = None
    builder: str = "auto"
    """How neighbours are found: auto, pynndescent or exact."""
    block_rows: int | None = None
    """Rows at home in a block; None chooses by predicted cost."""
    scale: str = "none"
    """Scaling of features: none, range or standard."""
    target_recall: float = 0.95
    """Share of true neighbours that must be found."""
    seed: int = 0

    def list_length(self, n_rows: int, builder: str) -> int:
        """Neighbours kept of each row: k, or enough to choose k from."""
        if self.rule == "rknn":
            return max(self.k or 5, min(RKNN_LONGEST, n_rows // 2))
        return self.k or max(5, min(LONGEST[builder], n_rows // 4))

    def grid(self, longest: int) -> tuple[int, ...]:
        """Sizes whose averages are taken from lists of some length."""
        return sizes_tried(longest, self.k) if self.rule == "rknn" else k_grid(longest)

    def check(self) -> None:
        """Raise `InputError` for a value that makes no sense."""
        for name, value, allowed in (
            ("noise", self.noise, NOISES),
            ("rule", self.rule, RULES),
            ("builder", self.builder, BUILDERS),
            ("scale", self.scale, SCALES),
        ):
            if value not in allowed:
                raise InputError(f"--{name} {value}: must be one of {', '.join(allowed)}")
        if self.k is not None and self.k < 5:
            raise InputError(f"--k {self.k}: averages of fewer than 5 labels say nothing; raise it")
        least = 2 * (self.k or min(LONGEST.values()))
        if self.block_rows is not None and self.block_rows < least:
            raise InputError(f"--block-rows {self.block_rows}: must be at least {least}")
        if (self.p0 is None) != (self.p1 is None):
            raise InputError("--p0 and --p1 belong together: give both or none")
        if self.p0 is not None and self.p1 is not None:
            try:
                given(self.p0, self.p1)
            except ValueError as error:
                raise InputError(f"--p0 and --p1: {error}") from error
        if self.rule == "rknn" and self.p0 is not None:
            raise InputError("--rule rknn estimates the rates its own way: leave out --p0 and --p1")
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
        f"{name} was {_told(old.get(name))} and is {_told(value)}"
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


def _told(value: object) -> str:
    return "not given" if value is None else repr(value)
