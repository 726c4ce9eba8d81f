"""What it is worth to predict by several sizes of neighborhoods, weighed, beside one k."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score

from benchmarks.study import data
from benchmarks.study.metric_study import RATES
from benchmarks.study.noises import corrupted
from benchmarks.study.results import Results
from benchmarks.study.suspects_study import TUNED, UNTUNED
from pipeline.blocks.scaling import spreads
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.knn.exact import nearest
from pipeline.knn.rows import nearest_rows

SIZES = (500, 1500, 6000)
"""Rows to train on, at most three fifths of a set."""
MOST_TESTS = 6000
DRAWS = 2
TWO = ("none", "(.3, .1)", "(.1, .3)", "uniform 0.2", "boundary")
MANY = ("none", "uniform 0.2", "class", "boundary")
MADE = {
    "1 % of a class": {"n_features": 12, "weights": [0.99]},
    "3 % of a class": {"n_features": 12, "weights": [0.97], "class_sep": 0.7},
    "10 % of a class": {"n_features": 12, "weights": [0.9], "class_sep": 0.7},
    "10 % in 30 columns": {"n_features": 30, "weights": [0.9]},
    "40 % overlapping": {"n_features": 20, "weights": [0.6], "class_sep": 0.6},
    "four classes": {"n_features": 20, "n_classes": 4},
    "seven classes": {"n_features": 20, "n_classes": 7, "class_sep": 0.7},
}
"""Tables by scikit-learn's `make_classification`."""
Int = NDArray[np.int64]


def run(folder: Path, work: Path, names: tuple[str, ...] = (*MADE, *TUNED, *UNTUNED)) -> None:
    results = Results(work, "weighed")
    for name, x, y in data.each("weighed", names, partial(load, folder)):
        sizes = sorted({min(n, 3 * len(x) // 5) for n in SIZES})
        for n in sizes:
            for kind in TWO if y.max() == 1 else MANY:
                for draw in range(DRAWS):
                    key = f"{name}/{kind}/{n}/{draw}"
                    found = None if key in results else case(x, y, kind, n, draw)
                    if found is not None:
                        results.add(key, {"set": name, "made": name in MADE, **found})


def load(folder: Path, name: str) -> tuple[NDArray[np.float32], Int]:
    """Features as `--scale auto` has them, and classes."""
    if name in MADE:
        n = SIZES[-1] + MOST_TESTS
        how: dict[str, Any] = {"n_redundant": 0, "n_informative": 6, "flip_y": 0, **MADE[name]}
        x, y = make_classification(n, random_state=list(MADE).index(name), **how)
        return data.scaled(x.astype(np.float32), "standard"), y.astype(np.int64)
    x, y = data.load(folder, name, "none")
    most = SIZES[-1] + MOST_TESTS
    if len(x) > most:
        rows = np.sort(np.random.default_rng([53, len(x)]).permutation(len(x))[:most])
        x, y = x[rows], y[rows]
    x = data.scaled(x, "standard") if spreads(x).apart and x.shape[1] < 300 else x
    return x, np.unique(y, return_inverse=True)[1].astype(np.int64)


def given_labels(kind: str, x: NDArray[np.float32], y: Int, draw: int) -> Int:
    """Labels with mistakes."""
    if kind == "none":
        return y
    if kind in RATES:
        wrong = np.random.default_rng([59, len(y), draw]).random(len(y)) < np.take(RATES[kind], y)
        return np.where(wrong, 1 - y, y)
    standard = data.scaled(x, "standard")
    near, _ = nearest(standard, standard, 30, exclude=np.arange(len(x)))
    return corrupted(kind, standard, near, y, draw)


def case(x: NDArray[np.float32], y: Int, kind: str, n: int, draw: int) -> dict[str, Any] | None:
    """Accuracy on clean rows of every way to predict them; None where a class got lost."""
    order = np.random.default_rng([61, draw]).permutation(len(x))
    learn, test = order[:n], order[n : n + MOST_TESTS]
    given = given_labels(kind, x[learn], y[learn], draw)
    c = int(y.max()) + 1
    if len(np.unique(given)) < c:
        return None
    model = RobustKNeighborsClassifier(random_state=draw).fit(x[learn], given)
    rows, k = model._rows(x[test]), model.n_neighbors_
    index, far = nearest_rows(rows, model._x, model._longest)
    near = model._label[index]
    share = np.stack([(near[:, :k] == label).mean(axis=1) for label in range(c)], axis=1)
    trees = model._trees(x[test])
    chance = {
        way: model._vote(near, far, several, trees if several else None)
        for way, several in (("one k", False), ("weighed", True))
    }
    by = {"plain": share.argmax(axis=1), **{way: of[1] for way, of in chance.items()}}
    worth, truth = model.weighed_vote_, y[test]
    taken = "weighed" if worth is not None and worth.taken else "one k"
    by["default"], chance["default"] = by[taken], chance[taken]
    right = {name: (label == truth).astype(float) for name, label in by.items()}
    return {
        "kind": kind,
        "n": n,
        "tests": len(test),
        "classes": c,
        "k": k,
        "support": model.support_,
        "taken": taken == "weighed",
        "worth": None if worth is None else [worth.gain, worth.gain_error, worth.matrix_error],
        "accuracy": {name: float(of.mean()) for name, of in right.items()},
        "balanced": {name: float(balanced_accuracy_score(truth, of)) for name, of in by.items()},
        "loss": {name: _loss(of, truth) for name, (of, _) in chance.items()},
        "z": {
            f"{a} - {b}": _z(right[a] - right[b])
            for a, b in (("default", "one k"), ("default", "plain"), ("one k", "plain"))
        },
    }


def _loss(chance: NDArray[np.float64], truth: Int) -> float:
    """Mean log loss of posteriors (row, class), none below a thousandth."""
    return float(-np.log(np.maximum(chance[np.arange(len(truth)), truth], 1e-3)).mean())


def _z(gain: NDArray[np.float64]) -> float:
    """Mean in standard errors."""
    return float(gain.mean() / max(1e-12, gain.std() / np.sqrt(len(gain))))
