"""`make soak`: scheduled scorings, one new file each; prints what they leave in the processes that
stay, and says which of it grows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from prefect_service import Prefect, environment, free_port, serving
from processes import running
from runs import fit

from pipeline.simulate import flip, sheets

SETTLED = 10
"""Runs after which processes have loaded what they need."""
MOST_GROWTH = 0.05
"""Growth of memory in 100 runs that counts as none, as a share of the process's."""


@dataclass(frozen=True)
class Sample:
    """What a process, with those it has started for good, holds after some runs."""

    rss_mb: float
    files: int
    threads: int

    @classmethod
    def of(cls, pid: int, *, family: bool) -> Sample:
        process = psutil.Process(pid)
        members = [process, *(process.children(recursive=True) if family else [])]
        return cls(
            sum(member.memory_info().rss for member in members) / 2**20,
            sum(member.num_fds() for member in members),
            sum(member.num_threads() for member in members),
        )


@contextmanager
def cluster(folder: Path, env: dict[str, str]) -> Iterator[tuple[str, dict[str, int]]]:
    """The address of a scheduler with one worker; pids by name."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port)
    worker = ("-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard")
    with ExitStack() as stack:
        pids = {}
        for name, args in (
            ("dask scheduler", (*scheduler, "--dashboard-address", "127.0.0.1:0")),
            ("dask worker", worker),
        ):
            log = folder / f"{name}.log"
            pids[name] = stack.enter_context(running(*args, log=log, env=env)).pid
        yield address, pids


def temporary_files(folder: Path) -> int:
    """Files and folders below a folder."""
    return sum(1 for _ in folder.rglob("*"))


def completed(server: Prefect) -> int | None:
    """Flow runs that ended well; None where the server is too busy to answer."""
    wanted = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    try:
        return int(server.ask("flow_runs/count", wanted))
    except OSError:
        return None


def write_file(folder: Path, number: int) -> None:
    """The one file to be scored next."""
    for old in folder.iterdir():
        old.unlink()
    np.savez(folder / f".{number}.npz", X=sheets(500, 1000 + number)[0])
    os.replace(folder / f".{number}.npz", folder / f"{number}.npz")


def soak(folder: Path, n_runs: int, every: float, end: float) -> list[dict[str, Sample | int]]:
    """Samples after each run, until the clock is at `end`."""
    for name in ("in", "tmp"):
        (folder / name).mkdir()
    x, clean, _ = sheets(3000, 0)
    np.savez(folder / "pool.npz", X=x, y=flip(clean, 0.3, 0.1, 0))
    fit(folder / "pool.npz", folder / "run", builder="exact")
    server = Prefect(folder, environment(folder, free_port(), TMPDIR=str(folder / "tmp")))
    samples: list[dict[str, Sample | int]] = []
    with serving(server) as serves, cluster(folder, server.env) as (address, pids):
        server.deploy()
        places = {"source": "in", "run": "run", "out": "out"}
        parameters = {name: str(folder / place) for name, place in places.items()}
        write_file(folder / "in", 0)
        with server.worker() as worker:
            server.copy(
                *("nightly", "soak"),
                parameters={**parameters, "new_files": True, "scheduler": address},
                schedules=[{"schedule": {"interval": every}}],
            )
            done = 0
            while len(samples) < n_runs and time.monotonic() < end:
                time.sleep(0.5)
                before, done = done, completed(server) or done
                if done == before:
                    continue
                write_file(folder / "in", done)
                samples.append(
                    {
                        "prefect server": Sample.of(serves.pid, family=True),
                        "prefect worker": Sample.of(worker.pid, family=False),
                        **{name: Sample.of(pid, family=True) for name, pid in pids.items()},
                        "temporary files": temporary_files(folder / "tmp"),
                    }
                )
                print(f"{len(samples)} of {n_runs}: {samples[-1]}", file=sys.stderr, flush=True)
            n_scored = len(list((folder / "out").iterdir()))
    print(f"{len(samples)} scheduled runs, {n_scored} files scored")
    return samples


def slope(values: list[float]) -> float:
    """Growth in 100 runs, once settled; by least squares."""
    settled = values[min(SETTLED, len(values) // 2) :]
    if len(settled) < 2:
        return 0.0
    return float(np.polyfit(np.arange(len(settled)), settled, 1)[0]) * 100


def table(samples: list[dict[str, Sample | int]]) -> tuple[str, list[str]]:
    """What is printed, and what grows."""
    lines = [
        f"| process | after | {' | '.join(str(n) for n in _shown(samples))} | in 100 runs |",
        f"|---|---|{'---:|' * len(_shown(samples))}---:|",
    ]
    grows = []
    for name, first in samples[0].items():
        quantities = ("rss_mb", "files", "threads") if isinstance(first, Sample) else ("number",)
        for quantity in quantities:
            values = [float(getattr(s[name], quantity, s[name])) for s in samples]  # type: ignore[arg-type]
            shown = " | ".join(f"{values[n - 1]:,.0f}" for n in _shown(samples))
            growth = slope(values)
            lines.append(f"| {name} | {quantity} | {shown} | {growth:+.1f} |")
            allowed = MOST_GROWTH * values[-1] if quantity == "rss_mb" else 3.0
            if growth > allowed:
                grows.append(f"{name}: {quantity} by {growth:+.1f} in 100 runs")
    return "\n".join(lines), grows


def _shown(samples: list[dict[str, Sample | int]]) -> list[int]:
    """Numbers of runs after which the table shows samples."""
    quarters = (len(samples) * part // 4 for part in (1, 2, 3, 4))
    return sorted({1, min(SETTLED, len(samples)), *quarters} - {0})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--every", type=float, default=20.0, help="seconds of the schedule")
    parser.add_argument("--minutes", type=float, default=120.0, help="after which it is ended")
    args = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="knnoise-soak-") as folder:
        samples = soak(Path(folder), args.runs, args.every, start + 60 * args.minutes)
    text, grows = table(samples)
    print(text)
    print(f"{time.monotonic() - start:,.0f} s; " + ("; ".join(grows) or "nothing grows"))
    return 1 if grows else 0


if __name__ == "__main__":
    sys.exit(main())
