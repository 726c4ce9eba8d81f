"""Outliers, near duplicates, data values and order of the rows as knnoise and as cleanlab's Datalab
have them, on the same neighbor lists, with time and memory of both.

    python -m benchmarks.datalab [--rows 2000 20000 100000] [--data FOLDER] [--docs FOLDER]

Needs `cleanlab[datalab]`. FOLDER holds .npz files with X and y. Each training and each of Datalab's
checks is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from benchmarks.datalab.alone import LIMIT_GB
from benchmarks.datalab.sets import Rows, sets
from benchmarks.study.markdown import page, table
from flows.steps.graph.lookup import lists_of
from storage.runs.run import Run

CHECKS = ("outlier", "near_duplicate", "data_valuation", "non_iid")
K = 10
"""As Datalab's own."""
TINY = 1e-12
VALUE_DIGITS = 5
"""Data values are sums of a few multiples of 1/k: what is beyond is rounding, not order."""


def measured(*what: object) -> dict[str, Any]:
    """What a process of its own tells."""
    command = [sys.executable, "-m", "benchmarks.datalab.alone", *map(str, what)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def compare(name: str, rows: Rows, work: Path) -> dict[str, Any]:
    """Both on one set: what they agree in, and what it cost."""
    x, y = rows
    pool, run, lists = work / "pool.npz", work / "run", work / "lists.npz"
    np.savez(pool, X=x, y=y)
    us = measured("ours", pool, run, K)
    report = json.loads((run / "report.json").read_text())
    graph = lists_of(Run.of(str(run)), report["n_blocks"], K, np.arange(len(x)))
    np.savez(lists, neighbor=graph["neighbor"], distance=graph["distance"], y=y)
    them, found = {}, {}
    for check in CHECKS:
        out = work / f"{check}.npz"
        them[check] = measured(check, lists, out, K)
        if "error" not in them[check]:
            with np.load(out) as file:
                found[check] = dict(file)
    agreed = agreement(pd.read_parquet(run / "data_issues.parquet"), found)
    order = report["order"] or {}
    return {
        **{"name": name, "n": len(x), "us": us, "them": them, "agreed": agreed},
        "p": (order.get("p_value"), them["non_iid"].get("p")),
    }


def agreement(ours: pd.DataFrame, theirs: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Rank correlations of scores, shares of equal verdicts, largest difference of values."""
    outlier, near = theirs["outlier"], theirs["near_duplicate"]
    found = {
        "outlier_rank": float(spearmanr(ours["outlier_score"], outlier["score"])[0]),
        "outlier_same": float((ours["is_outlier"] == outlier["issue"]).mean()),
        "near_rank": float(spearmanr(ours["nearest_distance"], near["score"])[0]),
        "near_same": float(((ours["near_duplicates"] > 0) == near["issue"]).mean()),
    }
    if "data_valuation" in theirs:
        value = len(ours) * (2 * theirs["data_valuation"]["score"] - 1)
        mine = ours["data_value"].round(VALUE_DIGITS)
        found["value_rank"] = float(spearmanr(mine, value.round(VALUE_DIGITS))[0])
        found["value_off"] = float(np.abs(ours["data_value"] - value).max())
    return found


def p_text(p: float | None) -> str:
    return "none" if p is None else f"{p:.2g}" if p > TINY else f"< {TINY:g}"


def agreement_row(told: dict[str, Any]) -> list[str]:
    agreed = told["agreed"]
    value = "not computed"
    if "value_rank" in agreed:
        value = f"{agreed['value_rank']:.4f}, off by {agreed['value_off']:.0e} at most"
    return [
        f"{told['name']} ({told['n']:,})",
        f"{agreed['outlier_rank']:.4f}",
        f"{agreed['outlier_same']:.2%}",
        f"{agreed['near_rank']:.4f}",
        f"{agreed['near_same']:.2%}",
        value,
        " / ".join(map(p_text, told["p"])),
    ]


def cost_row(told: dict[str, Any]) -> list[str]:
    us = told["us"]
    row = [f"{told['name']} ({told['n']:,})", f"{us['seconds']:.2f} s", f"{us['whole']:.1f} s"]
    row.append(f"{us['peak_mb']:,.0f} MB")
    for check in CHECKS:
        one = told["them"][check]
        ended = f"more than {LIMIT_GB} GB"
        row.append(ended if "error" in one else f"{one['seconds']:.2f} s, {one['peak_mb']:,.0f} MB")
    return row


def write(path: Path, found: list[dict[str, Any]], rows: list[int]) -> None:
    """The page of the study."""
    header = ["set (rows)", "outlier scores", "outliers", "near-duplicate scores"]
    header += ["near duplicates", "data values", "order: p"]
    agreed = table(header, [agreement_row(told) for told in found])
    header = ["set (rows)", "our checks", "whole training", "its memory"]
    cost = table([*header, *CHECKS], [cost_row(told) for told in found])
    page(
        path,
        "What the graph knows, beside Datalab",
        f"`data_issues.parquet` of a training with k = {K} beside cleanlab's Datalab, which is "
        "given the same lists (`knn_graph`): rank correlations (Spearman) of scores, shares of "
        "rows with the same verdict, and p of the order of the rows, ours / theirs.",
        agreed,
        DIFFERENCES,
        "## Time and memory",
        "Each check of Datalab in a process of its own, its lists given; our three come from one "
        "pass, are written to disk and checked, and memory is that of the whole training, which "
        f"finds the neighbors too. One core, on a machine that others used: read times as orders "
        f"of magnitude. A process of Datalab may have {LIMIT_GB} GB.",
        cost,
        "Command: `python -m benchmarks.datalab --rows " + " ".join(map(str, rows)) + "`",
    )


DIFFERENCES = "\n".join(
    [
        "Where definitions differ:",
        "",
        "- **Outliers and near duplicates.** Thresholds are the same functions of quartiles and",
        "  medians; ours are those of a uniform sample of rows (the anchors), since a pool may not",
        "  fit in memory. Where all rows are anchors they are equal; of more, verdicts next to",
        "  the threshold differ. Scores are scaled by such a median, which changes no rank.",
        "- **Near duplicates.** Datalab counts a row that is in another's list though the other is",
        "  not in its own; we count what is in the row's own list. That differs where more than k",
        "  rows are (nearly) equal.",
        "- **Data values** are the same truncated KNN-Shapley values: Datalab's score is",
        "  1/2 + value / (2 rows). It adds them up in a matrix, rows × rows, of 8 bytes, twice.",
        "- **Order.** Datalab compares the lists with 25 shuffles of the rows, whose spread it",
        "  smooths, and looks to both sides; ours has the mean and variance over all shuffles",
        "  computed, looks for neighbors that stand nearer, and leaves ties out. It warns where",
        "  p < 0.01 and 2 % more neighbors than by chance are near.",
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[2_000, 20_000, 100_000])
    parser.add_argument("--data", type=Path, help="folder of .npz files with X and y")
    parser.add_argument("--docs", type=Path, default=Path("docs/lab/studies"))
    args = parser.parse_args()
    found = []
    for name, rows in sets(args.rows, args.data):
        with tempfile.TemporaryDirectory() as work:
            told = compare(name, rows, Path(work))
        print(json.dumps(told), flush=True)
        found.append(told)
        write(args.docs / "datalab.md", found, args.rows)


if __name__ == "__main__":
    main()
