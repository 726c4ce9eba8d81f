"""A part that never returns: the step ends in time and names it, and no process stays."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import running
from runs import PoolWriter, fit, results

import flows.engine.collectives.rows
import flows.steps.graph.neighbors
import flows.steps.ingest.pool
from flows.engine.deadline import Deadline
from flows.engine.job import Output
from flows.engine.parts import Part
from storage.errors import ClusterError, StepTimeoutError
from storage.runs.run import Run


def hanging(k: int, run: Run, part: Part[Any]) -> Output:
    if part.name == "region-00001":
        time.sleep(3600)
    return anchored_part(k, run, part)


anchored_part = flows.steps.graph.neighbors.anchored_part
SMALL = {"block_rows": 300, "builder": "exact"}


@pytest.mark.timeout(100, method="thread")
@pytest.mark.parametrize("workers", [0, 1])
def test_part_that_hangs_is_named(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    source, run = pool(2000), tmp_path / "run"
    with monkeypatch.context() as hang:
        hang.setattr(flows.steps.graph.neighbors, "anchored_part", hanging)
        began = time.monotonic()
        with pytest.raises(
            StepTimeoutError, match="neighbors region-00001: not done 15 s"
        ) as caught:
            fit(source, run, step_timeout=15, workers=workers, **SMALL)
        assert time.monotonic() - began < 60
    assert "--step-timeout" in str(caught.value)
    assert issubclass(StepTimeoutError, ClusterError)
    servers = [p for p in psutil.Process().children() if "forkserver" in " ".join(p.cmdline())]
    assert not [p for server in servers for p in server.children()]
    fit(source, run, **SMALL)
    fit(source, tmp_path / "undisturbed", **SMALL)
    assert results(run) == results(tmp_path / "undisturbed")


@pytest.mark.timeout(100, method="thread")
def test_store_that_hangs_between_two_steps(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)  # pytest's own
    with monkeypatch.context() as hang:
        hang.setattr(
            flows.engine.collectives.rows, "ChunkWriter", lambda *_, **__: time.sleep(3600)
        )
        began = time.monotonic()
        with pytest.raises(StepTimeoutError, match="between two steps nothing was done for 15 s"):
            fit(pool(), tmp_path / "run", step_timeout=5, workers=0)  # where the others are done
        assert 13 < time.monotonic() - began < 40
    fit(pool(), tmp_path / "run")


def test_source_that_hangs(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.steps.ingest.pool._Reading, "see", lambda *_: time.sleep(3600))
    with pytest.raises(StepTimeoutError, match="pool all: not done 1 s"):
        fit(pool(), tmp_path / "run", step_timeout=1)


def test_process_ends_though_a_thread_hangs(pool: PoolWriter, tmp_path: Path) -> None:
    """A write that never returns, in a thread that Python would wait for."""
    script = tmp_path / "hanging.py"
    script.write_text(
        "import time\nimport flows.steps.ingest.pool as ingest\n"
        "ingest._Write.execute = lambda *_: time.sleep(3600)\n"
        "from flows.cli import process\nprocess()\n"
    )
    args = ("train", pool(), "--run", tmp_path / "run", "--workers", "0", "--step-timeout", "3")
    args += ("--metric", "as-scaled")  # no other step is long
    log = tmp_path / "log"
    with running(script, *args, log=log) as process:
        assert process.wait(60) == 4
    assert log.read_text().splitlines()[-1].startswith("knnoise: pool all: not done 3 s")


def test_process_ends_though_a_kernel_hangs(pool: PoolWriter, tmp_path: Path) -> None:
    """No alarm of Python's is heard in compiled code."""
    script = tmp_path / "hanging.py"
    script.write_text(
        "import math\nfrom numba import njit\nimport flows.engine.deadline as deadline\n"
        "import flows.steps.graph.neighbors as graph\n"
        "@njit(nogil=True)\ndef hang(x):\n    while x < 2:\n        x = math.cos(x)\n    return x\n"
        "hang(3.0)\ndeadline.GRACE = 1.0\ngraph.anchored_part = lambda *_: hang(1.0)\n"
        "from flows.cli import process\nprocess()\n"
    )
    args = ("train", pool(), "--run", tmp_path / "run", "--workers", "0", "--step-timeout", "3")
    args += ("--metric", "as-scaled")  # no other step is long
    log = tmp_path / "log"
    with running(script, *args, log=log) as process:
        assert process.wait(60) == 4
    told = log.read_text().splitlines()[-1]
    assert re.match("knnoise: neighbors .*: not done 3 s after the step began", told)


def test_alarm_that_was_set_before_goes_off_in_its_time() -> None:
    rung: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    began, outer = time.monotonic(), signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with Deadline("step", 10).interrupting("part"):
            time.sleep(0.2)
        assert signal.getitimer(signal.ITIMER_REAL)[0] < 0.4
        with Deadline("step", 10).interrupting("part"):
            time.sleep(0.6)
        assert len(rung) == 1
        assert 0.4 < rung[0] - began < 0.7
        with pytest.raises(StepTimeoutError), Deadline("step", 0.1).interrupting("part"):
            time.sleep(5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)
        signal.signal(signal.SIGALRM, before)
