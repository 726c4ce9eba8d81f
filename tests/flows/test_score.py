"""Scoring: the corrected rule on the exact neighbors of each query, in the queries' order."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
from runs import PoolWriter, fit

from flows.cli import main
from flows.report.content import recall_warning
from flows.score import score
from pipeline.knn.lists import summarize
from pipeline.knn.lots import lots
from storage import InputError, StorageError


def apply(source: Path, run: Path, out: Path) -> dict[str, Any]:
    return score.fn(str(source), str(run), str(out), workers=0, quiet=True)


@pytest.fixture(scope="module")
def trained(shared_pool: PoolWriter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the pool as it is drawn unasked."""
    run = tmp_path_factory.mktemp("trained") / "run"
    fit(shared_pool(), run)
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """The test's own copy of that run, with no scores yet."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def brute_eta(
    query: npt.NDArray[np.float32], x: npt.NDArray[np.float32], y: npt.NDArray[np.int8], k: int
) -> npt.NDArray[np.float64]:
    distance = np.sqrt(np.square(query[:, None].astype(np.float64) - x[None]).sum(axis=-1))
    order = np.lexsort(
        (np.broadcast_to(lots(np.arange(len(x))), distance.shape), distance.astype("f4"))
    )
    eta: npt.NDArray[np.float64] = y[order[:, :k]].mean(axis=1)
    return eta


@pytest.mark.parametrize("block_rows", [None, 100])
def test_scores_follow_the_rule(pool: PoolWriter, tmp_path: Path, block_rows: int | None) -> None:
    source, queries = pool(), pool(n=257, seed=5, name="queries.npz")
    trained = fit(source, tmp_path / "run", block_rows=block_rows)
    scored = apply(queries, tmp_path / "run", tmp_path / "out.parquet")
    data, table = np.load(source), pd.read_parquet(tmp_path / "out.parquet")
    eta = brute_eta(np.load(queries)["X"], data["X"], data["y"], 10)
    assert list(table["row"]) == list(range(257))
    assert np.mean(np.isclose(table["eta_corr"], eta)) >= scored["recall"] - 0.05
    assert scored["recall"] >= 0.95
    assert np.array_equal(
        table["predicted_label"], table["eta_corr"] >= trained["threshold"] - 1e-6
    )
    assert np.array_equal(table["predicted_label"] == 1, table["posterior"] >= 0.5 - 1e-6)


def test_scaling_is_that_of_training(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    data = np.load(source)
    stretched = data["X"] * np.array([1, 1e3, 1e-3, 1], np.float32)
    np.savez(tmp_path / "wide.npz", X=stretched, y=data["y"])
    np.savez(tmp_path / "few.npz", X=stretched[:7])
    fit(tmp_path / "wide.npz", tmp_path / "run", scale="range")
    apply(tmp_path / "few.npz", tmp_path / "run", tmp_path / "out.parquet")
    low, high = stretched.min(axis=0), stretched.max(axis=0)
    x = ((stretched - (low + high) / 2) / ((high - low) / 2)).astype(np.float32)
    eta = pd.read_parquet(tmp_path / "out.parquet")["eta_corr"]
    assert np.allclose(eta, brute_eta(x[:7], x, data["y"], 10), atol=0.11)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_one_row_is_scored_as_in_company(pool: PoolWriter, tmp_path: Path, kind: str) -> None:
    x, y = (np.load(pool())[name] for name in ("X", "y"))
    table = pd.DataFrame(x, columns=list("abcd")).assign(y=y)
    source, queries, alone = (tmp_path / f"{name}.{kind}" for name in ("pool", "new", "one"))
    for file, rows in ((source, table), (queries, table[:9]), (alone, table[4:5])):
        if kind == "csv":
            rows.to_csv(file, index=False)
        elif kind == "parquet":
            rows.to_parquet(file)
        else:
            np.savez(file, X=rows[list("abcd")], y=rows["y"])
    fit(source, tmp_path / "run", **({} if kind == "npz" else {"label_column": "y"}))
    apply(queries, tmp_path / "run", tmp_path / "all.parquet")
    apply(alone, tmp_path / "run", tmp_path / "alone.parquet")
    every, one = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("all", "alone"))
    pd.testing.assert_frame_equal(
        one.drop(columns="row"), every[4:5].drop(columns="row").reset_index(drop=True)
    )


def test_how_large_features_may_be_is_told_of_what_is_compared(
    pool: PoolWriter, tmp_path: Path
) -> None:
    x, y = (np.load(pool())[name] for name in ("X", "y"))
    np.savez(tmp_path / "wide.npz", X=x * np.array([1e20, 1, 1, 1], np.float32), y=y)
    fit(tmp_path / "wide.npz", tmp_path / "run", scale="range")
    wide = np.load(tmp_path / "wide.npz")["X"]
    np.savez(tmp_path / "few.npz", X=wide[:7])
    assert apply(tmp_path / "few.npz", tmp_path / "run", tmp_path / "a.parquet")["n_rows"] == 7
    np.savez(tmp_path / "far.npz", X=wide[:7] * np.array([1, 1e20, 1, 1], np.float32))
    with pytest.raises(InputError, match=r"column 'x1' reaches .* as scaled in training"):
        apply(tmp_path / "far.npz", tmp_path / "run", tmp_path / "b.parquet")


def test_posteriors_of_both_classes(pool: PoolWriter, run: Path, tmp_path: Path) -> None:
    queries = str(pool(n=30, seed=5, name="queries.npz"))
    for all_classes, name in ((True, "a.parquet"), (False, "b.parquet")):
        options: dict[str, Any] = {"all_classes": all_classes, "workers": 0, "quiet": True}
        score.fn(queries, str(run), str(tmp_path / name), **options)
    both, plain = (pd.read_parquet(tmp_path / name) for name in ("a.parquet", "b.parquet"))
    assert np.array_equal(both.pop("posterior_1"), both["posterior"])
    assert np.allclose(both.pop("posterior_0"), 1 - both["posterior"])
    pd.testing.assert_frame_equal(both, plain)


def test_same_rows_are_not_scored_twice(pool: PoolWriter, run: Path, tmp_path: Path) -> None:
    queries = pool(n=30, seed=5, name="queries.npz")
    first = apply(queries, run, tmp_path / "a.parquet")
    folders = list((run / "scores").iterdir())
    again = apply(queries, run, tmp_path / "b.parquet")
    assert list((run / "scores").iterdir()) == folders
    assert again["seconds"] == first["seconds"]
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two blocks that are walked; its source and queries beside it."""
    folder = tmp_path_factory.mktemp("walked")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12_500, 6)).astype(np.float32)
    y = ((x[:, 0] > 0) ^ (rng.random(len(x)) < 0.2)).astype(np.int8)
    np.savez(folder / "pool.npz", X=x[:12_000], y=y[:12_000])
    np.savez(folder / "queries.npz", X=x[12_000:])
    fit(folder / "pool.npz", folder / "run", builder="join", block_rows=6000)
    return folder


