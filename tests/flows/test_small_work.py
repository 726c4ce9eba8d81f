"""Where work is done: in this process where it is small and nobody says otherwise."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from concurrent import futures
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from joblib.externals.loky import ProcessPoolExecutor
from prefect_service import ROOT
from runs import PoolWriter, fit

from flows.certify import run_certify
from flows.engine import cluster, tasks
from flows.engine.cluster import Workers, fitting, n_cores
from flows.engine.progress import Reporter
from flows.options.params import Compute, ReviewParams
from flows.review.prepare import prepared
from flows.scorings.scored import Trained
from pipeline.blocks.logits import fit_forests
from pipeline.graph.resources import exact_seconds, training_seconds
from storage.errors import ClusterError

SILENT = Reporter(quiet=True)


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


def in_a_worker(*functions: Callable[[], Any]) -> list[Any]:
    """What functions return in a process of a pool, which may have no children."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return [pool.apply(function) for function in functions]


def in_joblibs(*functions: Callable[[], Any]) -> list[Any]:
    """The same, in one of joblib's own kind, which may have children."""
    with ProcessPoolExecutor(1) as pool:
        return [pool.submit(function).result() for function in functions]


def in_a_fork(*functions: Callable[[], Any]) -> list[Any]:
    """The same, in a process forked from this one, which has had workers."""
    with closing(Workers(Compute(workers=1), SILENT)) as workers:
        workers.client()
    with futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return [pool.submit(function).result() for function in functions]


def of_much_work() -> tuple[int | None, bool]:
    fitted = fitting(Compute(), 1000.0)
    return fitted.workers, fitted.threads == n_cores()


def of_workers_asked_for() -> str:
    with (
        pytest.raises(ClusterError) as refused,
        closing(Workers(Compute(workers=1), SILENT)) as workers,
    ):
        workers.client()
    return str(refused.value)


@pytest.mark.parametrize("inside", [in_a_worker, in_joblibs, in_a_fork])
def test_a_worker_of_a_pool_starts_none(inside: Callable[..., list[Any]]) -> None:
    fitted, refused = inside(of_much_work, of_workers_asked_for)
    assert fitted == (0, True)
    assert "may start none; give --workers 0" in refused


def test_more_rows_are_more_work() -> None:
    seconds = [training_seconds("auto", n, 32) for n in (1000, 20_000, 10**5, 10**7)]
    assert seconds == sorted(seconds)
    assert training_seconds("exact", 10**5, 32) > exact_seconds(10**5, 32)


def test_a_small_pass_over_a_graph_starts_no_workers(
    pool: PoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(tmp_path / "run")
    fit(pool(), run)

    def started(n_workers: int | None) -> NoReturn:
        raise AssertionError(f"a cluster was started, of {n_workers} workers")

    monkeypatch.setattr(cluster, "_local_cluster", started)
    run_certify(run, quiet=True)
    prepared(Trained.of(run), ReviewParams.of(run, quiet=True), SILENT)


def test_a_small_training_imports_only_what_it_uses(pool: PoolWriter, tmp_path: Path) -> None:
    """Each of them costs a tenth of a small run or more; pyarrow would import pandas at its first
    array, and a pyproject.toml names Prefect as soon as a project depends on it."""
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["prefect"]\n')
    script = (
        "import atexit, gc, sys\n"
        "before = gc.get_threshold()\n"
        "from flows.cli import process\n"
        "spared = {'pandas', 'prefect', 'scipy.stats._stats_py', 'numpy.f2py.rules', 'unittest',\n"
        "    'cffi', 'narwhals.translate', 'sklearn.neighbors._base'}\n"
        "def used(): return sorted(spared & set(sys.modules)), gc.get_threshold() == before\n"
        "atexit.register(lambda: print(*used()))\n"
        "process()\n"
    )
    args = ["train", str(pool()), "--run", str(tmp_path / "run"), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path)},
    )
    assert done.stdout.splitlines()[-1] == "[] True"
    assert "p0" in done.stdout


