"""Commands as processes of their own, forked from a warm one; and the runs they are tried on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem

from faults import checker
from faults.injector import Fault, plant
from faults.kinds import KINDS, Kind

N_ROWS = 120
"""Of a pool: in two blocks, which have the steps and operations of more, and fewer files."""
HANGS = 90.0
"""Seconds after which a command is killed."""
TRAIN = (
    *("--k", "5", "--block-rows", "60", "--builder", "exact", "--quiet"),
    *("--metric", "as-scaled"),  # learning one is a third of a small run
)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    """As the shell has it; minus the signal that killed it."""
    seconds: float
    out: str
    err: str

    @property
    def wrong(self) -> list[str]:
        """Laws of its end that it broke."""
        if self.status == -signal.SIGKILL:
            return ["hangs"] if self.seconds > HANGS else []
        return checker.ended(self.status, self.seconds, self.err)


@dataclass(frozen=True)
class Child:
    """A command under way."""

    pid: int
    began: float
    place: Path

    def wait(self) -> Ended:
        """Its end. A process that was stopped is continued after a while."""
        while True:
            pid, code = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            seconds = time.monotonic() - self.began
            if pid and os.WIFSTOPPED(code):
                time.sleep(0.5)
                os.kill(self.pid, signal.SIGCONT)
            elif pid:
                break
            elif seconds > HANGS:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
            else:
                time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # what it left behind
        out, err = ((self.place / name).read_text() for name in ("out", "err"))  # made by start
        shutil.rmtree(self.place)
        return Ended(os.waitstatus_to_exitcode(code), seconds, out, err)


def start(
    call: Callable[[], int], fault: Fault | None = None, root: str = "", before: Any = None
) -> Child:
    """Call a function in a forked process; `before` is called there first."""
    place = Path(tempfile.mkdtemp(prefix="knnoise-fault-"))
    for name in ("out", "err"):
        (place / name).touch()
    sys.stdout.flush()
    sys.stderr.flush()
    _kept = [list(kind._cache.values()) for kind in AsyncFileSystem.__subclasses__()]
    # Connections that only the loop can close that opened them, and not its copy in the child.
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return Child(pid, time.monotonic(), place)
    status = 70
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(place / name, os.O_WRONLY), number)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        if fault is not None:
            plant(root, fault)
        if before is not None:
            before()
        status = call()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def command(*args: object, **more: Any) -> Ended:
    """A command of the command line, to its end."""
    return begin(*args, **more).wait()


def begin(*args: object, **more: Any) -> Child:
    """A command of the command line, under way."""
    from flows.cli import main

    return start(lambda: main([str(arg) for arg in args]), **more)


@dataclass
class Bench:
    """What all trials share: sources, and a run with a scoring that nothing disturbed."""

    root: str
    """Folder or URL."""
    sources: Path
    kind: Kind = KINDS["disk"]
    reference: dict[str, bytes] = field(default_factory=dict)
    scoring: str = ""
    """Prefix of the scoring within the run."""
    scores: bytes = b""
    report: dict[str, Any] = field(default_factory=dict)
    arrays: str = ""
    """What `show_arrays` prints of the reference."""
    made: int = 0

    @classmethod
    def prepare(cls, root: str, sources: Path, kind: Kind = KINDS["disk"]) -> Bench:
        """Write the sources, and make the reference in this process, which warms it."""
        from flows.cli import main

        bench = cls(root, sources, kind)
        kind.write(sources, N_ROWS)
        run, out = f"{root}/reference", bench.sources / "reference.parquet"
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            assert main(list(map(str, bench.train(run)))) == 0
            assert main(list(map(str, bench.score(run, out)))) == 0
        bench.reference = checker.files(run)
        scored = next(k for k in bench.reference if k.startswith("scores/"))
        bench.scoring = "/".join(scored.split("/")[:2]) + "/"
        bench.scores = out.read_bytes()
        bench.report = checker.report_of(bench.reference["report.json"]) or {}
        from faults.damage import show_arrays

        bench.arrays = start(lambda: show_arrays(run)).wait().out
        return bench

    @property
    def source(self) -> Path:
        return self.sources / "pool.npz"

    @property
    def unseen(self) -> Path:
        return self.sources / "unseen.npz"

    def train(self, run: str, *more: object, workers: int | None = 0) -> tuple[object, ...]:
        local = () if workers is None else ("--workers", workers)
        labels = self.kind.arguments(self.sources)
        return ("train", self.source, "--run", run, *local, *TRAIN, *labels, *more)

    def score(self, run: str, out: Path, *more: object) -> tuple[object, ...]:
        return ("score", self.unseen, "--run", run, "--out", out, "--workers", 0, "--quiet", *more)

    def new(self) -> str:
        """A folder for a run, that is not there."""
        self.made += 1
        return f"{self.root}/{os.getpid()}-{self.made}"

    def copy(self, *, scored: bool = True) -> str:
        """A copy of the finished reference, with its scoring or without."""
        run = self.new()
        fs, root = fsspec.core.url_to_fs(run)
        for key, content in self.reference.items():
            if scored or not key.startswith("scores/"):
                if not fs.async_impl:
                    Path(f"{root}/{key}").parent.mkdir(parents=True, exist_ok=True)
                fs.pipe_file(f"{root}/{key}", content)
        return run

    def remove(self, run: str) -> None:
        fs, root = fsspec.core.url_to_fs(run)
        with contextlib.suppress(FileNotFoundError):
            fs.rm(root, recursive=True)

    def training(self) -> dict[str, bytes]:
        """The reference without its scoring."""
        return {k: v for k, v in self.reference.items() if not k.startswith("scores/")}


def json_of(ended: Ended) -> dict[str, Any]:
    """What a command printed with `--json`."""
    try:
        found = json.loads(ended.out.splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


Arguments = Sequence[object]
