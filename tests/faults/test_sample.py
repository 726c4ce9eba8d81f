"""A sample of `make faults`: every law holds for every fault in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.checker import after_fault, after_resume, ended, records, whole
from faults.outcome import Outcome, table

TREE = Path(__file__).parents[2]
FAULTS = 80


@pytest.mark.timeout(1800)
def test_sample_of_faults() -> None:
    """In a process of its own: it forks, and this one has threads."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TREE), str(TREE / "tests")])}
    done = subprocess.run(
        [sys.executable, "-m", "faults", "--quick", "--faults", str(FAULTS)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert f"{FAULTS} " in done.stdout.splitlines()[-2]


RECORD = b'{"files": {"results.zarr/a": [3, "00000000616263"]}, "result": {"n": 1}}'
RUN = {"ledger/step/a.json": RECORD, "results.zarr/a": b"abc", "report.json": b'{"p0": 0.1}'}


def test_judge_accepts_what_is_right() -> None:
    record = records(RUN)["ledger/step/a.json"]
    assert whole(RUN, record)
    assert after_fault(RUN, RUN, RUN) == []
    assert after_fault({}, RUN, {}) == []
    assert after_resume(RUN, RUN, {}) == []
    assert ended(0, 1.0, "") == []
    assert ended(3, 1.0, "knnoise: disk full; run again\n") == []


def test_judge_sees_what_is_wrong() -> None:
    """Each law once: a judge that is never severe judges nothing."""
    torn = {**RUN, "results.zarr/a": b"ab"}
    other = {**RUN, "ledger/step/a.json": RECORD.replace(b'"n": 1', b'"n": 2')}
    lost = {k: v for k, v in RUN.items() if not k.startswith("ledger/")}
    assert "not whole" in after_fault(torn, RUN, {})[0]
    assert "another outcome" in after_fault(other, RUN, {})[0]
    assert "is lost" in after_fault(lost, RUN, RUN)[0]
    assert "another result" in after_fault({"report.json": b'{"p0": 0.2}'}, RUN, {})[0]
    assert "no such part" in after_fault({**RUN, "ledger/step/b.json": RECORD}, RUN, {})[0]
    again = {**RUN, "ledger/step/a.json": RECORD + b" "}
    assert after_resume(again, RUN, RUN) == ["ledger/step/a.json: computed again"]
    begun = {**RUN, "ledger/ingest-pool/0.json": RECORD}
    changed = {**begun, "ledger/ingest-pool/0.json": RECORD + b" "}
    assert after_resume(changed, begun, begun) == []  # the pass had not ended
    of_pool = {**begun, "ledger/pool/all.json": RECORD}
    assert any("computed again" in wrong for wrong in after_resume(changed, begun, of_pool))
    assert "extra" in after_resume({**RUN, "results.zarr/b": b""}, RUN, {})[0]
    assert any("missing" in wrong for wrong in after_resume({}, RUN, {}))
    assert ended(1, 1.0, "knnoise: x\n") == ["exit status 1"]
    assert "took 61 s" in ended(4, 61.0, "knnoise: x\n")
    assert "0 lines" in ended(3, 1.0, "")[0]
    assert "raw words" in ended(4, 1.0, "knnoise: unexpected KeyError: 'x'\n")[0]


def test_table_counts() -> None:
    outcomes = [Outcome("EIO", "a"), Outcome("EIO", "b", ["wrong"]), Outcome("delay", "c")]
    lines = table(outcomes).splitlines()
    assert lines[0].split()[:3] == ["fault", "injected", "survived"]
    assert lines[-1].split()[:4] == ["all", "3", "2", "0"]
