"""A finding that nobody has made before: one kernel, one call for each pass, and it is resumed,
distributed and bounded as all are."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from runs import fit

from flows.engine.collectives.graph import Around, Asks, PoolGraph, over_graph
from flows.engine.collectives.rows import SourceRows, over_rows
from flows.engine.collectives.sent import Facts, Sendings
from flows.engine.job import Job
from flows.engine.progress import Reporter
from flows.options.params import Compute
from flows.orchestration.session import open_job
from storage import StorageError, open_run
from storage.arrays.groups import Arrays
from storage.runs.pool import Pool
from storage.runs.run import Run

N, PORTION = 3000, 128
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not import tests


def group(at: SourceRows) -> Arrays:
    return {"group": at.read("group"), "own": at.read("group")}


def strangers(at: Around) -> Arrays:
    """The share of the neighbors that are of another group."""
    assert len(at.row) <= PORTION
    other = at.of_neighbors("group") != at.known["own"][at.own][:, None]
    there = at.of_row["neighbor"] >= 0
    return {"share": (other & there).sum(axis=1) / there.sum(axis=1)}


def in_order(at: SourceRows) -> Facts:
    return Facts(drawn={"row": np.arange(at.rows.start, at.rows.stop), **at.columns})


def find(job: Job, graph: PoolGraph, kernel: Any = strangers) -> Sendings:
    """The share of each row, in source order."""
    asked = over_graph(job, graph, "ask", asks=Asks(own=True))
    known = over_rows(job, graph, "groups", group, requests=asked)
    shares = over_graph(
        *(job, graph, "strangers", kernel),
        needs=("neighbor",),
        known=known,
        gives={"share": "f8"},
        portion=PORTION,
    )
    return over_rows(job, graph, "in-order", in_order, of=[shares])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    rng = np.random.default_rng(0)
    x, clean = rng.normal(size=(N, 4)), rng.integers(0, 2, N)
    site = np.where(x[:, 0] > rng.normal(size=N), "a", "b")
    table = pd.DataFrame(x, columns=list("abcd")).assign(y=clean, site=site)
    table.to_csv(folder / "pool.csv", index=False)
    options = {"by": "site", "label_column": "y", "builder": "join", "block_rows": 700}
    fit(folder / "pool.csv", folder / "run", **options)
    return folder / "run"


def found(run: Path, folder: Path, kernel: Any = strangers, **compute: Any) -> Arrays:
    pool = Pool(Run.of(str(run)), "pool", N, 4)
    n_blocks = len(list((run / "results.zarr/graph").glob("0*")))
    made = Run.of(str(folder))
    if made.is_new():
        made.begin({})
    reporter = Reporter(quiet=True)
    with open_job(made, Compute(**compute, quiet=True), reporter) as job:
        return find(job, PoolGraph(pool, n_blocks), kernel).drawn()


def test_a_kernel_sees_what_is_known_of_the_neighbors(trained: Path, tmp_path: Path) -> None:
    groups = open_run(str(trained))["pool"]["group"].to_numpy()
    expected = np.empty(N)
    for block in open_run(str(trained))["graph"].children.values():
        row, near = block["row"].to_numpy(), block["neighbor"].to_numpy()
        expected[row] = (groups[near] != groups[row][:, None]).mean(axis=1)
    share = found(trained, tmp_path / "here", workers=0)
    assert np.array_equal(share["row"], np.arange(N))
    np.testing.assert_allclose(share["share"], expected)
    away = found(trained, tmp_path / "away", workers=2)
    assert np.array_equal(away["share"], share["share"])


def failing(at: Around) -> Arrays:
    if N - 1 in at.row:
        raise ZeroDivisionError
    return strangers(at)


def test_a_pass_goes_on_where_it_broke_off(trained: Path, tmp_path: Path) -> None:
    whole = found(trained, tmp_path / "whole", workers=0)
    with pytest.raises(ZeroDivisionError):
        found(trained, tmp_path / "run", failing, workers=0)
    ledger = tmp_path / "run/ledger"
    assert (ledger / "groups").exists()
    assert not (ledger / "in-order").exists()
    before = {file: file.stat().st_mtime_ns for file in ledger.rglob("*.json")}
    again = found(trained, tmp_path / "run", workers=0)
    assert all(np.array_equal(again[name], whole[name]) for name in whole)
    assert all(file.stat().st_mtime_ns == at for file, at in before.items())


def test_what_was_sent_and_is_gone_is_an_error(trained: Path, tmp_path: Path) -> None:
    found(trained, tmp_path / "run", workers=0)
    shutil.rmtree(tmp_path / "run/ledger/strangers")
    next((tmp_path / "run/scratch.zarr/groups/answers").iterdir()).unlink()
    with pytest.raises(StorageError, match="is missing; run train again to repair"):
        found(trained, tmp_path / "run", workers=0)


def table_of_steps() -> dict[str, str]:
    """What a part of each step is, as docs/build/design.md says."""
    text = (Path(__file__).parents[2] / "docs/build/design.md").read_text()
    rows = re.findall(r"^\| (`.*`) \|([^|]*)\|[^|]*\|$", text, re.MULTILINE)
    found = {}
    for names, units in rows:
        steps = re.findall(r"`([\w-]+)`", names)
        found |= dict(zip(steps, map(str.strip, units.split(";")), strict=True))
    return found


def test_the_table_of_steps_is_that_of_runs(trained: Path, tmp_path: Path) -> None:
    table = pd.read_csv(trained.parent / "pool.csv")[:600]
    votes = table[["y"]].set_axis(["label"], axis=1).assign(row=range(600), annotator="ann")
    both = pd.concat([votes, votes.assign(annotator="bea", label=votes.label.shift(fill_value=0))])
    both.to_csv(tmp_path / "said.csv", index=False)
    several = table.assign(y=[f"{y}{site}" for y, site in zip(table.y, table.site, strict=True)])
    pools = {
        "plain": (table, {"rule": "rknn", "label_column": "y"}),
        "votes": (table.drop(columns="y"), {"annotations": str(tmp_path / "said.csv")}),
        "several": (several, {"by": "site", "label_column": "y"}),
        "together": (table.assign(of=np.arange(600) // 3), {"together": "of", "label_column": "y"}),
        "sets": (several.assign(y=several.y + "|0a"), {"candidates": "|", "label_column": "y"}),
    }
    runs = [trained]
    for name, (pool, options) in pools.items():
        left = pool if name == "several" else pool.drop(columns="site")
        left.to_csv(tmp_path / f"{name}.csv", index=False)
        k = {"k": None} if name in ("plain", "sets") else {}
        fit(tmp_path / f"{name}.csv", tmp_path / name, **options, **k)
        runs.append(tmp_path / name)
    units = {"block": "a block", "rows": "source rows", "chunk": "a chunk", "group": "anchors"}
    units["region"] = "a region"
    seen = {
        re.sub(r"\d+$", "N", step.name): units.get(next(step.iterdir()).name.split("-")[0], "")
        for run in runs
        for step in (run / "ledger").iterdir()
    }
    known = table_of_steps()
    assert set(seen) <= set(known)
    assert [step for step, unit in seen.items() if unit not in known[step].split(" or ")] == []
    large = {
        "widened",
        "anchor-bounds",
        "anchors-merge",
        "networks",
        "metric",
        "relay-places",
    }  # steps of large pools alone, and of those with places of many mistakes
    assert set(known) - set(seen) <= large
