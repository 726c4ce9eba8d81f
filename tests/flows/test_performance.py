"""Dask's performance report, of local workers; of a cluster by address see `test_cluster`."""

from __future__ import annotations

import re
from pathlib import Path

from runs import PoolWriter, fit


def test_report_is_kept_on_demand(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool(2000)
    options = {"block_rows": 300, "workers": 1}
    fit(source, tmp_path / "plain", **options)
    fit(source, tmp_path / "run", performance_report=True, **options)
    assert not (tmp_path / "plain" / "performance.html").exists()
    page = (tmp_path / "run" / "performance.html").read_text()
    assert "neighbors-region" in page
    assert not re.search(r"<script[^>]+src=|<link[^>]+stylesheet", page)  # opens without a network


def test_no_report_without_a_cluster(pool: PoolWriter, tmp_path: Path) -> None:
    fit(pool(2000), tmp_path / "run", performance_report=True, workers=0)
    assert not (tmp_path / "run" / "performance.html").exists()
