"""Certificates of finished trainings: the kernel's numbers, however the graph lies in blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from runs import PoolWriter, fit
from scipy.stats import binomtest

from flows.certify import run_certify
from flows.cli import main
from knnoise import score
from pipeline.diagnostics.reliability import clopper_pearson
from pipeline.knn.exact import nearest
from pipeline.methods.speculate_correct import (
    at_least,
    best_design,
    certify,
    clean_range,
    majority,
    sample_block,
    threshold_rules,
)
from storage import InputError


def bound(run: Path, **more: Any) -> dict[str, Any]:
    options = {"samples": 30_000, "workers": 0, "quiet": True, **more}
    return run_certify(str(run), **options)


@pytest.mark.parametrize("block_rows", [None, 120])
def test_bounds_are_those_of_the_kernel(
    pool: PoolWriter, tmp_path: Path, block_rows: int | None
) -> None:
    source = pool()
    trained = fit(
        source, tmp_path / "run", k=None, builder="exact", block_rows=block_rows, p0=0.3, p1=0.1
    )
    found = bound(tmp_path / "run", k=5, delta=0.1, seed=7)
    data = np.load(source)
    x, y = data["X"], data["y"]
    lists = nearest(x, x, found["list_length"], exclude=np.arange(len(x)))[0]
    design = best_design(len(x), 5, found["list_length"], 30_000, 0.1)
    assert (found["r"], found["m"], found["samples"]) == (design.r, design.m, 30_000)
    rules = {"majority": (majority(2), 1), "trained_rule": (at_least(trained["threshold"]), 7)}
    for name, (rule, n_rules) in rules.items():
        counts = sample_block(np.arange(len(x)), y, y[lists], design, rule, 2, 7)
        want = certify(counts, design, 0.1, n_rules=n_rules)
        assert found[name]["estimate"] == want.estimate
        assert (found[name]["lower"], found[name]["upper"]) == (want.lower, want.upper)
        assert found[name]["n_rules"] == n_rules
    clean = clean_range(counts, design, 0.1, (0.3, 0.3), (0.1, 0.1), threshold_rules(5))
    assert tuple(found["clean_error"]) == clean


def test_three_classes_are_bounded_by_the_majority(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 400)
    x = (rng.normal(size=(400, 4)) + 3.0 * y[:, None]).astype(np.float32)
    np.savez(tmp_path / "pool.npz", X=x, y=np.where(rng.random(400) < 0.1, (y + 1) % 3, y))
    fit(str(tmp_path / "pool.npz"), tmp_path / "run", k=None, builder="exact")
    found = bound(tmp_path / "run", k=5, delta=0.1, seed=7)
    given = np.load(tmp_path / "pool.npz")["y"]
    lists = nearest(x, x, found["list_length"], exclude=np.arange(400))[0]
    design = best_design(400, 5, found["list_length"], 30_000, 0.1)
    counts = sample_block(np.arange(400), given, given[lists], design, majority(3), 3, 7)
    want = certify(counts, design, 0.1, n_rules=1)
    assert found["majority"]["estimate"] == want.estimate
    assert (found["majority"]["lower"], found["majority"]["upper"]) == (want.lower, want.upper)
    assert found["trained_rule"] is None is found["clean_error"]
    assert "two classes only" in (Path(found_folder(tmp_path)) / "report.txt").read_text()


def found_folder(base: Path) -> Path:
    (folder,) = (base / "run/certificates").iterdir()
    return folder


def test_a_k_that_the_labels_chose_is_paid_for(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(), tmp_path / "run", k=None)
    chosen = bound(tmp_path / "run")
    given = bound(tmp_path / "run", k=chosen["k"])
    assert not chosen["k_fixed"]
    assert chosen["majority"]["n_rules"] > given["majority"]["n_rules"] == 1
    assert chosen["trained_rule"]["epsilon"] > given["trained_rule"]["epsilon"]
    assert chosen["majority"]["estimate"] == given["majority"]["estimate"]


def test_the_same_question_is_answered_once(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(), tmp_path / "run")
    first = bound(tmp_path / "run", k=5)
    again = bound(tmp_path / "run", k=5)
    assert first == again
    assert bound(tmp_path / "run", k=5, seed=1)["majority"] != first["majority"]
    assert len(list((tmp_path / "run" / "certificates").iterdir())) == 2


def test_short_lists_are_named_with_the_remedy(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(n=6000), tmp_path / "run", k=30, builder="join")
    remedy = "train with --k 50, and give --k 30 here"
    assert any(remedy in line for line in bound(tmp_path / "run", k=30)["warnings"])
    assert not any("train with" in line for line in bound(tmp_path / "run", k=1)["warnings"])
    fit(pool(n=6000), tmp_path / "longer", k=50, builder="join")
    assert not any("train with" in line for line in bound(tmp_path / "longer", k=30)["warnings"])


def test_distances_by_the_labels_are_named(pool: PoolWriter, tmp_path: Path) -> None:
    for metric in ("auto", "weighted", "as-scaled", "cosine"):
        fit(pool(), tmp_path / metric, metric=metric)
        warned = [line for line in bound(tmp_path / metric)["warnings"] if "--metric" in line]
        assert len(warned) == (metric in ("auto", "weighted"))


def test_command_line(pool: PoolWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(pool(), tmp_path / "run")
    call = ["certify", "--run", str(tmp_path / "run"), "--k", "5", "--samples", "10000"]
    assert main([*call, "--workers", "0", "-q", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["k"] == 5
    assert main([*call, "--workers", "0", "-q"]) == 0
    text = capsys.readouterr().out
    assert f"{report['majority']['estimate']:.4f}" in text
    assert "given ones" in text
    assert "60 rows, a tenth, held out would bound such an error within 0." in text


def test_rows_that_are_held_out_stand_beside(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(), tmp_path / "run")
    with np.load(pool(n=300, seed=1, name="test.npz")) as test:
        np.save(tmp_path / "truth.npy", test["y"])
        truth = test["y"]
    scores = tmp_path / "scores.parquet"
    score(tmp_path / "test.npz", tmp_path / "run", scores, workers=0, quiet=True)
    wrong = int((pd.read_parquet(scores)["predicted_label"] != truth).sum())
    more = {"scores": str(scores), "truth": str(tmp_path / "truth.npy")}
    found = bound(tmp_path / "run", k=5, **more)["held_out"]
    interval = binomtest(wrong, 300).proportion_ci(0.95)  # Clopper & Pearson's
    assert found["n_rows"] == 300
    assert np.allclose([found["error"], found["lower"], found["upper"]], [wrong / 300, *interval])
    assert clopper_pearson(0, 10, 0.05)[0] == 0.0
    assert clopper_pearson(10, 10, 0.05)[1] == 1.0
    assert bound(tmp_path / "run", k=5)["held_out"] is None
    with pytest.raises(InputError, match="belong together"):
        bound(tmp_path / "run", k=5, scores=str(scores))


def test_labels_in_another_order_than_the_scores_are_refused(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(300, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(y=(x[:, 0] > 0).astype(int))
    table.insert(0, "id", [f"k{row}" for row in range(300)])
    table.to_csv(tmp_path / "pool.csv", index=False)
    fit(tmp_path / "pool.csv", tmp_path / "run", label_column="y", id_column="id")
    scores = tmp_path / "scores.parquet"
    score(tmp_path / "pool.csv", tmp_path / "run", scores, workers=0, quiet=True)
    more = {"scores": str(scores), "truth": str(tmp_path / "pool.csv"), "truth_column": "y"}
    assert bound(tmp_path / "run", k=5, **more)["held_out"]["error"] < 0.1
    table.iloc[[0, 2, 1, *range(3, 300)]].to_csv(tmp_path / "pool.csv", index=False)
    with pytest.raises(
        InputError, match=r"row 1 \(from 0\) is id 'k2', and that of .*scores.parquet 'k1'"
    ):
        bound(tmp_path / "run", k=5, **more)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--delta", "1"], "--delta 1.0: must be below 1"),
        (["--delta", "0"], "--delta 0.0: must be above 0"),
        (["--k", "31"], "lists of 30 neighbors; give at most that"),
        (["--samples", "0"], "--samples 0: must be 1 or more"),
    ],
)
def test_bad_input(
    pool: PoolWriter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    says: str,
) -> None:
    fit(pool(), tmp_path / "run")
    status = main(["certify", "--run", str(tmp_path / "run"), "--workers", "0", "-q", *options])
    error = capsys.readouterr().err
    assert status == 2
    assert says in error
    assert len(error.splitlines()) == 1


def test_a_run_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        bound(tmp_path / "nowhere")
