"""Pools whose lists do not fit the memory of one machine: regions of several blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import separate_cluster
from processes import committed
from runs import PoolWriter, fit, fit_until, results

from flows.engine import cluster
from flows.steps.graph import partition
from pipeline.graph.resources import lists_bytes
from storage.arrays.groups import read_array
from storage.runs.run import Run

ROWS, FEATURES, LISTS = 4000, 8, 50
OPTIONS: dict[str, Any] = {"builder": "join", "k": LISTS, "target_recall": 0.98}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "BLOCK_ROWS", (250,))


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part may take what the lists of half of the pool need."""
    needed = lists_bytes(ROWS // 2, FEATURES, LISTS)
    monkeypatch.setattr(cluster, "_SHARE", cluster.machine_memory() // needed)


def regions(run: Path) -> tuple[list[int], list[int]]:
    """Blocks and rows of each region, without its halo."""
    at = Run.of(str(run))
    region = read_array(at.group("partition"), "region")
    sizes = [len(read_array(at.group(f"blocks/{b:05d}"), "row")) for b in range(len(region))]
    blocks = np.bincount(region).tolist()
    return blocks, np.bincount(region, weights=sizes).astype(int).tolist()


@pytest.mark.usefixtures("small_memory")
def test_the_same_bits_from_any_workers_after_any_interruption(
    pool: PoolWriter, tmp_path: Path
) -> None:
    source = pool(ROWS, d=FEATURES)
    report = fit(source, tmp_path / "one", **OPTIONS)
    blocks, rows = regions(tmp_path / "one")
    assert len(blocks) == committed(tmp_path / "one", "neighbors") > 1
    assert sum(rows) == ROWS
    assert max(rows) <= ROWS // 2
    assert max(blocks) >= partition.REGION_BLOCKS
    assert report["recall"] >= 0.98
    assert 1.0 < report["copies"] < 2.0
    assert report["n_blocks"] == sum(blocks)
    fit(source, tmp_path / "two", workers=2, **OPTIONS)
    fit_until("neighbors", source, tmp_path / "resumed", **OPTIONS)
    fit(source, tmp_path / "resumed", workers=1, **OPTIONS)
    for name in ("two", "resumed"):
        assert results(tmp_path / name) == results(tmp_path / "one"), name


def test_machines_of_several_threads_share_the_regions(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "_REGION_ROWS", ROWS // 4)
    source = pool(ROWS, d=FEATURES)
    with separate_cluster(tmp_path, 2, 2) as address:
        more = {"workers": None, "scheduler": address}
        report = fit(source, tmp_path / "run", **more, **OPTIONS)
    blocks, _ = regions(tmp_path / "run")
    assert len(blocks) == 2 == committed(tmp_path / "run", "neighbors")
    assert report["recall"] >= 0.98
