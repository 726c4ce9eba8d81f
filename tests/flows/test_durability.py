"""Killed at any moment, a run resumes and ends with the same bits."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory

import pytest
from processes import committed, forked, kill, killed_at, running, wait_for
from runs import AS_IN_FIT, PoolWriter, fit, results

MOMENTS = 3
PARAMS = ("--k", "10", "--block-rows", "300", "--workers", "2")


@contextmanager
def training(
    source: Path, run: Path, *more: str, env: Mapping[str, str] | None = None
) -> Iterator[Popen[bytes]]:
    args = ("-m", "flows.cli", "train", source, "--run", run, *PARAMS, *more)
    with running(*args, log=run.with_suffix(".log"), env=env) as process:
        yield process


@pytest.fixture(scope="module")
def undisturbed(shared_pool: PoolWriter) -> tuple[Path, Path]:
    """A source, and a run on it that nothing disturbed."""
    source = shared_pool(2000)
    fit(source, source.parent / "undisturbed", block_rows=300, metric="auto")
    return source, source.parent / "undisturbed"


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_run_killed_at_a_random_moment(
    undisturbed: tuple[Path, Path], tmp_path: Path, moment: int
) -> None:
    source, reference = undisturbed
    run, chance = tmp_path / "run", random.Random(moment)
    least = chance.randrange(1, committed(reference) * 3 // 4)
    with training(source, run) as process:
        killed_at(process, run, least, tree=moment % 2 == 1)
    kept = {file: file.stat().st_mtime_ns for file in (run / "ledger").rglob("*.json")}
    fit(source, run, block_rows=300, metric="auto")
    assert results(run) == results(reference)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


def test_worker_killed_in_the_middle_of_a_block(pool: PoolWriter, tmp_path: Path) -> None:
    source, run = pool(12_000, d=8), tmp_path / "run"
    options = {"block_rows": 2000, "builder": "join"}
    more = ("--builder", "join", "--block-rows", "2000", *AS_IN_FIT)
    with training(source, run, *more) as process:
        wait_for(lambda: committed(run, "neighbors") >= 1)
        kill(forked(process.pid)[0])
        assert process.wait(300) == 0
    fit(source, tmp_path / "undisturbed", **options)
    assert results(run) == results(tmp_path / "undisturbed")


def test_workers_killed_while_one_makes_all_lists(pool: PoolWriter, tmp_path: Path) -> None:
    """By several threads of one of them; then the lists are those of one thread."""
    source, run = pool(40_000, d=8), tmp_path / "run"
    more = ("--k", "10", "--builder", "join", "--workers", "2", *AS_IN_FIT)
    args = ("-m", "flows.cli", "train", source, "--run", run, *more)
    with running(*args, log=tmp_path / "run.log") as process:
        wait_for(lambda: committed(run, "blocks") >= 2)
        for worker in forked(process.pid):
            kill(worker)
        assert process.wait(300) == 0
    assert committed(run, "neighbors") == 1
    assert committed(run, "graph") == 0
    fit(source, tmp_path / "undisturbed", builder="join")
    assert results(run) == results(tmp_path / "undisturbed")


def test_interrupted_run_says_how_to_resume(undisturbed: tuple[Path, Path], tmp_path: Path) -> None:
    source, reference = undisturbed
    run = tmp_path / "run"
    with (
        TemporaryDirectory() as temporary,  # of a short name, as sockets lie in it
        training(source, run, env={**os.environ, "TMPDIR": temporary}) as process,
    ):
        wait_for(lambda: committed(run) >= 3)
        for one in (*forked(process.pid), process.pid):  # as Ctrl-C of a terminal does
            os.kill(one, signal.SIGINT)
        assert process.wait(60) == 4
        assert not [*Path(temporary).glob("pymp-*")]
    log = run.with_suffix(".log").read_text()
    assert "run the same command again" in log
    assert "Traceback" not in log
    fit(source, run, block_rows=300, metric="auto")
    assert results(run) == results(reference)
