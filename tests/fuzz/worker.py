"""A process that gives hostile sources to the command line, one after the other, and reports."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa

from fuzz import seeds
from fuzz.law import N_HANDMADE, SECRET, Verdict
from fuzz.mutate import mutated

KINDS = ("csv", "parquet", "npy", "npz", "labels", "zarr")


def make(number: int, seed: int, folder: Path, canary: Path) -> seeds.Seed:
    """Write the source of one case below a folder: the hand-made ones first, then mutated ones."""
    if number < N_HANDMADE:  # elsewhere: the memory that it takes is not the command's
        call = [sys.executable, "-m", "fuzz.handmade", str(number), str(folder)]
        done = subprocess.run(call, capture_output=True, text=True, check=True)
        return seeds.Seed(**json.loads(done.stdout), files={})
    rng = np.random.default_rng([seed, number])
    kind = KINDS[number % len(KINDS)]
    if kind == "labels" and number % 12 > len(KINDS):
        kind = "corrections" if number % 24 > 12 else "annotations"
    if kind == "zarr":
        built = seeds.group(rng, folder.parent / "scratch")
        shutil.rmtree(folder.parent / "scratch")
    else:
        built = {
            "parquet": seeds.parquet,
            "csv": seeds.csv,
            "npy": seeds.npy,
            "npz": seeds.npz,
            "corrections": seeds.corrections,
            "annotations": seeds.annotations,
        }.get(kind, seeds.labels)(rng)
    found = mutated(rng, built, str(canary))
    if kind in ("corrections", "annotations"):
        lines = [f"{row % 7},{('no', 'yes')[row % 2]}" for row in range(seeds.ROWS)]
        found.files["t.csv"] = "\n".join(["a,y", *lines]).encode()
        if kind == "annotations":
            found.options = ["--exclude", "y"]
    for name, content in found.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if rng.random() < 0.2 and kind not in ("labels", "corrections", "annotations"):
        found.options = ["score"]
    return found


def run(number: int, seed: int, base: Path) -> Verdict:
    """One case through the command line in this process."""
    from flows.cli import main

    folder, canary, new = base / f"password={SECRET},in", base / "canary", base / "run"
    folder.mkdir()
    case = make(number, seed, folder, canary)
    if case.options == ["score"]:
        if not (base / "model").exists():
            model(base)
        args = ["score", str(folder / case.source), "--run", str(base / "model")]
        args += ["--out", str(base / "scores.parquet")]
    else:
        args = ["train", str(folder / case.source), "--run", str(new), *case.options]
        args += ["--labels", str(folder / case.labels)] if case.labels else []
        args += ["--label-column", case.column] if case.column else []
        args += ["--corrections", str(folder / case.corrections)] if case.corrections else []
        args += ["--annotations", str(folder / case.annotations)] if case.annotations else []
    out, err = io.StringIO(), io.StringIO()
    with open("/proc/self/clear_refs", "w") as peak:  # the peak counts from here
        peak.write("5")
    raw = os.fstat(2).st_size
    wall, cpu = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([*args, "--workers", "0", "--quiet"])
        except BaseException as error:  # the law wants none
            status = -1
            err.write(f"Traceback: {type(error).__name__}: {error}")
    verdict = Verdict(
        number,
        case.kind,
        status,
        err.getvalue()[:2000],
        out.getvalue()[:2000] if status else "",
        os.fstat(2).st_size - raw,
        time.perf_counter() - wall,
        time.process_time() - cpu,
        _memory_mb("VmHWM"),
        _memory_mb("VmRSS"),
        len(os.listdir("/proc/self/fd")),
        canary.exists(),
    )
    for left in (folder, new, base / "model/scores", canary):
        shutil.rmtree(left, ignore_errors=True)
    pa.default_memory_pool().release_unused()
    return replace(verdict, resident_mb=_memory_mb("VmRSS"))


def _memory_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def model(base: Path) -> None:
    """A finished training, for scorings."""
    from flows.cli import main

    rng = np.random.default_rng(0)
    text = "c0,c1,c2,y\n" + "".join(
        f"{a:.3f},{b:.3f},{c:.3f},{i % 2}\n" for i, (a, b, c) in enumerate(rng.normal(size=(60, 3)))
    )
    (base / "pool.csv").write_text(text)
    args = ["train", str(base / "pool.csv"), "--run", str(base / "model"), "--label-column", "y"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*args, "--workers", "0", "--quiet"]) == 0


def serve(base: Path, seed: int) -> None:
    """Numbers of cases from standard input; verdicts to standard output, a line each."""
    import_module("flows.train")  # what a command imports is no part of a case
    import_module("flows.score")
    said = sys.stdout
    for line in sys.stdin:
        said.write(json.dumps(asdict(run(int(line), seed, base))) + "\n")
        said.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
