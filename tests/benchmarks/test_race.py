"""The harness of the race at small size: processes run in turn, and the table comes out."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.race.__main__ import cases, race

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("faiss", "psutil")),
    reason="the peers are in the bench extra",
)
def test_race_at_small_size(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.race", "--rows", "8000", "--results", tmp_path]
    told = subprocess.run(
        [*command, "--only", "connected-50k", "queries", "csv"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    lines = [json.loads(line) for line in (tmp_path / "measured.jsonl").read_text().splitlines()]
    assert [(line["case"], line["system"]) for line in lines] == [
        ("connected-50k", "knnoise"),
        ("connected-50k", "faiss"),
        ("queries", "knnoise"),
        ("queries", "faiss"),
        ("csv", "knnoise"),
    ]
    assert all(line["recall"] > 0.95 and line["core_seconds"] > 0 for line in lines)
    assert (
        "| graph: knnoise / faiss IVF | 0.4 | not run" in told.stdout
    )  # pynndescent compiles long
    assert "Fashion-MNIST: knnoise / faiss IVF | 0.8 | not run" in told.stdout
    csv = [case for case in cases(8000) if case.name == "csv"]
    assert list(race(csv, 1, tmp_path, None)) == lines, "resumed"
