"""Tables 2, 3 and 4 of Gao, Yang & Zhou: RkNN against kNN on their data sets.

As in the paper: features in [-1, 1], classes grouped at random into two halves (anew in each
trial), labels of the training part flipped, four-fold cross-validation repeated; k and k' from
5, 10, ..., 100 by four-fold cross-validation on the training part, scored by accuracy on the given
labels (the paper does not say how a candidate is scored); accuracy on clean labels of the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.study import data
from benchmarks.study.beside import select
from benchmarks.study.lists import Lists, lists_of, within
from benchmarks.study.results import Results
from pipeline.decision.threshold import predict as reaches
from pipeline.decision.threshold import tempered, vote_table
from pipeline.methods.rknn import GRID, fold_sums, predict
from pipeline.noise.extrema import crossfit, minmax

FOLDS, LONGEST = 4, 180
"""Parts of each cross-validation; list length that leaves 100 when a part is left out."""


def run(folder: Path, work: Path, trials: int = 10) -> None:
    """`trials` times four folds where n < 20,000, twice letter (20,000), once beyond."""
    papers, ours = Results(work, "gao"), Results(work, "gao-ours")
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
                if case.key not in papers:
                    folds = [of_paper(fold) for fold in _folds(lists, case)]
                    papers.add(case.key, {**_describe(lists, case), "folds": folds})
                if case.key not in ours:
                    sizes = [fold["k_plain"] for fold in papers.rows[case.key]["folds"]]
                    pairs = zip(_folds(lists, case), sizes, strict=True)
                    ours.add(case.key, {"folds": [of_ours(fold, k) for fold, k in pairs]})
        print(f"gao {name}: {time.perf_counter() - start:.0f} s", flush=True)


def _describe(lists: Lists, case: data.Case) -> dict[str, Any]:
    return {
        "set": case.name,
        "n": lists.n,
        "noise": [case.p0, case.p1],
        "trial": case.trial,
        "seed": case.seed,
    }


@dataclass(frozen=True)
class Fold:
    """Three quarters of the rows with given labels, the rest with clean ones."""

    given: NDArray[np.int8]
    near: NDArray[np.int64]
    """(train, LONGEST), self excluded."""
    anchors: NDArray[np.int64]
    truth: NDArray[np.int8]
    test: NDArray[np.int64]
    """(test, 100) training rows nearest to the test rows."""
    part: NDArray[np.int64]
    """Inner fold of each training row."""


def _folds(lists: Lists, case: data.Case) -> Iterator[Fold]:
    """The four folds of a trial."""
    y = data.group(lists.y, case.grouping)
    parts = _parts(lists.n, [17, case.trial])
    for out in range(FOLDS):
        train = parts != out
        anchors = within(lists.anchor_near[train[lists.anchor_near[:, 0]]], train, 460)
        yield Fold(
            given=case.given(y)[train],
            near=within(lists.near[train][:, 1:], train, LONGEST),
            anchors=anchors[:, : int((anchors >= 0).all(axis=0).sum())],
            truth=y[~train],
            test=within(lists.near[~train], train, GRID[-1]),
            part=_parts(int(train.sum()), [19, case.trial]),
        )


def _parts(n: int, seed: list[int]) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(n) % FOLDS


def of_paper(fold: Fold) -> dict[str, Any]:
    """RkNN, and kNN with its k chosen the same way."""
    given = fold.given
    grid = tuple(k for k in GRID if k <= 0.5 * len(given))
    chosen = select(fold.near, given, fold.part, grid)
    own = given[fold.near[:, : chosen.rate_neighbors]].sum(axis=1)
    rates = minmax((own + given) / (chosen.rate_neighbors + 1.0), chosen.rate_neighbors + 1)
    eta = given[fold.test[:, : chosen.k]].mean(axis=1)
    k = _plain_k(fold, grid)
    vote = given[fold.test[:, :k]].mean(axis=1) >= 0.5
    return {
        "rknn": float((predict(eta, rates.p0, rates.p1) == fold.truth).mean()),
        "knn": float((vote == fold.truth).mean()),
        "k": chosen.k,
        "rate_neighbors": chosen.rate_neighbors,
        "k_plain": k,
        "rates": [rates.p0, rates.p1],
        "shortfall": chosen.shortfall,
    }


def of_ours(fold: Fold, k: int) -> dict[str, Any]:
    """The default: `crossfit` and the tempered threshold, at kNN's k."""
    given = fold.given
    rates = crossfit(fold.anchors, given[fold.anchors], len(given))
    decision = tempered(rates, vote_table(given[fold.near[:, :k]].sum(axis=1), given, k))
    guess = reaches(given[fold.test[:, :k]].mean(axis=1), decision.threshold)
    return {
        "ours": float((guess == fold.truth).mean()),
        "crossfit": [rates.p0, rates.p1],
        "support": rates.support,
    }


def _plain_k(fold: Fold, grid: tuple[int, ...]) -> int:
    """k of the plain vote by cross-validation on the given labels."""
    right = np.zeros(len(grid))
    for part in range(FOLDS):
        out = fold.part == part
        kept = (fold.near >= 0) & (fold.part[fold.near] != part)
        ones, sizes = fold_sums(fold.given[fold.near], kept, grid)
        eta = ones[out] / np.maximum(sizes[out], 1)
        right += ((eta >= 0.5) == fold.given[out, None]).sum(axis=0)
    return grid[int(np.argmax(right))]
