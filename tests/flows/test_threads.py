"""Parts of a step on threads of this process."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from runs import PoolWriter, fit, results

from flows.engine import cluster
from flows.engine.cluster import n_cores
from flows.engine.deadline import Deadline
from flows.engine.parts import Part, run_parts, run_threads
from flows.steps.graph import anchors
from storage.arrays.groups import read_array
from storage.errors import StepTimeoutError
from storage.runs.run import Run

PARTS = [Part(f"p{i}", i) for i in range(9)]


def test_all_parts_are_done_at_once() -> None:
    met = threading.Barrier(3)

    def do(part: Part[int]) -> int:
        met.wait(30)
        return part.args

    found = run_parts(do, PARTS, lambda: None, step="s", threads=3)
    assert sorted(found) == list(range(9))


def test_failure_waits_for_what_is_under_way_and_begins_no_more() -> None:
    begun, ended = [], []

    def do(part: Part[int]) -> None:
        begun.append(part.args)
        if part.args == 1:
            raise RuntimeError("p1 failed")
        time.sleep(0.2)
        ended.append(part.args)

    with pytest.raises(RuntimeError, match="p1 failed"):
        list(run_threads(do, PARTS, 2, Deadline("s")))
    assert len(begun) <= 3
    assert sorted([*ended, 1]) == sorted(begun)


def test_deadline_names_what_runs_and_does_not_wait_for_it() -> None:
    go = threading.Event()
    start = time.monotonic()
    with pytest.raises(StepTimeoutError, match="s p0, p1: not done"):
        list(run_threads(lambda part: go.wait(60), PARTS, 2, Deadline("s", 0.5)))
    assert time.monotonic() - start < 30
    go.set()


@pytest.mark.parametrize(
    ("quota", "most"), [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1), ("", None)]
)
def test_cores_of_a_container(quota: str, most: int | None, tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    every = n_cores(tmp_path / "none")
    assert n_cores(file) == min(every, most or every)


def test_threads_and_known_lists_change_no_bit(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small pool, all rows anchors: by three threads, and with lists searched once more."""
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    monkeypatch.setattr(anchors, "GROUP_BYTES", 1)
    source = pool(3000, 6)
    options = {"block_rows": 700, "builder": "exact"}
    fit(source, tmp_path / "alone", **options)
    monkeypatch.setattr(cluster, "n_cores", lambda: 3)
    fit(source, tmp_path / "threads", **{**options, "workers": None})
    assert results(tmp_path / "threads") == results(tmp_path / "alone")
    run = Run.of(tmp_path / "alone")
    assert len(run.ledger.records("anchors-search")) > 1
    assert len(read_array(run.group("anchors"), "row")) == 3000
    fit(source, tmp_path / "again", noise="minmax", **options)
    graphs = [
        {key: value for key, value in results(tmp_path / name).items() if "/graph/" in key}
        for name in ("alone", "again")
    ]
    assert graphs[0]
    assert graphs[0] == graphs[1]
