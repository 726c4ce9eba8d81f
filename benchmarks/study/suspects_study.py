"""Ranking and calibration of label qualities, and accuracy of the corrected prediction."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from benchmarks.study import data
from benchmarks.study.estimates import K_PEERS
from benchmarks.study.lists import Anchors
from benchmarks.study.noises import KINDS, corrupted
from benchmarks.study.results import Results
from pipeline.decision.class_votes import contradicted
from pipeline.decision.quality import FIT_ROWS, correction
from pipeline.decision.suspects import suspects_of, suspects_of_two, votes_among
from pipeline.decision.tempering import (
    PARTS,
    assumed,
    believed,
    choose_part,
    softened,
    worth,
)
from pipeline.knn.exact import nearest
from pipeline.noise.extrema import anchor_plan
from pipeline.noise.simplex import posterior_simplex

TUNED = (
    *("heart", "housing", "diabetes", "fourclass", "splice", "optdigits13"),
    *("optdigits", "landsat", "usps", "letter"),
)
"""Sets that the qualities were tuned on."""
UNTUNED = (
    *("ionosphere", "vehicle", "cancer", "german", "segment", "mushroom", "pendigits", "magic04"),
    *("shuttle", "w8a", "fashion_mnist"),
)
LARGEST = 12_000
"""Rows: larger sets are random samples of so many."""
LIST = 100
SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
BINS = 10
BOUNDS = (0.5, 0.6, 0.7)
"""Qualities below which a label is flagged; the first is that of the report."""
Floats = NDArray[np.float64]


def run(
    folder: Path, work: Path, trials: int = 3, names: tuple[str, ...] = TUNED + UNTUNED
) -> None:
    results = Results(work, "suspects")
    for name in names:
        start = time.perf_counter()
        keys = [f"{name}/{kind}/{trial}" for kind in KINDS for trial in range(trials)]
        if all(key in results for key in keys):
            continue
        try:
            x, y = data.load(folder, name)
        except data.Absent as reason:
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        if len(x) > LARGEST:
            rows = np.sort(np.random.default_rng([3, len(x)]).permutation(len(x))[:LARGEST])
            x, y = x[rows], y[rows]
        y = np.unique(y, return_inverse=True)[1].astype(np.int64)
        row, columns = np.arange(len(x)), anchor_plan(*x.shape)[1]
        index, distance = nearest(x, x, min(max(LIST, columns - 1), len(x) - 1), exclude=row)
        of = Anchors.of(x, np.column_stack([row, index])[:, :columns])
        for kind in KINDS:
            for trial in range(trials):
                if (key := f"{name}/{kind}/{trial}") not in results:
                    given = corrupted(kind, x, index, y, trial)
                    results.add(
                        key,
                        {
                            **case(of, x, index, distance, y, given),
                            "set": name,
                            "kind": kind,
                            "tuned": name in TUNED,
                        },
                    )
        print(f"suspects {name}: {time.perf_counter() - start:.0f} s", flush=True)


def case(
    of: Anchors,
    x: NDArray[np.float32],
    index: NDArray[np.int64],
    distance: NDArray[np.float32],
    y: NDArray[np.int64],
    given: Any,
) -> dict[str, Any]:
    """Average precision, precision at the number of errors and calibration of every score."""
    n, c = len(y), int(y.max()) + 1
    wrong = given != y
    noise = of.matrix(given, c)
    longest = min(LIST, max(1, n // 4))
    near = given[index[:, : min(K_PEERS, longest)]]
    share = np.stack([(near == b).mean(axis=1) for b in range(c)], axis=1)
    counts = np.bincount(given, minlength=c)
    matrix = noise.matrix if c == 2 else believed(noise, counts)
    rows = np.sort(np.random.default_rng([0, 7]).permutation(n)[:FIT_ROWS])
    lists = index[:, :longest], distance[:, :longest], given
    if noise.rates is not None:
        ours, *_ = suspects_of_two(*lists, noise.rates, rows, x)
    else:
        sample = votes_among(index[:, :longest], given, c, rows)
        by = correction(assumed(noise, counts, contradicted(sample)), counts)
        ours, *_ = suspects_of(*lists, by, rows, x)
    before = posterior_simplex(share, noise.matrix)[np.arange(n), given]
    scores = {"before": before, "ours": ours.label_quality, **_peers(share, given)}
    plain = share.argmax(axis=1)
    votes = {
        part: posterior_simplex(share, softened(matrix, counts, part)).argmax(axis=1)
        for part in PARTS
    }
    error = noise.standard_errors
    decision = choose_part([worth(plain, votes[part], given, matrix, error) for part in PARTS])
    chosen = votes[decision.part] if decision.part else plain
    gain = (chosen == y).astype(float) - (plain == y)
    return {
        "n": n,
        "classes": c,
        "support": noise.support,
        "errors": int(wrong.sum()),
        "ap": {m: float(average_precision_score(wrong, -q)) for m, q in scores.items()},
        "flags": {m: _flagged(f, wrong) for m, f in _flags(ours.label_quality, share, given)},
        "precision": {m: _at_errors(wrong, q) for m, q in scores.items()},
        "distinct": {m: len(np.unique(scores[m])) / n for m in ("before", "ours")},
        "reliability": {m: _bins(scores[m], ~wrong) for m in ("before", "ours")},
        "part": decision.part,
        "accuracy": [float((plain == y).mean()), float((chosen == y).mean())],
        "gain": float(gain.mean()),
        "gain_se": float(gain.std() / np.sqrt(n)),
        "accuracy_likely": float((ours.likely_class == y).mean()),
    }


def _peers(share: Floats, given: NDArray[np.int64]) -> dict[str, Floats]:
    """cleanlab's documented scores, with and without its adjustment to the classes."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in SCORES:
            for adjusted in (False, True):
                if adjusted and method == "confidence_weighted_entropy":
                    continue
                try:
                    score = get_label_quality_scores(
                        given, share, method=method, adjust_pred_probs=adjusted
                    )
                except ValueError:  # a class without a row that is given it
                    continue
                found[f"cleanlab {method}{', adjusted' * adjusted}"] = np.asarray(score)
    return found


