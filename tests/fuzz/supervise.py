"""Give cases to processes; a process that dies or hangs is a verdict, too, and is replaced."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.law import HANG_SECONDS, MOST_RESIDENT_MB, Verdict

ROOT = Path(__file__).parents[2]
CASES_PER_PROCESS = 1000
MEMORY_DISK = "/dev/shm"
"""Where cases lie, if there is such a place: they are written to be thrown away."""


def _disk() -> str | None:
    return MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else None


class Process:
    """One worker with a folder of its own, in one that all share."""

    def __init__(self, seed: int, shared: str) -> None:
        self.base = Path(tempfile.mkdtemp(dir=shared))
        self.left = CASES_PER_PROCESS
        path = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
        with (self.base / "raw").open("wb") as raw:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.worker", str(self.base), str(seed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=raw,
                env={**os.environ, "PYTHONPATH": path, "PREFECT_LOGGING_TO_API_ENABLED": "false"},
                text=True,
            )

    def verdict(self, number: int) -> Verdict:
        self.left -= 1
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        timer = threading.Timer(HANG_SECONDS, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        hung = not timer.is_alive()
        timer.cancel()
        if line:
            verdict = Verdict(**json.loads(line))
            if verdict.resident_mb > MOST_RESIDENT_MB:  # what one case left counts for the next
                self.left = 0
            return verdict
        self.left = 0
        said = (self.base / "raw").read_text(errors="replace")[-1500:]
        return Verdict(number, "?", -3 if hung else -2, said, "", 0, 0.0, 0.0, 0.0, 0.0, 0, False)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.base, ignore_errors=True)


def verdicts(numbers: Sequence[int], seed: int, jobs: int) -> Iterator[Verdict]:
    """Verdicts on some cases, as they come."""
    with tempfile.TemporaryDirectory(prefix="knnoise-fuzz-", dir=_disk()) as shared:
        yield from _verdicts(numbers, seed, jobs, shared)


def _verdicts(numbers: Sequence[int], seed: int, jobs: int, shared: str) -> Iterator[Verdict]:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    found: queue.SimpleQueue[Verdict | BaseException] = queue.SimpleQueue()
    for number in numbers:
        waiting.put(number)

    def work() -> None:
        process = None
        try:
            while True:
                number = waiting.get_nowait()
                process = process or Process(seed, shared)
                found.put(process.verdict(number))
                if process.left <= 0:
                    process.close()
                    process = None
        except queue.Empty:
            pass
        except BaseException as error:
            found.put(error)
        finally:
            if process is not None:
                process.close()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for _ in numbers:
        verdict = found.get()
        if isinstance(verdict, BaseException):
            raise verdict
        yield verdict
    for worker in workers:  # which remove their folders
        worker.join()
