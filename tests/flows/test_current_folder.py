"""What lies beside the data is never imported."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from planted import plant
from prefect_service import ROOT
from runs import PoolWriter

from flows.engine import cluster
from flows.engine.progress import Reporter
from flows.options.params import Compute
from storage.errors import InputError


def knnoise(folder: Path, *args: object) -> None:
    """The command as pip installs it, called in a folder."""
    command = folder.parent / "bin" / "knnoise"
    command.parent.mkdir(exist_ok=True)
    command.write_text(
        "import sys\nfrom flows.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, command, *map(str, args)],
        cwd=folder,
        env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_commands_and_their_workers_import_nothing_from_the_current_folder(
    pool: PoolWriter, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    source, folder = pool(name="data/pool.npz"), tmp_path / "data"
    mark = plant(folder)
    knnoise(folder, "train", source.name, "--run", "run", "--k", 10, "--workers", 1)
    knnoise(folder, "score", source.name, "--run", "run", "--out", "s.parquet", "--workers", 0)
    knnoise(folder, "report", "--run", "run", "--html", "page.html")
    knnoise(folder, "status", "--run", "run")
    assert not mark.exists(), mark.read_text()


def test_workers_need_a_folder_to_begin_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with (
        closing(cluster.Workers(Compute(workers=1), Reporter(quiet=True))) as workers,
        pytest.raises(InputError, match="the current folder has been deleted"),
    ):
        workers.client()


def test_starting_workers_takes_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread that reads the environment meanwhile would find a name without a value."""
    taken: list[str] = []

    def take(environment: Mapping[str, str], name: str) -> None:
        taken.append(name)

    monkeypatch.setattr(type(os.environ), "__delitem__", take)
    before = set(os.environ)
    thread = threading.Thread(target=cluster._start_fork_server)
    thread.start()
    thread.join()
    assert (taken, set(os.environ) - before) == ([], set())


def test_workers_leave_no_number_of_threads_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Libraries that this process imports later, and its children, would have one thread."""
    names = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_"
    for name in names:
        monkeypatch.delenv(name, raising=False)
    with closing(cluster.Workers(Compute(workers=1), Reporter(quiet=True))) as workers:
        client = workers.client()
        assert client is not None
        assert client.submit(os.getenv, "OMP_NUM_THREADS").result() == "1"
    assert not set(names) & set(os.environ)
