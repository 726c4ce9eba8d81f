"""PL A-kNN beside plain kNN and A-kNN on candidate sets, as noise grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from benchmarks.study.beside import most_voted, predict_aknn, preprocess
from benchmarks.study.data import Absent, load
from benchmarks.study.pools import bags
from benchmarks.study.results import Results
from pipeline.knn.exact import nearest
from pipeline.methods.partial_features import PIPELINES
from pipeline.methods.partial_labels import (
    C1,
    STOPS,
    AdaptiveParams,
    agreement,
    choose,
    pack,
    predict,
)

SETS = ("fashion_mnist", "letter", "pendigits", "optdigits", "landsat", "usps")
"""The first three are compared with a transcription's reference errors."""
NOISE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
SEEDS = {name: 3 if name in SETS[:3] else 1 for name in SETS}
ROWS, TEST_SHARE, LEFT_OUT, T = 20_000, 0.2, 4000, 400
ALIGNED = (200, 1000, 5000, 25_000)
ALIGNED_SEEDS, ALIGNED_TEST = 10, 2000


def run(data: Path, work: Path) -> None:
    results = Results(work, "partial")
    for n in ALIGNED:
        for seed in range(ALIGNED_SEEDS):
            if (key := f"aligned/{n}/{seed}") not in results:
                results.add(key, {"kind": "aligned", "n": n, "error": aligned(n, seed)})
    for name in SETS:
        wanted = [
            (prepared, noise, seed)
            for prepared in (False, True)
            for noise in NOISE
            for seed in range(SEEDS[name])
            if f"{name}/{prepared}/{noise}/{seed}" not in results
        ]
        try:
            parts = {
                p: Lists(data, name, p) for p in (False, True) if any(w[0] == p for w in wanted)
            }
        except Absent as absent:
            print(absent)
            continue
        for prepared, noise, seed in wanted:
            row = case(parts[prepared], noise, seed)
            head = {"kind": "bags", "set": name, "prepared": prepared, "noise": noise, "seed": seed}
            results.add(f"{name}/{prepared}/{noise}/{seed}", {**head, **row})
        print(f"partial {name}", flush=True)


class Lists:
    """Neighbors of the test rows and of some training rows, without or with the preprocessing."""

    def __init__(self, data: Path, name: str, prepared: bool) -> None:
        x, y = load(data, name)
        rows = np.random.default_rng(0).permutation(len(x))[:ROWS]
        x, self.y = x[rows], y[rows]
        self.n = int((1.0 - TEST_SHARE) * len(x))
        self.classes = int(self.y.max()) + 1
        if name == "fashion_mnist":
            x = PCA(50, random_state=0).fit_transform(x).astype(np.float32)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
        else:
            spread = x.std(axis=0)
            x = ((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
        train, test = x[: self.n], x[self.n :]
        self.cluster = KMeans(5, n_init=1, random_state=0).fit_predict(train)
        if prepared:
            train, test = preprocess(train, test, PIPELINES["averaged"])
        self.left_out = np.random.default_rng(1).permutation(self.n)[:LEFT_OUT]
        self.test = nearest(test, train, T)[0]
        self.own = nearest(train[self.left_out], train, T, exclude=self.left_out)[0]


def case(lists: Lists, noise: float, seed: int) -> dict[str, Any]:
    """Errors on the test rows' true classes by each rule."""
    n, c, truth = lists.n, lists.classes, lists.y[lists.n :]
    mask = pack(bags(lists.y[:n], lists.cluster, c, noise, seed))
    votes = most_voted(lists.test, mask, c, np.arange(1, T + 1))
    by_k = (votes != truth[:, None]).mean(axis=0)
    margins = np.array([AdaptiveParams(c1).margin(n, c) for c1 in C1])
    own = mask[lists.left_out]
    chosen = choose(agreement(lists.own, mask, own, c, margins, np.array(STOPS)))
    return {
        "paper": float((predict(lists.test, mask, c, n).label != truth).mean()),
        "chosen": float((predict(lists.test, mask, c, n, chosen).label != truth).mean()),
        "c1": chosen.c1,
        "T": chosen.most_neighbors,
        "10nn": float(by_k[9]),
        "best": float(by_k.min()),
        "best_k": int(by_k.argmin()) + 1,
        "aknn": float((predict_aknn(lists.test, mask, c, n, AdaptiveParams()) != truth).mean()),
    }


def aligned(n: int, seed: int) -> float:
    """Error of PL A-kNN where the true label is most often in the sets, if not always.

    x is uniform on [0, 1]; the class is one of five fifths; the true class is in a set with
    probability .8, the next one with .7, the others with .3. The Bayes error is 0. T = n / 10,
    delta = 1 / n² (condition 4).
    """
    rng = np.random.default_rng([seed, 8])
    x, query = np.sort(rng.random(n)), np.sort(rng.random(ALIGNED_TEST))
    y, truth = (5 * x).astype(np.int64), (5 * query).astype(np.int64)
    chance = np.full((n, 5), 0.3)
    chance[np.arange(n), (y + 1) % 5] = 0.7
    chance[np.arange(n), y] = 0.8
    mask = pack(rng.random((n, 5)) < chance)
    params = AdaptiveParams(0.5, 1.0 / n**2, n // 10)
    wrong = 0
    for part in _parts(query, 200):
        far = np.abs(query[part, None] - x)
        near = np.argpartition(far, n // 10 - 1, axis=1)[:, : n // 10]
        order = np.argsort(np.take_along_axis(far, near, axis=1), axis=1)
        found = predict(np.take_along_axis(near, order, axis=1), mask, 5, n, params)
        wrong += int((found.label != truth[part]).sum())
    return wrong / ALIGNED_TEST


def _parts(rows: NDArray[Any], size: int) -> Iterator[slice]:
    return (slice(at, at + size) for at in range(0, len(rows), size))