def _flags(
    quality: Floats, share: Floats, given: NDArray[np.int64]
) -> list[tuple[str, NDArray[np.bool_]]]:
    """(row,) flags by several rules: bounds of the quality, the expected number of wrong labels,
    the highest F1 to be expected if qualities are right, the plain vote, and cleanlab's filter with
    the shares of the same neighbors."""
    place = np.argsort(np.argsort(quality, kind="stable"), kind="stable")
    wrong, number = np.sort(1.0 - quality)[::-1], float((1.0 - quality).sum())
    f1 = 2.0 * wrong.cumsum() / (np.arange(1, len(wrong) + 1) + number)
    found = [(f"quality below {at}", quality < at) for at in BOUNDS]
    found += [("expected number", place < round(number)), ("expected F1", place <= f1.argmax())]
    found += [("plain vote", share.argmax(axis=1) != given)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = find_label_issues(given, share, n_jobs=1)
        except ValueError:  # a class without a row that is given it
            return found
    return [*found, ("cleanlab's filter", np.asarray(theirs, bool))]


def _flagged(flag: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> list[float]:
    """Precision, recall and F1 of flags."""
    hit = float((flag & wrong).sum())
    return [
        hit / max(1, int(flag.sum())),
        hit / max(1, int(wrong.sum())),
        2.0 * hit / max(1, int(flag.sum()) + int(wrong.sum())),
    ]


def _at_errors(wrong: NDArray[np.bool_], quality: Floats) -> float:
    first = np.argsort(quality, kind="stable")[: int(wrong.sum())]
    return float(wrong[first].mean())


def _bins(quality: Floats, right: NDArray[np.bool_]) -> list[list[float]]:
    """(rows, summed quality, right ones) by tenth of the quality; lists of cases add up."""
    place = np.minimum((quality * BINS).astype(int), BINS - 1)
    return [np.bincount(place, w, BINS).tolist() for w in (None, quality, right.astype(float))]
