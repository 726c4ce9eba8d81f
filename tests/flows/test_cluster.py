"""The same bits from one process, from two workers, and from a cluster of processes by address."""

from __future__ import annotations

import copy
import logging
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import pandas as pd
import psutil
import pytest
from clusters import kill_worker, separate_cluster, separate_worker
from distributed import Client, LocalCluster, node
from distributed.http.routing import RoutingApplication
from distributed.scheduler import KilledWorker
from processes import committed, kill_tree, running, wait_for
from runs import AS_IN_FIT, PoolWriter, fit, results

from flows.engine.cluster import Machine, Workers
from flows.engine.parts import lost_cluster
from flows.engine.progress import Reporter
from flows.engine.results import result_of
from flows.options.params import Compute
from flows.orchestration.session import open_job
from flows.score import score
from flows.steps.graph.partition import CutChosen
from storage.errors import ClusterError, InputError
from storage.runs.run import Run

OPTIONS: dict[str, Any] = {"block_rows": 1500, "builder": "join"}


@pytest.fixture
def reference(pool: PoolWriter, tmp_path: Path) -> tuple[Path, Path, Path]:
    """A source, queries, and a run with its scores made by this process."""
    source, queries = pool(6000, d=8), pool(400, d=8, seed=3, name="queries.npz")
    fit(source, tmp_path / "one", **OPTIONS)
    score.fn(str(queries), str(tmp_path / "one"), str(tmp_path / "one.parquet"), workers=0)
    return source, queries, tmp_path / "one"


