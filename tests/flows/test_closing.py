"""However a run ends: the first error is the one that is shown, and no worker stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from runs import PoolWriter, fit

from flows.steps.graph import building
from storage import InputError, StorageError
from storage.files.location import Location


@pytest.fixture
def no_timings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is full when the times are kept."""
    replace = Location.replace

    def refuse(self: Location, key: str, content: bytes, **more: bool) -> None:
        if key == "timings.json":
            raise OSError(28, "No space left on device")
        replace(self, key, content, **more)

    monkeypatch.setattr(Location, "replace", refuse)


@pytest.mark.usefixtures("no_timings")
def test_run_whose_times_cannot_be_kept_is_finished(pool: PoolWriter, tmp_path: Path) -> None:
    assert fit(pool(), tmp_path / "run")["n_rows"] == 600


@pytest.mark.usefixtures("no_timings")
def test_first_error_is_shown_and_workers_are_closed(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the first error")

    monkeypatch.setattr(building, "find_pairs", fail)
    with pytest.raises(StorageError, match="the first error"):
        fit(pool(), tmp_path / "run", workers=1)
    left = [p for p in psutil.Process().children(recursive=True) if p.status() != "zombie"]
    servers = [p for p in left if "forkserver" in " ".join(p.cmdline())]
    assert not [p for server in servers for p in server.children()]


def test_bad_input_is_refused_and_leaves_nothing(pool: PoolWriter, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two classes"):
        fit(pool(y=[0] * 600), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_a_killed_worker_left_is_cleared_up_in_silence() -> None:
    """As where the terminal is closed: all that it started is hung up."""
    program = """
import multiprocessing, os, signal, time
from flows.engine.cluster import _start_resource_tracker
_start_resource_tracker()
semaphores = multiprocessing.get_context("spawn").Semaphore(), None
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.killpg(0, signal.SIGHUP)
time.sleep(0.5)
semaphores = None, multiprocessing.get_context("spawn").Semaphore()
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, start_new_session=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_semaphore_is_told_of_where_a_command_ends_at_once() -> None:
    """As Numcodecs makes one, from Python 3.14 on."""
    program = """
import multiprocessing
from flows import cli
lock = multiprocessing.get_context("forkserver").Lock()
cli.main = lambda: 4
cli.process()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (4, "")
