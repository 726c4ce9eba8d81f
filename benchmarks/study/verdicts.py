"""Does a verdict know its limits? Small samples, overlapping classes, mistakes that vary."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study import coverage, data
from benchmarks.study.lists import search
from benchmarks.study.results import Results
from pipeline.noise.extrema import anchor_plan, crossfit
from pipeline.simulate import flip

TUNED = ("optdigits", "landsat", "usps", "letter")
UNTUNED = ("segment", "mushroom", "pendigits", "magic04", "fashion_mnist", "vehicle", "german")
SIZES = {700: 3, 1500: 3, 3000: 3, 6000: 3}
"""Rows of a sample, and samples of each set: one for each of `SCALES`."""
SCALES = ("range", "standard", "none")
SIMULATED = (*coverage.KINDS, "overlap")
"""Pools of known truth, their columns in units up to a thousand times apart; twice as many."""
KINDS = ("class", "slope", "boundary")
"""Mistakes by class alone; growing along a random direction; growing towards the other class."""


def run(folder: Path, work: Path) -> None:
    results = Results(work, "verdicts")
    for name in TUNED + UNTUNED:
        start = time.perf_counter()
        for n, samples in SIZES.items():
            for sample in range(samples):
                key = f"{name}/{n}/{sample}"
                if key in results:
                    continue
                try:
                    x, y = data.load(folder, name, SCALES[sample % 3])
                except data.Absent as reason:
                    print(f"{name}: skipped, {reason}", flush=True)
                    break
                if len(x) >= 0.8 * n:
                    results.add(
                        key,
                        {
                            "set": name,
                            "tuned": name in TUNED,
                            "cases": sampled(x, y, key, n, sample),
                        },
                    )
        print(f"verdicts {name}: {time.perf_counter() - start:.0f} s", flush=True)
    for kind in SIMULATED:
        for n, samples in SIZES.items():
            for sample in range(2 * samples):
                if (key := f"simulated {kind}/{n}/{sample}") not in results:
                    x, y = simulated(kind, n, sample)
                    found = noisy_cases(x, y, key, SCALES[sample % 3])
                    results.add(key, {"set": f"simulated: {kind}", "tuned": None, "cases": found})
        print(f"verdicts {kind}", flush=True)


def sampled(
    x: NDArray[np.float32], y: NDArray[np.int64], key: str, n: int, sample: int
) -> list[dict[str, Any]]:
    """All noise of one sample of a set."""
    rows = np.sort(np.random.default_rng([41, n, sample]).permutation(len(x))[:n])
    truth = data.group(y[rows], ("half7", "odd", "half3")[sample % 3])
    return noisy_cases(np.ascontiguousarray(x[rows]), truth, key, SCALES[sample % 3])


def simulated(kind: str, n: int, sample: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """A simulated pool, each column in a unit of its own."""
    rng = np.random.default_rng([53, n, sample, zlib.crc32(kind.encode())])
    if kind == "overlap":  # two clouds in five dimensions, a sixth to a hundredth of them in common
        y = rng.integers(0, 2, n)
        x = rng.normal(size=(n, 5))
        x[:, 0] += rng.uniform(2.0, 4.5) * y
    else:
        x, y = coverage.KINDS[kind](n, 1000 + sample)
    x = x.reshape(n, -1) * 10.0 ** rng.uniform(-1.5, 1.5, x.reshape(n, -1).shape[1])
    return data.scaled(x.astype(np.float32), SCALES[sample % 3]), y.astype(np.int8)


def noisy_cases(
    x: NDArray[np.float32],
    truth: NDArray[np.int8],
    key: str,
    scale: str,
) -> list[dict[str, Any]]:
    """All noise of one pool. Rates are those without the test whether mistakes depend on the
    features (`uneven`), which only widens intervals."""
    near = search(x, np.arange(len(x)), anchor_plan(*x.shape)[1]).astype(np.int64)
    found = []
    for kind in KINDS:
        for p0, p1 in data.NOISE if kind == "class" else data.NOISE[:2]:
            seed = zlib.crc32(f"{key}/{kind}/{p0}-{p1}".encode())
            given = noisy(kind, x, near, truth, (p0, p1), seed)
            rates = crossfit(near, given[near], len(x))
            found.append(
                {
                    "n": len(x),
                    "kind": kind,
                    "scale": scale,
                    "noise": [p0, p1],
                    "seed": seed,
                    "realized": data.realized(truth, given),
                    "crossfit": [rates.p0, rates.p1],
                    "intervals": [list(rates.p0_interval), list(rates.p1_interval)],
                    "support": rates.support,
                    "sides": [rates.diagnostics.get(side) for side in ("p0", "p1")],
                }
            )
    return found


def noisy(
    kind: str,
    x: NDArray[np.float32],
    near: NDArray[np.int64],
    y: NDArray[np.int8],
    rates: tuple[float, float],
    seed: int,
) -> NDArray[np.int8]:
    """Given labels whose mistakes have about these rates on average."""
    if kind == "class":
        return flip(y, *rates, seed)
    rng = np.random.default_rng([43, seed])
    level = np.where(y == 1, rates[1], rates[0])
    if kind == "slope":
        z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9) @ rng.normal(size=x.shape[1])
        chance = np.minimum(0.95, level * (0.4 + 1.2 * _ranks(z)))
    else:
        other = (y[near[:, 1:31]] != y[:, None]).mean(axis=1) + 1e-6 * rng.random(len(y))
        chance = np.minimum(0.95, level * 2.5 * _ranks(other) ** 1.5)
    return np.where(rng.random(len(y)) < chance, 1 - y, y).astype(np.int8)


def _ranks(value: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.asarray(np.argsort(np.argsort(value, kind="stable"), kind="stable") / len(value))