def test_cluster_does_not_change_a_bit(
    reference: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, queries, one = reference
    fit(source, tmp_path / "two", workers=2, **OPTIONS)
    score.fn(str(queries), str(tmp_path / "two"), str(tmp_path / "two.parquet"), workers=2)
    with separate_cluster(tmp_path, 2) as address:
        fit(source, tmp_path / "far", workers=None, scheduler=address, **OPTIONS)
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", address)
        score.fn(str(queries), str(tmp_path / "far"), str(tmp_path / "far.parquet"))
    for name in ("two", "far"):
        assert results(tmp_path / name) == results(one)
        scores = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert scores.equals(pd.read_parquet(tmp_path / "one.parquet"))


def test_workers_of_another_version_are_refused(pool: PoolWriter, tmp_path: Path) -> None:
    source = pool()
    with (
        separate_cluster(tmp_path, 1) as address,
        Client(address, timeout="60s", set_as_default=False) as client,
    ):
        for change, theirs in (
            ("import flows.engine.parts as parts; parts.VERSION = '0.1.1'", "0.1.1"),  # came late
            ("VERSION = '0.1.0'", "0.1.0"),
            ("del _version", "none like this"),
        ):
            client.run(exec, f"import flows.engine.cluster as of; exec({change!r}, vars(of))")
            with pytest.raises(ClusterError, match=f"a worker of the cluster has knnoise {theirs}"):
                fit(source, tmp_path / "run", workers=None, scheduler=address)


def test_what_killed_workers_is_mended_in_a_way_that_a_run_allows(
    pool: PoolWriter, tmp_path: Path
) -> None:
    """Fewer rows a block are other parameters, with which no run is resumed."""
    said = lost_cluster(KilledWorker("neighbors-region-00000", None, 3))
    assert said is not None
    assert said.endswith("run again to resume, or lower --block-rows in another --run folder")
    fit(source := pool(), tmp_path / "run")
    with pytest.raises(InputError, match="begun otherwise: block_rows"):
        fit(source, tmp_path / "run", block_rows=100)


def test_a_client_that_gave_up_on_its_scheduler_says_that_it_is_gone() -> None:
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as scheduler:
        client = Client(scheduler, set_as_default=False)
        future = client.submit(int, 1)
        client.close()
        with pytest.raises(Exception, match="closed") as gone:
            client.cancel(future)
    said = lost_cluster(gone.value)
    assert said is not None
    assert said.startswith("the scheduler is gone")


@pytest.mark.parametrize(("n_threads", "together"), [(4, True), (1, False)])
def test_a_worker_of_several_threads_makes_all_lists_at_once(
    n_threads: int, together: bool, pool: PoolWriter, tmp_path: Path
) -> None:
    """A worker is killed midway, another goes on: the same bits as one process makes. Where
    workers have one thread, blocks are made of their own; here it is one."""
    source, run = pool(6000, d=8), tmp_path / "run"
    asked = ("--k", "10", "--builder", "join", *AS_IN_FIT)
    args = ("-m", "flows.cli", "train", source, "--run", run, *asked)
    with (
        separate_cluster(tmp_path, 1, n_threads) as address,
        running(*args, "--scheduler", address, log=tmp_path / "run.log") as process,
    ):
        wait_for(lambda: committed(run, "route") >= 1)
        kill_worker(address)
        with separate_worker(tmp_path, address, 1, n_threads):
            assert process.wait(400) == 0
    cut = Run.of(str(run)).ledger.get("partition", "all")
    assert cut is not None
    assert result_of(cut, CutChosen).wide == together
    fit(source, tmp_path / "one", builder="join")
    assert results(run) == results(tmp_path / "one")


def test_lost_scheduler_is_said_and_the_run_resumes(pool: PoolWriter, tmp_path: Path) -> None:
    source, run = pool(1200), tmp_path / "run"
    asked = ("--k", "10", "--block-rows", "100", *AS_IN_FIT)
    args = ("-m", "flows.cli", "train", source, "--run", run, *asked)
    with (
        separate_cluster(tmp_path, 1) as address,
        running(*args, "--scheduler", address, log=tmp_path / "run.log") as process,
    ):
        wait_for(lambda: committed(run, "blocks") >= 3)
        kill_tree(scheduler_pid(address))
        assert process.wait(60) == 4
    told = (tmp_path / "run.log").read_text()
    assert re.match(r"knnoise: \w+: the scheduler is gone", told.splitlines()[-1])
    assert "Traceback" not in told
    assert "ERROR" not in told
    fit(source, run, block_rows=100)
    fit(source, tmp_path / "undisturbed", block_rows=100)
    assert results(run) == results(tmp_path / "undisturbed")


def test_lost_workers_are_said_and_nobody_waits_for_them(pool: PoolWriter, tmp_path: Path) -> None:
    source, run = pool(3000), tmp_path / "run"
    asked = ("--k", "10", "--block-rows", "100", *AS_IN_FIT)
    args = ("-m", "flows.cli", "train", source, "--run", run, *asked)
    with (
        separate_cluster(tmp_path, 1) as address,
        running(*args, "--scheduler", address, log=tmp_path / "run.log") as process,
    ):
        wait_for(lambda: committed(run, "blocks") >= 3)
        kill_worker(address)
        assert process.wait(60) == 4
    told = (tmp_path / "run.log").read_text().splitlines()[-1]
    assert re.match(r"knnoise: .*there was no worker for \d+ s; what is done is kept", told)


@pytest.mark.parametrize("begun", ["pymp-", "knnoise-", "knnoise-*/dask-scratch-space/worker-"])
def test_who_is_interrupted_while_workers_start_leaves_nothing(
    pool: PoolWriter, tmp_path: Path, begun: str
) -> None:
    args = ("-m", "flows.cli", "train", pool(), "--run", tmp_path / "run", "--workers", "2")
    with TemporaryDirectory() as temporary:  # of a short name, as sockets have
        environment = {**os.environ, "TMPDIR": temporary}
        with running(*args, log=tmp_path / "run.log", env=environment) as process:
            wait_for(lambda: any(Path(temporary).glob(f"{begun}*")))
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 4
        assert os.listdir(temporary) == []


def _printed(code: str) -> str:
    """What a program prints, which ends well and without a word on stderr."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_start_that_is_given_up_hinders_no_later_one() -> None:
    code = (
        "from flows.engine.cluster import Compute, Reporter, Workers\n"
        "for wait in 0.3, 0.0, 0.8, 60:\n"
        "    workers = Workers(Compute(workers=1), Reporter(quiet=True))\n"
        "    workers._ready.wait(wait)\n"
        "    print(workers._ready.is_set(), flush=True)\n"
        "    workers.close()\n"
        "assert workers.client() is not None\n"
    )
    assert _printed(code).split()[-1] == "True"


def test_a_start_that_is_given_up_starts_no_other_server() -> None:
    code = (
        "from multiprocessing import forkserver\n"
        "from flows.engine import cluster\n"
        "start = forkserver.ensure_running\n"
        "forkserver.ensure_running = lambda: (start(), cluster._stop_importing())\n"
        "workers = cluster.Workers(cluster.Compute(workers=1), cluster.Reporter(quiet=True))\n"
        "workers._ready.wait()\n"
        "workers.close()\n"
        "assert forkserver._forkserver._forkserver_pid is None\n"
    )
    assert _printed(code) == ""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="sockets are made elsewhere then")
def test_a_temporary_folder_of_too_long_a_name_is_said(pool: PoolWriter, tmp_path: Path) -> None:
    (temporary := tmp_path / ("long" * 25)).mkdir()
    args = ("-m", "flows.cli", "train", pool(), "--run", tmp_path / "run", "--workers", "1")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with running(*args, log=tmp_path / "run.log", env=environment) as process:
        assert process.wait(60) == 4
    told = (tmp_path / "run.log").read_text().splitlines()[-1]
    assert "longlong has too long a name for the sockets of workers; set TMPDIR to" in told


def test_who_waits_for_a_first_worker_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For ten minutes, between two steps, nothing came."""
    monkeypatch.setattr("flows.engine.cluster.FIRST", 0.1)
    nobody = {"n_workers": 0, "processes": False, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", protocol="tcp", **nobody) as cluster:
        compute = Compute(scheduler=cluster.scheduler_address)
        with (
            open_job(Run.of(str(tmp_path)), compute, Reporter()) as job,
            pytest.raises(ClusterError, match="there was no worker for 0 s; start workers"),
        ):
            job.machine()
    assert logging.getLogger("distributed").level != logging.CRITICAL  # as it was meanwhile
    assert "the cluster has no worker: waiting for one\n" in capsys.readouterr().err


def test_dask_is_silent_until_the_last_of_several_clusters_is_closed() -> None:
    nobody = {"n_workers": 0, "processes": False, "dashboard_address": None}
    silent: list[bool] = []
    with LocalCluster(host="127.0.0.1", protocol="tcp", **nobody) as cluster:
        compute = Compute(scheduler=cluster.scheduler_address)
        one, other = (Workers(compute, Reporter(quiet=True)) for _ in range(2))
        for workers in one, other:
            workers.client()
        for workers in one, other:
            workers.close()
            silent.append(logging.getLogger("distributed").level == logging.CRITICAL)
    assert silent == [True, False]


def test_local_clusters_of_several_threads_leave_dask_as_it_was() -> None:
    """The first to begin ends first; each has its pages."""
    settings = copy.deepcopy(dask.config.config)
    several = [Workers(Compute(workers=1), Reporter(quiet=True)) for _ in range(2)]
    clients = [workers.client() for workers in several]
    for client in clients:
        assert client is not None
        with urllib.request.urlopen(client.dashboard_link, timeout=30) as answer:
            assert answer.status == 200
    for workers in several:
        workers.close()
    assert dask.config.config == settings
    assert node.RoutingApplication is RoutingApplication


def test_a_cluster_that_grows_with_its_work_gets_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.engine.cluster.FIRST", 20.0)
    none: dict[str, Any] = {"n_workers": 0, "processes": False, "dashboard_address": None}
    with LocalCluster(**none, threads_per_worker=2) as cluster:
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        with Client(cluster, set_as_default=False) as client:
            assert Machine.of_workers(client).threads == 2


def test_performance_report_of_a_cluster_by_address(pool: PoolWriter, tmp_path: Path) -> None:
    with separate_cluster(tmp_path, 1) as address:
        more = {"workers": None, "scheduler": address, "performance_report": True}
        fit(pool(2000), tmp_path / "run", block_rows=300, **more)
    assert "neighbors-region" in (tmp_path / "run" / "performance.html").read_text()


def scheduler_pid(address: str) -> int:
    """Process that listens at an address."""
    port = int(address.rsplit(":", 1)[1])
    (pid,) = {
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    }
    assert pid is not None
    return pid
