"""Tables 2, 3 and 4 of Gao, Yang & Zhou: RkNN against kNN on their data sets.

As in the paper: features in [-1, 1], classes grouped at random into two halves (anew in each
trial), labels of the training part flipped, four-fold cross-validation repeated; k and k' from
5, 10, ..., 100 by four-fold cross-validation on the training part, scored by accuracy on the given
labels (the paper does not say how a candidate is scored); accuracy on clean labels of the rest.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study import data
from benchmarks.study.lists import Lists, lists_of, within
from benchmarks.study.results import Results
from pipeline.extrema import crossfit
from pipeline.rknn import GRID, extremes, fold_sums, predict, select
from pipeline.threshold import predict as reaches
from pipeline.threshold import tempered, vote_table

FOLDS, LONGEST = 4, 180
"""Parts of each cross-validation; list length that leaves 100 when a part is left out."""


def run(folder: Path, work: Path, trials: int = 10) -> None:
    """`trials` times four folds where n < 20,000, twice letter (20,000), once beyond."""
    results = Results(work, "gao")
    for name in data.GAO:
        start = time.perf_counter()
        try:
            lists = lists_of(folder, work / "lists", name)
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        count = trials if lists.n < 20_000 else 2 if lists.n == 20_000 else 1
        for p0, p1 in data.NOISE[:3]:
            for trial in range(count):
                case = data.Case(name, f"half{trial}", p0, p1, trial)
                if case.key not in results:
                    results.add(case.key, trial_of(lists, case))
        print(f"gao {name}: {time.perf_counter() - start:.0f} s", flush=True)


def trial_of(lists: Lists, case: data.Case) -> dict[str, Any]:
    """One trial: four folds."""
    y = data.group(lists.y, case.grouping)
    fold = _folds(lists.n, [17, case.trial])
    rows = [_fold(lists, y, fold == part, case) for part in range(FOLDS)]
    return {
        "set": case.name,
        "n": lists.n,
        "noise": [case.p0, case.p1],
        "trial": case.trial,
        "seed": case.seed,
        "minor": float(min(y.mean(), 1.0 - y.mean())),
        "folds": rows,
    }


def _folds(n: int, seed: list[int]) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(n) % FOLDS


def _fold(
    lists: Lists, y: NDArray[np.int8], out: NDArray[np.bool_], case: data.Case
) -> dict[str, Any]:
    train = ~out
    given = case.given(y)[train]
    near = within(lists.near[train][:, 1:], train, LONGEST)
    grid = tuple(k for k in GRID if k <= 0.5 * len(given))
    inner = _folds(len(given), [19, case.trial])
    chosen = select(near, given, inner, grid)
    plain = _plain_k(near, given, inner, grid)
    test = within(lists.near[out], train, grid[-1])
    own = given[near[:, : chosen.k_noise]].sum(axis=1)
    p0, p1 = extremes((own + given) / (chosen.k_noise + 1.0))
    eta = given[test[:, : chosen.k]].mean(axis=1)
    robust = predict(eta, p0, p1) == y[out]
    vote = (given[test[:, :plain]].mean(axis=1) >= 0.5) == y[out]
    anchors = within(lists.anchor_near[train[lists.anchor_near[:, 0]]], train, 460)
    anchors = anchors[:, : int((anchors >= 0).all(axis=0).sum())]
    rates = crossfit(anchors, given[anchors], len(given))
    count = given[near[:, :plain]].sum(axis=1)
    decision = tempered(rates, vote_table(count, given, plain))
    ours = reaches(given[test[:, :plain]].mean(axis=1), decision.threshold) == y[out]
    return {
        "rknn": float(robust.mean()),
        "knn": float(vote.mean()),
        "ours": float(ours.mean()),
        "k": chosen.k,
        "k_noise": chosen.k_noise,
        "k_plain": plain,
        "rates": [p0, p1],
        "rates_at_100": list(extremes((given[near[:, :100]].sum(axis=1) + given) / 101.0)),
        "crossfit": [rates.p0, rates.p1],
        "support": rates.support,
        "shortfall": chosen.shortfall,
    }


def _plain_k(
    near: NDArray[np.int64], given: NDArray[np.int8], fold: NDArray[np.int64], grid: tuple[int, ...]
) -> int:
    """k of the plain vote by the same cross-validation on the given labels."""
    right = np.zeros(len(grid))
    for part in range(FOLDS):
        out = fold == part
        ones, sizes = fold_sums(near, given, out, grid)
        eta = ones[out] / np.maximum(sizes[out], 1)
        right += ((eta >= 0.5) == given[out, None]).sum(axis=0)
    return grid[int(np.argmax(right))]
