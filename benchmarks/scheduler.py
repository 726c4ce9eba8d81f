"""What a training costs besides its kernels, for pools larger than this machine.

    python benchmarks/scheduler.py --rows 250e6 --block-rows 25000

The steps of a training with as many parts, counts and slices as that many rows would have, through
the product's own jobs, exchange, ledger and Dask cluster; only the kernels do nothing, and one row
stands for all rows that go from one part to another. Prints a line for each step: parts, wall time,
milliseconds a part, processor time of the driver a part, and the driver's memory, now and at most
(it runs the scheduler too).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from flows.engine.collectives.sent import Inbox, incoming
from flows.engine.job import Job, Output, outcomes, peak_rss_mb
from flows.engine.parts import Part, block_name
from flows.engine.progress import Reporter
from flows.options.params import Compute
from flows.orchestration.session import open_job
from storage.arrays.exchange import Exchange
from storage.runs.ledger import Record
from storage.runs.pool import Pool
from storage.runs.run import Run

HOMES, LISTS = 12, 100
"""Blocks that the rows of one block, halo included, are at home in; rows sent to each."""
ANCHORS = 1900


def send(run: Run, part: Part) -> Output:
    """One row for each destination."""
    exchange, destination = part.args["to"], np.asarray(part.args["destination"])
    sent = exchange.send(part.name, destination, part.args["n_destinations"], {"row": destination})
    return Output([exchange.key(part.name)], sent)


def receive(run: Run, part: Part) -> Output:
    """Slices arrive; a file of a few bytes is written."""
    key = f"scratch.zarr/received/{part.name}"
    run.location.replace(key, str(len(part.args["inbox"].slices)).encode())
    return Output([key], {"rows": 0})


def nothing(run: Run, part: Part) -> Output:
    """A part that writes nothing but its record."""
    return Output([], {"recall": [1.0] * part.args["anchors"]})


class Simulation:
    """The steps of a training of `n_rows` rows in blocks of `block_rows`."""

    def __init__(self, job: Job, n_rows: int, block_rows: int, n_features: int) -> None:
        self.job = job
        self.n_parts = len(Pool(job.run, "pool", n_rows, n_features).parts())
        self.n_blocks = round(n_rows / block_rows)

    def steps(self) -> list[tuple[str, Callable[[], list[Record]]]]:
        """Names and what runs them; each step hands its records to the next."""
        p, b, held = self.n_parts, self.n_blocks, {}

        def keep(name: str, records: list[Record]) -> list[Record]:
            held[name] = records
            return records

        def arrived(name: str, n: int) -> list[Inbox]:
            return incoming(Exchange(self.job.run.location, name), held.pop(name), n)

        everywhere = range(b)
        return [
            ("route", lambda: keep("route", self._send("route", p, b, lambda i: everywhere))),
            ("blocks", lambda: self._receive("blocks", b, arrived("route", b))),
            ("neighbors", lambda: keep("lists", self._send("lists", b, b, self._near))),
            ("graph", lambda: self._receive("graph", b, arrived("lists", b))),
            ("audit", self._nothing),
            ("regression", lambda: keep("counts", self._send("counts", b, p, lambda i: range(p)))),
            ("labels", lambda: self._receive("labels", p, arrived("counts", p))),
        ]

    def _near(self, block: int) -> list[int]:
        first = max(0, min(block - HOMES // 2, self.n_blocks - HOMES))
        return np.repeat(np.arange(first, min(first + HOMES, self.n_blocks)), LISTS).tolist()

    def _send(
        self, step: str, n: int, n_destinations: int, to: Callable[[int], Sequence[int]]
    ) -> list[Record]:
        common = {"to": Exchange(self.job.run.location, step), "n_destinations": n_destinations}
        parts = [Part(block_name(i), {**common, "destination": to(i)}) for i in range(n)]
        return self.job.parts(step, send, parts)

    def _receive(self, step: str, n: int, inboxes: list[Inbox]) -> list[Record]:
        parts = [Part(block_name(i), {"inbox": inboxes[i]}) for i in range(n)]
        return self.job.parts(step, receive, parts)

    def _nothing(self) -> list[Record]:
        anchors = -(-ANCHORS // self.n_blocks)
        parts = [Part(block_name(i), {"anchors": anchors}) for i in range(self.n_blocks)]
        return self.job.parts("audit", nothing, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=25e6)
    parser.add_argument("--block-rows", type=int, default=25_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Run.of(Path(folder, "run"))
        run.begin({})
        resources = Compute(workers=args.workers)
        with open_job(run, resources, Reporter(quiet=True)) as job:
            job.workers.client()
            simulation = Simulation(job, int(args.rows), args.block_rows, args.features)
            print(
                f"{args.rows:,.0f} rows: {simulation.n_parts:,} parts of the pool, "
                f"{simulation.n_blocks:,} blocks; {args.workers} workers; "
                f"driver {resident():,.0f} MB"
            )
            print(
                f"{'step':<12} {'parts':>7} {'s':>8} {'ms/part':>8} {'driver ms':>9} {'MB':>7} "
                f"{'peak MB':>7}"
            )
            for name, do in simulation.steps():
                line(name, do)
            line("verify", job.verify)
            line("report", lambda: outcomes(run))
        files = list(Path(folder, "run", "ledger").rglob("*.json"))
        size = sum(path.stat().st_size for path in files)
        print(f"ledger: {len(files):,} records, {size / 1e6:,.0f} MB")


def line(name: str, do: Callable[[], Any]) -> None:
    """Run one step and print what it took."""
    start, cpu = time.perf_counter(), time.process_time()
    made = do()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    n = sum(map(len, made.values())) if name == "verify" else len(made)
    print(
        f"{name:<12} {n:>7,} {seconds:>8.1f} {1e3 * seconds / n:>8.1f} {1e3 * cpu / n:>9.1f} "
        f"{resident():>7,.0f} {peak_rss_mb():>7,.0f}",
        flush=True,
    )


def resident() -> float:
    """MB of this process."""
    return float(psutil.Process().memory_info().rss / 2**20)


if __name__ == "__main__":
    main()
