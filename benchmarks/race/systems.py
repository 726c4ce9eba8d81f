"""One system on one pool, in a process of its own:

python -m benchmarks.race.systems SYSTEM TASK FOLDER K RECALL BLOCK_ROWS OUT
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.race.measure import Meter
from pipeline.knn.distance import list_distance
from pipeline.knn.lists import row_recall

THREADS = len(os.sched_getaffinity(0))
GRAPH_STEPS = ("partition", "route", "blocks", "neighbors", "graph", "search")
RATE_STEPS = ("anchor", "anchors", "rates", "regression")
EFFORTS = [step << more for more in range(9) for step in (4, 5, 6, 7)]
"""Lists probed by faiss, or candidates held by hnswlib: the least that reaches the recall asked."""
Told = dict[str, Any]
Search = Callable[[np.ndarray, int], np.ndarray]


class Truth:
    """Exact distances of some rows of the pool, or of some queries."""

    def __init__(self, folder: Path, task: str, k: int) -> None:
        self.folder = folder
        self.pool = self.read()
        self.own = task == "graph"
        self.asked = self.pool
        if not self.own:
            with np.load(folder / "queries.npz") as held:
                self.asked = held["X"]
        which = "pool" if self.own else "queries"
        with np.load(folder / "truth.npz") as held:
            self.row, self.exact = held[f"{which}_row"], held[f"{which}_distance"][:, :k]

    def read(self) -> np.ndarray:
        """The pool from disk, as every system has to read it."""
        with np.load(self.folder / "pool.npz") as held:
            return held["X"]

    def recall(self, index: np.ndarray) -> float:
        """Of lists (row, any) of the rows sampled; the row itself is taken out."""
        index = index.astype(np.int64)
        if self.own:
            index = np.where(index == self.row[:, None], -1, index)
        distance = np.sort(list_distance(self.asked[self.row], self.pool, index), axis=1)
        return float(row_recall(distance[:, : self.exact.shape[1]], self.exact).mean())


def least_effort(search: Search, truth: Truth, k: int, recall: float, efforts: list[int]) -> int:
    """The first effort that reaches a recall, on the rows sampled; the last where none does."""
    asked = truth.asked[truth.row]
    for effort in efforts:
        if truth.recall(search(asked, effort)) >= recall:
            return effort
    return efforts[-1]


def faiss_ivf(truth: Truth, k: int, recall: float, task: str) -> Told:
    wide = k + truth.own
    n_lists = int(4 * np.sqrt(len(truth.pool)))

    def build() -> Any:
        import faiss

        faiss.omp_set_num_threads(THREADS)
        x = truth.read()
        index = faiss.index_factory(x.shape[1], f"IVF{n_lists},Flat")
        index.train(x[np.random.default_rng(0).permutation(len(x))[: 64 * n_lists]])
        index.add(x)
        return index

    def search(asked: np.ndarray, effort: int) -> np.ndarray:
        index.nprobe = effort
        return index.search(asked, wide)[1]

    with Meter().running() as built:
        index = build()
    efforts = [e for e in EFFORTS if e < n_lists]
    effort = least_effort(search, truth, k, recall, efforts)
    with Meter().running() as told:
        found = search(truth.asked, effort)
    return together(task, built, told) | {
        "recall": truth.recall(found[truth.row]),
        "effort": effort,
    }


def hnsw(truth: Truth, k: int, recall: float, task: str) -> Told:
    wide = k + truth.own
    with Meter().running() as built:
        import hnswlib

        x = truth.read()
        index = hnswlib.Index("l2", x.shape[1])
        index.init_index(len(x), ef_construction=100, M=16)
        index.set_num_threads(THREADS)
        index.add_items(x)

    def search(asked: np.ndarray, effort: int) -> np.ndarray:
        index.set_ef(effort)
        return index.knn_query(asked, wide)[0]

    efforts = [e for e in EFFORTS if e >= wide]
    effort = least_effort(search, truth, k, recall, [wide, *efforts])
    with Meter().running() as told:
        found = search(truth.asked, effort)
    return together(task, built, told) | {
        "recall": truth.recall(found[truth.row]),
        "effort": effort,
    }


def pynndescent_whole(truth: Truth, k: int, recall: float, task: str) -> Told:
    with Meter().running() as built:
        import pynndescent

        index = pynndescent.NNDescent(
            truth.read(), n_neighbors=k + 1, random_state=0, n_jobs=THREADS, low_memory=True
        )
        if task != "graph":
            index.prepare()
    with Meter().running() as told:
        graph = index.neighbor_graph[0] if task == "graph" else index.query(truth.asked, k=k)[0]
    return together(task, built, told) | {"recall": truth.recall(graph[truth.row]), "effort": 0}


def pynndescent_compiled(truth: Truth, k: int, recall: float, task: str) -> Told:
    """The same where its kernels are compiled: in a process that has built an index before."""
    import pynndescent

    x = np.random.default_rng(0).normal(size=(4000, truth.pool.shape[1])).astype(np.float32)
    pynndescent.NNDescent(x, n_neighbors=k + 1, n_jobs=THREADS, low_memory=True)
    return pynndescent_whole(truth, k, recall, task)


def sklearn_exact(truth: Truth, k: int, recall: float, task: str) -> Told:
    with Meter().running() as built:
        from sklearn.neighbors import NearestNeighbors

        model = NearestNeighbors(algorithm="brute", n_jobs=THREADS).fit(truth.read())
    with Meter().running() as told:
        found = model.kneighbors(truth.asked, k + truth.own, return_distance=False)
    return together(task, built, told) | {"recall": truth.recall(found[truth.row]), "effort": 0}


def together(task: str, built: Told, told: Told) -> Told:
    """A graph costs imports, reading, building and searching; queries cost searching, the rest told
    apart."""
    both = {"build_seconds": built["seconds"], **told}
    both["peak_mb"] = max(built["peak_mb"], told["peak_mb"])
    if task == "graph":
        for name in ("seconds", "core_seconds"):
            both[name] = built[name] + told[name]
    return both


def ours(folder: Path, k: int, recall: float, task: str, block_rows: int | None) -> Told:
    """A whole training, or the scoring of all queries with a finished one: the command line in a
    new process, on a machine that has run knnoise before."""
    run = folder / f"run-{k}-{recall:g}-{block_rows}"
    with tempfile.TemporaryDirectory(dir=folder) as work:
        x = np.random.default_rng(0).normal(size=(6000, 40)).astype(np.float32)
        np.savez(f"{work}/warm.npz", X=x, y=(x[:, 0] > 0).astype(np.int8))
        plain = ["--metric", "as-scaled", "--scale", "none"]  # distances are those of the peers
        shell(["train", f"{work}/warm.npz", "--run", f"{work}/warm", "--builder", "join", *plain])
        pool = str(folder / "pool.npz")
        command = ["train", pool, "--run", str(run), "--k", str(k), "--target-recall", str(recall)]
        command += plain
        command += [] if block_rows is None else ["--block-rows", str(block_rows)]
        if task == "graph":
            shutil.rmtree(run, ignore_errors=True)
        elif not (run / "report.json").exists():
            shell(command)
        if task != "graph":
            shutil.rmtree(run / "scores", ignore_errors=True)
            queries = str(folder / "queries.npz")
            command = ["score", queries, "--run", str(run), "--out", f"{work}/scores.parquet"]
        with Meter().running() as told:
            report = json.loads(shell([*command, "--json", "--quiet"]))
    found = graph_recall(run, Truth(folder, task, k)) if task == "graph" else report["recall"]
    return {**told, **described(report), "recall": found, "audit": report["recall"]}


def graph_recall(run: Path, truth: Truth) -> float:
    """Recall of a finished graph at the rows of the truth, as for the peers."""
    near = np.full(truth.exact.shape, np.inf, np.float32)
    for _, block in zarr.open_group(run / "results.zarr", mode="r")["graph"].groups():
        _, here, which = np.intersect1d(block["row"][...], truth.row, return_indices=True)
        near[which] = block["distance"].oindex[here, slice(near.shape[1])]
    return float(row_recall(near, truth.exact).mean())


def described(report: Told) -> Told:
    """What the report of a training or a scoring says of its cost."""
    steps = {name: (step, name.split("-")[0]) for name, step in report["steps"].items()}

    def core_seconds(wanted: tuple[str, ...]) -> float:
        return sum(step["core_seconds"] for step, kind in steps.values() if kind in wanted)

    return {
        "effort": report.get("copies", report.get("probes")),
        "kernel_seconds": sum(step["kernel_seconds"] for step, _ in steps.values()),
        "graph_core_seconds": core_seconds(GRAPH_STEPS),
        "rates_core_seconds": core_seconds(RATE_STEPS),
        "worker_mb": report["peak_rss_mb"],
        "driver_mb": report["driver_peak_rss_mb"],
        "by_step": report["seconds"],
        "blocks": report.get("n_blocks"),
        "warnings": report["warnings"],
    }


def from_the_shell(folder: Path, task: str) -> Told:
    """The command line as a newcomer meets it: `demo` where nothing was compiled yet; `csv`, the
    second training on a small file."""
    with tempfile.TemporaryDirectory() as work:
        if task == "demo":
            command = ["demo", "--dir", f"{work}/demo"]
            environment = {**os.environ, "NUMBA_CACHE_DIR": f"{work}/compiled"}
        else:
            environment = dict(os.environ)
            with np.load(folder / "pool.npz") as held:
                table = np.column_stack([held["X"], held["y"]])
            names = ",".join([*(f"x{i}" for i in range(table.shape[1] - 1)), "label"])
            np.savetxt(f"{work}/pool.csv", table, "%.7g", ",", header=names, comments="")
            command = ["train", f"{work}/pool.csv", "--label-column", "label", "--run"]
            shell([*command, f"{work}/first"], environment)
            command.append(f"{work}/second")
        with Meter().running() as told:
            shell(command, environment)
    return {**told, "recall": 1.0, "effort": None}


def shell(command: list[str], environment: dict[str, str] | None = None) -> str:
    """What a command of knnoise prints, its modules compiled once as those that pip installs."""
    knnoise = [sys.executable, "-m", "flows.cli", *command]
    env = {**(os.environ if environment is None else environment)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(knnoise, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


PEERS = {
    "faiss": faiss_ivf,
    "hnswlib": hnsw,
    "pynndescent": pynndescent_whole,
    "pynndescent-compiled": pynndescent_compiled,
    "scikit-learn": sklearn_exact,
}


def main() -> None:
    system, task, folder, k, recall, block_rows, out = sys.argv[1:]
    if task in ("demo", "csv"):
        told = from_the_shell(Path(folder), task)
    elif system == "knnoise":
        told = ours(Path(folder), int(k), float(recall), task, int(block_rows) or None)
    else:
        told = PEERS[system](Truth(Path(folder), task, int(k)), int(k), float(recall), task)
    Path(out).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
