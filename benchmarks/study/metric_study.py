"""What each metric is worth, and what `auto` takes; cleanlab with three models beside."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.study import data
from benchmarks.study.noises import corrupted
from benchmarks.study.results import Results
from benchmarks.study.suspects_study import TUNED, UNTUNED
from pipeline.blocks.metric import AS_SCALED, EMBEDDING, MODEL, WEIGHTED, choose_metric
from pipeline.blocks.scaling import spreads
from pipeline.estimator import RobustKNeighborsClassifier
from pipeline.knn.exact import nearest

LARGEST = 4000
"""Rows: larger sets are random samples of so many."""
RATES = {"(.3, .1)": (0.3, 0.1), "(.1, .3)": (0.1, 0.3), "(.05, .4)": (0.05, 0.4)}
NOISES = ("uniform 0.2", "(.3, .1)", "(.1, .3)", "class", "boundary", "slope")
MADE = {
    "rare class": {"n_samples": 4000, "n_features": 22, "weights": [0.904], "class_sep": 1.2},
    "overlap": {"n_samples": 4000, "n_features": 30, "n_informative": 10, "class_sep": 0.6},
    "many columns": {"n_samples": 1300, "n_features": 100, "n_informative": 12},
    "ten classes": {"n_samples": 4000, "n_features": 40, "n_informative": 12, "n_classes": 10},
    "small": {"n_samples": 300, "n_features": 12, "n_informative": 3, "class_sep": 1.5},
}
"""Tables by scikit-learn's `make_classification`; all but the last two were looked at before."""
LOOKED_AT = (*TUNED, "rare class", "overlap", "many columns")
METRICS = (AS_SCALED, WEIGHTED, MODEL)
AUTO = "auto"
"""The estimator as users have it, which also lets qualities see the metrics that are not taken."""
MODELS = {
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "linear": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    "neighbors": make_pipeline(StandardScaler(), KNeighborsClassifier(20)),
    "network": make_pipeline(StandardScaler(), MLPClassifier((32,), max_iter=60, random_state=0)),
}
"""Those whose five-fold probabilities cleanlab ranks by."""
Int = NDArray[np.int64]


def run(folder: Path, work: Path, names: tuple[str, ...] = (*MADE, *TUNED, *UNTUNED)) -> None:
    results = Results(work, "metric")
    for name, x, y in data.each("metric", names, partial(load, folder)):
        for kind in NOISES:
            wanted = kind != "class" if y.max() == 1 else kind not in RATES
            if wanted and f"{name}/{kind}" not in results:
                found = case(x, y, given_labels(kind, x, y))
                about = {"set": name, "kind": kind, "tuned": name in LOOKED_AT}
                results.add(f"{name}/{kind}", {**found, **about})


def load(folder: Path, name: str) -> tuple[NDArray[np.float32], Int]:
    """Features as `--scale auto` has them, and classes."""
    if name in MADE:
        how: dict[str, Any] = {
            "n_redundant": 0,
            "n_informative": 5,
            "random_state": 3,
            **MADE[name],
        }
        x, y = make_classification(**how)
        x = x.astype(np.float32)
    else:
        x, y = data.load(folder, name, "none")
    if len(x) > LARGEST:
        rows = np.sort(np.random.default_rng([3, len(x)]).permutation(len(x))[:LARGEST])
        x, y = x[rows], y[rows]
    x = data.scaled(x, "standard") if spreads(x).apart and x.shape[1] < 300 else x
    return x, np.unique(y, return_inverse=True)[1].astype(np.int64)


def given_labels(kind: str, x: NDArray[np.float32], y: Int) -> Int:
    """Labels with mistakes."""
    if kind in RATES:
        wrong = np.random.default_rng([5, len(y)]).random(len(y)) < np.take(RATES[kind], y)
        return np.where(wrong, 1 - y, y)
    standard = data.scaled(x, "standard")
    near, _ = nearest(standard, standard, 30, exclude=np.arange(len(x)))
    return corrupted(kind, standard, near, y, 0)


def measured(x: NDArray[np.float32], y: Int, given: Int, order: Int, metric: str) -> dict[str, Any]:
    """Average precision of the suspects, and accuracy of what halves predict of each other."""
    half = order[: len(x) // 2], order[len(x) // 2 :]
    model = RobustKNeighborsClassifier(metric=metric).fit(x, given)
    predicted = np.empty_like(y)
    for learn, test in (half, half[::-1]):
        some = RobustKNeighborsClassifier(metric=metric).fit(x[learn], given[learn])
        predicted[test] = some.predict(x[test])
    return {
        "ap": float(average_precision_score(given != y, -model.label_quality_)),
        "accuracy": float((predicted == y).mean()),
    }


def case(x: NDArray[np.float32], y: Int, given: Int) -> dict[str, Any]:
    """Average precision of the suspects and accuracy on the pool's own rows, by metric."""
    order = np.random.default_rng(1).permutation(len(x))
    start = time.perf_counter()
    embedded = x.shape[1] >= EMBEDDING
    choice, by = choose_metric(x[order], given[order], 0, angles=False, embedded=embedded)
    seconds = time.perf_counter() - start
    rows = {choice.metric: by.apply(x), AS_SCALED: x}
    for other in {*METRICS} - {*rows}:
        rows[other] = choose_metric(x[order], given[order], 0, other, angles=False)[1].apply(x)
    wrong = given != y
    found = {metric: measured(z, y, given, order, "euclidean") for metric, z in rows.items()}
    found[AUTO] = measured(x, y, given, order, AUTO)
    for name, model in MODELS.items():
        chances = cross_val_predict(model, x, given, cv=5, method="predict_proba")
        quality = get_label_quality_scores(given, chances)
        found[name] = {"ap": float(average_precision_score(wrong, -quality))}
    return {
        "n": len(x),
        "features": x.shape[1],
        "classes": int(y.max()) + 1,
        "taken": choice.metric,
        "loss": {one.metric: one.loss for one in choice.tried},
        "behind": {one.metric: (one.behind, one.standard_error) for one in choice.tried},
        "seconds": seconds,
        "found": found,
    }
