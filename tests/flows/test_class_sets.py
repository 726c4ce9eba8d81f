"""`train → score → report` by the command line on sets of many classes, held against the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits

from flows.cli import main

HELD = 250
"""Rows that are scored."""


def letters(rng: np.random.Generator) -> tuple[Any, Any]:
    """26 classes in 16 small whole numbers, a few styles of each, named as letters are."""
    clean = rng.integers(0, 26, 2250)
    styles = rng.uniform(0, 15, (26, 2, 16))
    x = styles[clean, rng.integers(0, 2, len(clean))] + rng.normal(0, 1.5, (len(clean), 16))
    return np.clip(np.round(x), 0, 15), np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))[clean]


def digits(rng: np.random.Generator) -> tuple[Any, Any]:
    """Pictures of ten digits, in random order, named by words."""
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(y))
    return x[order], np.array(
        ["nil", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    )[y[order]]


def write(target: Path, x: Any, kind: Any) -> Path:
    """A CSV of columns, or a Parquet file with the picture as one list."""
    if target.suffix == ".csv":
        table = pd.DataFrame(x.astype(int)).add_prefix("x")
        (table if kind is None else table.assign(kind=kind)).to_csv(target, index=False)
        return target
    flat = pa.array(x.astype(np.float32).ravel())
    columns = {"pixels": pa.FixedSizeListArray.from_arrays(flat, x.shape[1])}
    pq.write_table(pa.table(columns if kind is None else {**columns, "kind": kind}), target)
    return target


@pytest.mark.parametrize(("draw", "suffix"), [(letters, "csv"), (digits, "parquet")])
def test_set_of_many_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], draw: Any, suffix: str
) -> None:
    rng = np.random.default_rng(3)
    x, clean = draw(rng)
    classes = np.unique(clean)
    after = dict(zip(classes, np.roll(classes, -1), strict=True))
    wrong = rng.random(len(clean)) < 0.2
    given = np.where(wrong, [after[name] for name in clean], clean)
    pool = write(tmp_path / f"pool.{suffix}", x[HELD:], given[HELD:])
    new = write(tmp_path / f"new.{suffix}", x[:HELD], None)
    pd.DataFrame({"kind": clean[:HELD]}).to_csv(tmp_path / "truth.csv", index=False)
    run, scores = str(tmp_path / "run"), str(tmp_path / "scores.parquet")
    here = ("--workers", "0", "--quiet", "--json")
    assert main(["train", str(pool), "--run", run, "--label-column", "kind", *here]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["classes"] == classes.tolist()

    real = pd.crosstab(clean[HELD:], given[HELD:], normalize="index").to_numpy()
    assert np.abs(np.array(report["transition_matrix"]) - real).sum(axis=1).mean() < 0.2
    low, high = np.moveaxis(np.array(report["transition_interval"]), 2, 0)
    assert ((low <= real) & (real <= high)).mean() > 0.97
    quality = pd.read_parquet(tmp_path / "run" / "label_issues.parquet")["label_quality"]
    worst = np.argsort(quality, kind="stable")[: wrong[HELD:].sum()]
    assert wrong[HELD:][worst].mean() > 0.93

    assert main(["score", str(new), "--run", run, "--out", scores, *here]) == 0
    assert (pd.read_parquet(scores)["predicted_label"] == clean[:HELD]).mean() > 0.93
    capsys.readouterr()
    page = tmp_path / "page.html"
    truth = ("--scores", scores, "--truth", str(tmp_path / "truth.csv"))
    assert main(["report", "--run", run, "--html", str(page), *truth]) == 0
    text = page.read_text()
    assert text.count('class="right"') == len(classes)
    assert all(f'<th scope="row">{name}</th>' in text for name in classes)
