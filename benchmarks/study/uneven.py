"""Is it said when mistakes depend on the features, and not said when they depend on the class?"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study import data
from benchmarks.study.lists import search
from benchmarks.study.results import Results
from benchmarks.study.verdicts import simulated
from pipeline.noise.extrema import anchor_plan, crossfit

TUNED = ("optdigits", "landsat", "usps", "letter", "letter:4", "landsat:3", "optdigits:4")
UNTUNED = ("segment", "mushroom", "pendigits", "magic04", "fashion_mnist", "shuttle", "w8a")
WEAKENED = ("pendigits:4", "fashion_mnist:8")
"""Of sets not tuned on; `set:c` is the set by c of its columns, so that its classes overlap."""
SIMULATED = {"overlap": True, "blobs": True, "square": False, "line": False, "moons": False}
"""Kinds of simulated pools; True: tuned on."""
SIZES = (1300, 4000, 12000)
SHARES = {"half": 0.0, "rare .1": 0.1, "rare .03": 0.03}
"""Two classes: half of the set's classes each, or one class thinned out to this share."""
BY_CLASS = ((0.05, 0.05), (0.1, 0.2), (0.3, 0.1), (0.2, 0.2))
PLACES = ("direction", "cluster", "column")
"""Where a fifth of a class is: at the end of a random direction or of a column, or around a row."""
BASE, MORE = 0.1, 0.3
"""Rate of mistakes, and how many more there are in this fifth."""
FEWEST = 240
"""Rows of a class from which it is tested."""
CLOUDS = 20
"""Pools of four clouds for each difference of rates."""
DIFFERENCES = (0.0, 0.1)


def run(folder: Path, work: Path, sets: tuple[str, ...] = ()) -> None:
    results = Results(work, "uneven")
    names = (*TUNED, *UNTUNED, *WEAKENED, *(f"simulated {kind}" for kind in SIMULATED))
    for name in sets or names:
        for key, x, truth in pools(folder, name):
            if key not in results:
                row = {"set": name, "n": len(x), "share": key.split("/")[2], "tuned": tuned(name)}
                results.add(key, {**row, "cases": cases(x, truth, key)})
        print(f"uneven {name}", flush=True)
    for difference in () if sets else DIFFERENCES:
        for seed in range(CLOUDS):
            if (key := f"clouds/{difference}/{seed}") not in results:
                results.add(key, {"clouds": clouds(difference, seed)})


def tuned(name: str) -> bool:
    return name in TUNED or SIMULATED.get(name.removeprefix("simulated "), False)


def pools(folder: Path, name: str) -> Iterator[tuple[str, NDArray[np.float32], NDArray[np.int8]]]:
    """Features of unit variance and true classes of each pool of a set."""
    base, _, columns = name.partition(":")
    for n in SIZES:
        rng = np.random.default_rng([61, n, zlib.crc32(name.encode())])
        if name.startswith("simulated"):
            x, truth = simulated(name.split()[1], n, 7)
            yield f"{name}/{n}/as it is", data.scaled(x, "standard"), truth
            continue
        try:
            x, y = data.load(folder, base, "standard")
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            return
        if columns:
            x = x[:, rng.permutation(np.flatnonzero(x.std(axis=0) > 0))[: int(columns)]]
        for share, part in SHARES.items():
            one = y == rng.choice(np.flatnonzero(np.bincount(y) > 60)) if y.max() > 1 else y == 1
            few = round(part * n)
            if part and (few > one.sum() or n - few > 1.4 * (~one).sum()):
                continue
            if part:
                rows = rng.permutation(np.flatnonzero(one))[:few]
                rows = np.concatenate([rows, rng.permutation(np.flatnonzero(~one))[: n - few]])
            else:
                rows, one = rng.permutation(len(x))[:n], data.group(y, "half21") == 1
            rows = np.sort(rows)
            if len(rows) >= 0.7 * n and one[rows].mean() > 0.02:
                yield f"{name}/{n}/{share}", np.ascontiguousarray(x[rows]), one[rows].astype("i1")


def cases(x: NDArray[np.float32], truth: NDArray[np.int8], key: str) -> list[dict[str, Any]]:
    """Alarms of each class with mistakes by class alone, and with more in a fifth of a class."""
    near = search(x, np.arange(len(x)), anchor_plan(*x.shape)[1]).astype(np.int64)
    rows = np.bincount(truth, minlength=2)
    told = []
    for p0, p1 in BY_CLASS:
        chance = np.where(truth == 1, p1, p0)
        for side, alarm in enumerate(alarms(x, near, truth, chance, f"{key}/{p0}-{p1}")):
            told.append({"place": "", "rows": int(rows[side]), "alarm": alarm})
    for place in PLACES:
        for side in (0, 1):
            seed = f"{key}/{place}/{side}"
            chance = np.full(len(x), BASE)
            chance[fifth(x, np.flatnonzero(truth == side), place, seed)] += MORE
            alarm = alarms(x, near, truth, chance, seed)[side]
            told.append({"place": place, "rows": int(rows[side]), "alarm": alarm})
    return [case for case in told if case["rows"] >= FEWEST]


def fifth(
    x: NDArray[np.float32], rows: NDArray[np.intp], place: str, seed: str
) -> NDArray[np.intp]:
    """A fifth of the rows, by place."""
    rng = np.random.default_rng([67, zlib.crc32(seed.encode())])
    if place == "direction":
        score = x[rows] @ rng.normal(size=x.shape[1])
    elif place == "cluster":
        score = -((x[rows] - x[rng.choice(rows)]) ** 2).sum(axis=1)
    else:
        score = x[rows][:, rng.choice(np.flatnonzero(x[rows].std(axis=0) > 0.3))]
        score = score + 1e-3 * rng.normal(size=len(rows))
    return rows[np.argsort(-score, kind="stable")[: len(rows) // 5]]


def alarms(
    x: NDArray[np.float32],
    near: NDArray[np.int64],
    truth: NDArray[np.int8],
    chance: NDArray[np.float64],
    seed: str,
) -> tuple[bool, bool]:
    """Whether mistakes are said to depend on the features, in class 0 and in class 1."""
    rng = np.random.default_rng([71, zlib.crc32(seed.encode())])
    given = np.where(rng.random(len(x)) < chance, 1 - truth, truth).astype(np.int8)
    tests = crossfit(near, given[near], len(x), x=x[near[:, 0]]).diagnostics.get("regions")
    zero, one = (bool(test and test["disagree"]) for test in tests or (None, None))
    return zero, one


def clouds(difference: float, seed: int) -> dict[str, Any]:
    """Two classes of two clouds, 2,000 rows each; class 1's rates differ between its clouds."""
    rng = np.random.default_rng([47, round(100 * difference), seed])
    cloud = np.repeat(np.arange(4), 2000)
    truth = (cloud // 2).astype(np.int8)
    gap = rng.uniform(3.0, 8.0)  # from classes that overlap to classes that do not
    x = rng.normal(size=(8000, 4))
    x[:, 0] += 8.0 * (cloud % 2)
    x[:, 1] += gap * truth
    chance = np.where(truth == 1, 0.2 + difference * (cloud % 2 - 0.5), 0.15)
    x = np.ascontiguousarray(x, np.float32)
    near = search(x, rng.permutation(8000), 300).astype(np.int64)
    told = alarms(x, near, truth, chance, f"clouds/{difference}/{seed}")
    return {"difference": difference, "gap": gap, "alarms": told}