def ran(script: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def sparing(*lines: str) -> str:
    """What lines print, in a process of their own that imports nothing unused."""
    start = "import sys\nfrom flows.engine.spared import without_unused\nwith without_unused():\n"
    done = ran(start + "".join(f"    {line}\n" for line in lines))
    done.check_returncode()
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("before", "during", "says"),
    [("", "say", ["say"]), ("say", "", ["say", "taken apart"]), ("", "", [])],
)
def test_a_process_leaves_when_all_have_been_called(
    before: str, during: str, says: list[str]
) -> None:
    """Taking modules apart takes a tenth of a second; who asked to be called at the end is."""
    script = (
        "import atexit, os, sys\n"
        "from flows import cli\n"
        "class Held:\n"
        "    def __del__(self, write=os.write): write(1, b'taken apart')\n"
        "def ask(word): word and atexit.register(print, word, flush=True)\n"
        "sys.held = Held()\n"
        f"ask({before!r})\n"
        f"cli.main = lambda: (ask({during!r}), 3)[1]\n"
        "cli.process()\n"
    )
    done = ran(script)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (3, says, "")


def test_a_process_leaves_though_the_loop_of_zarr_is_slow_to_stop() -> None:
    """As on a machine under load, where Zarr closed it while it ran: with a trace."""
    script = (
        "import time\n"
        "from flows import cli\n"
        "from zarr.core import sync\n"
        "cli.main = lambda: sync._get_loop().call_soon_threadsafe(time.sleep, 1) and 0\n"
        "cli.process()\n"
    )
    done = ran(script)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("used", "gives"),
    [
        ("rankdata([3.0, 1.0]).tolist()", "[2.0, 1.0]"),
        ("round(chi2.isf(0.05, 1), 3)", "3.841"),
        (
            "__import__('types').new_class('Own', (rv_continuous,)).__mro__[1].__name__",
            "rv_continuous",
        ),
        ("__import__('scipy.stats.mstats').stats.mstats.__name__", "scipy.stats.mstats"),
        (
            "(rankdata([1.0]).tolist(), __import__('numpy').f2py.get_include()[-3:])",
            "([1.0], 'src')",
        ),
    ],
)
def test_what_is_imported_later_is_there_when_it_is_used(used: str, gives: str) -> None:
    printed = sparing(
        "import sklearn.ensemble",
        "from scipy.stats import chi2, rankdata, rv_continuous",
        "before = 'scipy.stats._stats_py' in sys.modules",
        f"print(before, {used}, 'scipy.stats._stats_py' in sys.modules)",
    )
    assert printed == f"False {gives} True"


@pytest.mark.parametrize(
    ("used", "gives"),
    [
        ("NearestNeighbors().fit(x).kneighbors(x[:1], 1)[0].tolist()", "[[0.0]]"),
        ("__import__('sklearn.neighbors._base').neighbors.NearestNeighbors().n_neighbors", "5"),
        ("isinstance(1, NearestNeighbors)", "False"),
        ("LogisticRegression().fit(x, y).predict(x).tolist()", "[0, 1]"),
        ("DecisionTreeClassifier().fit(frame, y).feature_names_in_.tolist()", "['a']"),
        ("DecisionTreeClassifier().fit(x, y).n_features_in_", "1"),
        ("np.testing.assert_equal(1, 1)", "None"),
    ],
)
def test_scikit_learn_works_without_what_is_imported_later(used: str, gives: str) -> None:
    printed = sparing(
        "import numpy as np, polars",
        "from sklearn.neighbors import NearestNeighbors",
        "from sklearn.linear_model import LogisticRegression",
        "from sklearn.tree import DecisionTreeClassifier",
        "x, y, frame = np.eye(2)[:, 1:], np.arange(2), polars.DataFrame({'a': [0.0, 1.0]})",
        "print('narwhals.translate' in sys.modules, end=' ')",
        f"print({used}, 'narwhals.translate' in sys.modules)",
    )
    assert printed == f"False {gives} {'frame' in used}"


def test_plugins_of_packages_are_listed_once() -> None:
    script = (
        "from importlib import metadata\n"
        "from flows.engine.spared import without_unused\n"
        "listed, scanned = metadata.entry_points, []\n"
        "def scan(): scanned.append(None); return listed()\n"
        "metadata.entry_points = scan\n"
        "with without_unused():\n"
        "    import fsspec, zarr, numcodecs\n"
        "    some = metadata.entry_points(group='console_scripts')\n"
        "same = some == listed(group='console_scripts')\n"
        "print(len(scanned), same, metadata.entry_points is scan)\n"
    )
    assert ran(script).stdout.split() == ["1", "True", "True"]


