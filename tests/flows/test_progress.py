"""What is seen of a run: a live line on a real terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pytest
from runs import AS_IN_FIT, PoolWriter

from flows.engine.progress import Reporter, Step, spell
from storage.runs.ledger import Record

STEPS = ("ingest", "anchors-search", "partition", "neighbors", "audit", "regression", "labels")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_terminal(command: list[object], columns: int = 100) -> tuple[int, str]:
    """Exit status of a process whose stderr is a pseudo-terminal, and what it wrote there."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES"):  # processes of pytest-xdist have them, and rich obeys
        environment.pop(name, None)
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=theirs, env=environment
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            more = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        written += more
    os.close(ours)
    return process.wait(60), written.decode()


def train_command(source: Path, run: Path, *more: object) -> list[object]:
    args = ("train", source, "--run", run, "--k", "10", "--block-rows", "300")
    return [sys.executable, "-m", "flows.cli", *args, *AS_IN_FIT, *more]


def test_a_live_line_for_each_step_on_a_terminal(pool: PoolWriter, tmp_path: Path) -> None:
    status, written = on_terminal(train_command(pool(2000), tmp_path / "run", "--workers", "2"))
    assert status == 0, written
    assert "\x1b[2K" in written  # a line is drawn over
    assert "Dask dashboard: http://" in written
    shown = [line.strip() for line in re.split(r"[\r\n]+", _CONTROL.sub("", written))]
    for step in STEPS:
        assert any(line.startswith(f"{step} ") for line in shown), step
    ended = r"labels +\S+ 1 of 1 parts, [\d.]+ s, [\d,.]+/\w+, 2 workers, recall 1.0000"
    assert any(re.match(ended, line) for line in shown), shown
    assert max(map(len, shown)) <= 100


def test_narrow_terminal_keeps_to_one_line(pool: PoolWriter, tmp_path: Path) -> None:
    command = train_command(pool(2000), tmp_path / "run", "--workers", "0")
    status, written = on_terminal(command, columns=50)
    assert status == 0, written
    frames = re.sub(r"\x1b\[\d*[AK]", "\n", written)  # erased or moved away from: a new line
    lines = [line.strip() for line in re.split(r"[\r\n]+", _CONTROL.sub("", frames))]
    assert [line for line in lines if len(line) > 50] == []


def test_plain_lines_where_there_is_no_terminal(pool: PoolWriter, tmp_path: Path) -> None:
    done = subprocess.run(
        list(map(str, train_command(pool(2000), tmp_path / "run", "--workers", "0"))),
        env={**os.environ, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    for step in STEPS:
        assert len(re.findall(rf"^{step}: ", done.stderr, re.MULTILINE)) == 1
    assert re.search(r"^neighbors: \d+ of \d+ parts, [\d.]+ s, .*/", done.stderr, re.MULTILINE)


def test_recall_is_told_while_it_is_measured_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    with reporter.step("audit", 2) as tick:
        tick(record=Record("audit", "block-00000", {}, {"recall": [1.0, 1.0, 0.5]}, {"seconds": 1}))
        tick(record=Record("audit", "block-00001", {}, {"recall": [0.5]}, {"seconds": 1}))
    with reporter.step("regression", 1) as tick:
        tick()
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("recall 0.7500")
    assert second.endswith("recall 0.7500")


def test_a_slow_step_is_told_while_it_lasts_and_once_at_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where it has one part alone."""
    monkeypatch.setattr("flows.engine.progress._PLAIN_SECONDS", 0.3)
    with Reporter().step("metric", 1) as tick:
        time.sleep(0.5)
        tick()
    begun, ended = capsys.readouterr().err.splitlines()
    assert begun.startswith("metric: 0 of 1 parts, ")
    assert begun.endswith(" so far")
    assert ended.startswith("metric: 1 of 1 parts, ")


def test_time_left_counts_what_this_invocation_did(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step("neighbors", 100, "parts", resumed=50, done=60, started=0.0)
    monkeypatch.setattr("flows.engine.progress.time.monotonic", lambda: 20.0)
    assert step.rate == pytest.approx(0.5)
    assert step.seconds_left == pytest.approx(80.0)
    assert step.percent == pytest.approx(60.0)
    assert step.line() == "neighbors: 60 of 100 parts, 20 s, 0.5/s, 80 s left"


@pytest.mark.parametrize(
    ("now", "n_workers", "end"),
    [
        (60.0, 2, "9.0/min, 6.7 s left, 2 workers"),
        (80.0, 2, "6.8/min, the last 35 s ago, 2 workers"),  # one is stopped, or gone
        (80.0, 9, "6.8/min, 8.9 s left, 9 workers"),  # which may all be at work
    ],
)
def test_no_end_is_told_where_nothing_comes(
    now: float, n_workers: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step("neighbors", 10, "parts", 0, 9, n_workers, started=0.0, last=45.0)
    monkeypatch.setattr("flows.engine.progress.time.monotonic", lambda: now)
    assert step.line().endswith(f"9 of 10 parts, {now:.0f} s, {end}")


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.04, "0.0 s"), (59.6, "60 s"), (600, "10 min"), (9000, "2.5 h")]
)
def test_spans_of_time(seconds: float, told: str) -> None:
    assert spell(seconds) == told
