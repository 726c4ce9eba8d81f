"""Which labels to buy: the net that grows against uniform random labels and scikit-activeml.

Every strategy only chooses rows; the nearest bought row predicts for all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA

from benchmarks.study.data import Absent, load
from benchmarks.study.results import Results
from pipeline.knn.exact import nearest
from pipeline.methods.bought_labels import BoughtLabels
from pipeline.methods.growing_net import N_NEIGHBORS, grow, predict
from pipeline.methods.marmann import Marmann, bound, phi, queries_per_cell

BUDGETS = (25, 50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 800, 900, 1000)
SETS = ("separated", "blended", "pendigits", "fashion_mnist", "magic04", "overlapping")
POOL, TEST = 10_000, 4000
SEEDS = {"random": 5, "ours": 5}
PEERS = ("margin", "coreset", "typiclust")
"""Strategies of scikit-activeml, run where it is installed."""
PEER_BATCH = 50
PRINTED_ROWS, DELTA = 3000, 0.05


def run(data: Path, work: Path) -> None:
    results = Results(work, "acquire")
    for name in SETS:
        every = [(s, seed) for s, seeds in SEEDS.items() for seed in range(seeds)]
        every += [(peer, 0) for peer in PEERS if _peers_there()]
        for strategy, seed in every:
            if (key := f"{name}/{strategy}/{seed}") in results:
                continue
            try:
                pool = problem(data, name, seed)
            except Absent as absent:
                print(absent)
                break
            start = time.process_time()
            order = choose(pool, strategy, seed)
            seconds = time.process_time() - start
            row = {"set": name, "strategy": strategy, "m": len(pool.x), "seconds": seconds}
            results.add(key, {"kind": "curve", **row, "errors": curve(pool, order)})
        print(f"acquire {name}", flush=True)
    for name in ("separated", "blended"):
        if (key := f"printed/{name}") not in results:
            results.add(key, {"kind": "printed", "set": name, **printed(problem(data, name, 0))})


@dataclass(frozen=True)
class Problem:
    """A pool whose labels are held back, and fresh rows to test on."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    test: NDArray[np.float32]
    truth: NDArray[np.int64]


def problem(data: Path, name: str, seed: int) -> Problem:
    """One pool and its test rows, another for each seed."""
    if name == "separated":
        return Problem(*separated(POOL, 2 * seed), *separated(TEST, 2 * seed + 1))
    if name == "blended":
        return Problem(*blended(POOL, 2 * seed), *blended(TEST, 2 * seed + 1))
    x, y = overlapping(POOL + TEST) if name == "overlapping" else load(data, name)
    rows = np.random.default_rng([seed, 12]).permutation(len(x))[: POOL + TEST]
    x, y = x[rows], y[rows]
    cut = min(POOL, int(0.75 * len(x)))
    if name == "fashion_mnist":
        x = PCA(50, random_state=0).fit(x[:cut]).transform(x).astype(np.float32)
    else:
        spread = x[:cut].std(axis=0)
        x = ((x - x[:cut].mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
    return Problem(x[:cut], y[:cut], x[cut:], y[cut:])


def separated(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Thirty clusters in eight dimensions, six classes, hardly a row between clusters."""
    center = 3.0 * np.random.default_rng(7).normal(size=(30, 8))
    rng = np.random.default_rng([seed, 13])
    which = rng.integers(0, 30, n)
    return (center[which] + 0.6 * rng.normal(size=(n, 8))).astype(np.float32), which % 6


def blended(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Two classes in the cube with a curved boundary; the Bayes error is 1 / sqrt(POOL)."""
    rng = np.random.default_rng([seed, 14])
    x = rng.uniform(-1.0, 1.0, (n, 3)).astype(np.float32)
    level = np.sin(3.0 * x[:, 0]) + x[:, 1] - 0.5 * x[:, 2]
    eta = expit(level / 0.0187)
    return x, (rng.random(n) < eta).astype(np.int64)


def overlapping(n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Two classes that overlap, ten columns of thirty of use."""
    how = {"n_features": 30, "n_informative": 10, "n_redundant": 0, "class_sep": 0.6}
    x, y = make_classification(n, **how, random_state=3)
    return x.astype(np.float32), y.astype(np.int64)


def choose(pool: Problem, strategy: str, seed: int) -> NDArray[np.int64]:
    """Rows in the order in which a strategy buys their labels."""
    if strategy == "random":
        return np.random.default_rng([seed, 15]).permutation(len(pool.x))[: BUDGETS[-1]]
    if strategy == "ours":
        neighbor = nearest(pool.x, pool.x, N_NEIGHBORS, exclude=np.arange(len(pool.x)))[0]
        labels = BoughtLabels(lambda rows: pool.y[rows], len(pool.y))
        grow(pool.x, neighbor, labels, BUDGETS[-1], seed=seed)
        return np.array(labels.bought)
    return _by_peer(pool, strategy)


def curve(pool: Problem, order: NDArray[np.int64]) -> list[float]:
    """Test error of the nearest bought row after each budget."""
    errors = []
    for budget in BUDGETS:
        rows = order[:budget]
        near = nearest(pool.test, pool.x[rows], 1)[0][:, 0]
        errors.append(float((pool.y[rows][near] != pool.truth).mean()))
    return errors


def printed(pool: Problem) -> dict[str, Any]:
    """One run with the printed constants: how many labels it buys."""
    x, y = pool.x[:PRINTED_ROWS], pool.y[:PRINTED_ROWS]
    labels = BoughtLabels(lambda rows: y[rows], len(y))
    answer = Marmann(x, labels, DELTA, 0, scales=12).run()
    pool_error = float((predict(x, x, answer) != y).mean())
    return {
        "m": len(x),
        "queries": queries_per_cell(len(x), DELTA),
        "bought": len(labels.bought),
        "points": len(answer.row),
        "error": float((predict(pool.test, x, answer) != pool.truth).mean()),
        "bound": 2.0 * generalization_bound(pool_error, len(answer.row), len(x), DELTA),
    }


def generalization_bound(error: float, net_size: int, m: int, delta: float) -> float:
    """GB(error, N, delta, m, 1); with probability 1 - delta the true error is at most twice it for
    the answer's error on the pool and its number of points (Theorem 4)."""
    return m / (m - net_size) * bound(error, phi(net_size, m, delta))


def _peers_there() -> bool:
    try:
        import skactiveml  # noqa: F401
    except ImportError:
        return False
    return True


def _by_peer(pool: Problem, strategy: str) -> NDArray[np.int64]:
    """Batches by a strategy of scikit-activeml, from the same first batch for all."""
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import CoreSet, TypiClust, UncertaintySampling
    from sklearn.ensemble import RandomForestClassifier

    classes = np.unique(pool.y)
    forest = RandomForestClassifier(100, random_state=0)
    make: dict[str, Callable[[], Any]] = {
        "margin": lambda: UncertaintySampling(method="margin_sampling", random_state=0),
        "coreset": lambda: CoreSet(random_state=0),
        "typiclust": lambda: TypiClust(random_state=0),
    }
    query = make[strategy]()
    more: dict[str, Any] = {}
    if strategy == "margin":
        more["clf"] = SklearnClassifier(forest, classes=classes, random_state=0)
    known = np.full(len(pool.y), np.nan)
    order = np.random.default_rng(0).permutation(len(pool.y))[: BUDGETS[0]].tolist()
    while len(order) < BUDGETS[-1]:
        known[order] = pool.y[order]
        size = min(PEER_BATCH, BUDGETS[-1] - len(order))
        order += query.query(X=pool.x, y=known, batch_size=size, **more).tolist()
    return np.array(order)
