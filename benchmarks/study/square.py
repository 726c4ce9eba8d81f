"""Fig. 1 of Gao, Yang & Zhou: uniform on the unit square, 8,000 training and 7,000 test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from benchmarks.study.pools import gao
from benchmarks.study.results import Results
from pipeline.methods.rknn import predict
from pipeline.noise.extrema import crossfit, minmax
from pipeline.simulate import flip

ASYMMETRIC = ((0.1, 0.2), (0.1, 0.3), (0.3, 0.1))
SYMMETRIC = ((0.1, 0.1), (0.2, 0.2), (0.3, 0.3), (0.4, 0.4))
"""The paper's text does not name its settings; these are ours."""
K = (1, 5, 11, 21, 41, 61, 81, 101, 151, 201, 301, 401, 601)
SIZES = (500, 1000, 2000, 4000, 8000, 16_000, 32_000)
SEEDS = 20
CASES = SEEDS * (len(ASYMMETRIC) + len(SYMMETRIC) + len(SIZES) * (1 + len(SYMMETRIC)))
N_TRAIN, N_TEST, TRAIN_SEED, TEST_SEED = 8000, 7000, 1, 2
K_NOISE = 100
RULES = ("true", "minmax", "crossfit")
"""Whose noise rates RkNN is given in (d)."""


def run(work: Path) -> None:
    results = Results(work, "square")
    x, y, _ = gao(N_TRAIN, TRAIN_SEED)
    test, truth, eta = gao(N_TEST, TEST_SEED)
    tree = cKDTree(x)
    near, own = tree.query(test, max(K))[1], tree.query(x, 460)[1]
    for p0, p1 in (*ASYMMETRIC, *SYMMETRIC):
        for seed in range(SEEDS):
            if (key := f"k/{p0}-{p1}/{seed}") not in results:
                row = by_k(flip(y, p0, p1, seed), near, own, truth, (p0, p1))
                bayes = float(np.minimum(eta, 1.0 - eta).mean())
                results.add(key, {"noise": [p0, p1], "seed": seed, "bayes": bayes, **row})
    for n in SIZES:
        x, y, _ = gao(n, TRAIN_SEED)
        nearest = cKDTree(x).query(test, 1)[1]
        for p0, p1 in ((0.0, 0.0), *SYMMETRIC):
            for seed in range(SEEDS):
                if (key := f"n/{n}/{p0}-{p1}/{seed}") not in results:
                    error = float((flip(y, p0, p1, seed)[nearest] != truth).mean())
                    results.add(key, {"noise": [p0, p1], "n": n, "seed": seed, "error": error})
    print("square", flush=True)


def by_k(
    given: NDArray[np.int8],
    near: NDArray[np.integer],
    own: NDArray[np.integer],
    truth: NDArray[np.int8],
    noise: tuple[float, float],
) -> dict[str, Any]:
    """Test error for each k: the plain vote, and RkNN with three pairs of rates."""
    plain = minmax(given[own[:, : K_NOISE + 1]].mean(axis=1), K_NOISE + 1)
    ours = crossfit(own.astype(np.int64), given[own], len(given))
    rates = {
        "true": noise,
        "minmax": (plain.p0, plain.p1),
        "crossfit": (ours.p0, ours.p1),
    }
    running = np.cumsum(given[near], axis=1, dtype=np.int64)
    averages = [running[:, k - 1] / k for k in K]
    robust = {
        rule: [float((predict(eta, *pair) != truth).mean()) for eta in averages]
        for rule, pair in rates.items()
    }
    vote = [float(((eta >= 0.5) != truth).mean()) for eta in averages]
    return {"plain": vote, "rknn": robust, "rates": rates, "support": ours.support}
