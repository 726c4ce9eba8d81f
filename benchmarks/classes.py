"""Many classes end to end by the command line: letter from CSV, Fashion-MNIST from Parquet.

    .venv/bin/python -m benchmarks.classes DATA FOLDER [letter] [fashion_mnist]

DATA holds letter.npz and fashion_mnist.npz (X, y, class_names). A tenth of the rows is scored with
clean labels; the labels of the others are wrong as a matrix says (mean rate 0.2, a direction of its
own for each class). Prints what `train → score → report` found against the truth.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from sklearn.metrics import average_precision_score

from benchmarks.study.noises import class_matrix, flipped

FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag")
SETS = {"letter": "csv", "fashion_mnist": "parquet"}


def command(*args: object) -> dict[str, object]:
    """One command of knnoise; what it prints as JSON."""
    call = [sys.executable, "-m", "flows.cli", *map(str, args), "--json", "--quiet"]
    if args[0] == "report":
        call.remove("--quiet")
    done = subprocess.run(call, check=True, stdout=subprocess.PIPE)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def table(x: np.ndarray, label: np.ndarray | None, target: Path) -> None:
    """Write rows as CSV or as Parquet, of wide ones the features as one list."""
    if x.shape[1] > 100:
        flat = pa.array(np.ascontiguousarray(x).ravel())
        columns = {"pixels": pa.FixedSizeListArray.from_arrays(flat, x.shape[1])}
    else:
        columns = {f"x{i}": pa.array(column) for i, column in enumerate(x.T)}
    if label is not None:
        columns["kind"] = pa.array(label)
    if target.suffix == ".csv":
        pyarrow.csv.write_csv(pa.table(columns), target)
    else:
        pq.write_table(pa.table(columns), target)


def measure(data: Path, folder: Path, name: str) -> dict[str, object]:
    """Train, score and report on one set."""
    with np.load(data / f"{name}.npz", allow_pickle=False) as file:
        x, y = file["X"].astype(np.float32), file["y"].astype(np.int64)
        named = file["class_names"] if "class_names" in file else np.array([*FASHION, "ankle boot"])
    rng = np.random.default_rng(5)
    order, n = rng.permutation(len(y)), len(y) * 9 // 10
    x, y = x[order], y[order]
    matrix = class_matrix("class", len(named), 0)
    given = flipped(y, matrix, rng)
    kind, run = SETS[name], folder / f"run-{name}"
    table(x[:n], named[given[:n]], folder / f"{name}.{kind}")
    table(x[n:], None, folder / f"{name}-new.{kind}")
    (folder / f"{name}-truth.csv").write_text("\n".join(["kind", *named[y[n:]]]) + "\n")
    start, scores = time.perf_counter(), folder / f"{name}-scores.parquet"
    trained = command(*("train", folder / f"{name}.{kind}", "--label-column", "kind", "--run", run))
    seconds = time.perf_counter() - start
    command("score", folder / f"{name}-new.{kind}", "--run", run, "--out", scores)
    truth = ("--scores", scores, "--truth", folder / f"{name}-truth.csv")
    command("report", "--run", run, "--html", folder / f"{name}.html", *truth)
    codes = [trained["classes"].index(value) for value in named.tolist()]  # type: ignore[attr-defined]
    real = np.zeros_like(matrix)
    np.add.at(real, (y[:n], given[:n]), 1)
    real /= real.sum(axis=1, keepdims=True)
    found = np.array(trained["transition_matrix"])[np.ix_(codes, codes)]
    low, high = np.moveaxis(np.array(trained["transition_interval"])[np.ix_(codes, codes)], 2, 0)
    issues = pq.read_table(run / "label_issues.parquet")
    quality = issues["label_quality"].to_numpy()
    wrong = y[:n] != given[:n]
    worst = np.argsort(quality, kind="stable")[: wrong.sum()]
    held = (low <= real + 1e-12) & (real <= high + 1e-12)
    return {
        "set": name,
        "rows": n,
        "classes": len(named),
        "train_seconds": round(seconds, 1),
        "matrix_L1_per_row": round(float(np.abs(found - real).sum(axis=1).mean()), 4),
        "entries_covered": round(float(held.mean()), 4),
        "support": trained["support"],
        "suspects_average_precision": round(float(average_precision_score(wrong, -quality)), 4),
        "suspects_precision_at_errors": round(float(wrong[worst].mean()), 4),
        "distinct_qualities": len(np.unique(quality)),
        "accuracy_clean": round(
            float((pq.read_table(scores)["predicted_label"].to_numpy() == named[y[n:]]).mean()), 4
        ),
        "worker_MB": trained["peak_rss_mb"],
        "seconds": trained["seconds"],
    }


def main(data: Path, folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or list(SETS):
        print(json.dumps(measure(data, folder, name), indent=1), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
