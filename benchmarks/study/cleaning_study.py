"""Models trained on cleaned labels: ours and cleanlab's, as users run them; and the suspects of
both."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.classification import CleanLearning
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

from benchmarks.study import data, metric_study
from benchmarks.study.metric_study import given_labels, load
from benchmarks.study.results import Results
from pipeline.cleaned import CleanedClassifier
from pipeline.estimator import RobustKNeighborsClassifier

LARGEST, MOST_TESTS, FEW_TESTS = 1000, 3000, 1000
"""Rows to train on and to test on at most; two draws where there are fewer to test on."""
MODELS = {name: metric_study.MODELS[name] for name in ("boosting", "linear", "network")}
TWO = ("uniform 0.2", "(.05, .4)", "(.3, .1)", "boundary")
MANY = ("uniform 0.2", "class", "slope")
SETS = (
    *("rare class", "overlap", "many columns", "small", "heart", "housing", "diabetes", "german"),
    *("cancer", "ionosphere", "splice", "fourclass", "magic04", "mushroom", "optdigits13"),
    "vehicle",
)
Int = NDArray[np.int64]


def run(folder: Path, work: Path) -> None:
    results = Results(work, "cleaning")
    for name, x, y in data.each("cleaning", SETS, partial(load, folder)):
        n = min(LARGEST, int(0.67 * len(x)))
        for kind in TWO if y.max() == 1 else MANY:
            for draw in range(1 if len(x) - n >= FEW_TESTS else 2):
                if (key := f"{name}/{kind}/{draw}") not in results:
                    given = given_labels(kind, x, y)
                    order = np.random.default_rng([9, draw]).permutation(len(x))
                    train, test = order[:n], order[n : n + MOST_TESTS]
                    found = case(x[train], y[train], given[train], x[test], y[test])
                    results.add(key, {"set": name, "kind": kind, "n": n, **found})


def case(
    x: NDArray[np.float32], y: Int, given: Int, test: NDArray[np.float32], truth: Int
) -> dict[str, Any]:
    """Accuracy on clean rows by model and by what it was trained on; average precision of the
    suspects."""
    wrong, found = given != y, {}
    neighbors = RobustKNeighborsClassifier().fit(x, given)
    for name, model in MODELS.items():

        def right(fitted: Any) -> float:
            return float((fitted.predict(test) == truth).mean())

        kept = ~neighbors.label_issues_
        ours = CleanedClassifier(model).fit(x, given)
        with warnings.catch_warnings(action="ignore"):
            chances = cross_val_predict(model, x, given, cv=5, method="predict_proba")
            theirs = CleanLearning(clone(model), seed=0, verbose=False).fit(x, given)
        plain, adjusted = (
            get_label_quality_scores(given, chances, adjust_pred_probs=adjust)
            for adjust in (False, True)
        )
        found[name] = {
            "as given": right(clone(model).fit(x, given)),
            "truth": right(clone(model).fit(x, y)),
            "dropped": right(clone(model).fit(x[kept], given[kept])),
            "ours": right(ours),
            "cleanlab": right(theirs),
            "ap cleanlab": float(average_precision_score(wrong, -plain)),
            "ap adjusted": float(average_precision_score(wrong, -adjusted)),
        }
    ap = float(average_precision_score(wrong, -neighbors.label_quality_))
    accuracy = float((neighbors.predict(test) == truth).mean())
    return {"found": found, "ap": ap, "accuracy": accuracy, "tests": len(test)}
