"""The example of §5 of Reeve & Kabán 2019 as n grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from benchmarks.study.bounds import Smoothness, k_n
from benchmarks.study.pools import reeve_kaban
from benchmarks.study.results import Results
from pipeline.decision.threshold import predict, tempered, threshold, vote_table
from pipeline.noise.extrema import anchor_plan, crossfit, minmax
from pipeline.simulate import flip

P0, P1, DELTA = 0.1, 0.3, 0.1
SMOOTH = Smoothness(lam=1.0, omega=3.0)
"""What the paper states for this example."""
SIZES = {1000: 10, 2000: 10, 4000: 10, 8000: 10, 16_000: 10, 32_000: 10, 64_000: 5}
"""Training rows, and seeds of each."""
N_TEST, TEST_SEED = 20_000, 10_000
RULES = ("plain", "minmax", "crossfit", "ours")


def run(work: Path) -> None:
    results = Results(work, "plateau")
    for n, seeds in SIZES.items():
        for seed in range(seeds):
            if (key := f"{n}/{seed}") not in results:
                results.add(key, case(n, seed))
        print(f"plateau n={n}", flush=True)


def case(n: int, seed: int) -> dict[str, Any]:
    """Error of each rule: share of the plateau decided against Bayes, and excess risk."""
    x, y, _ = reeve_kaban(n, P0, P1, seed)
    given = flip(y, P0, P1, seed)
    k = k_n(n, DELTA, SMOOTH)
    tree = cKDTree(x)
    parts = [
        _votes(tree, x, rows, given, k) for rows in np.array_split(np.arange(n), -(-n // 4000))
    ]
    count, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
    plain = minmax(np.array([low.min(), high.max()]) / k, k)
    wanted, columns = anchor_plan(n, 1)
    rows = np.random.default_rng([5, n, seed]).permutation(n)[:wanted]
    anchors = np.column_stack([rows, _others(tree, x, rows, columns - 1)])
    rates = crossfit(anchors, given[anchors], n)
    decision = tempered(rates, vote_table(count, given, k))
    known = rates.p0 + rates.p1 < 1.0
    at = {
        "plain": 0.5,
        "minmax": threshold(plain.p0, plain.p1),
        "crossfit": threshold(rates.p0, rates.p1) if known else 0.5,
        "ours": decision.threshold,
    }
    test, _, eta = reeve_kaban(N_TEST, P0, P1, TEST_SEED)
    average = np.concatenate(
        [given[tree.query(part, k)[1]].mean(axis=1) for part in np.array_split(test, 10)]
    )
    bayes = eta >= 0.5
    flat = np.abs(eta - np.median(eta)) < 1e-9
    errors = {}
    for rule, height in at.items():
        guess = predict(average, height).astype(bool)
        risk = np.where(guess, 1.0 - eta, eta).mean()
        wrong = guess != bayes
        errors[rule] = {
            "risk": float(risk),
            "wrong": float(wrong.mean()),
            "plateau": float(wrong[flat].mean()),
        }
    return {
        "n": n,
        "k": k,
        "seed": seed,
        "bayes": float(np.minimum(eta, 1.0 - eta).mean()),
        "rates": {"minmax": [plain.p0, plain.p1], "crossfit": [rates.p0, rates.p1]},
        "support": rates.support,
        "thresholds": at,
        "errors": errors,
    }


def _others(tree: cKDTree, x: NDArray[np.float32], rows: NDArray[np.integer], k: int) -> Any:
    """(rows, k) nearest others by row number; the row itself may tie with copies of it."""
    near = tree.query(x[rows], k + 1)[1]
    own = near == rows[:, None]
    own[~own.any(axis=1), -1] = True
    return near[~own].reshape(len(rows), k)


def _votes(
    tree: cKDTree, x: NDArray[np.float32], rows: NDArray[np.integer], given: Any, k: int
) -> Iterator[NDArray[np.int64]]:
    """Ones among the k nearest others, and twice those among the row itself and k - 1 others."""
    labels = given[_others(tree, x, rows, k)]
    count = labels.sum(axis=1, dtype=np.int64)
    with_self = count - labels[:, -1] + given[rows]
    return iter((count, with_self, with_self))
