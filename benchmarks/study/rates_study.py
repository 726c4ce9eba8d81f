"""Noise-rate error of four methods on every set, and the accuracy of the threshold it leads to."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study import data
from benchmarks.study.estimates import estimate
from benchmarks.study.lists import Lists, Split, lists_of, split
from benchmarks.study.results import Results
from pipeline.decision.choose_k import choose, squared_losses
from pipeline.decision.threshold import predict, tempered, threshold, vote_table
from pipeline.decision.votes import counts, k_grid

SETS = tuple(dict.fromkeys((*data.SMALL, *data.MIDDLE, *data.LARGE)))


def run(folder: Path, work: Path, trials: int, names: tuple[str, ...] = SETS) -> None:
    """Both studies, set by set; `trials` noise seeds a setting, half as many above 20,000 rows."""
    rates, accuracy = Results(work, "rates"), Results(work, "accuracy")
    for name in names:
        try:
            lists = lists_of(folder, work / "lists", name)
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        count = trials if lists.n <= 20_000 else max(1, trials // 2)
        start, splits = time.perf_counter(), cache(lambda trial, of=lists: split(of, trial))
        for case in data.cases(name, int(lists.y.max()) + 1, count):
            if case.key not in rates:
                rates.add(case.key, rates_case(lists, case))
            if case.key not in accuracy:
                accuracy.add(case.key, accuracy_case(lists, case, splits(case.trial)))
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def describe(case: data.Case, y: NDArray[np.int8]) -> dict[str, Any]:
    minor = float(min(y.mean(), 1.0 - y.mean()))
    return {
        "set": case.name,
        "grouping": case.grouping,
        "noise": [case.p0, case.p1],
        "trial": case.trial,
        "seed": case.seed,
        "n": len(y),
        "minor": minor,
        "tuned": data.is_tuned(case.name),
    }


def rates_case(lists: Lists, case: data.Case) -> dict[str, Any]:
    """Estimates on the whole set against the rates realized in it."""
    y = data.group(lists.y, case.grouping)
    given = case.given(y)
    start = time.perf_counter()
    found = estimate(lists.anchors, given)
    seconds = time.perf_counter() - start
    return {
        **describe(case, y),
        "realized": data.realized(y, given),
        **found,
        "seconds": seconds,
    }


def accuracy_case(lists: Lists, case: data.Case, parts: Split) -> dict[str, Any]:
    """Accuracy against clean labels of held-out rows, all rules with the same k."""
    y = data.group(lists.y, case.grouping)
    clean, truth = y[parts.train], y[~parts.train]
    given = case.given(clean)
    rates = parts.anchors.rates(given)
    grid = k_grid(min(100, parts.near.shape[1] - 1))
    count = counts(given[parts.near[:, 1:]], grid)
    chosen = choose(squared_losses(count, given, grid), len(given), grid)
    k = chosen.k
    decision = tempered(rates, vote_table(count[:, grid.index(k)], given, k))
    eta = given[parts.test_near[:, :k]].mean(axis=1)
    known = rates.p0 + rates.p1 < 1.0
    rules = {
        "plain": 0.5,
        "true": threshold(*data.realized(clean, given)),
        "untempered": threshold(rates.p0, rates.p1) if known else 0.5,
        "ours": decision.threshold,
    }
    right = {rule: predict(eta, at) == truth for rule, at in rules.items()}
    gain = right["ours"].astype(float) - right["plain"]
    return {
        **describe(case, clean),
        "k": k,
        "support": rates.support,
        "crossfit": [rates.p0, rates.p1],
        "realized": data.realized(clean, given),
        "intervals": [list(rates.p0_interval), list(rates.p1_interval)],
        "thresholds": rules,
        "accuracy": {rule: float(hits.mean()) for rule, hits in right.items()},
        "n_test": len(truth),
        "gain": float(gain.mean()),
        "gain_se": float(gain.std() / np.sqrt(len(gain))),
        "decision": decision.reason,
    }
