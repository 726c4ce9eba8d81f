"""Parts of a step on threads of this process."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from runs import PoolWriter, fit, results

from flows.engine import cluster
from flows.engine.cluster import machine_memory, n_cores
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


def in_group(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Control groups with some files, and what a process says of those that it is in."""
    for name, text in files.items():
        file = folder / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "own").write_text(own)
    return folder / "groups", folder / "own"


@pytest.mark.parametrize(
    ("quota", "most"), [("max 100000", None), ("100000 100000", 1), ("50000 100000", 1), ("", None)]
)
@pytest.mark.parametrize("group", ["", "jobs/", "jobs/17/"])
def test_cores_of_a_container_or_job(
    quota: str, most: int | None, group: str, tmp_path: Path
) -> None:
    every = n_cores(own=tmp_path / "none")
    files = {f"{group}cpu.max": quota, "other/cpu.max": "1 1"}
    assert n_cores(*in_group(tmp_path, "0::/jobs/17", files)) == min(every, most or every)


@pytest.mark.parametrize(("quota", "most"), [("-1", None), ("100000", 1), ("30000", 1)])
@pytest.mark.parametrize("path", ["/", "/docker/17"])  # the latter is not seen from within
def test_cores_by_control_groups_of_version_1(
    quota: str, most: int | None, path: str, tmp_path: Path
) -> None:
    files = {"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000"}
    every, own = n_cores(own=tmp_path / "none"), f"3:cpu,cpuacct:{path}\n0::/"
    assert n_cores(*in_group(tmp_path, own, files)) == min(every, most or every)


@pytest.mark.parametrize(
    ("own", "files", "bytes_"),
    [
        ("0::/", {"memory.max": "max"}, None),
        ("0::/", {"memory.max": "5000"}, 5000),
        ("0::/jobs/17", {"jobs/memory.max": "7000", "jobs/17/memory.max": "max"}, 7000),
        ("0::/jobs/17", {"jobs/memory.max": "7000", "jobs/17/memory.max": "6000"}, 6000),
        ("4:memory:/docker/17", {"memory/memory.limit_in_bytes": "8000"}, 8000),
        ("4:memory:/a", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("0::/", {}, None),
    ],
)
def test_memory_of_a_container_or_job(
    own: str, files: dict[str, str], bytes_: int | None, tmp_path: Path
) -> None:
    every = machine_memory(own=tmp_path / "none")
    assert machine_memory(*in_group(tmp_path, own, files)) == (bytes_ or every)


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