def test_trees_of_several_classes_are_the_same_without_the_statistics_of_scipy() -> None:
    printed = sparing(
        "import numpy as np",
        "from pipeline.blocks.logits import fit_forests",
        "x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)",
        "forests = fit_forests(x, np.arange(200) % 3, 0)",
        "print(forests.digest, 'scipy.stats._stats_py' in sys.modules)",
    )
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    forests = fit_forests(x, np.arange(200) % 3, 0)
    assert forests is not None
    assert printed.split() == [forests.digest, "False"]


def test_the_dashboard_is_there_without_what_a_command_does_without(
    pool: PoolWriter, tmp_path: Path
) -> None:
    """Bokeh asks whether pandas is installed before it makes a page. The usual port is taken, as
    by another run that has just begun, which is nothing to warn of."""
    args = ["train", str(pool()), "--run", str(tmp_path / "run"), "--workers", "1"]
    with socket.socket() as taken:
        with suppress(OSError):  # somebody else has it
            taken.bind(("127.0.0.1", 8787))
        with subprocess.Popen(
            [sys.executable, "-c", "from flows.cli import process; process()", *args],
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(tmp_path)},
        ) as training:
            assert training.stderr is not None
            said = ""
            while "Dask dashboard: http" not in said:
                said += training.stderr.readline()
            with urllib.request.urlopen(said.split()[-1], timeout=30) as answer:
                page = answer.read()
            training.stderr.read()
    assert b"docs_json" in page
    assert "already in use" not in said


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('[project]\ndependencies = ["prefect"]\n', False),
        ("[tool.prefect.api]\nurl = 'http://127.0.0.1:1/api'\n", True),
        ("prefect = [", True),  # Prefect will say what is wrong with it
    ],
)
def test_prefect_is_asked_where_a_project_has_settings_for_it(
    text: str, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith("PREFECT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    assert tasks._settings_anywhere() is asked


def test_compiled_kernels_are_loaded_without_the_compiler(tmp_path: Path) -> None:
    """What compiling takes is a third of a second; it is there where a kernel is not compiled."""
    lines = [
        "from flows.engine.spared import collecting_seldom, started",
        "import numpy as np, sys",
        "collecting_seldom()",
        "from pipeline.blocks.logits import fold_of",
        "started()",
        "print(fold_of(np.eye(5, dtype=np.float32)), 'numba.cpython.setobj' in sys.modules)",
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", "\n".join(lines)]
    first, again = (
        subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()
        for _ in range(2)
    )
    assert first[:-1] == again[:-1]
    assert (first[-1], again[-1]) == ("True", "False")


COMMAND = "import flows.cli\nflows.cli.main = main\nflows.cli.process()"
WORKER = "import flows.engine.forked\nmain()"
PROGRAM = "import flows.cli\nmain()"
"""Of a command, of a worker, and of a program that calls us."""

PARTS = """
import ctypes, threading

def allocate():
    libc.malloc(50_000)
    met.wait()

def main():
    threads = [threading.Thread(target=allocate) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    out = ctypes.c_void_p(libc.fdopen(1, b"w"))
    libc.malloc_info(0, out)
    libc.fflush(out)

libc, met = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="of glibc")
@pytest.mark.parametrize(("whose", "parts"), [(COMMAND, 1), (WORKER, 1), (PROGRAM, 5)])
def test_memory_that_a_thread_frees_is_for_all(whose: str, parts: int) -> None:
    command = [sys.executable, "-c", PARTS + whose]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=env, check=False)
    assert done.stdout.count("<heap nr=") == parts


TOUCHED = """
import ctypes, resource

def touched():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    several = [libc.malloc(size) for _ in range(3)]
    for one in several:
        libc.memset(one, 1, size)
    for one in several:
        libc.free(one)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize()

def main():
    print([touched() > size for _ in range(3)], flush=True)

libc, size = ctypes.CDLL(None), 20_000_000
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
libc.free.argtypes = (ctypes.c_void_p,)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="of glibc")
@pytest.mark.parametrize(("whose", "anew"), [(COMMAND, False), (WORKER, False), (PROGRAM, True)])
def test_memory_that_is_freed_is_not_cleared_anew(whose: str, anew: bool) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", TOUCHED + whose],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.stdout.splitlines()[0] == str([True, anew, anew])