def test_a_row_has_one_score_whatever_file_it_is_in(walked: Path, tmp_path: Path) -> None:
    x = np.load(walked / "queries.npz")["X"]
    some = np.random.default_rng(1).permutation(len(x))[:60]
    np.savez(tmp_path / "some.npz", X=x[some])
    report = apply(walked / "queries.npz", walked / "run", tmp_path / "all.parquet")
    assert 0.95 <= report["recall"] < 1.0  # lists are walked, not searched
    assert report["recall_rows"] == 48
    apply(tmp_path / "some.npz", walked / "run", tmp_path / "some.parquet")
    every, few = (pd.read_parquet(tmp_path / name) for name in ("all.parquet", "some.parquet"))
    again = every.iloc[some].drop(columns="row").reset_index(drop=True)
    pd.testing.assert_frame_equal(few.drop(columns="row"), again, check_exact=True)


def test_the_audit_is_that_of_exact_search(walked: Path, tmp_path: Path) -> None:
    """Against every distance of every query: pruned blocks lose no neighbor."""
    report = apply(walked / "queries.npz", walked / "run", tmp_path / "all.parquet")
    (folder,) = [
        path.parent
        for path in (walked / "run" / "scores").glob("*/report.json")
        if '"n_rows": 500' in path.read_text()
    ]
    limit = json.loads((folder / "ledger/truth/all.json").read_text())["result"]
    sampled = xr.open_zarr(folder / "results.zarr", group="samples/anchors", consolidated=False)
    x, pool = sampled["x"].values[:48], np.load(walked / "pool.npz")["X"]
    x = x[np.argsort(sampled["row"].values[:48])]
    distance = np.sqrt(np.square(x[:, None].astype(np.float64) - pool[None]).sum(axis=-1))
    assert np.allclose(limit, np.sort(distance, axis=1)[:, 9], rtol=1e-6)
    assert report["recall_interval"][0] <= report["recall"] <= report["recall_interval"][1]


