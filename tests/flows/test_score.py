"""Scoring: the corrected rule on the exact neighbors of each query, in the queries' order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
from runs import PoolWriter, fit

from flows.score import score
from storage import InputError


def apply(source: Path, run: Path, out: Path) -> dict[str, Any]:
    return score.fn(str(source), str(run), str(out), workers=0, quiet=True)


def brute_eta(
    query: npt.NDArray[np.float32], x: npt.NDArray[np.float32], y: npt.NDArray[np.int8], k: int
) -> npt.NDArray[np.float64]:
    distance = np.sqrt(np.square(query[:, None].astype(np.float64) - x[None]).sum(axis=-1))
    order = np.lexsort((np.broadcast_to(np.arange(len(x)), distance.shape), distance.astype("f4")))
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


def test_same_rows_are_not_scored_twice(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(), tmp_path / "run")
    queries = pool(n=30, seed=5, name="queries.npz")
    first = apply(queries, tmp_path / "run", tmp_path / "a.parquet")
    folders = list((tmp_path / "run" / "scores").iterdir())
    again = apply(queries, tmp_path / "run", tmp_path / "b.parquet")
    assert list((tmp_path / "run" / "scores").iterdir()) == folders
    assert again["seconds"] == first["seconds"]
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_scores_open_as_zarr(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(), tmp_path / "run")
    apply(pool(n=30, seed=5, name="queries.npz"), tmp_path / "run", tmp_path / "a.parquet")
    (folder,) = (tmp_path / "run" / "scores").iterdir()
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


def test_unfinished_run_is_refused(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(), tmp_path / "run")
    (tmp_path / "run" / "report.json").unlink()
    (tmp_path / "run" / "ledger" / "report" / "all.json").unlink()
    with pytest.raises(InputError, match="not finished"):
        apply(pool(n=9, name="q.npz"), tmp_path / "run", tmp_path / "out.parquet")
