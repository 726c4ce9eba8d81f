"""Page of models trained on cleaned labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study import cleaning_study as study
from benchmarks.study.markdown import page, table

Rows = list[dict[str, Any]]
TRAINED = ("as given", "truth", "cleanlab", "dropped", "ours")
RANKED = ("ap cleanlab", "ap adjusted")


def cleaning(rows: Rows, docs: Path) -> None:
    """Write `cleaning.md`."""
    cells = _cells(rows)
    page(
        docs / "cleaning.md",
        "Another model, after cleaning",
        f"At most {study.LARGEST:,} rows with wrong labels to train on, up to {study.MOST_TESTS:,} "
        "others with clean labels to test on; two draws, averaged, where those are fewer than "
        f"{study.FEW_TESTS:,}. `cleanlab`: its CleanLearning around the model, five folds. "
        "`dropped`: the model on what `knnoise clean` leaves. `ours`: `CleanedClassifier(model)` "
        "as it comes. Boosting is scikit-learn's histogram boosting, linear its logistic "
        "regression, network one layer of 32.",
        "Accuracy on clean rows less that after cleanlab, all cells:",
        _against(cells),
        "Suspects: average precision less that of cleanlab's self-confidence by the same model's "
        "cross-validated probabilities (`adjusted`: with its adjustment by the classes' "
        "thresholds); `neighbors` is `knnoise train`, the same whatever the model:",
        _suspects(cells),
        "Every cell, accuracy:",
        *(part for model in study.MODELS for part in (f"## {model}", _every(cells, model))),
        "Command: `python -m benchmarks.study --data FOLDER --only cleaning`",
    )


def _cells(rows: Rows) -> dict[tuple[str, str], dict[str, Any]]:
    """Means over draws, by set and kind."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for key in dict.fromkeys((row["set"], row["kind"]) for row in rows):
        draws = [row for row in rows if (row["set"], row["kind"]) == key]
        means = {name: np.mean([one[name] for one in draws]) for name in ("ap", "accuracy")}
        models = {
            model: {
                name: float(np.mean([one["found"][model][name] for one in draws]))
                for name in (*TRAINED, *RANKED)
            }
            for model in study.MODELS
        }
        tests = sum(one["tests"] for one in draws)
        found[key] = {**means, **models, "n": draws[0]["n"], "tests": tests}
    return found


def _line(label: str, of: Any) -> list[str]:
    gap = np.array(list(of))
    behind = int((gap < -0.01).sum())
    return [label, f"{gap.mean():+.3f}", f"{gap.min():+.3f}", f"{behind} of {len(gap)}"]


def _against(cells: dict[tuple[str, str], dict[str, Any]]) -> str:
    lines = []
    for model in study.MODELS:
        for name in ("as given", "dropped", "ours"):
            gaps = (cell[model][name] - cell[model]["cleanlab"] for cell in cells.values())
            lines.append(_line(f"{model}, {name}", gaps))
    gaps = (cell["accuracy"] - cell["boosting"]["cleanlab"] for cell in cells.values())
    lines.append(_line("knnoise's own prediction, less boosting after cleanlab", gaps))
    return table(["", "mean", "worst", "behind by more than .01"], lines)


def _suspects(cells: dict[tuple[str, str], dict[str, Any]]) -> str:
    lines = []
    for model in study.MODELS:
        gaps = (cell[model]["ap adjusted"] - cell[model]["ap cleanlab"] for cell in cells.values())
        lines.append(_line(f"{model}, adjusted", gaps))
        gaps = (cell["ap"] - cell[model]["ap cleanlab"] for cell in cells.values())
        lines.append(_line(f"{model}, neighbors", gaps))
    best = [max(cell[m][n] for m in study.MODELS for n in RANKED) for cell in cells.values()]
    gaps = (cell["ap"] - most for cell, most in zip(cells.values(), best, strict=True))
    lines.append(_line("neighbors, less the best of all six for each cell", gaps))
    return table(["", "mean", "worst", "behind by more than .01"], lines)


def _every(cells: dict[tuple[str, str], dict[str, Any]], model: str) -> str:
    head = ["set", "mistakes", "rows", "tests", *TRAINED, "ours less cleanlab"]
    lines = [
        [
            *(name, kind, f"{cell['n']:,}", f"{cell['tests']:,}"),
            *(f"{cell[model][of]:.3f}" for of in TRAINED),
            f"{cell[model]['ours'] - cell[model]['cleanlab']:+.3f}",
        ]
        for (name, kind), cell in cells.items()
    ]
    return table(head, lines)