def test_one_row_that_misses_a_neighbor_is_no_missed_target() -> None:
    assert recall_warning(summarize(np.array([29 / 30])), 0.99, "mend it") == []
    assert recall_warning(summarize(np.full(500, 29 / 30)), 0.99, "mend it") == [
        "recall 0.9667 is below the target 0.99: mend it"
    ]


def test_a_damaged_network_is_named_and_made_again(walked: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(walked / "run", run)
    shutil.rmtree(run / "scores", ignore_errors=True)
    (chunk,) = (run / "results.zarr/network/00000/link/c/0").iterdir()
    before = chunk.read_bytes()
    chunk.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(StorageError, match=r"network/00000/link.*run train again"):
        apply(walked / "queries.npz", run, tmp_path / "out.parquet")
    fit(walked / "pool.npz", run, builder="join", block_rows=6000)
    assert chunk.read_bytes() == before


def test_scores_open_as_zarr(pool: PoolWriter, run: Path, tmp_path: Path) -> None:
    apply(pool(n=30, seed=5, name="queries.npz"), run, tmp_path / "a.parquet")
    (folder,) = (run / "scores").iterdir()
    opened = xr.open_zarr(folder / "results.zarr", group="scores", consolidated=False)
    table = pd.read_parquet(tmp_path / "a.parquet")
    assert np.array_equal(opened["posterior"].values, table["posterior"])


def test_label_column_of_training_is_ignored(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    table["sick"] = np.where(table["a"] > 0, "yes", "no")
    table.to_csv(tmp_path / "train.csv", index=False)
    table[["sick", "b", "a"]].head(9).to_csv(tmp_path / "new.csv", index=False)
    fit(tmp_path / "train.csv", tmp_path / "run", label_column="sick")
    apply(tmp_path / "new.csv", tmp_path / "run", tmp_path / "out.parquet")
    assert len(pd.read_parquet(tmp_path / "out.parquet")) == 9


def test_other_features_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    table["sick"] = (table["a"] > 0).astype(int)
    table.to_csv(tmp_path / "train.csv", index=False)
    fit(tmp_path / "train.csv", tmp_path / "run", label_column="sick")
    table.rename(columns={"b": "c"}).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InputError, match=r"missing 'b'; extra 'c'"):
        apply(tmp_path / "new.csv", tmp_path / "run", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    assert not (tmp_path / "run" / "scores").exists()


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_what_to_do_about_a_value_is_what_a_scoring_can(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    table["sick"] = (table["a"] > 0).astype(int)
    table.to_csv(tmp_path / "train.csv", index=False)
    fit(tmp_path / "train.csv", tmp_path / "run", label_column="sick")
    new, path = table.head(9).astype({"b": object}), tmp_path / f"new.{kind}"
    write = {"csv": new.to_csv, "xlsx": new.to_excel}
    for value, remedy in (
        ("old", "correct it: training had numbers there\n"),
        ("yes", "training had numbers there, or train with --parse b=boolean\n"),
        (None, "fill or drop them, or train with --impute median (empty cells"),
    ):
        new["b"] = [value, *new["b"][1:]]
        if kind == "parquet":
            new["b"] = new["b"].astype("string" if value else float)
            new.to_parquet(path)
        else:
            write[kind](path, index=False)
        args = ["score", str(path), "--run", str(tmp_path / "run"), "--workers", "0", "-q"]
        assert main([*args, "--out", str(tmp_path / "out.csv")]) == 2
        assert remedy in capsys.readouterr().err
        new["b"] = table["b"].head(9).astype(object)


def test_unfinished_run_is_refused(pool: PoolWriter, run: Path, tmp_path: Path) -> None:
    (run / "report.json").unlink()
    (run / "ledger" / "report" / "all.json").unlink()
    with pytest.raises(InputError, match="not finished"):
        apply(pool(n=9, name="q.npz"), run, tmp_path / "out.parquet")


def test_a_run_that_is_read_only_is_told(
    pool: PoolWriter, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, access = pool(n=20, seed=5, name="queries.npz"), os.access

    def refuses(path: Path, mode: int) -> bool:
        return access(path, mode) and not (mode & os.W_OK and run in (path, *Path(path).parents))

    monkeypatch.setattr("os.access", refuses)
    with pytest.raises(InputError, match=r"run: read-only, .*; copy the run to a folder"):
        apply(queries, run, tmp_path / "out.parquet")
    own = tmp_path / "own"
    shutil.copytree(run, own)
    assert apply(queries, own, tmp_path / "out.parquet")["n_rows"] == 20
