"""A process that gives hostile sources to the command line, one after the other, and reports."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import io
import json
import multiprocessing
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from fuzz import seeds
from fuzz.law import N_HANDMADE, SECRET, Verdict
from fuzz.mutate import mutated

T = TypeVar("T")

KINDS = (
    *("csv", "parquet", "npy", "npz", "labels", "zarr", "corrections", "config", "show"),
    *("csv", "parquet", "npy", "npz", "labels", "zarr", "annotations", "answers", "bought", "run"),
)
BESIDE = ("corrections", "annotations", "config", "bought")
"""Kinds whose source is sound."""


def elsewhere(call: Callable[..., T], *args: object) -> T:
    """What a function returns in a process of its own: the memory that it takes is not that of a
    command."""
    context = multiprocessing.get_context("forkserver")  # imports once what they all need
    context.set_forkserver_preload(["fuzz.handmade"])
    with ProcessPoolExecutor(1, context) as process:
        return process.submit(call, *args).result()


def made_by_hand(number: int, folder: Path) -> seeds.Seed:
    """Write one of the sources made by hand."""
    from fuzz.handmade import HANDMADE

    return HANDMADE[number](folder)


def make(number: int, seed: int, folder: Path, canary: Path) -> seeds.Seed:
    """Write the source of one case below a folder: the hand-made ones first, then mutated ones."""
    if number < N_HANDMADE:
        return elsewhere(made_by_hand, number, folder)
    rng = np.random.default_rng([seed, number])
    kind = KINDS[number % len(KINDS)]
    if kind == "zarr":
        built = seeds.group(rng, folder.parent / "scratch")
        shutil.rmtree(folder.parent / "scratch")
    elif kind in ("answers", "run"):
        base = model(folder.parent)
        built = seeds.answers(rng, base) if kind == "answers" else seeds.old_run(rng, base)
    else:
        built = getattr(seeds, kind)(rng)
    found = mutated(rng, built, str(canary))
    if kind in BESIDE:
        lines = [f"{row % 7},{('no', 'yes')[row % 2]}" for row in range(seeds.ROWS)]
        text = "\n".join(["a,y", *lines])
        found.files["t.csv"] = (text if kind != "bought" else re.sub(",.*", "", text)).encode()
        if kind == "annotations" or (kind == "config" and rng.random() < 0.5):
            found.options = [*found.options, "--exclude", "y"]
    for name, content in found.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if rng.random() < 0.2 and kind in ("csv", "parquet", "npy", "npz", "zarr"):
        found.command, found.options = "score", []
    return found


def run(number: int, seed: int, base: Path) -> Verdict:
    """One case through the command line in this process."""
    from flows.cli import main

    folder, canary, new = base / f"password={SECRET},in", base / "canary", base / "run"
    folder.mkdir()
    case = make(number, seed, folder, canary)
    call = partial(main, [*_arguments(case, folder, base, new), "--workers", "0", "--quiet"])
    if case.command == "report":
        call = partial(main, ["report", "--run", str(folder / case.source)])
    elif case.command == "show":
        call = partial(shown, folder, case.source)
    out, err = io.StringIO(), io.StringIO()
    with open("/proc/self/clear_refs", "w") as peak:  # the peak counts from here
        peak.write("5")
    raw = os.fstat(2).st_size
    wall, cpu = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = call()
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
    ctypes.CDLL(None).malloc_trim(0)
    return replace(verdict, resident_mb=_memory_mb("VmRSS"))


def _arguments(case: seeds.Seed, folder: Path, base: Path, new: Path) -> list[str]:
    """The command of a case."""
    options = [option.replace("{folder}", str(folder)) for option in case.options]
    if case.command == "review":
        return ["review", "--run", str(model(base)), *options]
    if case.command == "score":
        source, run = folder / case.source, model(base)
        if case.kind == "run":
            source, run = base / "pool.csv", source
        out = str(base / "scores.parquet")
        return ["score", str(source), "--run", str(run), "--out", out, *options]
    args = [case.command, str(folder / case.source), "--run", str(new), *options]
    given = {
        "--labels": case.labels and str(folder / case.labels),
        "--label-column": case.column,
        "--corrections": case.corrections and str(folder / case.corrections),
        "--annotations": case.annotations and str(folder / case.annotations),
    }
    return args + [word for option in given.items() if option[1] for word in option if word]


def shown(folder: Path, name: str) -> int:
    """What the page of a review does with `--show` and `--images`."""
    from flows.report.rows import Shown
    from storage.errors import KnnoiseError

    try:
        rows = np.arange(seeds.MODEL_ROWS)
        file = Shown(str(folder / name), None, seeds.MODEL_ROWS, str(folder))
        file.read(rows)
        for row in rows.tolist():
            json.dumps(file.of(row)).encode()
    except KnnoiseError as error:
        print(f"knnoise: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _memory_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def model(base: Path) -> Path:
    """A finished training, with answers of a review: a copy of what all processes share."""
    run, shared = base / "model", base.parent / "model"
    if not run.exists():
        with (base.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not shared.exists():
                elsewhere(train, shared, shared / "model")
        shutil.copytree(shared, base, dirs_exist_ok=True)
    return run


def train(base: Path, run: Path) -> None:
    """Make it."""
    from flows.cli import main

    base.mkdir()
    rng = np.random.default_rng(0)
    rows = enumerate(rng.normal(size=(seeds.MODEL_ROWS, 3)))
    text = "c0,c1,c2,y\n" + "".join(f"{a:.3f},{b:.3f},{c:.3f},{i % 2}\n" for i, (a, b, c) in rows)
    (base / "pool.csv").write_text(text)
    (base / "said.csv").write_text("row,label,reviewer\n3,0,ann\n4,1,ann\n4,0,bob\n")
    answers = ["--answers", str(run / "answers.jsonl"), "--import-from", str(base / "said.csv")]
    with contextlib.redirect_stdout(io.StringIO()):
        args = ["train", str(base / "pool.csv"), "--run", str(run), "--label-column", "y"]
        assert main([*args, "--workers", "0", "--quiet"]) == 0
        assert main(["review", "--run", str(run), *answers, "--workers", "0", "--quiet"]) == 0


def serve(base: Path, seed: int) -> None:
    """Numbers of cases from standard input; verdicts to standard output, a line each."""
    import_module("flows.train")  # what a command imports is no part of a case
    import_module("flows.score")
    gc.freeze()  # what was imported stays: no case searches it for garbage
    said = sys.stdout
    for line in sys.stdin:
        said.write(json.dumps(asdict(run(int(line), seed, base))) + "\n")
        said.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
