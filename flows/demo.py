"""Two pools whose noise is known: a real one that ships with scikit-learn, and a simulated one,
large enough for local joins and several blocks. What was estimated is shown against the truth."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.datasets import load_breast_cancer

from flows.orchestration.calls import call
from flows.report.kinds.two import ScoreReport, TrainReport
from flows.report.model import fields_of
from pipeline.arrays import Float32, Int8
from pipeline.simulate import flip, sheets
from storage.errors import amount
from storage.files.location import Location

N_SIMULATED, N_TEST = 100_000, 20_000
RATES = {"cancer": (0.1, 0.3), "sheets": (0.3, 0.1)}
SEED = 7


@dataclass(frozen=True)
class _Data:
    """Rows with clean labels, the last ones kept for testing."""

    name: str
    x: Float32
    y: Int8
    n_train: int
    scale: str


def demo(folder: str, *, quiet: bool = False) -> dict[str, dict[str, Any]]:
    """Make both pools below a folder, train on each, score its test rows; by name of the pool
    estimates beside the truth."""
    Location.of(folder).check_writable()
    Path(folder).mkdir(parents=True, exist_ok=True)
    results = {}
    for at, data in enumerate((_cancer(), _sheets()), 1):
        if not quiet:
            rows = f"{data.n_train:,} rows to train on, {len(data.y) - data.n_train:,} to score"
            print(f"pool {at} of {len(RATES)}: {data.name}, {rows} …", file=sys.stderr, flush=True)
        results[data.name] = _one(Path(folder), data)
    return results


def _cancer() -> _Data:
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(x))
    n_train = len(x) * 3 // 4
    return _Data("cancer", x[order].astype(np.float32), y[order].astype(np.int8), n_train, "range")


def _sheets() -> _Data:
    x, y, _ = sheets(N_SIMULATED + N_TEST, SEED)
    return _Data("sheets", x, y, N_SIMULATED, "none")


def _one(folder: Path, data: _Data) -> dict[str, Any]:
    p0, p1 = RATES[data.name]
    n, clean = data.n_train, data.y
    given = flip(clean[:n], p0, p1, SEED)
    np.savez(folder / f"{data.name}-train.npz", X=data.x[:n], y=given)
    np.savez(folder / f"{data.name}-test.npz", X=data.x[n:])
    run, out = str(folder / data.name), str(folder / f"{data.name}-scores.parquet")
    source, queries = (str(folder / f"{data.name}-{part}.npz") for part in ("train", "test"))
    trained = TrainReport.model_validate(
        call("train", {"source": source, "run": run, "scale": data.scale, "quiet": True})
    )
    scored = ScoreReport.model_validate(
        call("score", {"source": queries, "run": run, "out": out, "quiet": True})
    )
    table = pq.read_table(out)
    eta = table["eta_corr"].to_numpy()
    ours = table["predicted_label"].to_numpy()
    wrong = given != clean[:n]
    issues = pq.read_table(f"{run}/label_issues.parquet", columns=["is_label_issue"])
    suspect = issues["is_label_issue"].to_numpy()
    return {
        "n_train": n,
        "n_test": len(clean) - n,
        **fields_of(trained, "p0", "p1", "p0_interval", "p1_interval", "support"),
        "p0_true": float((given[clean[:n] == 0] == 1).mean()),
        "p1_true": float((given[clean[:n] == 1] == 0).mean()),
        "accuracy": float((ours == clean[n:]).mean()),
        "accuracy_plain_knn": float(((eta >= 0.5) == clean[n:]).mean()),
        "n_label_issues": trained.n_label_issues,
        "n_wrong_labels": int(wrong.sum()),
        "n_suspects_wrong": int((suspect & wrong).sum()),
        "recall": trained.recall,
        "recall_scoring": scored.recall,
        **fields_of(trained, "builder", "n_blocks"),
        "run": run,
        "scores": out,
    }


def demo_text(results: dict[str, dict[str, Any]]) -> str:
    """What a person reads at the end of the demo."""
    lines = []
    for name, one in results.items():
        lines += [
            f"{name}: {one['n_train']:,} rows with wrong labels to learn from, "
            f"{one['n_test']:,} clean ones to test on",
            f"  {'':<22}{'estimated':>10}{'95 % interval':>18}{'true':>8}",
            *(_rate_line(one, rate) for rate in ("p0", "p1")),
            f"  accuracy               {one['accuracy']:.3f} corrected, "
            f"{one['accuracy_plain_knn']:.3f} plain kNN with the same neighbors",
            f"  suspect labels         {one['n_label_issues']:,}, of them really wrong "
            f"{one['n_suspects_wrong']:,}; {one['n_wrong_labels']:,} are wrong in all",
            f"  recall of neighbors    {one['recall']:.4f} in training "
            f"({one['builder']}, {amount(one['n_blocks'], 'block')}), "
            f"{one['recall_scoring']:.4f} in scoring",
            f"  results                {one['run']}, {one['scores']}",
            "",
        ]
    run = list(results.values())[-1]["run"]
    typed, page = shlex.quote(run), shlex.quote(f"{run}.html")
    lines += [
        "To look at it:",
        f"  knnoise report --run {typed} --html {page}    # then open {page}",
        f"  knnoise review --run {typed}    # its suspect labels, to judge",
    ]
    return "\n".join(lines) + "\n"


def _rate_line(one: dict[str, Any], rate: str) -> str:
    meaning = "P(given 1 | true 0)" if rate == "p0" else "P(given 0 | true 1)"
    low, high = one[f"{rate}_interval"]
    interval = f"{low:.3f} to {high:.3f}"
    estimate, true = one[rate], one[f"{rate}_true"]
    return f"  {rate} {meaning:<19}{estimate:>10.3f}{interval:>18}{true:>8.3f}"
