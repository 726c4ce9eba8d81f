"""Public data sets, groupings into two classes, and noisy cases with fixed seeds."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.simulate import flip

NOISE = ((0.1, 0.2), (0.3, 0.1), (0.4, 0.4), (0.2, 0.1), (0.1, 0.3))
"""Settings (p0, p1); the first three are Gao's."""
SMALL = (
    "heart",
    "ionosphere",
    "housing",
    "cancer",
    "diabetes",
    "vehicle",
    "fourclass",
    "german",
    "splice",
    "optdigits13",
)
GAO = (
    *SMALL,
    "segment",
    "landsat",
    "mushroom",
    "usps",
    "pendigits",
    "letter",
    "magic04",
    "w8a",
    "shuttle",
)
TUNED = ("optdigits", "landsat", "usps", "letter")
"""The sets `crossfit` was tuned on."""
TEMPERED = (*TUNED, "heart", "housing", "diabetes", "fourclass", "splice")
"""The sets the tempering of the threshold was tuned on."""
LARGE = (*TUNED, "mushroom", "pendigits", "magic04", "shuttle", "w8a", "fashion_mnist")
MIDDLE = (
    "segment",
    *(f"{s}@3000" for s in (*TUNED, "mushroom", "pendigits", "magic04", "fashion_mnist")),
)
"""Sets of 2,000 to 5,000 rows: one as it is, the others samples of 3,000 rows."""
FEWEST = 0.2
"""Least share of the smaller class for a case that counts towards the error goals."""


class Absent(Exception):
    """The data folder has no such set."""


def is_tuned(name: str) -> bool:
    return name.split("@")[0] in TUNED


def load(
    folder: Path, name: str, scale: str = "range"
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features and classes; `name@n` are n random rows.

    ``scale``: to [-1, 1] (`range`) or unit variance (`standard`), constants to 0; or `none`.
    """
    base, _, size = name.partition("@")
    path = folder / f"{base}.npz"
    if not path.exists():
        raise Absent(f"{base}.npz is not in the data folder")
    with np.load(path, allow_pickle=False) as file:
        x, y = file["X"].astype(np.float32), file["y"].astype(np.int64)
    if size:
        rows = np.sort(np.random.default_rng([3, len(x)]).permutation(len(x))[: int(size)])
        x, y = x[rows], y[rows]
    return scaled(x, scale), y


def scaled(x: NDArray[np.float32], scale: str) -> NDArray[np.float32]:
    """Features as `load` has them."""
    if scale == "none":
        return x
    if scale == "standard":
        deviation = x.std(axis=0)
        spread = np.where(deviation > 0, deviation, np.inf)
        return np.asarray((x - x.mean(axis=0)) / spread, np.float32)
    low, high = x.min(axis=0), x.max(axis=0)
    spread = np.where(high > low, high - low, np.inf)
    inside = np.where(high > low, 2.0 * (x - low) / spread - 1.0, 0.0)
    return inside.astype(np.float32)


def group(y: NDArray[np.int64], how: str) -> NDArray[np.int8]:
    """Two classes out of many: `odd` ids are 1; `half<seed>`: a random half of the classes is 1."""
    classes = int(y.max()) + 1
    if classes == 2:
        return (y == 1).astype(np.int8)
    if how == "odd":
        return (y % 2).astype(np.int8)
    drawn = np.random.default_rng([11, int(how.removeprefix("half"))]).permutation(classes)
    return np.isin(y, drawn[: classes // 2]).astype(np.int8)


@dataclass(frozen=True)
class Case:
    """One set, grouping, noise setting and trial; its name is its seed."""

    name: str
    grouping: str
    p0: float
    p1: float
    trial: int

    @property
    def key(self) -> str:
        return f"{self.name}/{self.grouping}/{self.p0}-{self.p1}/{self.trial}"

    @property
    def seed(self) -> int:
        """Seed of the noise stream; the split stream takes the trial alone."""
        return zlib.crc32(self.key.encode())

    def given(self, y: NDArray[np.int8]) -> NDArray[np.int8]:
        return flip(y, self.p0, self.p1, self.seed)


def cases(name: str, classes: int, trials: int) -> Iterator[Case]:
    """All cases of a set: two groupings where it has more than two classes."""
    for grouping in ("odd",) if classes == 2 else ("odd", "half7"):
        for p0, p1 in NOISE:
            for trial in range(trials):
                yield Case(name, grouping, p0, p1, trial)


def realized(y: NDArray[np.int8], given: NDArray[np.int8]) -> tuple[float, float]:
    """(p0, p1) as they came out in this sample."""
    return float(given[y == 0].mean()), float(1.0 - given[y == 1].mean())


def each(
    study: str,
    names: Iterable[str],
    load_set: Callable[[str], tuple[NDArray[np.float32], NDArray[np.int64]]],
) -> Iterator[tuple[str, NDArray[np.float32], NDArray[np.int64]]]:
    """(name, x, y) of the sets that are there; prints the seconds spent on each, and why one is
    skipped."""
    for name in names:
        start = time.perf_counter()
        try:
            x, y = load_set(name)
        except Absent as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        yield name, x, y
        print(f"{study} {name}: {time.perf_counter() - start:.0f} s", flush=True)
