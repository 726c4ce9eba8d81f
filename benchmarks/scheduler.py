"""Thousands of parts that do nothing, through the same calls as real ones: what a part costs beyond
its work, on the scheduler, in the ledger, and in the tables that join two steps.

    python benchmarks/scheduler.py [--parts 1000 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial

import psutil
from distributed import Client, LocalCluster

from flows.job import Output, execute
from flows.steps.lists import incoming
from pipeline.blockwise import Part, run_parts
from storage.ledger import Record
from storage.location import Location
from storage.run import Run

SLICES = 12
"""Blocks that a block's lists go to, itself among them: its halo's neighbours."""


def nothing(run: Run, part: Part) -> Output:
    """A part with the table of counts of a real one, and one small file."""
    n = part.args["n_blocks"]
    key = f"scratch/{part.name}"
    run.location.replace(key, b"done")
    near = sorted((part.args["block"] + i) % n for i in range(SLICES))
    return Output([key], {"sent": [[block, 100] for block in near]})


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20


def simulate(n: int, client: Client, scheduler: psutil.Process) -> dict[str, float]:
    """Seconds and megabytes of n parts."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Location.of(folder))
        parts = [Part(f"block-{i:05d}", {"block": i, "n_blocks": n}) for i in range(n)]
        before, start = megabytes(scheduler), time.perf_counter()
        done = list(
            run_parts(partial(execute, run, "step", nothing), parts, lambda: client, step="step")
        )
        ran = time.perf_counter() - start
        start = time.perf_counter()
        records: list[Record] = [run.ledger.records("step")[p.name] for p in parts[:1]]
        listed = time.perf_counter() - start
        start = time.perf_counter()
        slices = incoming(done, n)
        joined = time.perf_counter() - start
        assert len(records) == 1
        assert sum(map(len, slices)) == n * SLICES
        size = sum(len(record.to_json()) for record in done) / n
    return {
        "ms a part": 1e3 * ran / n,
        "ledger read, s": listed,
        "joining steps, s": joined,
        "record, kB": size / 1e3,
        "scheduler grew, MB": megabytes(scheduler) - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, nargs="*", default=[1000, 10_000])
    args = parser.parse_args()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        pid = client.run_on_scheduler(lambda: psutil.Process().pid)
        for n in args.parts:
            told = simulate(n, client, psutil.Process(pid))
            print(f"{n:,} parts: " + ", ".join(f"{name} {v:.2f}" for name, v in told.items()))


if __name__ == "__main__":
    main()
