"""Where work is done: in this process where it is small and nobody says otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from runs import PoolWriter

from flows.engine.cluster import fitting
from flows.options.params import Compute
from pipeline.graph.build import exact_seconds, training_seconds


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)


def test_small_work_starts_no_workers() -> None:
    assert fitting(Compute(), 1.0).workers == 0
    assert fitting(Compute(), 1000.0).workers is None


@pytest.mark.parametrize(
    "asked",
    [
        Compute(workers=3),
        Compute(scheduler="tcp://127.0.0.1:1"),
        Compute(performance_report=True),
    ],
)
def test_what_is_asked_for_is_kept(asked: Compute) -> None:
    assert fitting(asked, 1.0) == asked


def test_a_scheduler_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:1")
    assert fitting(Compute(), 1.0).workers is None


def test_more_rows_are_more_work() -> None:
    seconds = [training_seconds("auto", n, 32) for n in (1000, 20_000, 10**5, 10**7)]
    assert seconds == sorted(seconds)
    assert training_seconds("exact", 10**5, 32) > exact_seconds(10**5, 32)


def test_a_command_does_without_pandas(pool: PoolWriter, tmp_path: Path) -> None:
    """It costs a tenth of a small run, and pyarrow would import it at its first array."""
    script = (
        "import atexit, sys\n"
        "from flows.cli import process\n"
        "atexit.register(lambda: print('pandas' in sys.modules))\n"
        "process()\n"
    )
    args = ["train", str(pool()), "--run", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"
    assert "p0" in done.stdout
