"""What Prefect and progress cost: the same training as a plain function that tells nothing, and as
a flow on a running server with progress, log and artifacts.

    python benchmarks/overhead.py pool.npz --pairs 3

Each pair runs both, in alternating order. Beside wall times, which others on the machine disturb,
it prints what the flow spent inside calls that tell somebody something: terminal, logs, artifacts
(these ask the server in a thread of their own), all of it in the driver.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
from picture_dashboards import prefect_server

WARM_ROWS = 60_000
SPENT: dict[str, float] = {}
"""Seconds by watcher, in this process."""


def clocked(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, its time added to `SPENT`."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            SPENT[name] = SPENT.get(name, 0.0) + time.perf_counter() - start

    return timed


def clock_watchers() -> None:
    """Measure all that is told."""
    from flows.engine.progress import Logged, RunLog, Terminal
    from flows.orchestration.artifacts import Artifacts

    for kind in (Artifacts, Logged, RunLog, Terminal):
        for name in ("begin", "advance", "end", "say", "link", "finish", "event", "flush"):
            # `event` and `flush` of a log are called by others of its methods.
            if name in vars(kind) and (kind is not RunLog or name not in ("event", "flush")):
                setattr(kind, name, clocked(kind.__name__, vars(kind)[name]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pool", help="an .npz with X and y")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--k", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, prefect_server(Path(work)) as (_, environment):
        os.environ.update(environment)  # before Prefect is imported
        from flows.train import train

        clock_watchers()
        options = {"k": args.k, "workers": args.workers, "builder": "join"}

        few = f"{work}/few.npz"
        with np.load(args.pool) as data:
            np.savez(few, X=data["X"][:WARM_ROWS], y=data["y"][:WARM_ROWS])

        def measure(kind: str, number: int, pool: str = args.pool) -> tuple[float, float]:
            """Wall time of a training, and of its steps alone."""
            SPENT.clear()
            run = f"{work}/{kind}-{number}"
            start = time.perf_counter()
            if kind == "plain":
                told = train.fn(pool, run, quiet=True, **options)
            else:
                with Path(f"{run}.log").open("w") as log, redirect_stderr(log):
                    told = train(pool, run, **options)
            return time.perf_counter() - start, sum(told["seconds"].values())

        measure("plain", -1, few)  # compiles
        ratios = []
        for number in range(args.pairs):
            order = ("plain", "flow") if number % 2 == 0 else ("flow", "plain")
            found, spent = {}, {}
            for kind in order:
                found[kind], spent[kind] = measure(kind, number), dict(SPENT)
            plain, flow = found["plain"][0], found["flow"][0]
            ratios.append(flow / plain)
            told = ", ".join(f"{name} {value:.2f}" for name, value in sorted(spent["flow"].items()))
            total = sum(spent["flow"].values())
            print(
                f"plain {plain:.1f} s, flow {flow:.1f} s, ratio {flow / plain:.3f}; outside of "
                f"steps {plain - found['plain'][1]:.1f} and {flow - found['flow'][1]:.1f} s; "
                f"telling {total:.2f} s = {total / flow:.2%} of the flow ({told})",
                flush=True,
            )
        print(f"median ratio {statistics.median(ratios):.3f}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
