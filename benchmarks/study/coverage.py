"""Do the 95 % intervals of `crossfit` cover the realized rates? Simulated pools of known truth."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_classification, make_moons

from benchmarks.study.data import NOISE, realized
from benchmarks.study.lists import Anchors, search
from benchmarks.study.pools import gao, reeve_kaban
from benchmarks.study.results import Results
from pipeline.noise.extrema import anchor_plan
from pipeline.simulate import flip, sheets

Pool = tuple[NDArray[Any], NDArray[np.integer]]
SIZES = {2000: 12, 6000: 8, 15_000: 4}
"""Pool sizes and how many pools of each; every pool gets the five noise settings."""


def _blobs(n: int, seed: int) -> Pool:
    """Six Gaussian clusters in 8 dimensions, three of each class, overlapping."""
    x, cluster = make_blobs(n, 8, centers=6, cluster_std=1.0, center_box=(-3, 3), random_state=seed)
    return x, cluster % 2


def _rare(n: int, seed: int) -> Pool:
    """The smaller class is two small clusters, a fifth of the rows."""
    sizes = [int(n * share) for share in (0.3, 0.2, 0.15, 0.15, 0.1)]
    sizes.append(n - sum(sizes))
    x, cluster = make_blobs(sizes, 5, cluster_std=1.0, center_box=(-4, 4), random_state=seed)
    return x, cluster >= 4


def _moons(n: int, seed: int) -> Pool:
    return make_moons(n, noise=0.2, random_state=seed)


def _hypercube(n: int, seed: int) -> Pool:
    """Clusters on the corners of a hypercube among uninformative features."""
    return make_classification(n, 12, n_informative=6, class_sep=1.5, flip_y=0, random_state=seed)


def _sheets(n: int, seed: int) -> Pool:
    return sheets(n, seed)[:2]


def _square(n: int, seed: int) -> Pool:
    return gao(n, seed)[:2]


def _line(n: int, seed: int) -> Pool:
    return reeve_kaban(n, 0.1, 0.3, seed)[:2]


KINDS: dict[str, Callable[[int, int], Pool]] = {
    "blobs": _blobs,
    "rare": _rare,
    "moons": _moons,
    "hypercube": _hypercube,
    "sheets": _sheets,
    "square": _square,
    "line": _line,
}


def run(work: Path, scale: int = 1) -> None:
    results = Results(work, "coverage")
    for n, pools in SIZES.items():
        for kind, make in KINDS.items():
            for seed in range(pools * scale):
                key = f"{kind}/{n}/{seed}"
                if key not in results:
                    results.add(key, {"kind": kind, "n": n, "cases": pool(make, kind, n, seed)})
        print(f"coverage n={n}", flush=True)


def pool(make: Callable[[int, int], Pool], kind: str, n: int, seed: int) -> list[dict[str, Any]]:
    """The five noise settings on one pool."""
    x, y = make(n, seed)
    x, y = np.ascontiguousarray(x, np.float32), y.astype(np.int8)
    wanted, columns = anchor_plan(n, x.shape[1])
    rows = np.random.default_rng([5, n, seed]).permutation(n)[:wanted]
    anchors = Anchors.of(x, search(x, rows, columns))
    found = []
    for p0, p1 in NOISE:
        noise_seed = zlib.crc32(f"{kind}/{n}/{seed}/{p0}-{p1}".encode())
        given = flip(y, p0, p1, noise_seed)
        rates = anchors.rates(given)
        found.append(
            {
                "noise": [p0, p1],
                "seed": noise_seed,
                "realized": realized(y, given),
                "crossfit": [rates.p0, rates.p1],
                "intervals": [list(rates.p0_interval), list(rates.p1_interval)],
                "support": rates.support,
            }
        )
    return found
