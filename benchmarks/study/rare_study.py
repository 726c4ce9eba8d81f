"""What the corrected threshold does to a rare class: cases of 500 to 50,000 rows, none noise too.

A case keeps what a threshold is chosen from, the rates and the table of votes, and the votes on its
clean test rows: the page decides again, whatever the rule.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from benchmarks.study import data
from benchmarks.study.noises import class_matrix, flipped
from benchmarks.study.results import Results
from pipeline.decision.choose_k import choose, squared_losses
from pipeline.decision.class_rule import decide
from pipeline.decision.threshold import vote_table
from pipeline.decision.votes import counts, k_grid
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.in_memory import training_lists
from pipeline.knn.exact import nearest
from pipeline.noise.extrema import crossfit
from pipeline.simulate import flip, sheets

NOISE = ((0.0, 0.0), (0.1, 0.1), (0.3, 0.1), (0.1, 0.3), (0.2, 0.2), (0.05, 0.4))
SIZES = (500, 2000, 8000, 50_000)
RARE = (0.01, 0.03, 0.1)
SIMULATED = ("clusters", "gaussians", "table", "sheets")
"""Pools as large as wanted: clusters apart, classes that overlap everywhere, informative columns
among idle ones, and sheets on every fifth of which the class changes gradually."""
OF_CLASS: dict[str, tuple[int, ...]] = {
    "optdigits": (1, 8),
    "landsat": (3,),
    "usps": (3, 5),
    "letter": (0, 4, 7),
    "mushroom": (1,),
    "pendigits": (1, 7),
    "magic04": (1,),
    "shuttle": (0,),
    "fashion_mnist": (6,),
    "w8a": (1,),
}
"""Classes that are the rare one, or all others are."""
MANY = ("vehicle", "segment", "landsat", "optdigits", "usps", "pendigits", "letter", "shuttle")
KINDS = ("none", "uniform 0.2", "uniform 0.4", "class", "pairs")
"""Mistakes of more than two classes, as in `noises`; `pairs`: 0.3 to the next class."""
TUNED = (*data.TEMPERED, "clusters", "gaussians")
"""Sets that the rule was tuned on."""
MOST_TESTED = 10_000
MOST_FEATURES = 100
"""Sets of more columns are samples of 8,000 rows at most."""
Pool = tuple[NDArray[np.float32], NDArray[np.int8], NDArray[np.float32], NDArray[np.int8]]


def run(folder: Path, work: Path, trials: int = 2, names: tuple[str, ...] | None = None) -> None:
    """Every pool is drawn and searched once a trial, and then labeled with each noise."""
    results = Results(work, "rare")
    for name in names or (*SIMULATED, *OF_CLASS, *data.SMALL, "segment"):
        start = time.perf_counter()
        try:
            source = None if name in SIMULATED else data.load(folder, name)
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        for size, rare, trial in _pools(name, trials):
            about = f"{name}/{size}/{rare}/{trial}"
            keys = [f"{about}/{p0}-{p1}" for p0, p1 in NOISE]
            if all(key in results for key in keys):
                continue
            pool = (
                _drawn(name, size, rare, trial)
                if source is None
                else _taken(name, *source, size, rare, trial)
            )
            if pool is None:
                continue
            kept = {"set": name, "rare": rare, "trial": trial, "tuned": name in TUNED}
            for key, case in zip(keys, _cases(pool, about), strict=True):
                results.add(key, {**kept, **case})
        print(f"rare {name}: {time.perf_counter() - start:.0f} s", flush=True)


def many(folder: Path, work: Path, trials: int = 3, names: tuple[str, ...] = MANY) -> None:
    """More than two classes: what the tempered matrix is worth beside the plain vote."""
    results = Results(work, "rare-many")
    for name, x, y in data.each("rare-many", names, partial(data.load, folder)):
        sizes = [n for n in SIZES[:-1] if n <= 0.75 * len(x)]
        for size, trial in product(sizes, range(trials)):
            order = np.random.default_rng([51, size, trial]).permutation(len(x))
            train, test = order[:size], order[size:][:5000]
            for kind in KINDS:
                if (key := f"{name}/{size}/{kind}/{trial}") not in results:
                    given = _given(kind, y[train], trial, zlib.crc32(key.encode()))
                    found = _many_case(x[train], given, x[test], y[test])
                    results.add(key, {"set": name, "n": size, "noise": kind, **found})


def _given(kind: str, y: NDArray[np.int64], trial: int, seed: int) -> NDArray[np.int64]:
    """Labels of any classes with mistakes of one kind."""
    classes = int(y.max()) + 1
    matrix = np.eye(classes)
    if kind == "pairs":
        matrix = 0.7 * matrix + 0.3 * np.roll(matrix, 1, axis=1)
    elif kind != "none":
        matrix = class_matrix(kind, classes, trial)
    return flipped(y, matrix, np.random.default_rng(seed))


def _many_case(
    x: NDArray[np.float32],
    given: NDArray[np.int64],
    test_x: NDArray[np.float32],
    truth: NDArray[np.int64],
) -> dict[str, Any]:
    model = RobustKNeighborsClassifier(metric="euclidean", builder="exact").fit(x, given)
    near, far = nearest(test_x, x, model.n_neighbors_)
    plain = decide(given[near], int(given.max()) + 1, model.n_neighbors_, None).predicted
    tempered = model.classes_[model._vote(model._label[near], far, False)[1]]
    right = np.stack([plain == truth, tempered == truth])
    gain = right[1].astype(float) - right[0]
    return {
        "accuracy": right.mean(axis=1).tolist(),
        "balanced": np.mean(
            [right[:, truth == c].mean(axis=1) for c in np.unique(truth)], axis=0
        ).tolist(),
        "gain": float(gain.mean()),
        "se": float(gain.std() / np.sqrt(len(gain))),
        "part": model.correction_.part,
    }


def _pools(name: str, trials: int) -> Iterator[tuple[int, float, int]]:
    """(rows, share of the rare class, trial); a share of 0 is the set as it is."""
    for trial in range(trials):
        if name not in SIMULATED:
            yield 0, 0.0, trial
        if name in SIMULATED or name in OF_CLASS:
            for size in SIZES:
                for rare in RARE if trial == 0 or size < SIZES[-1] else ():
                    yield size, rare, trial


def _taken(
    name: str, x: NDArray[np.float32], y: NDArray[np.int64], size: int, rare: float, trial: int
) -> Pool | None:
    """Training and clean test rows; None where the set has too few."""
    rng = np.random.default_rng([41, len(x), size, round(1000 * rare), trial])
    if x.shape[1] > MOST_FEATURES and (size or len(x)) > 8000:
        if size:
            return None
        rows = rng.permutation(len(x))[:8000]
        x, y = x[rows], y[rows]
    if not size:
        label = data.group(y, "odd")
        order = rng.permutation(len(x))
        test, train = np.split(order, [len(x) // 4])
        return x[train], label[train], x[test[:MOST_TESTED]], label[test[:MOST_TESTED]]
    label = np.isin(y, OF_CLASS[name]).astype(np.int8)
    if 2 * label.sum() > len(label):
        label = 1 - label
    ones, zeros = (rng.permutation(np.flatnonzero(label == c)) for c in (1, 0))
    wanted = round(rare * size)
    if wanted > 0.7 * len(ones) or size - wanted > 0.9 * len(zeros):
        return None
    train = np.concatenate([ones[:wanted], zeros[: size - wanted]])
    ones, zeros = ones[wanted:], zeros[size - wanted :]
    tested = min(MOST_TESTED, int(len(ones) / rare), int(len(zeros) / (1 - rare)))
    test = np.concatenate([ones[: round(rare * tested)], zeros[: tested - round(rare * tested)]])
    return x[train], label[train], x[test], label[test]


def _drawn(name: str, size: int, rare: float, trial: int) -> Pool:
    """A simulated pool and as many test rows as are ever taken."""
    rng, n = np.random.default_rng([43, SIMULATED.index(name), trial]), size + MOST_TESTED
    if name == "table":
        x, y = make_classification(
            n, 22, n_informative=8, n_redundant=4, n_clusters_per_class=3, weights=[1 - rare],
            flip_y=0, random_state=trial,
        )  # fmt: skip
    elif name == "sheets":
        x, y, _ = sheets(max(n, int(2.5 * rare * n) + n) * 2, trial)
        ones, zeros = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        rows = rng.permutation(
            np.concatenate([ones[: round(rare * n)], zeros[: n - round(rare * n)]])
        )
        x, y = x[rows], y[rows]
    else:
        y = (rng.random(n) < rare).astype(np.int8)
        center = 2.0 * rng.normal(size=(2, 4, 8)) if name == "clusters" else np.zeros((2, 4, 8))
        if name == "gaussians":
            center[1, :, :4] = 1.25
        x = rng.normal(size=(n, 8)) + center[y, rng.integers(0, 4, n)]
    x, y = np.asarray(x, np.float32), np.asarray(y, np.int8)
    return x[:size], y[:size], x[size:], y[size:]


def _cases(pool: Pool, about: str) -> Iterator[dict[str, Any]]:
    x, clean, test_x, truth = pool
    index, _, lists, _ = training_lists(x, "auto", "exact", 0)
    test_near, _ = nearest(test_x, x, index.shape[1])
    grid = k_grid(index.shape[1])
    for p0, p1 in NOISE:
        given = flip(clean, p0, p1, zlib.crc32(f"{about}/{p0}-{p1}".encode()))
        if given.min() == given.max():
            given[0] = 1 - given[0]
        rates = crossfit(lists, given[lists], len(given))
        count = counts(given[index], grid)
        k = choose(squared_losses(count, given, grid), len(given), grid).k
        tested = given[test_near[:, :k]].sum(axis=1)
        yield {
            "n": len(x),
            "noise": [p0, p1],
            "share": float(clean.mean()),
            "realized": [float(v) for v in data.realized(clean, given)],
            "rates": [rates.p0, rates.p1],
            "errors": list(rates.standard_errors),
            "intervals": [list(rates.p0_interval), list(rates.p1_interval)],
            "support": rates.support,
            "k": k,
            "votes": vote_table(count[:, grid.index(k)], given, k).tolist(),
            "tested": vote_table(tested, truth, k).tolist(),
        }
