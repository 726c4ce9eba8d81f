"""Pools of every kind of label and of metric, that faults are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class Kind:
    """A pool, the rows that are scored with it, and how it is trained."""

    n_classes: int
    labels: Callable[[Path, np.random.Generator, Labels], dict[str, Labels]]
    """Members of the source by the given codes; other files go to the folder."""
    options: tuple[str, ...] = ()

    def write(self, folder: Path, n_rows: int) -> None:
        """`pool.npz` and `unseen.npz`, of half as many rows: noisy clouds."""
        folder.mkdir(parents=True, exist_ok=True)
        for seed, (name, n) in enumerate({"pool": n_rows, "unseen": n_rows // 2}.items()):
            rng = np.random.default_rng(seed)
            clean = rng.integers(0, self.n_classes, n)
            x = rng.normal(size=(n, 3)) + 3.0 * clean[:, None]
            flipped = rng.random(n) < np.where(clean % 2 == 1, 0.1, 0.3)
            given = (clean + flipped) % self.n_classes
            members = self.labels(folder, rng, given) if name == "pool" else {}
            np.savez(folder / name, X=x.astype(np.float32), **members)

    def arguments(self, folder: Path) -> tuple[str, ...]:
        """What `train` is told of the labels."""
        return tuple(option.format(folder=folder) for option in self.options)


def _two(_: Path, __: np.random.Generator, given: Labels) -> dict[str, Labels]:
    return {"y": given.astype(np.int8)}


def _named(_: Path, __: np.random.Generator, given: Labels) -> dict[str, Labels]:
    return {"y": np.array(["ant", "bee", "cat", "dog"])[given]}


def _sets(_: Path, rng: np.random.Generator, given: Labels) -> dict[str, Labels]:
    other = rng.integers(0, 3, len(given))
    said = [f"{a}" if a == b else f"{a}|{b}" for a, b in zip(given, other, strict=True)]
    return {"y": np.array(said)}


def _votes(folder: Path, rng: np.random.Generator, given: Labels) -> dict[str, Labels]:
    lines = ["row,annotator,label"]
    for row, label in enumerate(given):
        for who in rng.choice(5, 3, replace=False):
            lines.append(f"{row},{who},{(label + (rng.random() < 0.1 * who)) % 3}")
    (folder / "votes.csv").write_text("\n".join(lines) + "\n")
    return {}


KINDS = {
    "disk": Kind(2, _two),
    "learned metric": Kind(2, _two, ("--metric", "weighted")),
    "classes": Kind(4, _named),
    "candidates": Kind(3, _sets, ("--candidates", "|")),
    "votes": Kind(3, _votes, ("--annotations", "{folder}/votes.csv")),
}
"""By the name of their bench."""
